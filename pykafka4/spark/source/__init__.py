"""Reads topics into Spark. Rule: the driver fixes offset ranges, and a task reads exactly its range.

Modules; each line imports only from lines below it:
    pushdown  the reader of spark.read with filter pushdown
    batch     the reader of spark.read
    stream    the reader of spark.readStream
    pruning   limits of a batch read
    planning  offset ranges of the tasks, out of those of the partitions
    ranges    the range of a task, and its records as Arrow batches
    logs      look-ups of the driver: topics, partitions, offsets
    losses    errors and warnings about lost records
    schema    columns and their types
    options   the options of a read
    subscription  the partitions and places that options name
"""
