"""Writes DataFrames: the sink of `format("pykafka4")`, and `arrow_writer`.

Modules; each line imports only from lines below it:
    foreach_batch  for `writeStream.foreachBatch`
    arrow_writer  for `df.mapInArrow`: one row with the count of each task
    stream        the writer of a streaming query
    batch         the writer of a batch job
    repeats       compares a repeated job with its first run
    delivery      delivers the rows of a task, as the option `delivery` says
    exactly_once  delivers them in a transaction, with a token that tells the next attempt
    task          delivers the Arrow batches of one task, at least once
    topics        the rows of a batch by topic
    schema        checks the columns of a DataFrame on the driver
    options       the options of the sink
"""
