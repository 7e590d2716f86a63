"""Reads the records of a group's coordinator in `__consumer_offsets`: commits, and the owners of partitions. Uses no code of the client.

Invariant: the events are in the order in which the coordinator wrote them, so a commit belongs to the owner that the events before it name.
Classic groups have one record for each generation, groups of the consumer protocol one for each member. Members are named by their client
ids. A group is read for one topic: partitions of several topics are not distinguished.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from integration.judge.log_format import LogRecord, Wrong
from integration.judge.reader import find_offset, leaders, read
from integration.seam import Brokers
from integration.waiting import Deadline

__all__ = ["Committed", "Event", "Generation", "Owned", "Removed", "group_log", "parsed"]

TOPIC = "__consumer_offsets"
EARLIEST, LATEST = -2, -1
COMMIT, CLASSIC, MEMBER, CURRENT = 1, 2, 5, 8  # kinds of records, the first two bytes of their keys
CLASSIC_VERSION = 3  # the last version that is not flexible; brokers write this one


class Committed(NamedTuple):
    """`at_ms` is the broker's wall clock."""

    partition: int
    offset: int
    at_ms: int


class Generation(NamedTuple):
    """The start of a generation of a classic group, or the replacement of a static member: all members with their partitions."""

    number: int
    owned: dict[str, frozenset[int]]
    at_ms: int


class Owned(NamedTuple):
    """A member of a group of the consumer protocol has these partitions from now on, also partitions that it has to give back."""

    client: str
    epoch: int
    previous: int
    partitions: frozenset[int]
    at_ms: int


class Removed(NamedTuple):
    """The end of a member of a group of the consumer protocol."""

    client: str
    at_ms: int


Event = Committed | Generation | Owned | Removed


def group_log(brokers: Brokers, group: str, timeout: float = 60.0) -> list[Event]:
    """The events that the coordinator of `group` has written up to now."""
    deadline = Deadline(timeout)
    partition = java_hash(group) % len(leaders(brokers, TOPIC))
    first, end = (find_offset(brokers, TOPIC, partition, at, deadline) for at in (EARLIEST, LATEST))
    return list(parsed(group, read(brokers, TOPIC, partition, first, end, deadline)))


def java_hash(text: str) -> int:
    """Java's `Utils.abs(text.hashCode())`, which chooses the group's partition of the offsets topic."""
    value = 0
    for unit in struct.unpack(f">{len(text.encode('utf-16-be')) // 2}H", text.encode("utf-16-be")):
        value = (value * 31 + unit) & 0xFFFFFFFF
    return value & 0x7FFFFFFF if value < 1 << 31 else (-(value - (1 << 32))) & 0x7FFFFFFF


def parsed(group: str, records: Iterable[LogRecord]) -> Iterator[Event]:
    names: dict[str, str] = {}  # member id -> client id
    for record in records:
        key = Reader(record.key or b"")
        parse = KINDS.get(key.int16())
        if parse is not None and key.text() == group:
            yield from parse(key, record, names)


def commit(key: Reader, record: LogRecord, _: dict[str, str]) -> Iterator[Event]:
    key.text()  # topic
    if record.value is not None:
        value = Reader(record.value)
        value.int16()
        yield Committed(key.int32(), value.int64(), record.timestamp)


def classic(_: Reader, record: LogRecord, __: dict[str, str]) -> Iterator[Event]:
    if record.value is None:
        return
    value = Reader(record.value)
    if (version := value.int16()) > CLASSIC_VERSION:
        raise Wrong(f"group metadata of version {version} at {record.offset}")
    value.text()  # protocol type
    number = value.int32()
    value.text(), value.text()  # protocol, leader
    if version >= 2:
        value.int64()
    owned: dict[str, frozenset[int]] = {}
    for _i in range(value.int32()):
        value.text()  # member id
        if version >= 3:
            value.text()  # group.instance.id
        client = value.text() or ""
        value.text()  # host
        if version >= 1:
            value.int32()
        value.int32()
        value.data()  # subscription
        owned[client] = owned.get(client, frozenset()) | assignment(value.data() or b"")
    yield Generation(number, owned, record.timestamp)


def assignment(data: bytes) -> frozenset[int]:
    if not data:
        return frozenset()
    value, found = Reader(data), set[int]()
    value.int16()
    for _ in range(value.int32()):
        value.text()
        found |= {value.int32() for _ in range(value.int32())}
    return frozenset(found)


def member(key: Reader, record: LogRecord, names: dict[str, str]) -> Iterator[Event]:
    name = key.text() or ""
    if record.value is not None:
        value = Reader(record.value)
        value.int16()
        value.compact(), value.compact()  # instance, rack
        names[name] = value.compact() or ""
    yield from ()


def current(key: Reader, record: LogRecord, names: dict[str, str]) -> Iterator[Event]:
    client = names.get(key.text() or "", "?")
    if record.value is None:
        yield Removed(client, record.timestamp)
        return
    value = Reader(record.value)
    value.int16()
    epoch, previous, _ = value.int32(), value.int32(), value.take(1)
    yield Owned(client, epoch, previous, value.partitions() | value.partitions(), record.timestamp)


KINDS: dict[int, Callable[[Reader, LogRecord, dict[str, str]], Iterator[Event]]] = {
    COMMIT: commit,
    CLASSIC: classic,
    MEMBER: member,
    CURRENT: current,
}


class Reader:
    def __init__(self, data: bytes) -> None:
        self.bytes, self.at = data, 0

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.bytes) - self.at:
            raise Wrong(f"{size} bytes are wanted where {len(self.bytes) - self.at} are left")
        self.at += size
        return self.bytes[self.at - size : self.at]

    def int16(self) -> int:
        return int.from_bytes(self.take(2), signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.take(4), signed=True)

    def int64(self) -> int:
        return int.from_bytes(self.take(8), signed=True)

    def varint(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def text(self) -> str | None:
        size = self.int16()
        return None if size < 0 else self.take(size).decode()

    def data(self) -> bytes | None:
        size = self.int32()
        return None if size < 0 else self.take(size)

    def compact(self) -> str | None:
        """Read a text of a flexible version."""
        size = self.varint()
        return None if not size else self.take(size - 1).decode()

    def partitions(self) -> frozenset[int]:
        found = set[int]()
        for _ in range(self.varint() - 1):
            self.take(16)  # topic id
            found |= {self.int32() for _ in range(self.varint() - 1)}
            for _tag in range(self.varint()):
                self.varint()
                self.take(self.varint())
        return frozenset(found)
