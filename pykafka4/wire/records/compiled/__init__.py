"""Compiles the code that runs per record into one extension module, `_hot`. Only `hot` imports it.

`setup.py` builds the module where there is a C compiler. Invariant: the same bytes, results and exception types as `reference`, whose
docstrings describe each function.

Modules:
    _hot        the extension module; it includes all others
    _append     the accumulator: `send` to batches, memory, counters
    _many       many records in one call
    _method     the method `send` of producers
    _choose     partitioners
    _park       topics and parked records
    _drop       records dropped by a policy
    _policy     policies of topics: linger, sizes, codecs
    _write      records into batches
    _delivery   handles and callbacks
    _batch      batches, their outcome and their memory
    _block      memory of batches
    _decode     from fetched bytes to records
    _iterate    records one by one, for loops over a consumer
    _columns    from fetched bytes to columns, which are exported as Arrow arrays
    _live       a stream of columns that are made during its reading
    _rows       rows of Arrow data into batches
    _raw_batch  raw batches into the queues; parts of batches
"""
