"""Searches. Rule: first and last offsets are asked of the partition's leader, and asked again until there is an answer or nobody waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

from pykafka4.config import ClientConfig
from pykafka4.core import Failed, Outcome, Request
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.recovery import Recovery
from pykafka4.core.subscription import Start
from pykafka4.error_table import error_code
from pykafka4.errors import KafkaError, broker_error
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_fetch import ListOffsetsRequest

__all__ = ["Search", "Searches"]

TIMESTAMPS: Final = {Start.EARLIEST: -2, Start.LATEST: -1}
CONSUMER: Final = -1  # the replica id of whoever is no replica


@attrs.define(eq=False)
class Search:
    """One offset looked for. `found(now, offset, epoch)` is called once; `refused(now, error)` each time no retry by itself can help."""

    tp: TopicPartition
    target: Start
    found: Callable[[float, int, int], None]
    refused: Callable[[float, KafkaError], None]
    wanted: Callable[[], bool]
    in_flight: bool = False


class Searches:
    """ListOffsets for one consumer, one request per leader with all its partitions."""

    __slots__ = ("_address", "_cluster", "_config", "_pending", "_recovery", "_send", "_stirred")

    def __init__(
        self, config: ClientConfig, cluster: Cluster, recovery: Recovery, address: Callable[[int], int], send: Callable[[Request], None]
    ) -> None:
        """`address(node)` names the connection to use: one that no request that brokers hold back (Produce, Fetch, JoinGroup) occupies."""
        self._config, self._cluster, self._recovery, self._address, self._send = config, cluster, recovery, address, send
        self._pending: dict[Search, None] = {}  # in the order in which they began
        self._stirred = False

    def begin(self, search: Search) -> None:
        """Look for it from the next poll on."""
        self._pending[search] = None
        self._stirred = True

    def stir(self) -> None:
        """Leaders may have changed."""
        self._stirred = bool(self._pending)

    def poll(self, now: float) -> None:
        """Ask the leaders that are known."""
        if not self._stirred:
            return
        self._stirred = False
        self._pending = {search: None for search in self._pending if search.in_flight or search.wanted()}
        by_node: dict[int, list[tuple[Search, int]]] = {}
        for search in self._pending:
            leader = None if search.in_flight else self._recovery.leader(search.tp)
            if leader is not None:
                by_node.setdefault(leader.node, []).append((search, leader.epoch))
        for node, searches in by_node.items():
            self._ask(now, node, searches)

    def _ask(self, now: float, node: int, searches: list[tuple[Search, int]]) -> None:
        topics: dict[str, list[ListOffsetsRequest.Topic.Partition]] = {}
        asked: dict[TopicPartition, Search] = {}
        for search, epoch in searches:
            if search.tp in asked:  # one question per partition and request; the other goes next
                self._stirred = True
                continue
            asked[search.tp] = search
            search.in_flight = True
            topics.setdefault(search.tp.topic, []).append(
                ListOffsetsRequest.Topic.Partition(
                    partition_index=search.tp.partition, current_leader_epoch=epoch, timestamp=TIMESTAMPS[search.target]
                )
            )
        message = ListOffsetsRequest(
            replica_id=CONSUMER,
            topics=[ListOffsetsRequest.Topic(name=name, partitions=partitions) for name, partitions in topics.items()],
            timeout_ms=int(self._config.request_timeout_ms),
        )
        deadline = now + self._config.request_timeout_ms / 1000
        self._send(Request(self._address(node), message, deadline, lambda at, outcome: self._answered(at, asked, outcome)))

    def _answered(self, now: float, asked: dict[TopicPartition, Search], outcome: Outcome) -> None:
        self._stirred = True
        for search in asked.values():
            search.in_flight = False
        if isinstance(outcome, Failed):
            for search in asked.values():
                self._failed(now, search, outcome.reason, outcome.passing)
            return
        rows = {TopicPartition(t.name, p.partition_index): p for t in outcome.message.topics for p in t.partitions}
        for tp, search in asked.items():
            self._settle(now, search, rows.get(tp))

    def _settle(self, now: float, search: Search, row: Any) -> None:
        if row is None:
            self._failed(now, search, KafkaError(f"{search.tp}: the answer to ListOffsets leaves it out"), True)
        elif row.error_code:
            error = broker_error(row.error_code, f"{search.tp}: looking for the {search.target.value} offset")
            code = error_code(row.error_code)
            self._failed(now, search, error, code.retriable or code.name == "UNKNOWN_SERVER_ERROR")  # a hiccup, as for Fetch
        elif row.offset < 0:
            self._failed(now, search, KafkaError(f"{search.tp}: the leader names no {search.target.value} offset"), True)
        else:
            self._recovery.healthy(search.tp)
            self._pending.pop(search, None)
            if search.wanted():
                search.found(now, row.offset, row.leader_epoch)

    def _failed(self, now: float, search: Search, error: KafkaError, passing: bool) -> None:
        self._recovery.report(now, search.tp, error)
        if not passing and search.wanted():
            search.refused(now, error)
