"""Contains the code that runs per record, in Cython and C, compiled into one extension module, `_hot`, which only `hot` imports.

`setup.py` builds the module if there is a C compiler. Invariant: except for the moment at which the buffer is full, the same
bytes, results and exception types as `reference` and its parts, whose docstrings describe the functions.

Modules, with their main plain counterparts in parentheses:
    _hot        the extension module; it includes all others
    _append     the accumulator: `send` to batches, memory, counters (`reference`, `_plain_account`)
    _many       many records in one call (`reference`)
    _method     the method `send` of producers (`reference`)
    _choose     partitioners (`_plain_topic`, `_plain_parking`, `reference`)
    _park       topics and parked records (`_plain_parking`, `_plain_topic`, `reference`)
    _drop       records dropped by a policy (`_plain_account`)
    _policy     policies of topics: linger, sizes, codecs (`_plain_batch`, `_plain_account`, `reference`)
    _write      records into batches (`encoder`, `_plain_arguments`, `reference`)
    _delivery   handles and callbacks (`_plain_delivery`, `_plain_batch`)
    _batch      batches, their outcome and their memory (`_plain_batch`)
    _block      memory of batches (none: Python counts references)
    _decode     from fetched bytes to records (`_plain_decode`)
    _iterate    records one by one, for loops over a consumer (`_plain_decode`)
    _columns    from fetched bytes to columns, which are exported as Arrow arrays (`_plain_columns`, `_plain_arrow`)
    _live       a stream of columns that are made while it is read (`_plain_columns`, `_plain_arrow`)
    _rows       rows of Arrow data into batches (`_plain_rows`, `_plain_arrow`, `reference`)
    _raw_batch  raw batches into the queues; parts of batches (`_plain_raw_batch`, `_plain_batch`)

The `.h` files are C code: `_record.h` the type `Record` with headers that are decoded when they are read, `_raw.h` records in a batch,
`_columns.h`, `_export.h`, `_live.h`, `_arrow.h` and `_rows.h` Arrow data, `_refuse.h` exceptions without frames, `_plat.h` checksums,
varints, murmur2.
"""
