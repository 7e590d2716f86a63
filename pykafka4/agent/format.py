"""Packs and parses messages in Dory's format, version 0, which all inputs use. Source: dory/doc/sending_messages.md.

Numbers are big endian. The size counts the complete message, the size field included; only PartitionKey messages have a partition key:

    size int32 | API key int16 | API version int16 | flags int16 | [partition key uint32]
    topic size int16 | topic | timestamp int64 | key size int32 | key | value size int32 | value

Invariant: `parse` returns a message or raises Refused for any bytes. `inputs/compiled` has a compiled twin of `parse`;
`tests/agent/cases.py` has the test cases for both.
"""

from __future__ import annotations

from struct import Struct, error

from pykafka4.agent.message import Message, Reason, Refused

__all__ = ["ANY_PARTITION", "PARTITION_KEY", "pack", "parse"]

ANY_PARTITION, PARTITION_KEY = 256, 257
_VERSION = Struct(">ihh")  # size, API key, API version
_HEAD = Struct(">ihhh")  # the same, and flags
_KEY = Struct(">I")
_TOPIC = Struct(">h")
_TIME = Struct(">q")
_TIME_AND_SIZE = Struct(">qi")
_SIZE = Struct(">i")
_MOST_TOPIC, _MOST_SIZE = 2**15 - 1, 2**31 - 1
_KEYS = range(-(2**31), 2**32)  # any pattern of 32 bits, written as a signed or an unsigned number
_TIMES = range(-(2**63), 2**63)


def pack(topic: bytes, value: bytes, key: bytes = b"", partition_key: int | None = None, timestamp_ms: int = 0) -> bytes:
    """Return the bytes of a message. Raises TypeError or ValueError, whose text names the argument.

    The partition key is from 0 to 4,294,967,295; a negative number of 32 bits means the unsigned number with the same bits.
    """
    _check(topic, value, key, partition_key, timestamp_ms)
    middle = b"" if partition_key is None else _KEY.pack(partition_key & 0xFFFFFFFF)
    head = _HEAD.size + len(middle) + _TOPIC.size
    size = head + len(topic) + _TIME_AND_SIZE.size + len(key) + _SIZE.size + len(value)
    if size > _MOST_SIZE:
        raise ValueError(f"value: the message would have {size:,} bytes, and its size field holds at most {_MOST_SIZE:,}")
    return b"".join((
        _HEAD.pack(size, ANY_PARTITION if partition_key is None else PARTITION_KEY, 0, 0),
        middle,
        _TOPIC.pack(len(topic)),
        topic,
        _TIME_AND_SIZE.pack(timestamp_ms, len(key)),
        key,
        _SIZE.pack(len(value)),
        value,
    ))  # fmt: skip


def _check(topic: bytes, value: bytes, key: bytes, partition_key: int | None, timestamp_ms: int) -> None:
    if not (type(topic) is type(value) is type(key) is bytes):
        for name, given in (("topic", topic), ("value", value), ("key", key)):
            if not isinstance(given, bytes):
                raise TypeError(f"{name} must be bytes, not {type(given).__name__}")
    if not 0 < len(topic) <= _MOST_TOPIC:
        raise ValueError(f"topic must have 1 to {_MOST_TOPIC:,} bytes, not {len(topic):,}")
    if partition_key is not None:
        _check_number("partition_key", partition_key, _KEYS)
    _check_number("timestamp_ms", timestamp_ms, _TIMES)


def _check_number(name: str, given: int, limits: range) -> None:
    if type(given) is not int:
        raise TypeError(f"{name} must be an int, not {type(given).__name__}")
    if given not in limits:
        raise ValueError(f"{name} must be from {limits[0]:,} to {limits[-1]:,}, not {given:,}")


def parse(data: bytes, empty: bytes | None = None) -> Message:
    """Return the message in `data`, with `empty` in place of an empty key or value. Raises Refused if `data` is not a message."""
    try:
        at = _topic_at(data)
        partition_key = None if at == _HEAD.size else _KEY.unpack_from(data, _HEAD.size)[0]
        topic_size = _TOPIC.unpack_from(data, at)[0]
        topic_end = at + 2 + topic_size
        if topic_size <= 0:
            raise Refused(Reason.MALFORMED)
        timestamp, key_size = _TIME_AND_SIZE.unpack_from(data, topic_end)  # fails if the topic ends after the message
        key_end = topic_end + _TIME_AND_SIZE.size + key_size
        if key_size < 0:
            raise Refused(Reason.MALFORMED)
        value_size = _SIZE.unpack_from(data, key_end)[0]  # fails if the key ends after the message
    except error:
        raise Refused(Reason.MALFORMED) from None
    if value_size < 0 or key_end + _SIZE.size + value_size != len(data):
        raise Refused(Reason.MALFORMED)
    topic = data[at + 2 : topic_end].decode("utf-8", "backslashreplace")
    key = data[topic_end + _TIME_AND_SIZE.size : key_end]
    return topic, data[key_end + _SIZE.size :] or empty, key or empty, partition_key, timestamp


def _topic_at(data: bytes) -> int:
    """The offset of the topic's size. Raises Refused, or struct.error if the message ends before its flags."""
    size = len(data)
    if size <= _VERSION.size or _SIZE.unpack_from(data)[0] != size:
        raise Refused(Reason.MALFORMED)
    _, api_key, version = _VERSION.unpack_from(data)
    if api_key not in (ANY_PARTITION, PARTITION_KEY):
        raise Refused(Reason.API_KEY, api_key)
    if version != 0:
        raise Refused(Reason.VERSION, version)
    if _HEAD.unpack_from(data)[3] != 0:
        raise Refused(Reason.MALFORMED)
    return _HEAD.size if api_key == ANY_PARTITION else _HEAD.size + _KEY.size
