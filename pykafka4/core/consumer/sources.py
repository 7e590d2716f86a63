"""Assigns each position to the source that fetches it. Invariant: a position is among the `positions` of at most one source."""

from __future__ import annotations

from pykafka4.core.consumer.followers import Followers
from pykafka4.core.consumer.positions import Positions
from pykafka4.core.consumer.source import Source
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.recovery import Recovery
from pykafka4.core.network.network import via
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import TopicPartition

__all__ = ["Sources"]


class Sources:
    def __init__(
        self,
        config: ConsumerConfig,
        cluster: Cluster,
        recovery: Recovery,
        positions: Positions,
        followers: Followers,
        lanes: tuple[int, int],
    ) -> None:
        self._followers = followers
        self._config, self._cluster, self._recovery = config, cluster, recovery
        self._positions, self._lanes = positions, lanes
        self.with_positions: dict[Source, None] = {}  # the sources that have positions
        self._by_node: dict[int, Source] = {}
        self._of: dict[TopicPartition, Source] = {}  # the source whose `positions` have the partition

    def address(self, node: int) -> int:
        """The connection on which a request waits least for the response to a Fetch."""
        source = self._by_node.get(node)
        return via(self._lanes[0], node) if source is None else source.address

    def of(self, tp: TopicPartition) -> Source | None:
        """The source to which `place` moved `tp`; None if it has none."""
        return self._of.get(tp)

    def place(self, tp: TopicPartition) -> bool:
        """Move `tp` to the source that can fetch it now, or remove `tp`. Return whether its source has changed."""
        position = self._positions.get(tp)
        node = self._followers.node(position) if position is not None and position.fetchable else None
        before, source = self._of.get(tp), None if node is None else self._source(node)
        if source is not None and position is not None:
            source.put(position)
        if before is source:
            return False
        if before is not None:
            before.remove(tp)
            del self._of[tp]
            if not before.positions:
                del self.with_positions[before]
                self.retire(before)
        if source is not None:
            self._of[tp] = source
            self.with_positions[source] = None
        return True

    def retire(self, source: Source) -> None:
        if source.idle and source.node not in self._cluster.brokers:
            self._by_node.pop(source.node, None)

    def _source(self, node: int) -> Source:
        source = self._by_node.get(node)
        if source is None:
            source = self._by_node[node] = Source(node, self._lanes, self._config, self._cluster, self._recovery)
        return source
