"""Writes rows of Spark, for `foreachPartition`.

Modules; each line imports only from lines below it:
    writer   partition_writer: produces the rows of a partition, and waits for their acknowledgements
    columns  columns of a row as arguments of `send`
"""
