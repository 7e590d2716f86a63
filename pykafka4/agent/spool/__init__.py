"""Messages on disk that the cluster could not take: a FIFO per topic, in segment files.

Invariant: a message that was written leaves the disk only when it is acknowledged or definitely discarded, and so is everything before it.

Modules; each line imports only from lines below it:
    spool      Spool: what the router and the end of the agent call; the tasks that send, sync and count
    ending     puts what the producer could not deliver in front of what is on disk
    replay     Replay: sends what is on disk to the producer, in order per topic, fair between topics
    folder     Folder: the place, its lock, and what it holds at the start
    fifo       Fifo: the messages of one topic, a list of segments
    disk       Disk: the bound, failures, damaged files that are kept aside
    syncing    syncs written files in a thread, as the policy says
    segment    Segment: one file, its header and its progress
    frames     the bytes of a segment: frames, checksums, the search for the next whole frame
    values     the state of the spool as values; protocols of its neighbours
"""
