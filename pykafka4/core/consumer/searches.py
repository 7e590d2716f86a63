"""Looks up the earliest and latest offsets of logs, and offsets of times, with ListOffsets. Invariant: a lookup is repeated at the
partition's leader until it has a result or the result is no longer wanted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final, Protocol

import attrs

from pykafka4.core import Failed, Outcome, Request
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.recovery import Recovery
from pykafka4.core.outbox import Outbox
from pykafka4.core.subscription import Since, Start
from pykafka4.errors import KafkaError, broker_error
from pykafka4.errors.codes import error_code
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_fetch import ListOffsetsRequest

__all__ = ["Search", "Searches"]

ISOLATION_FROM: Final = 2  # the first version of ListOffsets with an isolation level
LOCAL_FROM: Final = 8  # the first version of ListOffsets with EARLIEST_LOCAL (KIP-405)
LATEST, EARLIEST, EARLIEST_LOCAL = -1, -2, -4  # timestamps with a special meaning
TIMESTAMPS: Final = {Start.EARLIEST: EARLIEST, Start.LATEST: LATEST, Start.EARLIEST_LOCAL: EARLIEST_LOCAL}
CONSUMER: Final = -1  # the replica id of clients


class Search(ABC):
    """A lookup of one offset. Compared by identity."""

    __slots__ = ("in_flight", "leader_epoch", "target", "tp")

    def __init__(self, tp: TopicPartition, target: Start | Since) -> None:
        self.tp, self.target = tp, target
        self.in_flight = False
        self.leader_epoch = -1  # the epoch of the leader that gets the request

    @abstractmethod
    def wanted(self) -> bool:
        """Whether the result is still needed."""

    @abstractmethod
    def found(self, now: float, offset: int, epoch: int) -> None:
        """Use the result. The lookup has ended; this method may begin it again, with another target."""

    def absent(self) -> bool:
        """React to a response without an offset, because no record is as late as the target. False: the response counts as an error."""
        return False

    @abstractmethod
    def refused(self, now: float, error: KafkaError) -> None:
        """Report an error that is not retriable. The lookup is repeated nevertheless."""


@attrs.define(eq=False)
class ListOffsetsInFlight(Request):
    """A ListOffsets request without a response."""

    searches: Searches = attrs.field(kw_only=True)
    asked: Mapping[TopicPartition, Search] = attrs.field(kw_only=True)

    def on_reply(self, now: float, outcome: Outcome) -> None:
        self.searches.answered(now, self.asked, outcome)


class LeaderConnections(Protocol):
    """The connections to the brokers that lead partitions."""

    def address(self, node: int) -> int:
        """The connection on which a request waits least for requests that the broker holds back."""


class Searches:
    __slots__ = ("_cluster", "_config", "_connections", "_of_topic", "_outbox", "_pending", "_recovery", "_to_check")

    def __init__(
        self, config: ConsumerConfig, cluster: Cluster, recovery: Recovery, connections: LeaderConnections, outbox: Outbox
    ) -> None:
        self._config, self._cluster, self._recovery, self._connections, self._outbox = config, cluster, recovery, connections, outbox
        self._pending: dict[TopicPartition, list[Search]] = {}  # usually one lookup per partition
        self._of_topic: dict[str, dict[TopicPartition, None]] = {}
        self._to_check: dict[Search, None] = {}  # the lookups that the next poll checks

    def begin(self, search: Search) -> None:
        tp = search.tp
        if tp in self._pending:
            self.tidy(tp)
        self._pending.setdefault(tp, []).append(search)
        self._of_topic.setdefault(tp.topic, {})[tp] = None
        self._to_check[search] = None

    def tidy(self, tp: TopicPartition) -> None:
        """Forget lookups of `tp` that are no longer wanted, except lookups in flight."""
        for search in list(self._pending.get(tp, ())):
            if not search.in_flight and not search.wanted():
                self._end(search)

    def check_topic(self, topic: str) -> None:
        """Have the next poll check `topic`, whose leaders may have changed."""
        for tp in self._of_topic.get(topic, ()):
            self.check_partition(tp)

    def check_partition(self, tp: TopicPartition) -> None:
        """Have the next poll check `tp`, which may have a new leader or be online again."""
        self._to_check.update(dict.fromkeys(self._pending.get(tp, ())))

    def poll(self, now: float) -> None:
        if not self._to_check:
            return
        to_check, self._to_check = self._to_check, {}
        by_node: dict[int, list[Search]] = {}
        for search in to_check:
            if search.in_flight or search not in self._pending.get(search.tp, ()):
                continue
            if not search.wanted():
                self._end(search)
            elif (leader := self._recovery.leader(search.tp)) is not None:
                search.leader_epoch = leader.epoch
                by_node.setdefault(leader.node, []).append(search)
        for node, searches in by_node.items():
            self._ask(now, node, searches)

    def _ask(self, now: float, node: int, searches: list[Search]) -> None:
        topics: dict[str, list[ListOffsetsRequest.Topic.Partition]] = {}
        asked: dict[TopicPartition, Search] = {}
        for search in searches:
            if search.tp in asked:  # a request names each partition once; another search goes into the next request
                self._to_check[search] = None
                continue
            asked[search.tp] = search
            search.in_flight = True
            topics.setdefault(search.tp.topic, []).append(
                ListOffsetsRequest.Topic.Partition(
                    partition_index=search.tp.partition, current_leader_epoch=search.leader_epoch, timestamp=_timestamp(search.target)
                )
            )
        message = ListOffsetsRequest(
            replica_id=CONSUMER,
            isolation_level=self._config.isolation,
            topics=[ListOffsetsRequest.Topic(name=name, partitions=partitions) for name, partitions in topics.items()],
            timeout_ms=int(self._config.request_timeout_ms),
        )
        deadline = now + self._config.request_timeout_ms / 1000
        self._outbox.send(ListOffsetsInFlight(self._connections.address(node), message, deadline, fit=_fit, searches=self, asked=asked))

    def answered(self, now: float, asked: Mapping[TopicPartition, Search], outcome: Outcome) -> None:
        for search in asked.values():
            search.in_flight = False
            self._to_check[search] = None
        if isinstance(outcome, Failed):
            for search in asked.values():
                self._failed(now, search, outcome.reason, outcome.passing)
            return
        rows = {TopicPartition(t.name, p.partition_index): p for t in outcome.message.topics for p in t.partitions}
        for tp, search in asked.items():
            self._settle(now, search, rows.get(tp))

    def _settle(self, now: float, search: Search, row: Any) -> None:
        if row is None:
            self._failed(now, search, KafkaError(f"{search.tp}: missing in the ListOffsets response"), True)
        elif row.error_code:
            what = f"{search.tp}: looking up an offset ({search.target.value})"
            error = broker_error(row.error_code, what, None, "ListOffsets", topic=search.tp.topic)
            code = error_code(row.error_code)
            self._failed(now, search, error, code.retriable or code.name == "UNKNOWN_SERVER_ERROR")  # transient, as for Fetch
        elif row.offset < 0 and search.absent():
            self._recovery.healthy(search.tp)
        elif row.offset < 0:
            self._failed(now, search, KafkaError(f"{search.tp}: the leader returned no offset ({search.target.value})"), True)
        else:
            self._recovery.healthy(search.tp)
            self._end(search)
            if search.wanted():
                search.found(now, row.offset, row.leader_epoch)

    def _failed(self, now: float, search: Search, error: KafkaError, passing: bool) -> None:
        self._recovery.report(now, search.tp, error)
        if not passing and search.wanted():
            search.refused(now, error)

    def _end(self, search: Search) -> None:
        searches = self._pending[search.tp]
        searches.remove(search)
        if not searches:
            del self._pending[search.tp]
            of_topic = self._of_topic[search.tp.topic]
            del of_topic[search.tp]
            if not of_topic:
                del self._of_topic[search.tp.topic]


def _timestamp(target: Start | Since) -> int:
    return target.timestamp_ms if isinstance(target, Since) else TIMESTAMPS[target]


def _fit(message: ListOffsetsRequest, version: int) -> None:
    if version < ISOLATION_FROM:
        message.isolation_level = 0
    if version < LOCAL_FROM:
        for partition in (partition for topic in message.topics for partition in topic.partitions):
            if partition.timestamp == EARLIEST_LOCAL:  # such a broker has no tiered storage: all of the log is local
                partition.timestamp = EARLIEST
