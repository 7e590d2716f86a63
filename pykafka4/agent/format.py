"""The bytes of a message, the same on all inputs: Dory's format, version 0. Source: dory/doc/sending_messages.md."""

from __future__ import annotations

from struct import Struct, error

from pykafka4.agent.message import Message, Reason, Refused

__all__ = ["ANY_PARTITION", "PARTITION_KEY", "pack", "parse"]

ANY_PARTITION, PARTITION_KEY = 256, 257
_HEAD = Struct(">ihhh")  # size, API key, API version, flags
_KEY = Struct(">I")
_TOPIC = Struct(">h")
_TIME = Struct(">q")
_SIZE = Struct(">i")
SMALLEST = 8  # size, API key, version


def pack(topic: bytes, value: bytes, key: bytes = b"", partition_key: int | None = None, timestamp_ms: int = 0) -> bytes:
    """The bytes of a message. Raises struct.error for a size that its field cannot hold."""
    middle = b"" if partition_key is None else _KEY.pack(partition_key & 0xFFFFFFFF)
    parts = (middle, _TOPIC.pack(len(topic)), topic, _TIME.pack(timestamp_ms), _SIZE.pack(len(key)), key, _SIZE.pack(len(value)), value)
    body = b"".join(parts)
    return _HEAD.pack(_HEAD.size + len(body), ANY_PARTITION if partition_key is None else PARTITION_KEY, 0, 0) + body


def parse(data: bytes, empty: bytes | None = None) -> Message:
    """The message in `data`; its empty key or value becomes `empty`. Raises Refused."""
    try:
        return _parse(data, empty)
    except (error, IndexError):
        raise Refused(Reason.MALFORMED) from None


def _parse(data: bytes, empty: bytes | None) -> Message:
    if len(data) <= SMALLEST or _SIZE.unpack_from(data)[0] != len(data):
        raise Refused(Reason.MALFORMED)
    _, api_key, version, flags = _HEAD.unpack_from(data) if len(data) >= _HEAD.size else (*Struct(">ihh").unpack_from(data), 1)
    if api_key not in (ANY_PARTITION, PARTITION_KEY):
        raise Refused(Reason.API_KEY, api_key)
    if version != 0:
        raise Refused(Reason.VERSION, version)
    if flags != 0:
        raise Refused(Reason.MALFORMED)
    at, partition_key = _HEAD.size, None
    if api_key == PARTITION_KEY:
        partition_key = _KEY.unpack_from(data, at)[0]
        at += 4
    size = _TOPIC.unpack_from(data, at)[0]
    topic, at = data[at + 2 : at + 2 + size], at + 2 + size
    if size <= 0 or len(topic) != size:
        raise Refused(Reason.MALFORMED)
    timestamp = _TIME.unpack_from(data, at)[0]
    key, at = _bytes(data, at + 8)
    value, at = _bytes(data, at)
    if at != len(data):
        raise Refused(Reason.MALFORMED)
    return topic.decode("utf-8", "backslashreplace"), value or empty, key or empty, partition_key, timestamp


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size = _SIZE.unpack_from(data, at)[0]
    end = at + 4 + size
    if size < 0 or end > len(data):
        raise Refused(Reason.MALFORMED)
    return data[at + 4 : end], end
