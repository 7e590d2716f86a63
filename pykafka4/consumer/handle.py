"""Defines methods that `Consumer` and `aio.Consumer` share. Invariant: these methods wait at most for turns of the loop."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Never, overload

from pykafka4.client.runtime import Runtime
from pykafka4.client.serving import ServesStatus
from pykafka4.consumer.arguments import Partitions, SeekOffsets, Topics, as_seek_offsets, as_timestamp
from pykafka4.consumer.session import ConsumerSession
from pykafka4.core.subscription import Since, Start
from pykafka4.misuse import refuse_keywords, topic_partition
from pykafka4.records import ConsumerGroupMetadata, TopicPartition

if TYPE_CHECKING:
    from pykafka4.metrics.sources import Source
    from pykafka4.pages.watched import Watched

__all__ = ["ConsumerHandle"]


class ConsumerHandle(ServesStatus):
    """The common base of `Consumer` and `aio.Consumer`."""

    _session: ConsumerSession

    @property
    def _sources(self) -> tuple[Source, ...]:
        from pykafka4.metrics.sources import ConsumerSource, NetworkSource  # imported here: few programs read metrics

        return ConsumerSource(self._session), NetworkSource(self._session.runtime)

    def _visit(self) -> ConsumerSession:
        """The session, for a method that does not wait; `aio.Consumer` checks the caller here."""
        return self._session

    # -- topics and partitions

    def subscribe(self, topics: Topics = (), listener: object | None = None, exclude: Topics | None = None, **unknown: Never) -> None:
        """Read `topics` as a member of the group, instead of previously subscribed topics. The next poll joins the group.

        Without a group_id, the consumer reads all partitions of `topics` and commits nothing. Partitions that exist at the next poll
        are read from the offset that auto_offset_reset chooses, later partitions from their first record. `listener` is called as in a
        group.

        `topics` is a list of names, or a pattern: a str or `re.Pattern`. An item of a list is a name, unless it is an `re.Pattern`.
        A pattern selects all topics whose complete name matches, including topics created later. Topics that `exclude` (a pattern, or a
        list as for `topics`) selects are left out, and so are internal topics (exclude_internal_topics). The consumer notices new topics
        within metadata_max_age_ms.
        With group_protocol="consumer", `topics` can also be or contain one `SubscriptionPattern`, which the coordinator matches.

        `listener` has at least one of the methods on_partitions_assigned, on_partitions_revoked, on_partitions_lost; each is called with a
        list of TopicPartitions. Without on_partitions_lost, on_partitions_revoked is called instead.
        Raises TypeError or ConfigError for a wrong argument; ConfigError for a topic with partitions from `assign`, for a pattern that is
        not a regular expression, and for a pattern that could take exponential time to match.
        """
        if unknown:
            refuse_keywords(f"{self._name}.subscribe", unknown)
        self._visit().assignment.subscribe(topics, listener, exclude)

    def assign(self, partitions: Partitions) -> None:
        """Read exactly these partitions, in addition to subscribed topics. Partitions that are already assigned keep their positions.

        Reading begins at the offset that the group has committed. Without a committed offset or a group_id, auto_offset_reset decides.
        Raises ConfigError for duplicates and for partitions of subscribed topics.
        """
        self._visit().assignment.assign(partitions)

    def assignment(self) -> set[TopicPartition]:
        """The partitions that this consumer reads now."""
        return set(self._session.reader.claims)

    def subscription(self) -> set[str]:
        """The subscribed topics; with a pattern, also the matching topics in the client's metadata."""
        return self._session.assignment.subscription()

    def wakeup(self) -> None:
        """Make the running poll, or the next one if none is running, return immediately: with [] if there are no records.

        Any thread or signal handler may call it. A `for` loop continues; `close` ends the loop.
        Most other methods raise KafkaError if a signal handler or destructor calls them while a poll on the same thread takes records.
        """
        self._session.wakeup()

    # -- positions

    @overload
    def seek(self, partition: TopicPartition | tuple[str, int], offset: int) -> None: ...

    @overload
    def seek(self, partition: SeekOffsets) -> None: ...

    def seek(self, partition: TopicPartition | tuple[str, int] | SeekOffsets, offset: int | None = None) -> None:
        """Continue at `offset`; records before it count as finished, and buffered records are dropped.

        A mapping moves several partitions in one call: `seek({("orders", 0): 5, ("orders", 1): 7})`. With thousands of partitions this is
        much faster than one call for each partition. If one of the partitions is wrong, nothing moves.

        Raises ConfigError for a negative offset or a partition that is not assigned to this consumer.
        """
        self._visit().seek(as_seek_offsets(partition, offset))

    def seek_to_beginning(self, partitions: Partitions | None = None) -> None:
        """Continue at the first available record of these partitions; `partitions=None` means all assigned partitions.

        Raises ConfigError for a partition that is not assigned.
        """
        self._visit().seek_to(partitions, Start.EARLIEST, "seek_to_beginning")

    def seek_to_time(self, time: int | datetime, partitions: Partitions | None = None) -> None:
        """Continue at the first record whose timestamp is `time` or later; without such a record, at the end of the log.

        `time` is in milliseconds since 1970, or a datetime with a time zone. `partitions=None` means all assigned partitions. The lookup
        runs in the background; `position` waits for it. Raises ConfigError for a partition that is not assigned, or a datetime without a
        time zone.
        """
        self._visit().seek_to(partitions, Since(as_timestamp(time)), "seek_to_time")

    def lag(self, partition: TopicPartition | tuple[str, int]) -> int | None:
        """The number of offsets from the position to the end of the log, as of the last response; None while either is unknown.

        With isolation_level="read_committed", the end is the last stable offset.
        Raises ConfigError for a partition that is not assigned.
        """
        return self._visit().lag(topic_partition(partition))

    def pause(self, partitions: Partitions) -> None:
        """Return no records of these partitions until `resume`; assignment and position do not change.

        A revoked or lost partition is paused again if this member's next assignment has it, but not if the partition comes back later.
        Raises ConfigError for a partition that is not assigned.
        """
        self._visit().pause(partitions)

    def resume(self, partitions: Partitions) -> None:
        """Return records of these partitions again. Raises ConfigError for a partition that is not assigned."""
        self._visit().resume(partitions)

    def paused(self) -> set[TopicPartition]:
        """The paused partitions."""
        return set(self._session.reader.paused)

    # -- the rest

    def group_metadata(self) -> ConsumerGroupMetadata:
        """This consumer's membership in its group, for `Producer.send_offsets_to_transaction`; call this again for each transaction.

        Raises ConfigError without a group_id, GroupError while this consumer has subscribed but is not a member. Source: KIP-447.
        """
        return self._visit().transactional.group_metadata()

    def status(self) -> dict[str, Any]:
        """The state of the client, of the member and of each partition, to find out why no records arrive."""
        return {**self._session.runtime.status(), "consumer": self._session.status()}

    def _shown(self) -> tuple[Runtime, object, Watched]:
        from pykafka4.consumer.watched import WatchedConsumer

        session = self._session
        session.check()
        return session.runtime, session, WatchedConsumer(session.config.client_id, session)

    def stats(self) -> dict[str, int]:
        """Counts: `records` that polls have returned, `fetched_bytes`, `buffered_bytes` that wait for `poll`, and assigned `partitions`.

        A `for` loop polls lists, so `records` is ahead of the loop.

        `lost_offsets` counts offsets that a log has lost (`OffsetsLost`).
        `held_bytes` is the size of the columns of `poll_arrow` that the application has not freed.
        `poison_records` counts records that `on_poison` has skipped or replaced by a dead letter.
        """
        return self._session.stats()

    def __repr__(self) -> str:
        return f"<{self._name} of group {self._session.config.group_id!r} at {self._session.runtime!r}>"
