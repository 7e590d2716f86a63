"""Asks brokers for leaders, offsets and log bytes, with requests that are packed by hand. Uses no code of the client.

Brokers of 0.10.2 to 4.x know each version that is used here; only Fetch needs two.
"""

from __future__ import annotations

import itertools
import socket
import struct
from types import TracebackType
from typing import Any, Self

__all__ = ["Broker", "NotNow"]

FETCH, LIST_OFFSETS, METADATA = 1, 2, 3
FETCH_OLD, FETCH_NEW = 2, 4  # before 0.11, and since
MOST_ANSWER_BYTES = 256 << 20
CLIENT_ID = b"judge"


class NotNow(ConnectionError):
    """Raised if the broker cannot answer now; another attempt may succeed."""


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, form: str) -> Any:
        (value,) = struct.unpack_from(">" + form, self.data, self.at)
        self.at += struct.calcsize(">" + form)
        return value

    def text(self) -> str | None:
        size = self.take("h")
        return None if size < 0 else self.bytes(size).decode()

    def bytes(self, size: int) -> bytes:
        if size < 0 or size > len(self.data) - self.at:
            raise NotNow(f"{size} bytes are announced where {len(self.data) - self.at} are left")
        self.at += size
        return self.data[self.at - size : self.at]

    def count(self) -> range:
        return range(max(0, self.take("i")))


class Broker:
    """A blocking connection, for one request at a time."""

    def __init__(self, address: tuple[str, int], timeout: float) -> None:
        self.address = address
        self.numbers = itertools.count(1)
        self.socket = socket.create_connection(address, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.socket.close()

    def ask(self, key: int, version: int, body: bytes) -> Reader:
        number = next(self.numbers)
        frame = struct.pack(">hhih", key, version, number, len(CLIENT_ID)) + CLIENT_ID + body
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", self.read(4))
        if not 4 <= size <= MOST_ANSWER_BYTES:
            raise NotNow(f"{self.address} sent a frame of {size} bytes")
        answer = Reader(self.read(size))
        if answer.take("i") != number:
            raise NotNow(f"{self.address} answered another request")
        return answer

    def read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.socket.recv(min(1 << 20, size - len(data)))
            if not piece:
                raise NotNow(f"{self.address} closed the connection")
            data += piece
        return bytes(data)

    def leaders(self, topic: str) -> dict[int, int]:
        """The request is for all topics, because a request that names a topic may create it."""
        answer = self.ask(METADATA, 1, struct.pack(">i", -1))
        for _ in answer.count():
            answer.take("i"), answer.text(), answer.take("i"), answer.text()
        answer.take("i")
        found: dict[int, int] = {}
        for _ in answer.count():
            error, name = answer.take("h"), answer.text()
            answer.take("b")
            rows = [self.partition(answer) for _ in answer.count()]
            if name == topic and not error:
                found = dict(rows)
        return found

    def partition(self, answer: Reader) -> tuple[int, int]:
        answer.take("h")
        index, leader = answer.take("i"), answer.take("i")
        for _ in ("replicas", "in sync"):
            for _ in answer.count():
                answer.take("i")
        return index, leader

    def offset(self, topic: str, partition: int, timestamp: int) -> int:
        """`timestamp` may be -1 (latest) or -2 (earliest)."""
        body = struct.pack(">i", -1) + named(topic, struct.pack(">iq", partition, timestamp))
        answer = self.ask(LIST_OFFSETS, 1, body)
        answer.count(), answer.text(), answer.count()
        _, error, _, offset = answer.take("i"), answer.take("h"), answer.take("q"), answer.take("q")
        refuse(error, f"offsets of {topic}-{partition}")
        return int(offset)

    def fetch(self, topic: str, partition: int, offset: int, size: int, wait_ms: int, *, old: bool) -> bytes:
        """The log's bytes from `offset` on; the last batch may be incomplete."""
        limits = b"" if old else struct.pack(">ib", size, 0)
        body = struct.pack(">iii", -1, wait_ms, 1) + limits + named(topic, struct.pack(">iqi", partition, offset, size))
        answer = self.ask(FETCH, FETCH_OLD if old else FETCH_NEW, body)
        answer.take("i"), answer.count(), answer.text(), answer.count(), answer.take("i")
        error, _ = answer.take("h"), answer.take("q")
        if not old:
            answer.take("q")
            for _ in answer.count():
                answer.take("q"), answer.take("q")
        refuse(error, f"fetch of {topic}-{partition} from {offset}")
        return answer.bytes(max(0, answer.take("i")))


def named(topic: str, row: bytes) -> bytes:
    name = topic.encode()
    return struct.pack(">ih", 1, len(name)) + name + struct.pack(">i", 1) + row


def refuse(error: int, what: str) -> None:
    if error:
        raise NotNow(f"{what}: error {error}")
