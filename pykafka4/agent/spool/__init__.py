"""Keeps messages on disk that the cluster could not take, in a FIFO of segment files for each topic.

Invariant: a written message leaves the disk only after this message and all older ones of its topic are acknowledged or discarded for good.

Modules; each line imports only from lines below it:
    spool      Spool: the methods for the router and for the agent's end; the tasks that send, sync and count messages
    ending     the step at the agent's end that puts undelivered records in front of the messages on disk
    replay     Replay: sends messages from the disk to the producer, in order per topic, fairly between topics
    folder     Folder: the spool's folder, its lock, and the FIFOs that earlier agents left
    fifo       Fifo: the messages of one topic, a list of segments
    disk       Disk: used bytes, failures, damaged files that are set aside
    syncing    the thread that syncs written files, according to [spool] sync
    segment    Segment: one file, its header and its progress
    frames     the bytes of a segment: frames, checksums, the search for the next complete frame
    values     the state of the spool as values; protocols of the spool's neighbours
"""
