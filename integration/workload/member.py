"""Runs a group member in a process that a test may kill, freeze or ask to end: `python -m integration.workload.member SETTINGS`.

SETTINGS is a JSON object: `kind` (ours, confluent, kafka-python or aiokafka), `client` (options of pykafka4), `group`, `topic`, `name` (its
client id), `instance` (None for a dynamic member), `protocol` (classic or consumer), `strategy` (range or cooperative-sticky) and
`session_ms`. The process writes its journal (`integration.workload.journal`) to its standard output. SIGTERM asks it to end.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from integration.workload.journal import COMMIT_S, MOST, POLL_S, Member, Row, digest, note

__all__ = ["main"]

CLOSE_S = 10.0
COMMIT_EVERY_POLLS = 7  # polls that returned records
WATCH_S, STARVED_S = 0.05, 0.15  # seconds between two reads of the clock; more than STARVED_S: the process did not get the processor
ERRORS = 20  # errors in a row after which a member ends by itself


class Ours:
    def __init__(self, settings: dict[str, Any]) -> None:
        from pykafka4 import Consumer

        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
        classic = {
            "session_timeout_ms": settings["session_ms"],
            "heartbeat_interval_ms": 500,
            "partition_assignment_strategy": [settings["strategy"]],
        }
        self.consumer = Consumer(
            **settings["client"],
            **(classic if settings["protocol"] == "classic" else {}),
            group_protocol=settings["protocol"],
            group_id=settings["group"],
            group_instance_id=settings["instance"],
            client_id=settings["name"],
            auto_offset_reset="earliest",
            auto_commit_interval_ms=1_000,
            metadata_max_age_ms=5_000,
        )
        self.consumer.subscribe([settings["topic"]], self)

    def on_partitions_assigned(self, partitions: list[Any]) -> None:
        note("assigned", partitions=[tp.partition for tp in partitions], generation=self.generation())

    def on_partitions_revoked(self, partitions: list[Any]) -> None:
        note("revoked", partitions=[tp.partition for tp in partitions], generation=self.generation())

    def on_partitions_lost(self, partitions: list[Any]) -> None:
        note("lost", partitions=[tp.partition for tp in partitions])

    def poll(self) -> list[Row]:
        found = self.consumer.poll(POLL_S, MOST)
        return [(r.partition, r.offset, digest(r.key, r.value, r.headers, r.timestamp_ms)) for r in found]

    def commit(self) -> None:
        self.consumer.commit(timeout=COMMIT_S)

    def close(self) -> None:
        self.consumer.close(CLOSE_S)

    def wake(self) -> None:
        self.consumer.wakeup()

    def generation(self) -> int | None:
        number: int = self.consumer.status()["consumer"]["generation"]
        return number


def watch() -> None:
    """Note the times without the processor. Runs on a thread of its own."""
    before = time.monotonic()
    while True:
        time.sleep(WATCH_S)
        now = time.monotonic()
        if now - before > STARVED_S:
            note("starved", since=before)
        before = now


def made(settings: dict[str, Any]) -> Member:
    """Each process imports only the library that it uses."""
    if settings["kind"] == "ours":
        return Ours(settings)
    from integration.workload.foreign import FOREIGN

    make: Callable[[dict[str, Any]], Member] = FOREIGN[settings["kind"]]
    return make(settings)


def main(settings: dict[str, Any]) -> None:
    asked: list[bool] = []
    members: list[Member] = []

    def ask(*_: object) -> None:
        asked.append(True)
        for member in members:
            member.wake()

    signal.signal(signal.SIGTERM, ask)
    note("started", kind=settings["kind"], instance=settings["instance"], protocol=settings["protocol"])
    member = made(settings)
    members.append(member)
    note("made")
    threading.Thread(target=watch, daemon=True).start()
    read(member, asked)
    note("closing")
    try:
        if settings["kind"] != "ours":  # pykafka4 commits finished records by itself
            member.commit()
    except Exception as error:
        note("error", error=f"{type(error).__name__}: {error}")
    try:
        member.close()
    except Exception as error:
        note("error", error=f"{type(error).__name__}: {error}")
    note("ended")


def read(member: Member, asked: list[bool]) -> None:
    """Stop after ERRORS failures in a row."""
    errors = reads = 0
    while not asked and errors < ERRORS:
        try:
            rows = member.poll()
            if rows:
                reads += 1
                note("read", rows=rows, generation=member.generation())
                if reads % COMMIT_EVERY_POLLS == 0:
                    note("committing")
                    member.commit()
                    note("committed")
            errors = 0
        except Exception as error:
            errors += 1
            note("error", error=f"{type(error).__name__}: {error}")
            time.sleep(0.1)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
