"""Fills, encodes and decodes record batches, which Produce and Fetch carry.

Invariant: the code on the usual path of a record exists twice, compiled and in plain Python, with the same bytes and exception types.

Modules; each line imports only from lines below it:
    raw_batch         RawBatch: a batch as a value, and its changes for applications and brokers
    hot               the choice between the two cores; other code imports from `hot`
    compiled/         the compiled core
    reference         the plain core; its parts:
    _plain_columns    from fetched bytes to columns
    _plain_decode     from fetched bytes to records
    _plain_raw_batch  raw batches for sending, and parts of batches
    _plain_rows       rows of Arrow data for sending
    _plain_arrow      the Arrow C interface, by ctypes
    _plain_delivery   handles
    _plain_parking    topics and parked records
    _plain_account    memory, counters, dropped records
    _plain_batch      batches
    _plain_topic      partitions and their choice
    _plain_arguments  the arguments of `send`
    rows              the types of Arrow columns that can be sent
    columns           names and sizes of columns, parts of Arrow schemas and arrays
    batch             whole batches, built and read, for tests and the model broker
    encoder           records and batch headers to bytes
    decoder           batch headers and records from bytes
    common            functions that both cores call
    compression       the codecs; the size of decompressed data is bounded
    checksum          CRC-32C
    policy            the limits, codec and linger of a topic's batches
    layout            the positions of the fields of a batch
"""
