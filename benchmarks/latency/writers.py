"""Wraps the producers whose calls block.

Invariant: all give the same guarantees (idempotent, acks=all); all other settings are the contender's options. The client is imported when
its writer is made, so that no contender has another's modules.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from benchmarks.latency.load import VALUE, WAIT_S, Spec

__all__ = ["FLUSH", "POLL_THREAD", "Note", "Writer", "open_writer"]

Note = Callable[[object], None]
POLL_THREAD, FLUSH = "poll thread", "flush"  # ways
SHORT_S = 0.1


class Writer(Protocol):
    """The calls that all of them have. `sent` counts the records."""

    sent: int

    def send(self, note: Note | None = None, value: bytes = VALUE) -> None:
        """Send a record. `note` is called with the error, or with None, when the record has its outcome."""

    def send_one(self) -> None:
        """Send a record and wait until it is acknowledged."""

    def serve(self) -> None:
        """Run due callbacks, if they need this thread."""

    def finish(self) -> None:
        """Wait until every record is acknowledged."""


class Ours:
    """pykafka4, whose callbacks have their own thread."""

    def __init__(self, spec: Spec) -> None:
        import pykafka4

        self._producer = pykafka4.Producer(bootstrap_servers=spec.bootstrap, **spec.options)
        self._topic, self.sent = spec.topic, 0
        self.send_one()

    def send(self, note: Note | None = None, value: bytes = VALUE) -> None:
        self.sent += 1
        if note is None:
            self._producer.send(self._topic, value)
        else:
            self._producer.send(self._topic, value, on_delivery=lambda delivery: note(delivery.exception()))

    def send_one(self) -> None:
        self.sent += 1
        self._producer.send(self._topic, VALUE).result(WAIT_S)

    def serve(self) -> None:
        pass

    def finish(self) -> None:
        self._producer.flush(WAIT_S)
        self._producer.raise_failures()


class Confluent:
    """confluent-kafka, whose callbacks run in `poll`: between two sends, or in a thread that only polls."""

    def __init__(self, spec: Spec) -> None:
        import confluent_kafka as ck

        settings = {"bootstrap.servers": spec.bootstrap, "enable.idempotence": True, "acks": "all"}
        self._producer = ck.Producer({**settings, **spec.options})
        self._topic, self.sent = spec.topic, 0
        self._threaded, self._flushes = spec.way == POLL_THREAD, spec.way == FLUSH
        self.send_one()
        if self._threaded:
            threading.Thread(target=self._poll, daemon=True).start()

    def _poll(self) -> None:
        while True:
            self._producer.poll(SHORT_S)

    def send(self, note: Note | None = None, value: bytes = VALUE) -> None:
        self.sent += 1
        more: dict[str, Any] = {} if note is None else {"on_delivery": lambda error, message: note(error)}
        while True:
            try:
                return self._producer.produce(self._topic, value, **more)
            except BufferError:
                self._producer.poll(0.01)

    def send_one(self) -> None:
        self.sent += 1
        outcome: list[Any] = []
        self._producer.produce(self._topic, VALUE, on_delivery=lambda error, message: outcome.append(error))
        if self._flushes:
            self._producer.flush(WAIT_S)
        while not outcome:
            if not self._producer.poll(WAIT_S) and not outcome:
                raise TimeoutError("no acknowledgement")
        if outcome[0] is not None:
            raise RuntimeError(str(outcome[0]))

    def serve(self) -> None:
        if not self._threaded:
            self._producer.poll(0)

    def finish(self) -> None:
        left = self._producer.flush(WAIT_S)
        if left:
            raise TimeoutError(f"{left} records were not acknowledged")


WRITERS: dict[str, Callable[[Spec], Writer]] = {"pykafka4": Ours, "confluent": Confluent}


def open_writer(spec: Spec) -> Writer:
    return WRITERS[spec.client](spec)
