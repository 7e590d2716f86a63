"""Reads topics into Spark. Invariant: the driver fixes the offset ranges, and a task reads no other offsets.

Modules; each line imports only from lines below it:
    pushdown      the reader of spark.read with filter pushdown
    batch         the reader of spark.read
    stream        the reader of spark.readStream
    refused       the reader of a refused stream
    query         the driver's part of a running stream: client, tracker, lag group
    lag_group     commits of a stream for tools that show lag
    lookups       the lookups of a stream, made with `logs`
    tracker       the end of the next micro-batch
    limits        the part of the backlog that a micro-batch reads
    offsets       the offset of a stream, as the checkpoint keeps it
    records       the records of a range as Arrow batches
    pruning       the limits that filters set for a batch read
    planning      the offset ranges of the tasks, from the ranges of the partitions
    ranges        the offset range of a task
    logs          lookups of topics, partitions and offsets
    losses        errors and warnings about lost records
    schema        the columns of a read, and their types
    options       the options of a read
    subscription  the topics and partitions that options name, and the ends of a read
"""
