"""Writes Spark rows to a topic, for `foreachPartition`.

Modules; each line imports only from lines below it:
    writer   `partition_writer`: sends the rows of a partition, and waits for the acknowledgements
    columns  the columns of a row as arguments of `send`
"""
