"""Gives group members of other client libraries one interface. Invariant: a member reports the records of a poll before it commits them.

Therefore no member commits by itself, except Java's verifiable consumer, which reports first and then commits.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import Any

from integration.security.options import for_kafka_python, for_librdkafka
from integration.workload.journal import COMMIT_S, MOST, POLL_S, Member, Row, digest

__all__ = ["FOREIGN"]


class Foreign:
    """The common base of members of other libraries, whose polls cannot be ended early."""

    def wake(self) -> None:
        pass

    def generation(self) -> int | None:
        """The libraries do not return the generation; the coordinator's log has it."""
        return None


class Confluent(Foreign):
    def __init__(self, settings: dict[str, Any]) -> None:
        from confluent_kafka import Consumer

        options: dict[str, Any] = {
            **for_librdkafka(settings["client"]),
            "group.id": settings["group"],
            "client.id": settings["name"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,  # background commits would run ahead of the reports of this process
            "topic.metadata.refresh.interval.ms": 5_000,
            "log_level": 0,
        }
        if settings["protocol"] == "consumer":
            options["group.protocol"] = "consumer"
        else:
            options |= {
                "session.timeout.ms": settings["session_ms"],
                "heartbeat.interval.ms": 500,
                "partition.assignment.strategy": settings["strategy"],
            }
        if settings["instance"]:
            options["group.instance.id"] = settings["instance"]
        self.consumer = Consumer(options)
        self.consumer.subscribe([settings["topic"]])

    def poll(self) -> list[Row]:
        rows: list[Row] = []
        for message in self.consumer.consume(MOST, POLL_S):
            m: Any = message
            if m.error() is None:
                rows.append((m.partition(), m.offset(), digest(m.key(), m.value(), m.headers() or (), m.timestamp()[1])))
        return rows

    def commit(self) -> None:
        self.consumer.commit(asynchronous=False)

    def close(self) -> None:
        self.consumer.close()


class KafkaPython(Foreign):
    def __init__(self, settings: dict[str, Any]) -> None:
        kafka: Any = importlib.import_module("kafka")
        assignors: Any = importlib.import_module("kafka.coordinator.assignors." + settings["strategy"].replace("-", "_"))
        name = {"range": "RangePartitionAssignor", "cooperative-sticky": "CooperativeStickyAssignor"}[settings["strategy"]]
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
            partition_assignment_strategy=(getattr(assignors, name),),
        )

    def poll(self) -> list[Row]:
        found = self.consumer.poll(timeout_ms=int(POLL_S * 1000), max_records=MOST)
        return [
            (r.partition, r.offset, digest(r.key, r.value, r.headers or (), r.timestamp)) for records in found.values() for r in records
        ]

    def commit(self) -> None:
        self.consumer.commit()

    def close(self) -> None:
        self.consumer.close()


class Aiokafka(Foreign):
    """The event loop of aiokafka runs only while this member polls, commits or closes."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.loop = asyncio.new_event_loop()
        self.consumer: Any = None
        self.loop.run_until_complete(self.start(settings))

    async def start(self, settings: dict[str, Any]) -> None:
        aiokafka: Any = importlib.import_module("aiokafka")
        assignor: Any = importlib.import_module("aiokafka.coordinator.assignors.range").RangePartitionAssignor
        self.consumer = aiokafka.AIOKafkaConsumer(
            settings["topic"],
            bootstrap_servers=settings["client"]["bootstrap_servers"],
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
        await self.consumer.start()

    def poll(self) -> list[Row]:
        found = self.loop.run_until_complete(self.consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=MOST))
        return [(r.partition, r.offset, digest(r.key, r.value, r.headers, r.timestamp)) for records in found.values() for r in records]

    def commit(self) -> None:
        self.loop.run_until_complete(asyncio.wait_for(self.consumer.commit(), COMMIT_S))

    def close(self) -> None:
        self.loop.run_until_complete(self.consumer.stop())


FOREIGN: dict[str, Callable[[dict[str, Any]], Member]] = {"confluent": Confluent, "kafka-python": KafkaPython, "aiokafka": Aiokafka}
