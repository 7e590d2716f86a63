"""The figures of the agent at a moment, as values, and the protocol of their source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import attrs

from pykafka4.agent.account.values import Account, Report
from pykafka4.agent.message import Source
from pykafka4.agent.spool.values import SpoolState
from pykafka4.core.producer.partition_status import NO_PARTITION

__all__ = ["InputState", "Look", "Queue", "Watched", "offline", "queues", "topic_of", "unknown_topics"]

UNDECIDED = NO_PARTITION.format("")  # ends the name of a row for messages that have no partition


@attrs.frozen
class InputState:
    """An input. `clients` is the number of open connections; None for datagrams, which have none."""

    source: Source
    address: str
    open: bool
    messages: int
    bytes: int
    refused: int
    clients: int | None = None


@attrs.frozen
class Look:
    """The figures at a moment. `at` is in seconds since the epoch, `status` is `Producer.status()`, `max_buffer` the size of the pool."""

    at: float
    account: Account
    status: Mapping[str, Any]
    inputs: tuple[InputState, ...] = ()
    spool: SpoolState | None = None
    max_buffer: int | None = None

    @property
    def buffered(self) -> int:
        """Bytes of the pool that are in use."""
        return int(self.status.get("producer", {}).get("buffered_bytes", 0))


@attrs.frozen
class Queue:
    """Messages of a topic in the producer's memory.

    `new` have no partition yet; `batch` are in batches that may grow; `waiting` wait for their turn, or for a broker; `in_flight` wait
    for the response to a request. `oldest_s` is the age of the oldest.
    """

    new: int = 0
    batch: int = 0
    waiting: int = 0
    in_flight: int = 0
    oldest_s: float | None = None

    @property
    def count(self) -> int:
        """All of them."""
        return self.new + self.batch + self.waiting + self.in_flight

    def plus(self, other: Queue) -> Queue:
        """Both together."""
        ages = [age for age in (self.oldest_s, other.oldest_s) if age is not None]
        return Queue(
            self.new + other.new,
            self.batch + other.batch,
            self.waiting + other.waiting,
            self.in_flight + other.in_flight,
            max(ages, default=None),
        )


class Watched(Protocol):
    """A running agent, as its pages see it. `look` and `refresh_metadata` may wait: not on the agent's loop."""

    version: str
    started_at: float  # seconds since the epoch
    report_interval_s: float

    def look(self) -> Look:
        """The figures now. Raises KafkaError if the producer's thread is stuck."""

    def counters(self, account: Account) -> Mapping[str, int]:
        """Counters since the start, by Dory's names; those of messages are as in `account`."""

    def unfinished_report(self) -> Report:
        """The interval of discards that goes on now."""

    def finished_report(self) -> Report | None:
        """The last interval that has ended. It counts as read."""

    def total_report(self) -> Report:
        """All discards since the start."""

    def refresh_metadata(self) -> None:
        """Ask the cluster for new metadata. Raises KafkaError."""

    def unready(self) -> str | None:
        """Why the agent takes no messages now; None: it does. On the agent's loop."""


def queues(status: Mapping[str, Any]) -> dict[str, Queue]:
    """The messages in the producer's memory, of each topic that the producer has a row for."""
    found: dict[str, Queue] = {}
    for name, row in status.get("partitions", {}).items():
        topic = topic_of(name)
        mine = Queue(row["parked"], row["open"], row["queued"] - row["open"] - row["parked"], row["in_flight"], row["oldest_age"])
        found[topic] = found[topic].plus(mine) if topic in found else mine
    return found


def offline(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Partitions that nothing can be sent to, and `topic (any partition)` for messages that could go to each."""
    rows = status.get("partitions", {})
    return {
        f"{topic_of(name)} (any partition)" if name.endswith(UNDECIDED) else name: row
        for name, row in status.get("offline", {}).items()
        if not rows.get(name, {}).get("parked")
    }


def unknown_topics(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Topics whose messages wait until the brokers know their partitions."""
    return {topic_of(name): row for name, row in status.get("partitions", {}).items() if row["parked"] and row["state"] == "offline"}


def topic_of(name: str) -> str:
    """The topic of a row of partitions in the producer's status."""
    return name[: -len(UNDECIDED)] if name.endswith(UNDECIDED) else name.rpartition("-")[0]
