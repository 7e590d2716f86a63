"""Keeps all share groups of a cluster, and the share sessions of its brokers. Invariant: a session ends with its connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from uuid import UUID

import attrs

from pykafka4.testing.shares.group import ShareGroup
from pykafka4.testing.shares.records import ShareEvent, SharePartition
from pykafka4.testing.storage.partition import Partition, Topics
from pykafka4.testing.timeline import Timeline

__all__ = ["ShareSession", "Shares", "SessionConnection"]


class SessionConnection(Protocol):
    open: bool


@attrs.define(eq=False)
class ShareSession:
    group: str
    member: str
    way: SessionConnection
    epoch: int = 1  # the epoch with which the next request continues the session
    partitions: dict[tuple[UUID, int], None] = attrs.Factory(dict)
    closed: bool = False

    @property
    def ended(self) -> bool:
        return self.closed or not self.way.open

    def releases(self, partition: tuple[UUID, int]) -> bool:
        """As in Kafka, records of forgotten partitions stay locked."""
        return self.ended and partition in self.partitions


class Shares:
    """Tests set `auto_offset_reset`, `lock_seconds` and `most_deliveries` before a group begins; Kafka has these options for each group."""

    def __init__(self, topics: Topics, timeline: Timeline) -> None:
        self._topics, self._timeline = topics, timeline
        self.auto_offset_reset = "latest"  # share.auto.offset.reset
        self.lock_seconds = 30.0  # share.record.lock.duration.ms
        self.most_deliveries = 5  # share.delivery.count.limit
        self.session_timeout, self.heartbeat_interval = 45.0, 5.0
        self.groups: dict[str, ShareGroup] = {}
        self.sessions: dict[tuple[int, str, str], ShareSession] = {}  # by broker, group and member
        self.partitions: dict[tuple[str, UUID, int], SharePartition] = {}
        self.on_event: list[Callable[[ShareEvent], None]] = []

    def group(self, name: str) -> ShareGroup:
        """The group is created if it does not exist."""
        if name not in self.groups:
            self.groups[name] = ShareGroup(self._timeline, self._topics, self.session_timeout)
        return self.groups[name]

    def partition(self, group: str, topic_id: UUID, partition: Partition) -> SharePartition:
        """The records of a partition in a group, under the partition's current leader."""
        key = (group, topic_id, partition.tp.partition)
        led = (partition.leader, partition.epoch)
        if key not in self.partitions:
            log = partition.log
            start = log.start_offset if self.auto_offset_reset == "earliest" else log.high_watermark
            self.partitions[key] = SharePartition(
                group,
                key[1:],
                partition.tp,
                self._timeline,
                lambda: self.lock_seconds,
                lambda: self.most_deliveries,
                start,
                led,
                self._tell,
            )
        found = self.partitions[key]
        found.under(*led)
        return found

    def _tell(self, event: ShareEvent) -> None:
        for listener in self.on_event:
            listener(event)

    # ---- sessions

    def open(self, node: int, group: str, member: str, way: SessionConnection) -> ShareSession:
        """The new session replaces the member's earlier session at the broker. As in Kafka, the replacement alone releases no records."""
        earlier = self.sessions.get((node, group, member))
        session = self.sessions[node, group, member] = ShareSession(group, member, way)
        if earlier is not None:
            for partition in self.partitions.values():
                partition.hand_over(earlier, session)
            earlier.closed = True
        return session

    def find(self, node: int, group: str, member: str) -> ShareSession | None:
        """None if the member has no session, or the session has ended."""
        session = self.sessions.get((node, group, member))
        return None if session is None or session.ended else session

    def close(self, node: int, group: str, member: str) -> None:
        """Close the session, and end its locks on records of its partitions."""
        session = self.sessions.pop((node, group, member), None)
        if session is not None:
            session.closed = True
            for partition in self.partitions.values():
                if partition.group == group:
                    partition.drop_ended()
