"""Defines the offset of a stream, as Spark's checkpoint keeps it. Invariant: equal offsets have equal JSON texts, and a repeated batch has
the offset ranges of its first run.

Spark logs only the end of a batch, and compares ends as texts. So an end carries the starts of partitions that are new in its batch, and
`ranges` needs only this end and the previous one. In the first batch all partitions are new. Without the starts, these steps would lose
records: the first batch begins at "latest", offset 100, and is logged with its end, 200; the sink fails; the query is restarted, looks
"latest" up again, and finds 300. No batch reads the offsets 100 to 199.

The JSON has the form of the JVM connector, `{"orders": {"0": 200}}`, and one more key, which cannot be the name of a topic. So a
query can continue from a checkpoint of the JVM connector.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import attrs

from pykafka4.errors import ConfigError, shown
from pykafka4.records import TopicPartition

__all__ = ["INITIAL", "PLANNING", "Positions", "Ranges", "StreamOffset", "by_topic"]

Positions: TypeAlias = "dict[TopicPartition, int]"
Ranges: TypeAlias = "dict[TopicPartition, tuple[int, int]]"  # (the first offset, the offset after the last)
EXTRA: Final = "@pykafka4"  # no topic can have this name: "@" is not allowed
VERSION: Final = 1
PLANNING: Final = ("minPartitions", "maxRecordsPerPartition")  # the options that divide ranges among tasks


@attrs.frozen
class StreamOffset:
    """The end of a micro-batch.

    `positions`: the next offset to read in each partition. `starts`: the first offset of this batch in partitions that are new in it, or
    whose earlier position is void (the topic was recreated, the log was truncated, records were deleted). `topic_ids`: empty if the
    brokers are too old for topic ids. `planning`: the options that divide ranges among tasks; a repeated batch is divided as before,
    whatever the options are now. `is_initial`: this is `INITIAL`, the start of the first batch.
    """

    positions: Mapping[TopicPartition, int] = attrs.Factory(dict)
    starts: Mapping[TopicPartition, int] = attrs.Factory(dict)
    topic_ids: Mapping[str, str] = attrs.Factory(dict)
    planning: Mapping[str, int] = attrs.Factory(dict)
    is_initial: bool = False

    def as_json(self) -> dict[str, Any]:
        """Equal offsets have equal dicts, with the keys in the same order."""
        extra: dict[str, Any] = {"version": VERSION}
        if self.is_initial:
            extra["initial"] = True
        if self.starts:
            extra["starts"] = by_topic(self.starts)
        if self.topic_ids:
            extra["topicIds"] = dict(sorted(self.topic_ids.items()))
        if self.planning:
            extra["planning"] = dict(sorted(self.planning.items()))
        return {**by_topic(self.positions), EXTRA: extra}

    @classmethod
    def of_json(cls, value: object) -> StreamOffset:
        """Raises ConfigError if this version of pykafka4 cannot read the offset."""
        if not isinstance(value, dict):
            raise _unreadable(value, "it is not an object")
        extra = value.get(EXTRA, {})  # offsets of the JVM connector lack this key
        if not isinstance(extra, dict):
            raise _unreadable(value, f"{EXTRA} is not an object")
        version = extra.get("version", VERSION)
        if version != VERSION:
            raise ConfigError(
                f"the checkpoint has an offset of version {shown(version)}, and this pykafka4 reads version {VERSION}: "
                "install the version of pykafka4 that wrote the checkpoint, or a later one"
            )
        topics = {topic: partitions for topic, partitions in value.items() if topic != EXTRA}
        try:
            return cls(
                _positions(topics),
                _positions(extra.get("starts", {})),
                {str(topic): str(topic_id) for topic, topic_id in extra.get("topicIds", {}).items()},
                {str(name): int(number) for name, number in extra.get("planning", {}).items()},
                extra.get("initial") is True,
            )
        except (AttributeError, TypeError, ValueError) as error:
            raise _unreadable(value, str(error)) from None

    def ranges(self, before: StreamOffset) -> Ranges:
        """The ranges of the batch between `before` and this offset, in the order of partitions: a function of both offsets alone."""
        if self == before:  # Spark may ask for a batch without records; its end has the `starts` of the previous batch
            return {}
        return {tp: (self._start(tp, before), end) for tp, end in sorted(self.positions.items()) if self._start(tp, before) < end}

    def _start(self, tp: TopicPartition, before: StreamOffset) -> int:
        if tp in self.starts:
            return self.starts[tp]
        if tp in before.positions:
            return before.positions[tp]
        raise ConfigError(
            f"the checkpoint does not say where the batch starts in {tp}: the JVM connector keeps that elsewhere. Let the JVM "
            'connector finish this batch, then continue with format("pykafka4")'
        )


INITIAL: Final = StreamOffset(is_initial=True)


def by_topic(positions: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """`positions` as `{"orders": {"0": 200}}`, in the order of topics, then of the numbers of partitions."""
    out: dict[str, dict[str, int]] = {}
    for tp, offset in sorted(positions.items()):
        out.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return out


def _positions(topics: Mapping[str, Mapping[str, int]]) -> Positions:
    return {TopicPartition(topic, int(number)): int(offset) for topic, of in topics.items() for number, offset in of.items()}


def _unreadable(value: object, why: str) -> ConfigError:
    return ConfigError(f"the checkpoint has an offset that does not belong to a Kafka source: {shown(value)}: {why}")
