"""Keeps the followers from which partitions are read (KIP-392). Invariant: no error of a follower resets or stops a position.

With `client_rack`, a leader may answer a Fetch with the follower to read from, and without records. The partition is then read from that
follower for `metadata_max_age_ms` at most. After any error of the follower, the partition is read from its leader. A follower lags behind,
so OFFSET_OUT_OF_RANGE or a diverging epoch says nothing about the log, even in a late response. A leader that would choose a follower
returns no records to this rack, so Fetches to a leader name no rack while one of their partitions is bound to it (`Position.bound`).
"""

from __future__ import annotations

from functools import partial
from typing import Final

import attrs

from pykafka4.core.consumer.positions import Positions
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.recovery import Recovery
from pykafka4.core.metadata.topic import Leader
from pykafka4.core.subscription import Position
from pykafka4.core.timers import Timers
from pykafka4.errors import KafkaError
from pykafka4.logs import get_log
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import TopicPartition

__all__ = ["BOUND_S", "Follower", "Followers"]

log = get_log("pykafka4.fetcher")

# Seconds for which a partition is read from its leader after an error of its follower. Otherwise the leader would choose the same follower
# again.
BOUND_S: Final = 5.0


@attrs.frozen(eq=False)
class Follower:
    """A follower, and the leader at the time of the choice. Compared by identity."""

    node: int
    leader: Leader


class Followers:
    __slots__ = ("_brokers", "_cluster", "_config", "_positions", "_recovery", "_timers")

    def __init__(self, config: ConsumerConfig, cluster: Cluster, recovery: Recovery, positions: Positions, timers: Timers) -> None:
        self._config, self._cluster, self._recovery, self._positions, self._timers = config, cluster, recovery, positions, timers
        self._brokers = cluster.brokers  # at the last call of `look`

    def node(self, position: Position) -> int | None:
        """The broker to fetch `position` from; None while the partition is offline, or its leader is unknown."""
        leader = self._recovery.leader(position.tp)
        if leader is None:
            return None
        follower: Follower | None = position.follower
        if follower is None:
            return leader.node
        if follower.leader == leader and follower.node in self._cluster.brokers:
            return follower.node
        position.follower = None
        return leader.node

    def look(self) -> None:
        """If brokers have left the cluster, touch the positions that have a follower."""
        before, self._brokers = self._brokers, self._cluster.brokers
        if before.keys() <= self._brokers.keys():
            return
        for tp, position in self._positions.items():
            if position.follower is not None:
                self._positions.touch(tp)

    def choose(self, now: float, position: Position, node: int) -> None:
        """Read from follower `node`, which the leader chose, unless `position` is bound.

        If the metadata lacks `node`, request new metadata, and bind `position` to the leader.
        """
        leader, tp = self._recovery.leader(position.tp), position.tp
        if leader is None or position.bound or node == leader.node:
            return
        if node not in self._cluster.brokers:
            self._cluster.refresh(now, (tp.topic,))
            self._bind(now, position)
            return
        where, leads = self._config.log_name, leader.node
        log.info("%s: %s: reading from broker %d, a follower that leader %d chose", where, tp, node, leads, tp=tp, broker=node)
        chosen = position.follower = Follower(node, leader)
        self._positions.touch(tp)
        self._timers.at(now + self._config.metadata_max_age_ms / 1000, partial(self._expire, tp, chosen))

    def serves(self, position: Position, node: int) -> bool:
        return position.follower is not None and position.follower.node == node

    def leads(self, position: Position, node: int) -> bool:
        """Whether `node` is the leader, not a former follower whose Fetch was still in flight."""
        leader = self._cluster.leader(position.tp)
        return leader is not None and leader.node == node

    def leave(self, now: float, position: Position, reason: KafkaError) -> None:
        assert position.follower is not None
        tp, node = position.tp, position.follower.node
        log.info("%s: %s: back to the leader from follower %d: %s", self._config.log_name, tp, node, reason, tp=tp, broker=node)
        self._cluster.refresh(now, (position.tp.topic,))
        position.follower = None
        self._bind(now, position)

    def _bind(self, now: float, position: Position) -> None:
        position.bound = True
        self._positions.touch(position.tp)
        self._timers.at(now + BOUND_S, partial(self._unbind, position))

    def _unbind(self, position: Position, now: float) -> None:
        position.bound = False
        if self._positions.is_current(position):
            self._positions.touch(position.tp)

    def _expire(self, tp: TopicPartition, chosen: Follower, now: float) -> None:
        """Let the leader choose again. The position may be a later one: a seek keeps the follower."""
        position = self._positions.get(tp)
        if position is not None and position.follower is chosen:
            position.follower = None
            self._positions.touch(tp)
