"""Runs a producer in its own process, which carries out the methods of `Orders`.

The command is `python -m benchmarks.scale.sending CLIENT BOOTSTRAP DELIVERY_TIMEOUT_MS`. Invariant: an order to send has ended when
all records are acknowledged, except records of `fill`, whose partition has no leader.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from benchmarks.clients.load import pairs
from benchmarks.meter import Meter
from benchmarks.scale.orders import Memory, obey
from benchmarks.scale.shape import Place

__all__ = ["Writer"]

BLOCK_MS = 3_600_000  # `send` waits for room in a full partition until the process ends
IDLE_MS = 20_000  # a topic without a send for this time is forgotten
FORGOTTEN_AFTER_S = 35.0  # seconds after which an idle topic is forgotten
LONG_S = 300.0
FULL, VALUE = 16 << 20, bytes(1000)  # bytes for a partition without a leader (the most that ours takes), and the value of one record
STILL_S = 2.0  # seconds without another record after which a partition counts as full; also the wait until a topic is known


class Writer(Protocol):
    """The calls that both producers have."""

    def send(self, places: Sequence[Place]) -> None:
        """Send a record to each partition."""

    def keyed(self, topics: Sequence[str], count: int) -> None:
        """Send `count` records with keys to the topics in turn."""

    def wait(self) -> None:
        """Wait until all records are acknowledged, except the records of `fill`."""

    def fill(self, topic: str) -> None:
        """Give partition 0 of a topic without leaders as much as it takes."""


class Ours:
    def __init__(self, bootstrap: str, timeout_ms: int) -> None:
        import pykafka4

        settings: Any = {"delivery_timeout_ms": timeout_ms, "max_block_ms": BLOCK_MS, "metadata_max_idle_ms": IDLE_MS}
        self._producer = pykafka4.Producer(bootstrap_servers=bootstrap, **settings)
        self._sent = self._stuck = 0

    def send(self, places: Sequence[Place]) -> None:
        for topic, partition in places:
            self._producer.send(topic, b"x", partition=partition)
        self._sent += len(places)

    def keyed(self, topics: Sequence[str], count: int) -> None:
        send = self._producer.send
        for (value, key), topic in zip(pairs(count), itertools.cycle(topics)):
            send(topic, value, key=key)
        self._sent += count

    def wait(self) -> None:
        deadline = time.monotonic() + LONG_S
        while (acked := self._producer.stats().acked) < self._sent:
            assert time.monotonic() < deadline, f"{acked} of {self._sent} records are acknowledged; {self._producer.status()}"
            time.sleep(0.005)

    def fill(self, topic: str) -> None:
        """A thread fills the partition, then waits for room until the process ends. The topic is known before it begins."""

        def send() -> None:
            while True:
                self._producer.send(topic, VALUE, partition=0)
                self._stuck += 1

        self._producer.send(topic, VALUE, partition=0)
        self._stuck += 1
        time.sleep(STILL_S)
        threading.Thread(target=send, daemon=True).start()
        seen, since = 0, time.monotonic()
        while time.monotonic() < since + STILL_S:
            if self._stuck != seen:
                seen, since = self._stuck, time.monotonic()
            time.sleep(0.05)
        assert seen * len(VALUE) < FULL, f"{topic}-0 has taken {seen} records of {len(VALUE)} bytes, more than a partition may"


class Theirs:
    def __init__(self, bootstrap: str, timeout_ms: int) -> None:
        import confluent_kafka

        settings = {"enable.idempotence": True, "acks": "all", "linger.ms": 5, "message.timeout.ms": timeout_ms}
        self._producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, **settings})
        self._stuck = 0

    def send(self, places: Sequence[Place]) -> None:
        for topic, partition in places:
            self._produce(topic, b"x", partition)

    def keyed(self, topics: Sequence[str], count: int) -> None:
        produce, poll = self._producer.produce, self._producer.poll
        for (value, key), topic in zip(pairs(count), itertools.cycle(topics)):
            while True:
                try:
                    produce(topic, value, key)
                    break
                except BufferError:
                    poll(0.01)

    def wait(self) -> None:
        deadline = time.monotonic() + LONG_S
        while (left := len(self._producer) - self._stuck) > 0:
            assert time.monotonic() < deadline, f"{left} records are not acknowledged"
            self._producer.poll(0.005)

    def fill(self, topic: str) -> None:
        count = FULL // len(VALUE)
        for _ in range(count):
            self._produce(topic, VALUE, 0)
        self._stuck += count

    def _produce(self, topic: str, value: bytes, partition: int) -> None:
        while True:
            try:
                return self._producer.produce(topic, value, partition=partition)
            except BufferError:
                self._producer.poll(0.01)


WRITERS: dict[str, Callable[[str, int], Writer]] = {"pykafka4": Ours, "confluent": Theirs}


class Orders(Memory):
    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def send(self, places: list[Place]) -> None:
        self._writer.send([(topic, partition) for topic, partition in places])
        self._writer.wait()

    def keep(self, places: list[Place], seconds: float) -> None:
        """Use only these partitions for `seconds`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.send(places)
            time.sleep(1.0)

    def forget(self, places: list[Place]) -> None:
        self.keep(places, FORGOTTEN_AFTER_S)

    def keyed(self, topics: list[str], count: int) -> dict[str, Any]:
        meter = Meter()
        meter.start()
        self._writer.keyed(topics, count)
        self._writer.wait()
        meter.stop(count)
        return meter.result()

    def fill(self, topic: str) -> None:
        self._writer.fill(topic)


def main() -> None:
    client, bootstrap, timeout_ms = sys.argv[1:]
    obey(Orders(WRITERS[client](bootstrap, int(timeout_ms))))


if __name__ == "__main__":
    main()
