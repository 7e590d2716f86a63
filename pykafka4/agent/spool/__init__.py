"""Messages on disk that the cluster could not take: a FIFO per topic, in segment files.

Invariant: a message that was written leaves the disk only when it is acknowledged or definitely discarded, and so is everything before it.

Modules; each line imports only from lines below it:
    spool      Spool: the folder, its bound, its lock; what the router and the end of the agent call
    replay     Replay: sends what is on disk to the producer, in order per topic, fair between topics
    syncing    syncs written segments to the disk, in a thread, as the policy says
    damage     keeps damaged segments aside, within a bound
    fifo       Fifo: the messages of one topic, a list of segments
    segment    Segment: one file, its header and its progress
    frames     the bytes of a segment: frames, checksums, the search for the next whole frame
    values     the state of the spool as values; protocols of its neighbours
"""
