"""Record batches, which Produce and Fetch carry. Rule: code that runs per record exists twice, compiled and in Python, with equal bytes,
outcomes and exception types.

Modules; each line imports only from lines below it:
    raw_batch         RawBatch: a whole batch as a value, and batches whose bytes cannot stay as they are
    hot               chooses which of the two runs; all other code imports from this module
    compiled/         the compiled core
    reference         the plain-Python core, used if nothing is compiled; parts of it:
    _plain_decode     from fetched bytes to records
    _plain_columns    from fetched bytes to columns
    _plain_raw_batch  whole batches for sending, and parts of batches
    _plain_rows       rows of Arrow data for sending
    _plain_arrow      the Arrow C interface, by ctypes
    _plain_delivery   handles
    _plain_parking    topics and records that wait for their partitions
    _plain_account    memory, counters, dropped records
    _plain_batch      batches
    _plain_topic      partitions and their choice
    _plain_arguments  the arguments of `send`
    rows              which columns of Arrow data can be sent, and how they are read
    columns           names and sizes of columns, parts of Arrow schemas and arrays
    batch             whole batches, built and read in plain Python, for tests and the model broker
    encoder           records and batch headers to bytes, in plain Python
    decoder           batch headers and records from bytes, in plain Python
    common            what both cores call
    compression       the codecs; the size of decompressed data is bounded
    checksum          CRC-32C
    policy            what a topic decides about its batches
    layout            the positions of the fields of a batch
"""
