"""Reads topics into Spark. Rule: the driver fixes offset ranges, and a task reads exactly its range.

Modules; each line imports only from lines below it:
    pushdown  the reader of spark.read with filter pushdown
    batch     the reader of spark.read
    stream    the reader of spark.readStream
    refused   the reader of a stream whose options are refused
    query     what the driver has of a running stream
    lag_group  commits of a stream for tools that show lag
    lookups   look-ups of a stream, out of those of `logs`
    tracker   where the next batch of a stream ends
    limits    how much of the backlog that batch has
    offsets   the offset of a stream, as the checkpoint keeps it
    records   the records of a range as Arrow batches
    pruning   limits of a batch read
    planning  offset ranges of the tasks, out of those of the partitions
    ranges    the offset range of a task
    logs      look-ups of the driver: topics, partitions, offsets
    losses    errors and warnings about lost records
    schema    columns and their types
    options   the options of a read
    subscription  the partitions and places that options name
"""
