"""Passes each assigned partition to the source of its leader, and each acknowledgement to the source of the broker that delivered the
records. Invariant: a partition is a target of its leader's source only; a lease ends when the metadata names another leader."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias
from uuid import UUID

from pykafka4.core import INFINITY
from pykafka4.core.metadata.changes import TopicChanges
from pykafka4.core.share.source import ShareSource, SourceContext
from pykafka4.core.share.values import AcknowledgementReport, Acknowledgements, lock_lost
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition

__all__ = ["Parts", "ShareSources"]

Parts: TypeAlias = frozenset[tuple[UUID, int]]  # topic id, partition

LOOK_AGAIN_S = 1.0  # seconds until the metadata is requested again for a topic id without a name


class ShareSources:
    """A source for each broker that leads assigned partitions, or with which a session is still open."""

    def __init__(self, context: SourceContext) -> None:
        self._context = context
        self._changes = TopicChanges(context.cluster, context.recovery)
        self._sources: dict[int, ShareSource] = {}
        self._assigned: Parts = frozenset()
        self._topics: tuple[str, ...] = ()
        self._placed = True  # the targets of the sources are up to date
        self._losses = -1
        self._look_at = INFINITY
        self._closing: list[ShareSource] = []
        self._done: Callable[[], None] | None = None

    @property
    def partitions(self) -> list[TopicPartition]:
        """The assigned partitions whose topic ids have a name in the metadata."""
        named = ((self._context.cluster.topic_name(topic_id), partition) for topic_id, partition in self._assigned)
        return sorted(TopicPartition(topic, partition) for topic, partition in named if topic is not None)

    @property
    def errors(self) -> dict[str, str]:
        return {what: error for source in self._sources.values() for what, error in source.errors.items()}

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Keep the metadata of these topics up to date."""
        cluster = self._context.cluster
        for topic in topics:
            cluster.want(topic, self)
        for topic in self._topics:
            if topic not in topics:
                cluster.forget(topic, self)
        self._topics = topics
        self._placed = False

    def assign(self, parts: Parts) -> None:
        self._assigned = parts
        self._placed = False

    def want(self, taken: int) -> None:
        """Let each broker acquire records once, even if no poll waits. `taken`: see `Mailbox.wants`."""
        for source in self._sources.values():
            source.wanted_by_poll = taken

    def acknowledge(self, acknowledgements: Iterable[Acknowledgements], report: AcknowledgementReport) -> None:
        """Queue acknowledgements at the sources of their brokers; fail acknowledgements without a source."""
        for each in acknowledgements:
            report.begin()
            lease = each.acquired.lease
            source = self._sources.get(lease.node)
            if source is None:
                each.fail(lock_lost(lease.tp, each.types, lease.ended or "the share session has ended"))
            else:
                source.acknowledge(each)
        report.close()

    def poll(self, now: float) -> float:
        recovery = self._context.recovery
        if self._changes:
            self._changes.take_topics()
            self._changes.take_online()
            self._placed = False
        if not self._placed or self._losses != recovery.losses or now >= self._look_at:
            self._losses = recovery.losses
            self._place(now)
        wake_at = self._look_at
        for node, source in list(self._sources.items()):
            wake_at = min(wake_at, source.poll(now))
            if source.idle:
                self._sources.pop(node, None)
        return wake_at

    def _place(self, now: float) -> None:
        cluster, recovery = self._context.cluster, self._context.recovery
        self._placed, self._look_at = True, INFINITY
        targets: dict[int, dict[TopicPartition, UUID]] = {}
        for topic_id, partition in sorted(self._assigned):
            topic = cluster.topic_name(topic_id)
            if topic is None:
                self._look_at = now + LOOK_AGAIN_S
                continue
            tp = TopicPartition(topic, partition)
            leader = recovery.leader(tp) if topic in self._topics else None
            if leader is not None:
                targets.setdefault(leader.node, {})[tp] = topic_id
        if self._look_at < INFINITY:  # the coordinator may assign a new topic before brokers have published its name
            cluster.refresh(now, self._topics)
        for node in targets:
            if node not in self._sources:
                self._sources[node] = ShareSource(node, self._context)
        for node, source in self._sources.items():
            source.targets = targets.get(node, {}) if self._done is None else {}
            for tp in list(source.leases):
                known = cluster.leader(tp)
                if known is not None and known.node != node:
                    source.drop_lease(tp, f"broker {known.node} leads the partition now, not broker {node}")

    # ---------------------------------------------------------------- the end

    def close(self, done: Callable[[], None]) -> None:
        """End all sessions: send all acknowledgements but renewals, release all other records, then call `done`."""
        self._assigned = frozenset()
        self._done = done
        self._closing = list(self._sources.values())
        for source in list(self._closing):
            source.close(lambda source=source: self._ended(source))  # type: ignore[misc]
        self._check_done()

    def abandon(self, error: KafkaError) -> None:
        for source in list(self._sources.values()):
            source.abandon(error)
        self._closing.clear()
        self._check_done()

    def open_again(self) -> None:
        """Drop all sources: a later assignment creates new ones."""
        self._sources.clear()

    def dispose(self) -> None:
        self.subscribe(())
        self._changes.end()

    def _ended(self, source: ShareSource) -> None:
        if source in self._closing:
            self._closing.remove(source)
        self._sources.pop(source.node, None)
        self._check_done()

    def _check_done(self) -> None:
        if not self._closing and self._done is not None:
            done, self._done = self._done, None
            done()
