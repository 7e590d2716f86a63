"""The compiled core: one extension module, `_hot`, which `setup.py` builds where there is a C compiler. Only `hot` imports it.

Rule: the same bytes, results and exception types as `reference`, which says what each function does.

Modules:
    _hot       the extension module; it includes all others
    _append    the accumulator: `send` to batches, memory, counters
    _many      many records in one call
    _method    the method `send` of producers
    _choose    partitioners
    _park      topics, and records whose partitions are not known yet
    _drop      records dropped by a policy
    _policy    policies of topics: linger, sizes, codecs
    _write     records into batches
    _delivery  handles and callbacks
    _batch     batches, their outcome and their memory
    _block     memory of batches
    _decode    from fetched bytes to records
    _iterate   records one by one, for loops over a consumer
    _columns   from fetched bytes to columns, which are exported as Arrow arrays
    _live      a stream of columns that are made while somebody reads it
    _rows      rows of Arrow data into batches
    _raw_batch  batches of other logs into the queues; parts of batches
"""
