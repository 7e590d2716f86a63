"""Names the positions, sizes and bits of the fields of record batches, which `encoder` writes and `decoder` reads.

Magic 2 is the current record batch; magic 0 and 1 are the messages of the older message sets. Kafka's documentation has the layout under
"Record Batch".
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ATTRIBUTES",
    "BASE_OFFSET",
    "BASE_SEQUENCE",
    "BASE_TIMESTAMP",
    "CODEC_BITS",
    "CONTROL_BIT",
    "COUNT",
    "CRC",
    "CREATE_TIME",
    "HEADER_SIZE",
    "HEADER_WEIGHT",
    "INT64_MAX",
    "LAST_OFFSET_DELTA",
    "LEADER_EPOCH",
    "LEAST_BATCH",
    "LEAST_RECORD",
    "LENGTH",
    "LOG_APPEND_BIT",
    "LOG_APPEND_TIME",
    "LOG_OVERHEAD",
    "MAGIC",
    "MANY_HEADERS",
    "MAX_TIMESTAMP",
    "MOST_DECOMPRESSED_BYTES",
    "NO_TIMESTAMP",
    "PRODUCER_EPOCH",
    "PRODUCER_ID",
    "RECORD_WEIGHT",
    "TRANSACTIONAL_BIT",
]

# Positions of the fields of a batch header; messages of magic 0 and 1 share the first two and MAGIC.
BASE_OFFSET, LENGTH, LEADER_EPOCH, MAGIC, CRC, ATTRIBUTES, LAST_OFFSET_DELTA = 0, 8, 12, 16, 17, 21, 23
BASE_TIMESTAMP, MAX_TIMESTAMP, PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE, COUNT = 27, 35, 43, 51, 53, 57
HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12  # bytes of offset and length, which the length field does not include
LEAST_BATCH: Final = {0: 26, 1: 34, 2: HEADER_SIZE}  # bytes, by magic, with offset and length
LEAST_RECORD: Final = 7  # bytes: one each for length, attributes, timestamp, offset, key, value, headers
MOST_DECOMPRESSED_BYTES: Final = 64 * 1024 * 1024  # maximum size of a batch's records, where no option limits it

CODEC_BITS, LOG_APPEND_BIT, TRANSACTIONAL_BIT, CONTROL_BIT = 0x07, 0x08, 0x10, 0x20  # bits of the attributes
CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP = 0, 1, -1
INT64_MAX: Final = 2**63 - 1

# Bytes that a record's objects take in addition to its data. With a limit on encoded bytes alone, a batch of tiny records, or a record with
# many tiny headers, would take many times the limit as objects.
RECORD_WEIGHT: Final = 200
HEADER_WEIGHT: Final = 160  # a tuple, a str and a bytes object
MANY_HEADERS: Final = 1000  # a record with at most this many headers is never refused for them
