"""Moves parked records into batches when their topic is known, and fails them after a timeout. Invariant: parked records keep their order.

The accumulator holds the records of an unknown topic, so `send` need not wait for the topic, unless a partitioner of the application needs
its partitions. `Parking` looks up the partitions, moves the records into batches, a slice per turn, and fails the records if the topic
stays unknown or brokers refuse it. `Parking` also keeps the metadata of topics in use up to date.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Protocol

from pykafka4.core import INFINITY
from pykafka4.core.metadata.changes import TopicChanges
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.network.network import Network
from pykafka4.errors import KafkaError, KafkaTimeoutError, broker_error, short_name
from pykafka4.options.config import ProducerConfig
from pykafka4.wire.records.hot import Accumulator

__all__ = ["Parking"]

SLICE = 1000  # records of a topic that a turn moves at most, so that the loop stays responsive
PACE_S = 0.001  # seconds between checks of a topic's timeouts: records sent in that time fail together
MISSING_PARTITION_S = 2.0  # seconds until records for a missing partition fail: brokers learn of a new partition at different times


class ParkedOutcomes(Protocol):
    """The part of `Outcomes` that parking uses."""

    def lose_parked(
        self, topic: str, code: str, cause: Exception, records: int, callbacks: Callable[[], None] | None, times: tuple[int, int]
    ) -> None:
        """Count parked records as failed. `times` are their first and last timestamp, in milliseconds."""


class TopicUser(Protocol):
    """The part of the sender that parking uses."""

    def is_busy(self, topic: str) -> bool:
        """Whether batches are queued or in flight, or the numbering of a queue must be kept."""

    def drop_topic(self, topic: str) -> None:
        """Drop `topic`, which had no record for metadata_max_idle_ms."""


class Parking:
    __slots__ = (
        "_acc",
        "_announced",
        "_asked",
        "_changes",
        "_cluster",
        "_config",
        "_empty",
        "_expires",
        "_hurried",
        "_missing",
        "_moved_hurried",
        "_network",
        "_next_look",
        "_outcomes",
        "_sender",
        "_silent",
        "_used",
        "_waiting",
    )

    def __init__(
        self,
        config: ProducerConfig,
        accumulator: Accumulator,
        cluster: Cluster,
        network: Network,
        changes: TopicChanges,
        outcomes: ParkedOutcomes,
        sender: TopicUser,
    ) -> None:
        self._config, self._acc, self._cluster, self._network = config, accumulator, cluster, network
        self._changes, self._outcomes, self._sender = changes, outcomes, sender
        # topic -> (number of partitions, partitions with a leader), as the accumulator has them
        self._announced: dict[str, tuple[int, tuple[int, ...]]] = {}
        self._used: OrderedDict[str, float] = OrderedDict()  # topic -> when it was last in use, the earliest first
        self._expires = 0.0  # no topic is idle before that time
        self._waiting: dict[str, float] = {}  # topics with parked records, or in `_empty` -> time of the next check; in order of `want`
        self._asked: dict[str, int] = {}  # topic in `_waiting` -> number of the last Metadata request before its announcement
        self._next_look = INFINITY  # the earliest time in `_waiting`
        self._missing: dict[str, tuple[float, float]] = {}  # topics whose oldest record has a missing partition: (since, next request)
        self._empty: dict[str, float] = {}  # unknown topic without parked records -> the start of the wait for its removal
        # Unknown topics for which no broker answered for a while -> the time of the first answer; INFINITY: no answer yet.
        self._silent: dict[str, float] = {}
        self._hurried: set[str] = set()  # topics with records that a flush covers
        self._moved_hurried = False  # records that a flush covers have been moved into batches

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def topics(self) -> list[str]:
        return list(dict.fromkeys([*self._used, *self._waiting]))

    def want(self, topic: str) -> None:
        """Look up `topic`, which a `send` has announced."""
        self._waiting[topic] = self._next_look = -INFINITY
        self._asked[topic] = self._cluster.asked
        self._empty.pop(topic, None)
        self._cluster.want(topic, self, create=True)
        self._changes.note(topic)

    def hurry(self) -> None:
        """Let the flush cover all records that are parked now: their batches must not linger."""
        self._hurried |= self._waiting.keys()

    def take_hurried(self) -> bool:
        moved, self._moved_hurried = self._moved_hurried, False
        return moved

    def used(self, topic: str, now: float) -> None:
        """Count `topic`, which has a sealed or due batch, as in use. Look a dropped or deleted topic up again; brokers may create it."""
        if topic not in self._used:
            self._changes.note(topic)
            self._cluster.want(topic, self, create=True)
        elif self._cluster.unknown_since(topic) is not None:
            self._cluster.want(topic, self, create=True)
        self._used[topic] = now
        self._used.move_to_end(topic)

    def dispose(self) -> None:
        for topic in self.topics:
            self._drop(topic)

    def fail(self, topic: str, reason: KafkaError, before: float = INFINITY) -> None:
        failed, callbacks = self._acc.fail_parked(topic, reason, before)
        if failed:
            self._outcomes.lose_parked(topic, short_name(reason), reason, failed, callbacks, self._acc.lost_times)
            # `forget` before `_drop`: a `send` after `forget` announces the topic again (`want`). In the other order: `_drop` ends the use
            # of the topic, a `send` parks a record without `want`, because the accumulator has the topic; nothing looks the topic up.
            if topic not in self._announced and self._acc.forget(topic):
                self._drop(topic)

    def poll(self, now: float, changed: Iterable[str]) -> float:
        """Move or fail parked records, and announce `changed` topics; return the time of the next check: `now` if more records can be
        moved."""
        for topic in changed:
            if topic in self._used or topic in self._waiting:
                self.announce_partitions(topic, now)
        if now >= self._expires:
            self._expire(now)
        if now >= self._next_look:
            for topic in [topic for topic, due in self._waiting.items() if due <= now]:
                look_again = self._look(topic, now)
                if topic in self._waiting:  # without PACE_S, records that were sent within microseconds would take a turn each to time out
                    self._waiting[topic] = look_again if look_again <= now else max(look_again, now + PACE_S)
            self._next_look = min(self._waiting.values(), default=INFINITY)
        return self._next_look

    def announce_partitions(self, topic: str, now: float) -> None:
        """Pass changed partitions of `topic` to the accumulator."""
        known = (self._cluster.partitions(topic), tuple(self._cluster.available(topic)))
        if known[0] and known != self._announced.get(topic):
            self._announced[topic] = known
            self._used.setdefault(topic, now)
            self._acc.set_partitions(topic, *known)
        if self._cluster.unknown_since(topic) is not None and self._sender.is_busy(topic):
            self._cluster.want(topic, self, create=True)
        if topic in self._waiting:
            self._waiting[topic] = self._next_look = -INFINITY

    def _expire(self, now: float) -> None:
        """Drop idle topics. This needs no timer: metadata refreshes wake the loop often enough."""
        idle = self._config.metadata_max_idle_ms / 1000
        for topic in list(takewhile(lambda topic: self._used[topic] + idle <= now, self._used)):
            if topic in self._waiting or self._sender.is_busy(topic):
                self._used[topic] = now
                self._used.move_to_end(topic)
            else:
                self._drop(topic)
                self._sender.drop_topic(topic)
        self._expires = next(iter(self._used.values()), now) + idle

    def _drop(self, topic: str) -> None:
        self._cluster.forget(topic, self)
        for known in (self._announced, self._used, self._waiting, self._asked, self._empty, self._missing, self._silent):
            known.pop(topic, None)
        self._hurried.discard(topic)

    def _look(self, topic: str, now: float) -> float:
        if topic not in self._announced:
            return self._wait(topic, now)
        since, _ = self._missing.get(topic, (now, now))
        patient = now < since + self._patience
        before, _ = self._acc.parked(topic)
        left, misplaced = self._acc.designate(topic, SLICE, patient)
        self._moved_hurried = self._moved_hurried or topic in self._hurried
        for code, error, callbacks in misplaced:
            self._outcomes.lose_parked(topic, code, error, 1, callbacks, self._acc.lost_times)
        if not left:
            self._waiting.pop(topic, None)
            self._asked.pop(topic, None)
            self._missing.pop(topic, None)
            self._silent.pop(topic, None)
            self._hurried.discard(topic)
        elif patient and before - left < SLICE:
            return self._await_partition(topic, now)
        return now

    @property
    def _patience(self) -> float:
        return min(MISSING_PARTITION_S, self._config.delivery_timeout_ms / 1000)

    def _await_partition(self, topic: str, now: float) -> float:
        """Refresh the metadata for a while: the partition of the oldest record does not exist. Later records wait behind that record."""
        since, ask_at = self._missing.get(topic, (now, now))
        if ask_at <= now:
            self._cluster.refresh(now, [topic])
            ask_at = now + self._config.retry_backoff_ms / 1000
        self._missing[topic] = since, ask_at
        return min(ask_at, since + self._patience)

    def _wait(self, topic: str, now: float) -> float:
        refusal = self._cluster.refusal(topic, self._asked[topic])
        if refusal is not None:
            self.fail(topic, refusal)
            return self._drop_empty(topic, self._config.retry_backoff_ms / 1000, now) if topic in self._waiting else INFINITY
        longest = self._config.delivery_timeout_ms / 1000
        patience = min(self._config.unknown_topic_timeout_ms / 1000, longest)
        parked, oldest = self._acc.parked(topic)
        since = self._missing_since(topic, now)
        if parked and max(oldest, since) + patience <= now:
            error = self._cluster.topic_error(topic)
            assert error is not None
            self.fail(topic, broker_error(error.code, f"topic {topic!r} did not exist for {patience:g} s"), now - patience)
        elif parked and oldest + longest <= now:
            why = self._network.why_unreachable() or self._cluster.error or "no broker responded"
            self.fail(topic, KafkaTimeoutError(f"topic {topic!r} could not be looked up for {longest:g} s: {why}"), now - longest)
        parked, oldest = self._acc.parked(topic)
        if topic not in self._waiting:  # `fail` has just dropped the topic
            return INFINITY
        if not parked:
            return self._drop_empty(topic, patience, now)
        return min(oldest + longest, (now if since == INFINITY else max(oldest, since)) + patience)

    def _missing_since(self, topic: str, now: float) -> float:
        """The time since which brokers have answered that `topic` is missing: INFINITY while none answers, -INFINITY if they always have.

        While no broker can be reached, the records wait until `delivery_timeout_ms`. The first answer afterwards is no reason to fail them:
        a broker that has just started may not know the topic yet.
        """
        error = self._cluster.topic_error(topic)
        if error is None or error.denied or self._network.why_unreachable():
            self._silent[topic] = INFINITY
        elif self._silent.get(topic) == INFINITY:
            self._silent[topic] = now
        return self._silent.get(topic, -INFINITY)

    def _drop_empty(self, topic: str, patience: float, now: float) -> float:
        """Drop an unknown topic without a record after a while: its first `send` raised an error, for example."""
        until = self._empty.setdefault(topic, now) + patience
        if now < until:
            return until
        if self._acc.forget(topic):  # before `_drop`, as in `fail`
            self._drop(topic)
            return INFINITY
        self._empty[topic] = now
        return now + patience
