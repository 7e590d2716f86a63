"""Represents record batches as values. Invariant: a `RawBatch` has records, its lengths fit, and its checksum was verified, or
computed in this module.

This module decompresses a batch only if its records have to change before an application gets it or a broker accepts it.
"""

from __future__ import annotations

from typing import Any, Final, final

import attrs

from pykafka4.errors import ConfigError, CorruptRecord, DecodeError, RecordTooLarge, shown
from pykafka4.wire.buffers import Readable
from pykafka4.wire.records.compression import CODEC_NAMES, compress, decompress
from pykafka4.wire.records.decoder import RecordBatch, read_batch_header, read_header, read_messages
from pykafka4.wire.records.encoder import encode_content, encode_header, encode_record
from pykafka4.wire.records.hot import crc32c, cut_records, pack_records
from pykafka4.wire.records.layout import (
    ATTRIBUTES,
    HEADER_SIZE,
    LEAST_RECORD,
    LENGTH,
    LOG_APPEND_BIT,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MOST_DECOMPRESSED_BYTES,
)

__all__ = ["RawBatch", "as_sendable", "fetched_batch"]

_LAST_OFFSET: Final = 2**63 - 2  # the next offset must be an int64 as well
UNKNOWN: Final = -1  # as leader epoch, producer id, producer epoch or sequence
ENCODED: Final = [name for name in attrs.fields_dict(RecordBatch) if name not in ("data", "magic", "crc")]


