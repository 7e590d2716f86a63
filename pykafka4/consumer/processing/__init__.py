"""Runs the handlers of `Consumer.process` and the streams of `Consumer.streams`. Invariant: no commit of a run passes an unfinished record.

Modules; each line imports only from lines below it:
    streams              the handles of `Consumer.streams`, as applications see them
    dispatcher           the thread that distributes polled records to streams, and detects streams that no thread reads
    allotment            the partitions of each stream, their waiting records, and the records in hand
    work                 handlers on threads (in tasks: `aio.processing`): order per key, retries, results
    plan                 the checked arguments of `process`, and the waits between retries
    run_loop             the loop of handlers and streams: polls, pauses, commits, ends
    pauses               the partitions that are paused because of too many records in hand
    committable_offsets  committable offsets: all records before them are finished
    partition_turns      the order in which partitions get a free worker
    progress             finished and unfinished records of one partition
    limits               the bounds of a run: records in hand, timeouts
"""
