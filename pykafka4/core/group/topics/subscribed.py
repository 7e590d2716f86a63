"""Keeps the topics of a subscription.

Invariant: partitions that are added after the first metadata of their topic, and have no committed offset, are read from their beginning,
even with auto_offset_reset=latest (with auto_offset_reset=none, `poll` raises an error).

After the first list for a filter, a topic found by the filter leaves the subscription only when two responses agree that the topic is gone:
the list of all topics lacks it, and its own metadata says that it does not exist, or that this client has no right to see it. One response
alone may come from a broker that lags behind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Final, Protocol
from uuid import UUID

from pykafka4.core import INFINITY
from pykafka4.core.group.topics.discovery import ASK_AGAIN_S, Discovery
from pykafka4.core.group.topics.topic_filter import TopicFilter
from pykafka4.core.metadata.changes import TopicChanges
from pykafka4.core.metadata.cluster import MISSING, Cluster
from pykafka4.core.subscription import Lasting, Policy, PollError, of_new_partition, reset_policy
from pykafka4.errors import AuthorizationError, KafkaError, listed
from pykafka4.logs import get_log
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import TopicPartition

__all__ = ["SubscribedTopics"]

STEP_TOPICS: Final = 200  # topics in one step: about 2 ms

log = get_log("pykafka4.group")


class Listener(Protocol):
    """The application's side, which gets errors of topics."""

    def put(self, item: object) -> None:
        """Have `poll` raise the error in `item`."""

    def tell_denied(self, error: KafkaError) -> None:
        """Have `poll` raise `error`, which reports a missing right, unless an error about the same right waits to be raised."""


