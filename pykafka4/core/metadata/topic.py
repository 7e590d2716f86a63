"""Keeps the metadata of one topic; `Cluster` sends the requests, and stores their responses here.

Invariant: an older leader epoch or a replaced topic id is ignored until responses have contained only older metadata for CONTRADICTED_S.
Exception: the epochs of a topic or partition that has been missing may be forgotten.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Sequence
from uuid import UUID

import attrs

from pykafka4.core import INFINITY
from pykafka4.core.backoff import Backoff
from pykafka4.errors import BrokerError, broker_error
from pykafka4.errors.codes import ErrorCode, error_code

__all__ = ["CONTRADICTED_S", "MISSING_S", "Leader", "Topic"]

# Seconds for which brokers have to report a topic or partition as missing before the client believes it. One report is not enough: brokers
# learn of a new topic at different times, and a broker that has just started knows no topic.
MISSING_S = 2.0
CONTRADICTED_S = 30.0  # seconds with only older metadata, after which the client accepts it; brokers rarely lag behind for that long
# Errors that are not retriable by Kafka's table, but may only mean that the topic does not exist yet. INVALID_REPLICATION_FACTOR: fewer
# brokers are up than a new topic would have replicas. TOPIC_ALREADY_EXISTS: two brokers created the topic at once. UNKNOWN_SERVER_ERROR: a
# broker may have failed to create the topic; a retry does no harm.
NOT_YET = {"INVALID_REPLICATION_FACTOR", "TOPIC_ALREADY_EXISTS", "UNKNOWN_SERVER_ERROR"}


@attrs.frozen
class Leader:
    """The leader of a partition. `epoch` is -1 if brokers are too old to return reliable leader epochs."""

    node: int
    epoch: int


_leader = functools.lru_cache(maxsize=4096)(Leader)  # thousands of partitions share a few equal leaders


@attrs.define(eq=False)
class Topic:
    """The metadata of a topic, and the time at which the topic may be requested again."""

    backoff: Backoff
    topic_id: UUID | None = None
    former_ids: frozenset[UUID] = frozenset()
    leaders: list[Leader | None] = attrs.Factory(list)
    epochs: list[int] = attrs.Factory(list)  # the last accepted leader epoch of each partition, even of leaderless partitions
    replicas: tuple[Sequence[int], ...] = ()  # for each partition, the brokers with a replica; empty until a broker has a rack
    available: list[int] = attrs.Factory(list)
    error: ErrorCode | None = None
    answered_request: int = 0  # number of the request for the topic whose response arrived last
    creating: bool = False  # whether the last request asked brokers to create the topic: the error may then be a refusal to create it
    missing_since: float | None = None  # the time of the first of consecutive reports that the topic is missing
    missing_at: float = -INFINITY  # sending time of the last request that found the topic missing, or `missing_since` if later
    behind_since: float | None = None  # time of the first of consecutive responses with an older epoch or a replaced id
    asked_at: float = -INFINITY
    not_before: float = -INFINITY

    @property
    def troubled(self) -> bool:
        """Whether the metadata lacks leaders or partitions that another request may find."""
        if self.error is not None:
            return self.error.retriable or self.error.denied
        return not self.leaders or len(self.available) < len(self.leaders)

    def was_missing(self, seconds: float) -> bool:
        """Whether brokers have reported the topic as missing for `seconds`. The time ends when the request that led to the last report was
        sent: since then, there may have been no broker to send a request to."""
        return self.missing_since is not None and self.missing_since + seconds <= self.missing_at

    def refusal(self, name: str, after_request: int) -> BrokerError | None:
        if self.error is None or self.error.retriable or self.answered_request <= after_request:
            return None
        return broker_error(self.error.code, f"topic {name}", None, "Metadata", topic=name, creating=self.creating)

    def fail(self, code: int) -> None:
        row = error_code(code)
        self.error = attrs.evolve(row, retriable=True) if row.name in NOT_YET else row

    def vanish(self, now: float, sent_at: float) -> bool:
        """Remove the leaders, because a broker reported the topic as missing; return whether the topic had partitions.

        `was_missing` counts only the time until the request was sent: the response may have been in the socket while the process was
        frozen, and says nothing about the time until `now`.
        """
        self.missing_since = now if self.missing_since is None else self.missing_since
        self.missing_at = max(sent_at, self.missing_since)
        self.leaders = [None] * len(self.leaders)
        return bool(self.leaders)

    def visible(self) -> tuple[object, ...]:
        """The state that `Cluster` compares before and after a response, to detect a change."""
        return self.topic_id, tuple(self.leaders), self.error, self.replicas

    def lead(self, partition: int, node: int | None, epoch: int) -> None:
        """Store the leader, unless `epoch` is lower than the known epoch. For old brokers, `epoch` is -1, which is accepted until an epoch
        is known.

        Most responses change nothing, and some have thousands of partitions, so storing an unchanged leader allocates nothing.
        """
        if epoch < self.epochs[partition]:
            return
        self.epochs[partition] = epoch
        known = self.leaders[partition]
        if node is None:
            self.leaders[partition] = None
        elif known is None or known.node != node or known.epoch != epoch:
            self.leaders[partition] = _leader(node, epoch)

    def is_replaced(self, now: float, topic_id: UUID) -> bool:
        """Whether the response is older than the metadata, because `topic_id` belongs to a deleted topic.

        Ids have no order. Suppose that the first response has the id of the new topic, and the next one, from a broker that lags behind,
        the old id: the client mistakes the old id for the newer one. So a replaced id is accepted again when responses have had nothing
        newer for a long time.
        """
        return topic_id in self.former_ids and not self._contradicted(now)

    def compare(self, now: float, epochs: Iterable[tuple[int, int]]) -> None:
        """Forget known epochs above this response's epochs if all responses have had a lower epoch for a long time. Call before `lead`."""
        known = self.epochs
        older = [partition for partition, epoch in epochs if epoch < known[partition]]
        if not older:
            self.behind_since = None
        elif self._contradicted(now):
            self.forget_epochs(older)

    def _contradicted(self, now: float) -> bool:
        """Whether all responses have been older for so long that older metadata is accepted. Called for each older response."""
        if self.behind_since is None:
            self.behind_since = now
        return now - self.behind_since >= CONTRADICTED_S

    def forget_epochs(self, partitions: Iterable[int]) -> None:
        self.behind_since = None
        for partition in partitions:
            self.epochs[partition] = -1

    def dismiss(self, partitions: Collection[int]) -> None:
        for partition in partitions:
            self.leaders[partition] = None
        self.settle()

    def settle(self) -> None:
        self.available = [partition for partition, leader in enumerate(self.leaders) if leader is not None]

    def start_again(self, topic_id: UUID) -> None:
        """Forget the leaders and epochs: a topic with another id is another topic."""
        if self.topic_id is not None:
            self.former_ids |= {self.topic_id}
        self.former_ids -= {topic_id}
        self.topic_id, self.leaders, self.epochs, self.behind_since = topic_id, [], [], None

    def resize(self, partitions: int) -> None:
        """Set the number of partitions. A topic with an id never shrinks: a response with fewer partitions is older."""
        if self.topic_id is None:
            del self.leaders[partitions:], self.epochs[partitions:]
        missing = partitions - len(self.leaders)
        self.leaders += [None] * missing
        self.epochs += [-1] * missing
