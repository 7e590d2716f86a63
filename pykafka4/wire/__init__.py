"""Encodes and decodes messages and record batches. Invariant: no I/O; invalid bytes from a peer raise an error of `pykafka4.errors`.

    protocol/   requests and responses: their declarations, encoding and frames
    records/    record batches and the records in them: formats, codecs, the compiled core
    buffers     the buffer types that both folders use

`protocol` and `records` do not import each other: to a message, record batches are bytes.
"""
