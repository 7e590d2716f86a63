"""Reader harness. A reader without a loop: the test puts chunks in, and the seeks that it requests are recorded."""

from __future__ import annotations

from typing import Any

from pykafka4.consumer.reading.reader import Reader
from pykafka4.core.subscription import Claim, Start
from pykafka4.wire.records.compression import decompress
from pykafka4.wire.records.hot import Chunk
from tests.core.consumer_harness import Polling, batch, tp


class ReaderHarness(Polling):
    """A reader, its claims, and the seeks that it requested from the loop."""

    def __init__(self, partitions: int = 1, max_bytes: int = 64 << 20) -> None:
        self.seeks: list[tuple[Claim, Claim, Start | int]] = []
        self.now = 50.0
        self.reader = Reader(lambda: self.now, lambda: None, self.seeks.extend, max_bytes=max_bytes)
        self.claims = [Claim(tp(p)) for p in range(partitions)]
        self.reader.adopt(self.claims)

    def put(self, first: int, count: int, partition: int = 0, data: bytes | None = None, fetch_offset: int | None = None) -> Chunk:
        claim = self.reader.claims.get(tp(partition)) or self.claims[partition]
        chunk = Chunk(
            "t",
            partition,
            batch(first, count) if data is None else data,
            first if fetch_offset is None else fetch_offset,
            serial=claim,
            decompress=decompress,
            max_decompressed=1 << 20,
        )
        claim.delivered += chunk.size
        self.reader.put(chunk)
        return chunk

    def finished(self, partition: int = 0) -> int | None:
        place = self.reader.finished.get(tp(partition))
        return None if place is None else place[0]

    def reached(self, partition: int = 0) -> int | None:
        place = self.reader.reached().get(tp(partition))
        return None if place is None else place[0]


def offsets(records: Any) -> list[int]:
    return [r.offset for r in records]
