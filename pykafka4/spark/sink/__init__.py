"""Writes DataFrames to topics: the sink of `format("pykafka4")`, `arrow_writer` and `foreach_batch`.

Modules; each line imports only from lines below it:
    foreach_batch  the function for `writeStream.foreachBatch`
    arrow_writer   the function for `df.mapInArrow`: returns the number of rows of each task
    stream         the writer of a streaming query
    batch          the writer of a batch job
    repeats        comparisons of a repeated job or micro-batch with its first run
    delivery       delivery at least once or exactly once, as the option `delivery` says
    exactly_once   the delivery of a task's rows in one transaction, with a token that later attempts look up
    task           the delivery of a task's rows at least once
    topics         the rows of a batch by topic
    schema         checks of a DataFrame's columns on the driver
    options        the options of the sink
"""
