"""Describes topics, their partitions, and the replicas of each partition, as data that `replication` changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

import attrs

from pykafka4.records import TopicPartition
from pykafka4.testing.storage.log import PartitionLog
from pykafka4.testing.timeline import NEVER, Moment

__all__ = ["NO_LEADER", "Partition", "Replica", "Topic", "Topics"]

NO_LEADER: Final = -1


@attrs.define(eq=False)
class Replica:
    node: int
    log: PartitionLog
    confirmed: int = 0  # the replica's end offset, as far as the leader knows it
    behind_since: float | None = None  # time; None: the replica has all records
    copying: Moment = NEVER  # the end of the copy that is under way


@attrs.define(eq=False)
class Partition:
    tp: TopicPartition
    leader: int
    epoch: int
    copies: dict[int, Replica]
    in_sync: list[int]
    min_in_sync: int = 1
    unclean: bool = False  # unclean.leader.election.enable
    last_leader: int = NO_LEADER
    held: dict[int, float] = attrs.Factory(dict)  # broker: the time before which it copies nothing of this partition

    @property
    def replicas(self) -> tuple[int, ...]:
        return tuple(self.copies)

    @property
    def log(self) -> PartitionLog:
        """The leader's log; without a leader, the last leader's log."""
        return self.copies[self.last_leader if self.leader < 0 else self.leader].log

    @property
    def followers(self) -> Iterator[Replica]:
        return (copy for node, copy in self.copies.items() if node != self.leader)


@attrs.define(eq=False)
class Topic:
    """A topic that is deleted and created again is a new `Topic` with a new id."""

    name: str
    id: UUID
    partitions: list[Partition] = attrs.Factory(list)
    settings: dict[str, Any] = attrs.Factory(dict)
    configs: dict[str, str] = attrs.Factory(dict)  # configs as clients have set them


class Topics(dict[str, Topic]):
    def partition(self, topic: str, partition: int) -> Partition | None:
        found = self.get(topic)
        return found.partitions[partition] if found and 0 <= partition < len(found.partitions) else None

    def partitions(self) -> list[Partition]:
        return [partition for topic in self.values() for partition in topic.partitions]

    def by_id(self, topic_id: UUID) -> Topic | None:
        return next((topic for topic in self.values() if topic.id == topic_id), None)
