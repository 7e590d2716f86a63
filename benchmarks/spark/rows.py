"""Handles the rows of a Spark task in a Python worker. Invariant: a function that sends rows returns when all of them are acknowledged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

__all__ = ["Confluent", "nothing"]

SERVED = 1000  # records between two calls of `poll`, in which the client reports failures
FLUSH_S = 60.0
_producers: dict[str, Any] = {}  # by bootstrap servers: one in each worker, as with `partition_writer`


def nothing(rows: Iterable[Any]) -> None:
    """Discard the rows, for the cost of Spark itself."""
    for _ in rows:
        pass


@attrs.frozen
class Confluent:
    """A function for foreachPartition with a confluent-kafka producer, which a worker keeps. Only failures cost a callback."""

    bootstrap: str
    topic: str

    def __call__(self, rows: Iterable[Any]) -> None:
        import confluent_kafka as ck

        failures: list[Any] = []
        producer = _producers.get(self.bootstrap)
        if producer is None:
            options = {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "acks": "all", "delivery.report.only.error": True}
            producer = _producers[self.bootstrap] = ck.Producer(options)

        def failed(error: Any, message: Any) -> None:
            failures.append(error)

        produce, topic, left = producer.produce, self.topic, SERVED
        for row in rows:
            while True:
                try:
                    produce(topic, row.value, on_delivery=failed)
                    break
                except BufferError:
                    producer.poll(0.1)
            left -= 1
            if not left:
                producer.poll(0)
                left = SERVED
        if producer.flush(FLUSH_S) or failures:
            raise RuntimeError(f"not all rows were delivered: {failures[:1]}")
