"""Bytes and objects. Rule: pure functions, no I/O and no clock; bytes from a peer raise `DecodeError` and nothing else.

    protocol/   requests and responses: how they are declared, encoded and framed
    records/    record batches and the records in them: formats, codecs, the compiled core
    buffers     the types of bytes that both use

`protocol` and `records` do not import each other: to a message, record batches are bytes.
"""
