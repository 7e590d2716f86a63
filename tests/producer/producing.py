"""Producing. What the tests of the producer do with it and with the brokers. Rule: every wait ends."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka4 import Consumer, KafkaError, Producer
from pykafka4.testing import ModelServer
from pykafka4.wire.records.hot import Delivery
from tests.inspection import inspect
from tests.net.net_helpers import SECONDS, until

Maker = Callable[..., Producer]
FEW = {"buffer_memory": 65_536, "max_partition_bytes": 65_536, "linger_ms": 0}  # soon full
HUNG = "close waited although there was nothing to wait for"


def stop_all(server: ModelServer) -> None:
    server.do(lambda cluster: [cluster.stop_broker(node) for node in cluster.brokers])


def start_all(server: ModelServer) -> None:
    server.do(lambda cluster: [cluster.start_broker(node) for node in cluster.brokers])


def values(server: ModelServer) -> list[bytes]:
    return sorted(record.value or b"" for record in server.records("t"))


def committed(server: ModelServer, topic: str = "t", partitions: int = 3) -> list[bytes]:
    """The values that a read_committed consumer reads up to the end of the log; sorted, if there are several partitions."""
    with Consumer(
        bootstrap_servers=server.bootstrap_servers, auto_offset_reset="earliest", isolation_level="read_committed", fetch_max_wait_ms=10
    ) as consumer:
        consumer.assign([(topic, p) for p in range(partitions)])
        found: list[bytes] = []

        def read() -> bool:
            found.extend(record.value or b"" for record in consumer.poll(0.05))
            return all(consumer.lag((topic, p)) == 0 for p in range(partitions))

        until(read)
        return found if partitions == 1 else sorted(found)


def written(server: ModelServer) -> list[bytes]:
    """The committed values of topic `out`, in order."""
    return committed(server, "out", 1)


def balanced(producer: Producer) -> bool:
    """Whether every record has its outcome."""
    stats = producer.stats()
    return stats.queued == stats.in_flight == 0 and stats.accepted == stats.acked + stats.lost + sum(stats.dropped.values())


def knowing(producer: Producer) -> Producer:
    """`producer`, when it knows the topic."""
    producer.send("t", b"first", partition=0)
    producer.flush(SECONDS)
    return producer


@contextlib.contextmanager
def out_of_reach(server: ModelServer) -> Iterator[None]:
    """A block in which no topic can become known."""
    stop_all(server)
    yield
    start_all(server)


@contextlib.contextmanager
def ctrl_c(when: Callable[[], object]) -> Iterator[None]:
    """KeyboardInterrupt in this thread as soon as `when()` holds."""
    me = threading.get_ident()

    def press() -> None:
        until(when, "the wait to interrupt")
        signal.pthread_kill(me, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background ignores it
    thread = threading.Thread(target=press, daemon=True)
    try:
        with pytest.raises(KeyboardInterrupt):
            thread.start()
            yield
    finally:
        signal.signal(signal.SIGINT, before)
        thread.join(SECONDS)


class Sending(threading.Thread):
    """A thread that sends until it is refused."""

    def __init__(self, producer: Producer, topic: str = "t", **how: Any) -> None:
        super().__init__(daemon=True)
        self.sent: list[Delivery] = []
        self.error: KafkaError | None = None
        self._send = lambda: producer.send(topic, b"y" * 5000, **how)
        self.start()
        until(lambda: inspect(producer).blocked_sends, "the buffer to be full")

    def run(self) -> None:
        try:
            while True:
                self.sent.append(self._send())
        except KafkaError as error:
            self.error = error

    def refused(self) -> KafkaError:
        self.join(SECONDS)
        assert self.error is not None, "it is still blocked"
        return self.error
