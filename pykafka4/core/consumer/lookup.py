"""Looks up offsets of partitions by timestamp, whether they are read or not. Invariant: `done` is called once, unless `stop` comes first.

The earliest and latest offset, and the first offset since a time, come from the leaders of the partitions, with the isolation level of the
consumer. An error that no retry can cure ends the whole look-up; a topic counts as missing when brokers say so for MISSING_SECONDS.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias

from pykafka4.core.consumer.searches import EARLIEST, LATEST, Search, Searches
from pykafka4.core.metadata.cluster import Change, Cluster, Waiter
from pykafka4.core.metadata.topic import MISSING_SECONDS
from pykafka4.core.subscription import Since, Start
from pykafka4.core.timers import Timers
from pykafka4.errors import KafkaError, broker_error
from pykafka4.errors.codes import BY_NAME
from pykafka4.records import TopicPartition

__all__ = ["Found", "LookedUp", "Lookup"]

Found: TypeAlias = dict[TopicPartition, dict[int, "int | None"]]  # offset by timestamp; None: all records are older
LookedUp: TypeAlias = Callable[["Found | KafkaError"], None]
NO_TOPIC: Final = BY_NAME["UNKNOWN_TOPIC_OR_PARTITION"].code
LOOK_S: Final = 0.25  # between two looks at topics that may be missing
ENDS: Final = {EARLIEST: Start.EARLIEST, LATEST: Start.LATEST}


class OffsetSearch(Search):
    """The look-up of one offset."""

    __slots__ = ("_lookup", "_timestamp", "is_over")

    def __init__(self, tp: TopicPartition, timestamp: int, lookup: Lookup) -> None:
        super().__init__(tp, ENDS.get(timestamp) or Since(timestamp))
        self._timestamp, self._lookup, self.is_over = timestamp, lookup, False

    def wanted(self) -> bool:
        """Whether the look-up still waits for it."""
        return not self.is_over and not self._lookup.is_over

    def found(self, now: float, offset: int, epoch: int) -> None:
        """The offset."""
        self._settle(offset)

    def absent(self) -> bool:
        """All records are older; an end always exists."""
        if self._timestamp in ENDS:
            return False
        self._settle(None)
        return True

    def _settle(self, offset: int | None) -> None:
        self.is_over = True
        self._lookup.settle(self.tp, self._timestamp, offset)

    def refused(self, now: float, error: KafkaError) -> None:
        """The look-up fails."""
        self._lookup.fail(error)


class Lookup:
    """Offsets of partitions, from `begin` until `done` or `stop`."""

    def __init__(
        self,
        cluster: Cluster,
        searches: Searches,
        timers: Timers,
        topics: Mapping[str, Collection[int] | None],
        timestamps: Collection[int],
        done: LookedUp,
    ) -> None:
        """`topics` has the partitions of each topic, None for all; `timestamps` are EARLIEST, LATEST or milliseconds."""
        self._cluster, self._searches, self._timers = cluster, searches, timers
        self._topics, self._timestamps, self._done = topics, timestamps, done
        self._unknown = dict(topics)  # topics whose partitions are not known yet
        self._found: Found = {}
        self._missing = 0  # offsets
        self._asked = cluster.asked  # what brokers refused to other users before may be allowed by now
        self._absent_since: dict[str, float] = {}  # topics that exist, without one of the partitions
        self._waiter: Waiter | None = None  # for metadata
        self.is_over = False

    def begin(self, now: float) -> None:
        """Send the requests, as soon as the partitions are known."""
        self._cluster.on_change.append(self._changed)
        for topic in self._topics:
            self._cluster.want(topic, self)
        whole = [topic for topic, chosen in self._topics.items() if chosen is None]
        if whole:  # the metadata that the client has may be from before partitions were added
            self._waiter = self._cluster.refreshed(now, whole, self._refreshed)
        else:
            self._begin_known()
        self._look(now)

    def stop(self) -> None:
        """Nobody waits for it any more. May be called twice."""
        if not self.is_over:
            self._end()

    @property
    def waits_for(self) -> str:
        """A partition or topic without result, for an error message."""
        late = [tp for tp, offsets in self._found.items() if len(offsets) < len(self._timestamps)]
        return f"topic {next(iter(self._unknown))}" if self._unknown else str(min(late)) if late else ""

    def settle(self, tp: TopicPartition, timestamp: int, offset: int | None) -> None:
        """A result."""
        if timestamp not in self._found[tp]:
            self._found[tp][timestamp] = offset
            self._missing -= 1
            self._check()

    def fail(self, error: KafkaError) -> None:
        """The look-up has failed."""
        if not self.is_over:
            self._end()
            self._done(error)

    def _check(self) -> None:
        if not self.is_over and not self._missing and not self._unknown:
            self._end()
            self._done(self._found)

    def _end(self) -> None:
        self.is_over = True
        if self._waiter is not None:
            self._cluster.give_up(self._waiter)
        self._cluster.on_change.remove(self._changed)
        for topic in self._topics:
            self._cluster.forget(topic, self)

    def _refreshed(self, error: KafkaError | None) -> None:
        self._waiter = None
        if error is not None:
            self.fail(error)
        elif not self.is_over:
            self._begin_known()

    def _changed(self, change: Change) -> None:
        if not self.is_over and self._waiter is None:
            self._begin_known()

    def _begin_known(self) -> None:
        for topic in list(self._unknown):
            if (refusal := self._cluster.refusal(topic, self._asked)) is not None:
                self.fail(refusal)
                return
            size, chosen = self._cluster.partitions(topic), self._unknown[topic]
            if size and (chosen is None or max(chosen) < size):
                del self._unknown[topic]
                for partition in range(size) if chosen is None else chosen:
                    self._search(TopicPartition(topic, partition))
        self._check()

    def _search(self, tp: TopicPartition) -> None:
        self._found[tp] = {}
        self._missing += len(self._timestamps)
        for timestamp in self._timestamps:
            self._searches.begin(OffsetSearch(tp, timestamp, self))

    def _look(self, now: float) -> None:
        """Fail if a topic or partition does not exist, according to brokers, for some time."""
        for topic, chosen in () if self.is_over else self._unknown.items():
            size, since = self._cluster.partitions(topic), self._cluster.unknown_since(topic)
            what, detail = f"topic {topic}", "there is no such topic"
            if size:
                since = self._absent_since.setdefault(topic, now)
                self._cluster.refresh(now, [topic])
                what, detail = str(TopicPartition(topic, max(chosen or (0,)))), f"the topic has {size} partitions"
            if since is not None and now - since >= MISSING_SECONDS:
                self.fail(broker_error(NO_TOPIC, what, detail, "ListOffsets", topic=topic))
                return
        if not self.is_over and self._unknown:
            self._timers.at(now + LOOK_S, self._look)