@final
@attrs.frozen(init=False, repr=False)
class RawBatch:
    """A record batch of format v2 as brokers store it: header and records, not decompressed. It is immutable, and can be pickled.

    `topic` and `partition` say where the batch is from; "" and -1: unknown. `data` is the complete batch, header included.
    """

    data: bytes
    topic: str
    partition: int
    _header: RecordBatch = attrs.field(eq=False)

    def __init__(self, data: Readable, topic: str = "", partition: int = -1) -> None:
        """See `from_bytes`."""
        if isinstance(data, str):
            raise TypeError(f"a raw batch is made of bytes, not of the str {shown(data)}")
        header = check_header(data := bytes(data))
        if (found := crc32c(memoryview(data)[ATTRIBUTES:])) != header.crc:
            raise DecodeError(f"{_named(header)} is corrupt: its checksum is {found:#010x}, expected {header.crc:#010x}")
        self.__attrs_init__(data, topic, partition, header)

    @classmethod
    def from_bytes(cls, data: Readable, topic: str = "", partition: int = -1) -> RawBatch:
        """The batch in `data`, from a file, a queue or a segment of a log; `data` has exactly one batch.

        Lengths, codec and CRC are verified; the records are not decompressed. Raises TypeError for a str, and DecodeError (a ValueError)
        with the reason: a format other than v2, missing or additional bytes, a damaged batch, a control batch, or a batch without records.
        """
        return cls(data, topic, partition)

    @property
    def base_offset(self) -> int:
        """The offset of its first record, even if compaction has removed that record."""
        return self._header.base_offset

    @property
    def last_offset(self) -> int:
        """The offset of its last record, even if compaction has removed that record."""
        return self._header.last_offset

    @property
    def count(self) -> int:
        """The number of its records; less than the number of offsets if compaction has removed some."""
        return self._header.count

    @property
    def size(self) -> int:
        """Its size in bytes, header included."""
        return len(self.data)

    @property
    def codec(self) -> str:
        """Its compression: `none`, `gzip`, `snappy`, `lz4` or `zstd`."""
        return CODEC_NAMES[self._header.codec]

    @property
    def timestamp_type(self) -> str:
        """`CREATE_TIME` or `LOG_APPEND_TIME`."""
        return "LOG_APPEND_TIME" if self._header.attributes & LOG_APPEND_BIT else "CREATE_TIME"

    @property
    def base_timestamp_ms(self) -> int:
        """The base timestamp in milliseconds: usually the timestamp of its first record; with LOG_APPEND_TIME, of all records.

        If compaction has processed a batch with tombstones and CREATE_TIME, this is the time from which it may remove the tombstones.
        """
        return self._header.max_timestamp_ms if self._header.attributes & LOG_APPEND_BIT else self._header.base_timestamp_ms

    @property
    def max_timestamp_ms(self) -> int:
        """The maximum timestamp in milliseconds: no record has a higher one."""
        return self._header.max_timestamp_ms

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader that appended the batch; -1 if unknown."""
        return self._header.leader_epoch

    def __len__(self) -> int:
        return len(self.data)

    def __reduce__(self) -> tuple[Any, ...]:
        return RawBatch, (self.data, self.topic, self.partition)

    def __repr__(self) -> str:
        where = f" {self.topic}-{self.partition}" if self.topic else ""
        return f"<RawBatch{where} offsets {self.base_offset} to {self.last_offset}, {self.count} records, {self.codec}, {self.size} bytes>"


def _verified(data: bytes, topic: str, partition: int) -> RawBatch:
    """The batch in `data`, whose checksum the caller has verified or computed."""
    batch = RawBatch.__new__(RawBatch)
    batch.__attrs_init__(data, topic, partition, check_header(data))
    return batch


def _named(header: RecordBatch) -> str:
    return f"the batch of offsets {header.base_offset} to {header.last_offset}"


def check_header(data: bytes) -> RecordBatch:
    """The header of the one batch in `data`. Raises DecodeError if `data` is anything else, a control batch included."""
    if len(data) > MAGIC and data[MAGIC] != 2:
        raise DecodeError(f"format v{data[MAGIC]}: only record batches of format v2 (Kafka 0.11) can be sent; poll_raw converts older ones")
    if len(data) < HEADER_SIZE:
        raise DecodeError(f"{len(data)} bytes are too few for a record batch, whose header has {HEADER_SIZE}")
    header = read_batch_header(memoryview(data))
    if (size := int.from_bytes(data[LENGTH : LENGTH + 4], "big", signed=True) + LOG_OVERHEAD) != len(data):
        raise DecodeError(f"{_named(header)} has {size} bytes by its header, not {len(data)}; pass exactly one complete batch")
    if not 0 <= header.base_offset <= _LAST_OFFSET - header.last_offset_delta:
        raise DecodeError(f"the base offset {header.base_offset} of a batch is out of range")
    codec = header.codec
    if codec not in CODEC_NAMES:
        raise DecodeError(f"{_named(header)}: compression codec {codec} is unknown")
    if header.control:
        raise DecodeError(f"{_named(header)} is a control batch: brokers write these themselves")
    if header.count < 1:
        raise DecodeError(f"{_named(header)} claims {header.count} records")
    if header.last_offset_delta + 1 < header.count:
        raise DecodeError(f"{_named(header)} claims {header.count} records, more than it has offsets")
    # The records are not decoded here, so this check finds only a count for which the bytes cannot have room.
    most = (MOST_DECOMPRESSED_BYTES if codec else len(data) - HEADER_SIZE) // LEAST_RECORD
    if header.count > most:
        raise DecodeError(f"{_named(header)} claims {header.count} records, but there is room for {most}")
    return header


# ---- changed batches


def fetched_batch(data: bytes, topic: str, partition: int, first: int, last: int, max_size: int) -> RawBatch | None:
    """The records of offsets `first` to `last` of the batch in `data`; None if it has none of them.

    A batch of format v2, whose checksum the caller has verified, stays as it is if all its offsets are in that range. Otherwise the
    records are decompressed, cut, and compressed again, with the same offsets, timestamps and headers. A message of format v0 or v1 becomes
    a batch of format v2. Raises CorruptRecord for a damaged batch, RecordTooLarge for more than `max_size` bytes decompressed, ConfigError
    if the codec's library is missing.
    """
    try:
        if data[MAGIC] != 2:
            return _converted(data, topic, partition, first, last, max_size)
        return _cut(data, topic, partition, first, last, max_size)
    except (DecodeError, RecordTooLarge) as error:
        header = read_header(memoryview(data))
        reason = f"the batch of offsets {header.base_offset} to {header.last_offset}: {error}"
        where = topic, partition, first, reason, max(header.next_offset, first)
        raise (RecordTooLarge.fetched(*where) if isinstance(error, RecordTooLarge) else CorruptRecord(*where)) from None
    except ConfigError as error:  # the library of the batch's codec is missing
        raise ConfigError(f"{topic}-{partition} at offset {first}: {error}") from None


def _cut(data: bytes, topic: str, partition: int, first: int, last: int, max_size: int) -> RawBatch | None:
    header = check_header(data)
    base = header.base_offset
    if first <= base and base + header.last_offset_delta <= last:
        return _verified(data, topic, partition)
    body = _unpacked(data, header, max_size)
    body, kept, start = cut_records(body, header.count, first - base, last - base)
    if not kept:
        return None
    end = min(last - base, header.last_offset_delta)
    return _verified(
        _packed(attrs.evolve(header, base_offset=base + start, last_offset_delta=end - start, count=kept), body), topic, partition
    )


def as_sendable(batch: RawBatch) -> RawBatch:
    """`batch` as brokers accept it from a producer: consecutive offsets, and timestamps of the type CREATE_TIME.

    A batch with compaction gaps, or with LOG_APPEND_TIME, is decompressed, changed, and compressed again. With LOG_APPEND_TIME all records
    get the append time, because readers of a topic with CREATE_TIME would otherwise see the times of the original producer.
    Raises DecodeError for damaged records, RecordTooLarge for more than 64 MiB decompressed, ConfigError if the codec's library is missing.
    """
    header = batch._header
    appended = bool(header.attributes & LOG_APPEND_BIT)
    if header.last_offset_delta + 1 == header.count and not appended:
        return batch
    body = pack_records(_unpacked(batch.data, header, MOST_DECOMPRESSED_BYTES), header.count, appended)
    base = header.max_timestamp_ms if appended else header.base_timestamp_ms
    plain = attrs.evolve(header, last_offset_delta=header.count - 1, attributes=header.codec, base_timestamp_ms=base)
    return _verified(_packed(plain, body), batch.topic, batch.partition)


def _unpacked(data: bytes, header: RecordBatch, max_size: int) -> bytes:
    codec = header.codec
    return decompress(codec, data[HEADER_SIZE:], max_size) if codec else data[HEADER_SIZE:]


def _packed(header: RecordBatch, body: bytes) -> bytes:
    """The batch of the uncompressed records `body`, with the fields of `header` and a new size and checksum."""
    packed = compress(header.codec, body) if header.codec else body
    rows = {name: getattr(header, name) for name in ENCODED}
    return encode_header(packed, checksum=crc32c, **rows) + packed


def _converted(data: bytes, topic: str, partition: int, first: int, last: int, max_size: int) -> RawBatch | None:
    message = read_header(memoryview(data))
    records = [record for record in read_messages(message, max_size) if first <= record.offset <= last]
    if not records:
        return None
    base, base_time = records[0].offset, records[0].timestamp_ms
    rows = [encode_record(r.timestamp_ms - base_time, r.offset - base, encode_content(r.key, r.value, ())) for r in records]
    appended = LOG_APPEND_BIT if message.timestamp_type == LOG_APPEND_TIME else 0
    highest = max(record.timestamp_ms for record in records)
    numbers = records[-1].offset - base, base_time, highest, UNKNOWN, UNKNOWN, UNKNOWN, len(records)
    header = RecordBatch(message.data, base, UNKNOWN, 2, 0, message.codec | appended, *numbers)
    return _verified(_packed(header, b"".join(rows)), topic, partition)
