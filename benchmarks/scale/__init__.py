"""Measures costs that could grow with the number of partitions. A turn of the client's loop must cost only the partitions that are ready.

Modules; each line imports only from lines below it:
    __main__  the cases and their table: `python -m benchmarks.scale`; `benchmarks.bars` judges
    assigned  a consumer of all partitions
    memory    the memory of a partition
    states    `stats` and `status` of a producer
    traffic   keyed records to many partitions
    reading   a consumer in its own process
    sending   a producer in its own process
    server    the model cluster in its own process
    orders    the orders that these processes carry out
    shape     the size of the cluster
"""
