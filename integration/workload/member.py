"""A group member in a process of its own, which a test may kill, freeze or ask to end: `python -m integration.workload.member SETTINGS`.

SETTINGS is a JSON object: `kind` (ours, confluent or kafka-python), `client` (options of pykafka4), `group`, `topic`, `instance` (None for
a dynamic member) and `session_ms`. The process appends one JSON object per line to its standard output. It reports what a poll returned
before it polls again: a record counts as read only if its line is there, and only such records may have been committed. SIGTERM asks it to
end.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
import zlib
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from integration.security.options import for_kafka_python, for_librdkafka

__all__ = ["digest", "main"]

Row = tuple[int, int, int]  # partition, offset, digest
POLL, COMMIT, CLOSE = 0.5, 10.0, 10.0  # seconds
COMMIT_EVERY = 7  # polls that returned records
MOST = 500  # records a poll returns
ERRORS = 20  # errors in a row after which a member ends by itself


def digest(key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]], timestamp: int) -> int:
    """A checksum of what a record carries, apart from where it lies."""
    return zlib.crc32(repr((key, value, tuple((name, text) for name, text in headers), timestamp)).encode())


def note(what: str, **details: Any) -> None:
    """One line, written at once."""
    os.write(1, json.dumps({"what": what, "at": time.monotonic(), **details}, separators=(",", ":")).encode() + b"\n")


class Member(Protocol):
    """What each client library has."""

    def poll(self) -> list[Row]:
        """Records, or nothing after a while."""

    def commit(self) -> None:
        """Commit what was polled; returns when it is stored."""

    def close(self) -> None:
        """Leave the group."""

    def wake(self) -> None:
        """End a poll in progress, where the library can; called from a signal handler."""


class Ours:
    """pykafka4."""

    def __init__(self, settings: dict[str, Any]) -> None:
        from pykafka4 import Consumer

        self.consumer = Consumer(
            **settings["client"],
            group_id=settings["group"],
            group_instance_id=settings["instance"],
            client_id=settings["name"],
            session_timeout_ms=settings["session_ms"],
            heartbeat_interval_ms=500,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=1_000,
            metadata_max_age_ms=5_000,
        )
        self.consumer.subscribe([settings["topic"]], self)

    def on_partitions_assigned(self, partitions: list[Any]) -> None:
        note("assigned", partitions=[tp.partition for tp in partitions])

    def on_partitions_revoked(self, partitions: list[Any]) -> None:
        note("revoked", partitions=[tp.partition for tp in partitions])

    def on_partitions_lost(self, partitions: list[Any]) -> None:
        note("lost", partitions=[tp.partition for tp in partitions])

    def poll(self) -> list[Row]:
        found = self.consumer.poll(POLL, MOST)
        return [(r.partition, r.offset, digest(r.key, r.value, r.headers, r.timestamp_ms)) for r in found]

    def commit(self) -> None:
        self.consumer.commit(timeout=COMMIT)

    def close(self) -> None:
        self.consumer.close(CLOSE)

    def wake(self) -> None:
        self.consumer.wakeup()


class Confluent:
    """confluent-kafka."""

    def __init__(self, settings: dict[str, Any]) -> None:
        from confluent_kafka import Consumer

        options: dict[str, Any] = {
            **for_librdkafka(settings["client"]),
            "group.id": settings["group"],
            "client.id": settings["name"],
            "session.timeout.ms": settings["session_ms"],
            "heartbeat.interval.ms": 500,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,  # its background commits run ahead of what this process has reported
            "partition.assignment.strategy": "range",
            "topic.metadata.refresh.interval.ms": 5_000,
            "log_level": 0,
        }
        if settings["instance"]:
            options["group.instance.id"] = settings["instance"]
        self.consumer = Consumer(options)
        self.consumer.subscribe([settings["topic"]])

    def poll(self) -> list[Row]:
        rows: list[Row] = []
        for message in self.consumer.consume(MOST, POLL):
            m: Any = message
            if m.error() is None:
                rows.append((m.partition(), m.offset(), digest(m.key(), m.value(), m.headers() or (), m.timestamp()[1])))
        return rows

    def commit(self) -> None:
        self.consumer.commit(asynchronous=False)

    def close(self) -> None:
        self.consumer.close()

    def wake(self) -> None:
        pass


class KafkaPython:
    """kafka-python."""

    def __init__(self, settings: dict[str, Any]) -> None:
        kafka: Any = importlib.import_module("kafka")
        assignor: Any = importlib.import_module("kafka.coordinator.assignors.range").RangePartitionAssignor
        self.consumer = kafka.KafkaConsumer(
            settings["topic"],
            **for_kafka_python(settings["client"]),
            group_id=settings["group"],
            group_instance_id=settings["instance"],
            client_id=settings["name"],
            session_timeout_ms=settings["session_ms"],
            heartbeat_interval_ms=500,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            metadata_max_age_ms=5_000,
            partition_assignment_strategy=(assignor,),
        )

    def poll(self) -> list[Row]:
        found = self.consumer.poll(timeout_ms=int(POLL * 1000), max_records=MOST)
        return [
            (r.partition, r.offset, digest(r.key, r.value, r.headers or (), r.timestamp)) for records in found.values() for r in records
        ]

    def commit(self) -> None:
        self.consumer.commit()

    def close(self) -> None:
        self.consumer.close()

    def wake(self) -> None:
        pass


KINDS: dict[str, Callable[[dict[str, Any]], Member]] = {"ours": Ours, "confluent": Confluent, "kafka-python": KafkaPython}


def main(settings: dict[str, Any]) -> None:
    """Read until asked to end."""
    asked: list[bool] = []
    members: list[Member] = []

    def ask(*_: object) -> None:
        asked.append(True)
        for member in members:
            member.wake()

    signal.signal(signal.SIGTERM, ask)
    note("started", kind=settings["kind"], instance=settings["instance"])
    member = KINDS[settings["kind"]](settings)
    members.append(member)
    errors = reads = 0
    while not asked and errors < ERRORS:
        try:
            rows = member.poll()
            if rows:
                reads += 1
                note("read", rows=rows)
                if reads % COMMIT_EVERY == 0:
                    note("committing")
                    member.commit()
                    note("committed")
            errors = 0
        except Exception as error:
            errors += 1
            note("error", error=f"{type(error).__name__}: {error}")
            time.sleep(0.1)
    note("closing")
    try:
        member.close()
    except Exception as error:
        note("error", error=f"{type(error).__name__}: {error}")
    note("ended")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
