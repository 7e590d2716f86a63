"""Counts lost acknowledgements: responses to Produce requests that came from a broker and that a proxy did not pass on.

Invariant: the count is a lower bound. A response of which some bytes were passed on does not count, and neither do responses over TLS,
whose bytes cannot be read.
"""

from __future__ import annotations

__all__ = ["Acks", "Heads"]

PRODUCE = 0
SIZE, API, CORRELATION = 4, 2, 4  # bytes
REQUEST = 8  # of a request's head: api key, api version, correlation id


class Heads:
    """The first `size` bytes of every frame in a stream that comes in pieces; a shorter frame is not reported."""

    def __init__(self, size: int) -> None:
        self.wanted = SIZE + size
        self.head = bytearray()
        self.skip = 0  # bytes until the next frame

    def feed(self, data: bytes) -> list[bytes]:
        found: list[bytes] = []
        at = 0
        while at < len(data):
            if self.skip:
                step = min(self.skip, len(data) - at)
                self.skip -= step
                at += step
                continue
            piece = data[at : at + self.missing()]
            self.head += piece
            at += len(piece)
            if not self.missing():
                self.skip = max(0, self.announced() - (len(self.head) - SIZE))
                if len(self.head) == self.wanted:
                    found.append(bytes(self.head[SIZE:]))
                self.head.clear()
        return found

    def announced(self) -> int:
        return int.from_bytes(self.head[:SIZE], signed=True)

    def missing(self) -> int:
        """The bytes that the current head lacks: of the size first, then no more than the frame has."""
        if len(self.head) < SIZE:
            return SIZE - len(self.head)
        return max(0, min(self.wanted, SIZE + self.announced()) - len(self.head))


class Acks:
    def __init__(self) -> None:
        self.requests, self.responses = Heads(REQUEST), Heads(CORRELATION)
        self.waiting: set[bytes] = set()  # correlation ids of Produce requests

    def asked(self, data: bytes) -> None:
        for head in self.requests.feed(data):
            if int.from_bytes(head[:API]) == PRODUCE:
                self.waiting.add(head[-CORRELATION:])

    def answered(self, data: bytes) -> int:
        """The number of acknowledgements that begin in bytes of the broker."""
        found = self.waiting.intersection(self.responses.feed(data))
        self.waiting -= found
        return len(found)
