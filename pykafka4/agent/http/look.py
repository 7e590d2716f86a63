"""Defines the figures of the agent at a moment as values, and the protocol of their source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import attrs

from pykafka4.agent.account.values import Account, Report
from pykafka4.agent.message import Source
from pykafka4.agent.spool.values import SpoolState
from pykafka4.core.producer.partition_status import NO_PARTITION

__all__ = ["InputState", "AgentLook", "TopicQueue", "WatchedAgent", "offline", "queues", "topic_of", "unknown_topics"]

UNDECIDED = NO_PARTITION.format("")  # the end of the name of a row for messages without a partition


@attrs.frozen
class InputState:
    """The figures of an input. `clients` counts open connections, None for datagrams."""

    source: Source
    address: str
    open: bool
    messages: int
    bytes: int
    refused: int
    clients: int | None = None


@attrs.frozen
class AgentLook:
    """The figures at a moment. `at` is in seconds since the epoch, `status` is `Producer.status()`."""

    at: float
    account: Account
    status: Mapping[str, Any]
    inputs: tuple[InputState, ...] = ()
    spool: SpoolState | None = None
    max_buffer: int | None = None

    @property
    def buffered(self) -> int:
        return int(self.status.get("producer", {}).get("buffered_bytes", 0))


@attrs.frozen
class TopicQueue:
    """Messages of a topic in the producer's memory.

    `new` counts messages that are in no batch yet; `batch` messages in open batches; `waiting` messages in sealed batches that are not in
    flight. `oldest_s` is the oldest message's age in seconds.
    """

    new: int = 0
    batch: int = 0
    waiting: int = 0
    in_flight: int = 0
    oldest_s: float | None = None

    @property
    def count(self) -> int:
        return self.new + self.batch + self.waiting + self.in_flight

    def plus(self, other: TopicQueue) -> TopicQueue:
        ages = [age for age in (self.oldest_s, other.oldest_s) if age is not None]
        return TopicQueue(
            self.new + other.new,
            self.batch + other.batch,
            self.waiting + other.waiting,
            self.in_flight + other.in_flight,
            max(ages, default=None),
        )


class WatchedAgent(Protocol):
    """A running agent, as its pages see it. The agent's loop must not call `look` or `refresh_metadata`, which may wait."""

    version: str
    started_at: float  # seconds since the epoch
    report_interval_s: float

    def look(self) -> AgentLook:
        """Return the current figures. Raises KafkaError or TimeoutError if the producer's thread or the agent's loop does not respond."""

    def counters(self, account: Account) -> Mapping[str, int]:
        """Return counters, under Dory's names where Dory has them. Counts of accepted and discarded messages come from `account`."""

    def unfinished_report(self) -> Report:
        """Return the report of the current interval."""

    def finished_report(self) -> Report | None:
        """Return the report of the last finished interval, which then counts as read; None during the first interval."""

    def total_report(self) -> Report:
        """Return the report of all discards since the start."""

    def refresh_metadata(self) -> None:
        """Request new metadata from the cluster. Raises KafkaError."""

    def unready(self) -> str | None:
        """Return why the agent takes no messages now; None if it takes messages. The agent's loop calls this."""


def queues(status: Mapping[str, Any]) -> dict[str, TopicQueue]:
    """Return the messages in the producer's memory, by topic."""
    found: dict[str, TopicQueue] = {}
    for name, row in status.get("partitions", {}).items():
        topic = topic_of(name)
        mine = TopicQueue(row["parked"], row["open"], row["queued"] - row["open"] - row["parked"], row["in_flight"], row["oldest_age"])
        found[topic] = found[topic].plus(mine) if topic in found else mine
    return found


def offline(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return offline partitions, and `topic (any partition)` for batches that have no partition yet."""
    rows = status.get("partitions", {})
    return {
        f"{topic_of(name)} (any partition)" if name.endswith(UNDECIDED) else name: row
        for name, row in status.get("offline", {}).items()
        if not rows.get(name, {}).get("parked")
    }


def unknown_topics(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the topics with messages that are in no batch yet, usually because the topic's partitions are unknown."""
    return {topic_of(name): row for name, row in status.get("partitions", {}).items() if row["parked"] and row["state"] == "offline"}


def topic_of(name: str) -> str:
    return name[: -len(UNDECIDED)] if name.endswith(UNDECIDED) else name.rpartition("-")[0]
