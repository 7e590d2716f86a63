"""Keeps messages on disk until the cluster takes them, in a FIFO of segment files for each topic.

Invariant: a message leaves the disk only after it is acknowledged, discarded, or lost to damage.

Modules; each line imports only from lines below it:
    spool      Spool: methods for the router and for the end of the agent; tasks that send, sync and count messages
    ending     puts undelivered records in front of the messages on disk, when the agent ends
    replay     Replay: sends messages from the disk, in order per topic, fairly between topics
    folder     Folder: the spool's folder, its lock, and the FIFOs of earlier agents
    fifo       Fifo: the messages of one topic, a list of segments
    disk       Disk: used bytes, failures, damaged files
    syncing    the thread that syncs written files
    segment    Segment: one file, its header and its progress
    frames     the bytes of a segment: frames, checksums, the search after damage
    values     the state of the spool as values; protocols of the spool's neighbours
"""
