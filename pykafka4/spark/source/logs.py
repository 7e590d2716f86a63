"""Looks up the partitions of a subscription and their offsets. Invariant: no result is kept for a later call."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping
from typing import Final, Literal, cast

import attrs

from pykafka4.bounds import EARLIEST, LATEST
from pykafka4.client.client import Client
from pykafka4.client.targets import ANY
from pykafka4.core.admin.values import OffsetSpec
from pykafka4.errors import ConfigError, broker_error, listed
from pykafka4.errors.codes import error_code
from pykafka4.records import TopicPartition
from pykafka4.spark.source.options import SourceOptions
from pykafka4.spark.source.subscription import ReadEnd, Subscription
from pykafka4.wire.protocol.fields import NO_UUID
from pykafka4.wire.protocol.messages_cluster import MetadataRequest, MetadataResponse

__all__ = ["Logs", "Topic"]

SPECS: Final = {EARLIEST: OffsetSpec.EARLIEST, LATEST: OffsetSpec.LATEST}
PAUSE_S: Final = 0.2  # seconds between two requests for a topic that has no leaders yet


@attrs.frozen
class Topic:
    """A topic of the subscription. Its id changes when the topic is deleted and created again; the id is "" before Kafka 2.8."""

    name: str
    id: str
    partitions: tuple[int, ...]


@attrs.frozen
class Logs:
    """The logs of a cluster, as a client with this isolation level sees them."""

    client: Client
    isolation_level: Literal["read_uncommitted", "read_committed"]
    timeout: float  # seconds for each call of `client`

    @classmethod
    def of(cls, client: Client, options: SourceOptions) -> Logs:
        return cls(client, cast("Literal['read_uncommitted', 'read_committed']", options.isolation_level), options.poll_timeout)

    def topics(self, subscription: Subscription) -> dict[str, Topic]:
        """The topics of the subscription by name; with `assign`, each has only its assigned partitions.

        Raises ConfigError for a topic or partition that does not exist.
        """
        found, missing = self.existing(subscription)
        if missing:
            raise ConfigError(missing)
        return found

    def existing(self, subscription: Subscription) -> tuple[dict[str, Topic], str]:
        """The existing topics by name, and a text that names missing topics and partitions; the text is empty if there are none."""
        if subscription.pattern is not None:
            has = re.compile(subscription.pattern).search
            return {topic.name: topic for topic in self._metadata(None) if has(topic.name)}, ""
        names = subscription.topics or sorted({tp.topic for tp in subscription.partitions or ()})
        found = {topic.name: topic for topic in self._metadata(names)}
        missing = [name for name in names if name not in found]
        text = f"option {subscription.option}: the cluster lacks these topics: {listed(missing)}" if missing else ""
        if subscription.partitions is None:
            return found, text
        texts = [text, *(_missing(topic, subscription) for topic in found.values())]
        return {name: _assigned(topic, subscription) for name, topic in found.items()}, "; ".join(filter(None, texts))

    def topic_id(self, name: str) -> str:
        """The current id of the topic; "" if the topic does not exist, and with brokers before Kafka 2.8."""
        return next((topic.id for topic in self._metadata([name])), "")

    def _metadata(self, names: Collection[str] | None) -> list[Topic]:
        """`names` None: all topics that are not internal. Waits for leaders of a topic that is being created."""
        wanted = None if names is None else [MetadataRequest.Topic(name=name) for name in names]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        deadline = time.monotonic() + self.timeout
        while True:
            topics = self.client.request(ANY, request, self.timeout).topics
            unready = [topic for topic in topics if error_code(topic.error_code).name == "LEADER_NOT_AVAILABLE"]
            if not unready or time.monotonic() > deadline:
                return [_topic(topic) for topic in topics if _exists(topic) and (names is not None or not topic.is_internal)]
            time.sleep(PAUSE_S)

    def offsets(self, at: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The offset of each partition at EARLIEST, LATEST or a time in milliseconds; None if no record is at that time or later.

        Raises the error of a partition.
        """
        if not at:
            return {}
        listed_offsets = self.client.list_offsets(
            {tp: SPECS.get(time, time) for tp, time in at.items()}, self.timeout, isolation_level=self.isolation_level
        )
        for found in listed_offsets.values():
            if found.error is not None:
                raise found.error
        return {tp: found.offset for tp, found in listed_offsets.items()}

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return _known(self.offsets(dict.fromkeys(partitions, EARLIEST)))

    def latest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The end of each log; with read_committed the last stable offset."""
        return _known(self.offsets(dict.fromkeys(partitions, LATEST)))

    def since(self, partitions: Collection[TopicPartition], ms: int) -> dict[TopicPartition, int]:
        """For each log, the offset of the first record at the time `ms` or later; without such a record, the end of the log."""
        found = self.offsets(dict.fromkeys(partitions, ms))
        late = [tp for tp, offset in found.items() if offset is None]
        return {**_known(found), **self.latest(late)}

    def resolve(self, read_end: ReadEnd, partitions: Collection[TopicPartition], latest_if_no_such_time: bool) -> dict[TopicPartition, int]:
        """The offset of each partition at `read_end`. An offset that the option names is not checked.

        Raises ConfigError if `read_end` names partitions, but not exactly `partitions`; and if a log has no record at the wanted time or
        later, unless `latest_if_no_such_time`.
        """
        read_end.check_names(partitions)
        if read_end.offsets is not None:
            words = {tp: offset for tp, offset in read_end.offsets.items() if offset < 0}
            return {**read_end.offsets, **_known(self.offsets(words))}
        times = dict.fromkeys(partitions, read_end.timestamp) if read_end.times is None else dict(read_end.times)
        found = self.offsets(times)
        late = sorted(tp for tp, offset in found.items() if offset is None)
        if late and not latest_if_no_such_time:
            raise ConfigError(
                f"option {read_end.option}: {late[0]} has no record at {times[late[0]]} ms or later; "
                "startingOffsetsByTimestampStrategy=latest would begin at the end of the log"
            )
        return {**_known(found), **self.latest(late)}


def _known(found: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, int]:
    return {tp: offset for tp, offset in found.items() if offset is not None}


def _exists(topic: MetadataResponse.Topic) -> bool:
    """Raises the error of a topic that cannot be read."""
    code = error_code(topic.error_code)
    if code.name == "UNKNOWN_TOPIC_OR_PARTITION":
        return False
    if topic.error_code:
        raise broker_error(topic.error_code, topic.name or "")
    return True


def _topic(topic: MetadataResponse.Topic) -> Topic:
    topic_id = "" if topic.topic_id == NO_UUID else str(topic.topic_id)
    return Topic(topic.name or "", topic_id, tuple(sorted(each.partition_index for each in topic.partitions)))


def _assigned(topic: Topic, subscription: Subscription) -> Topic:
    return attrs.evolve(topic, partitions=tuple(number for number in _wanted(topic, subscription) if number in topic.partitions))


def _missing(topic: Topic, subscription: Subscription) -> str:
    missing = [number for number in _wanted(topic, subscription) if number not in topic.partitions]
    if not missing:
        return ""
    return f"option {subscription.option}: {topic.name} has no partition {missing[0]}; its number of partitions is {len(topic.partitions)}"


def _wanted(topic: Topic, subscription: Subscription) -> list[int]:
    return [tp.partition for tp in subscription.partitions or () if tp.topic == topic.name]
