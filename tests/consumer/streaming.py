"""Streaming. What the tests of streams share: a thread for each stream. Rule: nothing here sleeps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from integration.waiting import until
from pykafka4.consumer import Consumer
from pykafka4.consumer.processing.streams import Stream
from pykafka4.wire.records.hot import Record
from tests.consumer.consuming import LONG, Maker


def member(make: Maker, **options: Any) -> Consumer:
    return make(**{"group_id": "g", "enable_auto_commit": False, **options})


def committed(make: Maker, partitions: Iterable[int] = (0,), name: str = "t") -> dict[int, int]:
    found = make(group_id="g").committed([(name, p) for p in partitions])
    return {tp.partition: at.offset for tp, at in found.items() if at is not None}


class Reading:
    """A thread for each stream, which notes what it gets."""

    def __init__(self, streams: Iterable[Stream], work: Callable[[Record], object] = lambda record: None) -> None:
        self.got: list[list[Record]] = []
        self.errors: list[BaseException] = []
        self.threads: list[threading.Thread] = []
        for number, stream in enumerate(streams):
            self.got.append([])
            self.threads.append(threading.Thread(target=self._run, args=(stream, self.got[-1], work), name=f"reader-{number}", daemon=True))
            self.threads[-1].start()

    def _run(self, stream: Stream, got: list[Record], work: Callable[[Record], object]) -> None:
        try:
            for record in stream:
                got.append(record)
                work(record)
        except BaseException as error:
            self.errors.append(error)

    @property
    def count(self) -> int:
        return sum(map(len, self.got))

    @property
    def places(self) -> list[tuple[int, int]]:
        return [(record.partition, record.offset) for got in self.got for record in got]

    def wait(self, count: int) -> Reading:
        until(lambda: self.count >= count or self.errors, LONG, lambda: f"{count} records; there are {self.count}")
        assert not self.errors, self.errors
        return self

    def ended(self) -> Reading:
        for thread in self.threads:
            thread.join(LONG)
            assert not thread.is_alive(), thread
        return self
