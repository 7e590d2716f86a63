"""Bytes and the message that they are, or the reason why they are none: for `format.parse` and its compiled twin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from pykafka4.agent.message import Message, Reason

__all__ = ["CASES", "DORY_MESSAGES", "Case", "message_bytes"]

DORY_MESSAGES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "fixtures" / "dory_messages.json").read_text())["messages"]
NOW = 1_795_900_000_000


class Case(NamedTuple):
    """`expected` is a message, as parsed with `empty`, or the reason of the refusal and its detail."""

    name: str
    data: bytes
    expected: Message | tuple[Reason, int | None]
    empty: bytes | None = None


def message_bytes(
    *,
    size: int | None = None,
    api_key: int = 256,
    version: int = 0,
    flags: int = 0,
    partition_key: bytes = b"",
    topic: bytes = b"t1",
    topic_size: int | None = None,
    timestamp: int = NOW,
    key: bytes = b"",
    key_size: int | None = None,
    value: bytes = b"hello",
    value_size: int | None = None,
    end: bytes = b"",
) -> bytes:
    """A message byte by byte, with any field wrong; sizes that are not given are right."""

    def number(given: int | None, right: bytes, width: int) -> bytes:
        return (len(right) if given is None else given).to_bytes(width, "big", signed=True)

    rest = b"".join((
        api_key.to_bytes(2, "big", signed=True),
        version.to_bytes(2, "big", signed=True),
        flags.to_bytes(2, "big", signed=True),
        partition_key,
        number(topic_size, topic, 2),
        topic,
        timestamp.to_bytes(8, "big", signed=True),
        number(key_size, key, 4),
        key,
        number(value_size, value, 4),
        value,
        end,
    ))  # fmt: skip
    return (len(rest) + 4 if size is None else size).to_bytes(4, "big", signed=True) + rest


def _with_right_size(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data[4:]


MALFORMED = (Reason.MALFORMED, None)
PLAIN = message_bytes()
KEYED = message_bytes(api_key=257, partition_key=b"\0\0\0\7", key=b"k")
READ = ("t1", b"hello", None, None, NOW)

_GOOD = [
    Case("any partition", PLAIN, READ),
    Case("partition key", KEYED, ("t1", b"hello", b"k", 7, NOW)),
    Case("partition key 0", message_bytes(api_key=257, partition_key=bytes(4)), ("t1", b"hello", None, 0, NOW)),
    Case("partition key 2^31", message_bytes(api_key=257, partition_key=b"\x80\0\0\0"), ("t1", b"hello", None, 2**31, NOW)),
    Case("partition key 2^32-1", message_bytes(api_key=257, partition_key=b"\xff" * 4), ("t1", b"hello", None, 2**32 - 1, NOW)),
    Case("empty value is null", message_bytes(value=b"", key=b"k"), ("t1", None, b"k", None, NOW)),
    Case("empty value is empty", message_bytes(value=b""), ("t1", b"", b"", None, NOW), b""),
    Case("smallest", message_bytes(topic=b"t", value=b""), ("t", None, None, None, NOW)),
    Case("negative timestamp", message_bytes(timestamp=-1), ("t1", b"hello", None, None, -1)),
    Case("largest timestamp", message_bytes(timestamp=2**63 - 1), ("t1", b"hello", None, None, 2**63 - 1)),
    Case("smallest timestamp", message_bytes(timestamp=-(2**63)), ("t1", b"hello", None, None, -(2**63))),
    Case("longest topic", message_bytes(topic=b"x" * 32767), ("x" * 32767, b"hello", None, None, NOW)),
    Case("topic that is illegal in Kafka", message_bytes(topic=b"a b/\0"), ("a b/\0", b"hello", None, None, NOW)),
    Case("topic beyond ASCII", message_bytes(topic="ü".encode()), ("ü", b"hello", None, None, NOW)),
    Case("topic that is no UTF-8", message_bytes(topic=b"a\xff\xc3"), ("a\\xff\\xc3", b"hello", None, None, NOW)),
    Case("topic cut inside a character", message_bytes(topic=b"\xe2\x9c"), ("\\xe2\\x9c", b"hello", None, None, NOW)),
    Case("topic with a surrogate", message_bytes(topic=b"\xed\xa0\x80"), ("\\xed\\xa0\\x80", b"hello", None, None, NOW)),
    Case("64 KiB", message_bytes(value=b"v" * 65506), ("t1", b"v" * 65506, None, None, NOW)),
    Case("zeros", message_bytes(key=bytes(3), value=bytes(5)), ("t1", bytes(5), bytes(3), None, NOW)),
]
_REFUSED = [
    *(Case(f"{size} bytes of a message", PLAIN[:size], MALFORMED) for size in range(len(PLAIN))),
    *(Case(f"{size} bytes of a message, size right", _with_right_size(PLAIN[:size]), MALFORMED) for size in range(8, len(PLAIN))),
    *(Case(f"{size} bytes of a keyed message, size right", _with_right_size(KEYED[:size]), MALFORMED) for size in range(8, len(KEYED))),
    Case("size too small", message_bytes(size=len(PLAIN) - 1), MALFORMED),
    Case("size too large", message_bytes(size=len(PLAIN) + 1), MALFORMED),
    Case("size 0", message_bytes(size=0), MALFORMED),
    Case("size negative", message_bytes(size=-1), MALFORMED),
    Case("trailing byte", message_bytes(end=b"\0"), MALFORMED),
    Case("trailing message", PLAIN + PLAIN, MALFORMED),
    *(Case(f"API key {key}", message_bytes(api_key=key), (Reason.API_KEY, key)) for key in (0, 1, 255, 258, -1, 32767, -32768)),
    *(Case(f"version {version}", message_bytes(version=version), (Reason.VERSION, version)) for version in (1, 2, -1, 32767)),
    Case("version of a keyed message", message_bytes(api_key=257, version=3), (Reason.VERSION, 3)),
    Case("size before API key", message_bytes(size=1, api_key=9), MALFORMED),
    Case("API key before version", message_bytes(api_key=9, version=9), (Reason.API_KEY, 9)),
    Case("version before flags", message_bytes(version=9, flags=1), (Reason.VERSION, 9)),
    Case("unknown API key in 8 bytes", b"\0\0\0\x08\0\x09\0\0", MALFORMED),
    Case("unknown API key in 9 bytes", b"\0\0\0\x09\0\x09\0\0\0", (Reason.API_KEY, 9)),
    Case("unknown version in 9 bytes", b"\0\0\0\x09\1\0\0\1\0", (Reason.VERSION, 1)),
    Case("unknown API key, then anything", _with_right_size(b"....\0\x09" + b"\xff" * 50), (Reason.API_KEY, 9)),
    Case("flags", message_bytes(flags=1), MALFORMED),
    Case("flags negative", message_bytes(flags=-1), MALFORMED),
    Case("no topic", message_bytes(topic=b""), MALFORMED),
    Case("topic size negative", message_bytes(topic_size=-1), MALFORMED),
    Case("topic size smallest", message_bytes(topic_size=-32768), MALFORMED),
    Case("topic behind the end", message_bytes(topic_size=32767), MALFORMED),
    Case("key size -1", message_bytes(key_size=-1), MALFORMED),
    Case("key size smallest", message_bytes(key_size=-(2**31)), MALFORMED),
    Case("key behind the end", message_bytes(key_size=6), MALFORMED),
    Case("key size largest", message_bytes(key_size=2**31 - 1), MALFORMED),
    Case("value size -1", message_bytes(value_size=-1), MALFORMED),
    Case("value size -1, no value", message_bytes(value=b"", value_size=-1), MALFORMED),
    Case("value size smallest", message_bytes(value_size=-(2**31)), MALFORMED),
    Case("value size too small", message_bytes(value_size=4), MALFORMED),
    Case("value behind the end", message_bytes(value_size=6), MALFORMED),
    Case("value size largest", message_bytes(value_size=2**31 - 1), MALFORMED),
    Case("sizes that cancel each other", message_bytes(key_size=2**31 - 1, value_size=-(2**31) + 1), MALFORMED),
]


def _recorded(message: dict[str, Any]) -> Case:
    data = bytes.fromhex(message["bytes"])
    value, key, partition_key = message["value"].encode(), message["key"].encode(), message["partition_key"]
    at = (10 if partition_key is None else 14) + 2 + len(message["topic"].encode())
    timestamp = int.from_bytes(data[at : at + 8], "big", signed=True)
    return Case(message["command"], data, (message["topic"], value or None, key or None, partition_key, timestamp))


CASES = [*_GOOD, *_REFUSED, *map(_recorded, DORY_MESSAGES)]
