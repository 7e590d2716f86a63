"""Runs the handlers of `Consumer.process` and the streams of `Consumer.streams`. Invariant: no commit passes an unfinished record.

Modules; each line imports only from lines below it:
    streams          the streams of `Consumer.streams`, as applications see them
    dispatcher       distributes polled records to streams; detects streams that nobody reads
    allotment        partitions of each stream, their records, and the finished ones
    work             handlers on threads (`aio.processing`: in tasks): order per key, retries, dead letters, results
    plan             checks of the arguments of `process`, and the waits between retries
    run_loop         the loop of handlers and streams: polls, pauses, commits, ends
    pauses           pauses partitions with too many records in hand
    safe             committable offsets: everything before them is finished
    partition_turns  the order in which partitions get a free worker
    progress         finished and unfinished records of one partition
    limits           bounds of a run: records in hand, time-outs
"""
