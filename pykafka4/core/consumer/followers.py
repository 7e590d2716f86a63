"""Chooses the follower from which a partition is read (KIP-392). Invariant: a choice ends with the leader epoch that made it, and only
leaders decide errors.

With `client_rack`, a leader may answer a Fetch with the follower to read from, and without records. The partition is then read from that
follower for `metadata_max_age_ms`. After any error of the follower, the leader is read: a follower lags behind, so neither an offset out of
range nor a diverging epoch says anything about the log, nor does one in a late response, after the choice has ended. A leader that would
choose a follower returns no records to this rack. Therefore the Fetches to a leader name no rack while one of their partitions is bound to
it (`Position.bound`).
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

# The time for which a partition is read from its leader after an error of its follower. Without it, the leader would choose the same
# follower in its next response.
BOUND_S: Final = 5.0


@attrs.frozen(eq=False)
class Follower:
    """A follower, and the leader that chose it. Compared by identity."""

    node: int
    leader: Leader


class Followers:
    """The follower of each partition that its leader chose."""

    __slots__ = ("_brokers", "_cluster", "_config", "_positions", "_recovery", "_timers")

    def __init__(self, config: ConsumerConfig, cluster: Cluster, recovery: Recovery, positions: Positions, timers: Timers) -> None:
        self._config, self._cluster, self._recovery, self._positions, self._timers = config, cluster, recovery, positions, timers
        self._brokers = cluster.brokers  # at the last look

    def node(self, position: Position) -> int | None:
        """The broker to fetch `position` from; None while its leader is offline or unknown."""
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
        """If brokers have left the cluster, have the positions that they serve looked at."""
        before, self._brokers = self._brokers, self._cluster.brokers
        if before.keys() <= self._brokers.keys():
            return
        for tp, position in self._positions.items():
            if position.follower is not None:
                self._positions.touch(tp)

    def choose(self, now: float, position: Position, node: int) -> None:
        """The leader of `position` chose follower `node`."""
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
        """Whether `node` is the follower that `position` is read from."""
        return position.follower is not None and position.follower.node == node

    def leads(self, position: Position, node: int) -> bool:
        """Whether `node` is the leader. A follower lags behind as much when its choice has expired and its Fetch is still in flight."""
        leader = self._cluster.leader(position.tp)
        return leader is not None and leader.node == node

    def leave(self, now: float, position: Position, reason: KafkaError) -> None:
        """The follower failed: read from the leader."""
        assert position.follower is not None
        tp, node = position.tp, position.follower.node
        log.info("%s: %s: back to the leader from follower %d: %s", self._config.log_name, tp, node, reason, tp=tp, broker=node)
        self._cluster.refresh(now, (position.tp.topic,))
        position.follower = None
        self._bind(now, position)

    def _bind(self, now: float, position: Position) -> None:
        position.bound = True
        self._positions.touch(position.tp)
        self._timers.at(now + BOUND_S, partial(self._release, position))

    def _release(self, position: Position, now: float) -> None:
        position.bound = False
        if self._positions.is_current(position):
            self._positions.touch(position.tp)

    def _expire(self, tp: TopicPartition, chosen: Follower, now: float) -> None:
        """The leader chooses anew. A seek has kept the follower of its partition."""
        position = self._positions.get(tp)
        if position is not None and position.follower is chosen:
            position.follower = None
            self._positions.touch(tp)
