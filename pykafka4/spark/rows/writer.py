"""Writes the rows of a Spark partition to a topic. Invariant: a task ends without an error only if each of its rows is acknowledged."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import attrs

from pykafka4.errors import BufferFull
from pykafka4.errors.frames import guarded
from pykafka4.misuse import check_topic
from pykafka4.options.config import ProducerConfig, hide_secrets
from pykafka4.producer import Producer
from pykafka4.spark.outcomes import CHECK_S, check, trouble, wait
from pykafka4.spark.rows.columns import Column, columns, send_rows
from pykafka4.spark.workers import check_travelling, pool

__all__ = ["PartitionWriter", "partition_writer"]


@attrs.frozen
class PartitionWriter:
    """The function that `partition_writer` returns. Spark calls it with the rows of a partition, inside the task."""

    config: Mapping[str, Any] = attrs.field(repr=hide_secrets)
    topic: str
    columns: tuple[Column, ...]

    def __call__(self, rows: Iterable[Any]) -> None:
        rows = iter(rows)
        for first in rows:  # runs at most once: the body takes all rows; an empty partition needs no producer
            self.write(chain((first,), rows))

    def write(self, rows: Iterable[Any]) -> None:
        """Deliver each row, or raise the first failure."""
        patience = ProducerConfig.parse(self.config).delivery_timeout_ms / 1000
        with pool().lease(self.config) as producer, producer.delivery_scope():
            send_all(producer, self.topic, self.columns, rows)
            wait(producer, patience)


def send_all(producer: Producer, topic: str, wanted: tuple[Column, ...], rows: Iterable[Any]) -> None:
    """Send all rows, or raise the first failure that a check finds."""
    clock = time.monotonic

    def check_failures() -> float:
        check(producer)
        return clock() + CHECK_S

    try:
        send_rows(producer.send, topic, wanted, rows, clock, check_failures)
    except BufferFull as error:
        error.add_note(trouble(producer))
        raise


@guarded
def partition_writer(
    config: Mapping[str, Any],
    *,
    topic: str,
    value: str | None = "value",
    key: str | None = None,
    headers: str | None = None,
    timestamp: str | None = None,
    partition: str | None = None,
) -> PartitionWriter:
    """A function for `foreachPartition` of a DataFrame, or of an RDD of Row or dict, that sends each row to `topic`.

    `config` has the options of the producer. The arguments after `topic` name columns: `value` and `key` are string or binary (a null value
    is a tombstone), `headers` is array<struct<key:string,value:binary>> or map<string,binary>, `timestamp` is a timestamp or bigint
    milliseconds, `partition` is int.

    A Python worker usually keeps the producer for its next tasks. A task ends when all records are acknowledged. The first failed delivery
    (at the latest after `delivery_timeout_ms`) fails the task with `DeliveryFailed`, which names topic, partition and cause, if known.
    Delivery is at least once: Spark runs a failed task again from its first row. An invalid argument raises ConfigError or TypeError here;
    a missing or wrongly typed column raises one of them in the task.
    """
    check_topic(topic)
    check_travelling(config)
    wanted = columns(value=value, key=key, headers=headers, timestamp=timestamp, partition=partition)
    return PartitionWriter(dict(config), topic, wanted)