class SubscribedTopics:
    __slots__ = (
        "_asked",
        "_changes",
        "_cluster",
        "_config",
        "_discovery",
        "_fresh",
        "_ids",
        "_listener",
        "_policy",
        "_sizes",
        "deleted",
        "filter",
        "listed",
        "matching",
        "names",
    )

    def __init__(self, config: ConsumerConfig, cluster: Cluster, listener: Listener, discovery: Discovery) -> None:
        self._config, self._cluster, self._listener, self._discovery = config, cluster, listener, discovery
        self._policy = reset_policy(config.auto_offset_reset)
        self.names: tuple[str, ...] = ()  # all subscribed topics; until a new filter has its first result, the former topics
        self.filter: TopicFilter | None = None
        self.matching: frozenset[str] | None = None  # the last list of topics that the filter selects; None: not known yet
        self.deleted: set[str] = set()  # found topics that are gone
        self.listed: tuple[str, ...] = ()  # topics subscribed to by name
        self._sizes: dict[str, int] = {}  # topic -> number: partitions from this number on are new
        self._ids: dict[str, UUID | None] = {}  # topic ids: a topic with another id is another topic, whose partitions are all new
        self._asked: dict[str, int] = {}  # number of the last Metadata request before the subscription to each topic
        self._fresh: deque[str] = deque()  # topics of the subscription whose metadata has not been requested yet
        self._changes: TopicChanges | None = None  # None without a subscription

    @property
    def active(self) -> bool:
        """Whether there is a subscription. With a filter it may have no topics."""
        return bool(self.names) or self.filter is not None

    @property
    def known(self) -> bool:
        """Whether `names` are the topics of this subscription, and their metadata has been requested."""
        return not self._fresh and (self.filter is None or self.matching is not None)

    def replace(self, names: tuple[str, ...], filter: TopicFilter | None = None) -> None:
        self.listed, self.filter, self.matching = names, filter, None
        self._discovery.begin(filter)
        self.deleted.clear()
        if self._changes is None:
            self._changes = TopicChanges(self._cluster)
        for topic in set(names).intersection(self._asked):  # a missing right is reported again
            self._cluster.want(topic, self)
            self._changes.note(topic)
        if filter is None:
            self._set(names)

    def clear(self) -> None:
        self._discovery.begin(None)
        self.listed, self.filter, self.matching = (), None, None
        self._set(())
        self.deleted.clear()
        if self._changes is not None:
            self._changes.end()
            self._changes = None

    def poll(self, now: float) -> float:
        self._want_some()
        gone = self._look()
        if self._fresh and not gone:
            return now
        if self.filter is None:
            return INFINITY
        wake_at, found = self._discovery.poll(now), self._discovery.found
        if found is not None and (found is not self.matching or not gone.issubset(found)):
            self._take(now, found)
        elif gone:
            self._discovery.hurry(now)
            return now
        return now if self._fresh else wake_at

    def look_for_topics(self, now: float) -> None:
        self._discovery.hurry(now)

    # ---------------------------------------------------------------- which topics

    def _take(self, now: float, found: frozenset[str]) -> None:
        """Use `found` as the topics that the filter selects. Topics that a later list adds are new."""
        first, self.matching = self.matching is None, found
        kept = {topic for topic in self._found_before(found) if not (first or self._is_gone(topic))}
        names = tuple(found.union(kept, self.listed))
        fresh, gone = set(names).difference(self.names), set(self.names).difference(names)
        if not first:  # after a new filter, the selected topics are not new, and former topics may still exist
            self._sizes.update(dict.fromkeys(fresh.difference(self.listed), 0))
            self.deleted = (self.deleted | gone).difference(names)
        if first or fresh or gone:
            self._log(found, fresh, gone)
        self._set(names)
        if kept:
            self._cluster.refresh(now, kept)
        if any(topic in self._asked and self._is_gone(topic) for topic in found):
            self._discovery.hurry(now + ASK_AGAIN_S)

    def _found_before(self, found: frozenset[str]) -> set[str]:
        return set(self.names).difference(self.listed, found)

    def _is_gone(self, topic: str) -> bool:
        error = self._cluster.topic_error(topic)
        return error is not None and (error.code in MISSING or error.denied)

    def _set(self, names: tuple[str, ...]) -> None:
        assert self._changes is not None or not names
        names = tuple(sorted(names))  # the same topics in another order are no change: a change makes the group rebalance
        if names == self.names:  # keep the same strings: each turn of the loop compares them, and identical objects compare fastest
            names = self.names
        for topic in sorted(set(self.names).difference(names)):
            self._cluster.forget(topic, self)
            self._sizes.pop(topic, None)
            self._ids.pop(topic, None)
            self._asked.pop(topic, None)
        self.names = names
        self._fresh = deque(topic for topic in names if topic not in self._asked)
        self._want_some()

    def _want_some(self) -> None:
        """Request the metadata of at most STEP_TOPICS topics: thousands in one step would hold up the loop."""
        for _ in range(min(len(self._fresh), STEP_TOPICS)):
            topic = self._fresh.popleft()
            self._asked[topic] = self._cluster.asked
            self._cluster.want(topic, self)
            self._changes.note(topic)  # type: ignore[union-attr]

    def _log(self, found: Collection[str], fresh: Collection[str], gone: Collection[str]) -> None:
        log.info(
            "%s: topics that match %s: %d; new: %s; no longer: %s",
            self._config.log_name,
            self.filter,
            len(found),
            _shortened(fresh),
            _shortened(gone),
        )

    # ---------------------------------------------------------------- their metadata

    def _look(self) -> set[str]:
        """Check the topics that have changed; return the topics found by the filter that are gone."""
        changed = [] if self._changes is None else self._changes.take_topics()
        gone = set()
        for topic in changed:
            if topic not in self._asked:
                continue
            self._look_at(topic)
            if self.filter is not None and topic not in self.listed and self._is_gone(topic):
                gone.add(topic)
        return gone

    def _look_at(self, topic: str) -> None:
        """Store the number of partitions when the topic is first known, and report errors that are not retriable.

        If the metadata shows that a topic was created or recreated later, all its partitions are new.
        """
        error, before = self._cluster.topic_error(topic), self._ids.get(topic)
        by_name = self.filter is None or topic in self.listed  # the application gets no errors of topics that it has not named
        refusal = self._cluster.refusal(topic, self._asked[topic]) if by_name else None
        topic_id = self._ids[topic] = self._cluster.topic_id(topic) or before
        if isinstance(refusal, AuthorizationError):  # not a new topic: once the right is granted, its partitions are read by the policy
            self._listener.tell_denied(refusal)
        elif topic in self._sizes:
            missing = error is not None and error.code in MISSING and not self._cluster.partitions(topic)
            if missing or (before is not None and topic_id != before):
                self._sizes[topic] = 0
        elif self._cluster.partitions(topic):
            self._sizes[topic] = self._cluster.partitions(topic)
        elif error is not None and error.name == "UNKNOWN_TOPIC_OR_PARTITION" and by_name:
            self._sizes[topic] = 0
            log.warning(
                "%s: subscribed topic %r does not exist; it will be consumed once it is created",
                self._config.log_name,
                topic,
                topic=topic,
            )
        elif refusal is not None:
            self._sizes[topic] = 0
            self._listener.put(PollError(None, refusal, Lasting.ONCE))

    def fallback(self, tp: TopicPartition) -> Policy:
        """The policy for `tp` without a committed offset: new partitions are read from their beginning, unless auto_offset_reset is
        none."""
        is_new = tp.partition >= self._sizes.get(tp.topic, INFINITY)
        return of_new_partition(self._policy) if is_new else self._policy


def _shortened(topics: Collection[str]) -> str:
    return listed(sorted(topics), most=5) or "none"
