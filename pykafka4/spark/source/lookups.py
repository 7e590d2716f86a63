"""Looks up topics and offsets for the tracker of a stream. Invariant: `topics` and `ends` raise no error for a missing topic, because
only the tracker knows whether the topic existed before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from pykafka4.bounds import LATEST
from pykafka4.errors import BrokerError, ConfigError
from pykafka4.records import TopicPartition
from pykafka4.spark.source.logs import Logs
from pykafka4.spark.source.losses import lose
from pykafka4.spark.source.offsets import Positions
from pykafka4.spark.source.options import SourceOptions
from pykafka4.spark.source.tracker import Topics

__all__ = ["LogLookups"]


@attrs.frozen
class LogLookups:
    """The lookups of a subscription. See tracker.TrackerLookups."""

    logs: Logs
    options: SourceOptions

    def topics(self) -> Topics:
        found, missing = self.logs.existing(self.options.subscription)
        partitions = frozenset(TopicPartition(topic.name, number) for topic in found.values() for number in topic.partitions)
        return Topics(partitions, {topic.name: topic.id for topic in found.values() if topic.id}, missing)

    def ends(self, partitions: Collection[TopicPartition]) -> Positions | None:
        try:
            return self.logs.latest(partitions)
        except BrokerError as error:
            if error.code.name == "UNKNOWN_TOPIC_OR_PARTITION":
                return None
            raise

    def log_ends(self, partitions: Collection[TopicPartition]) -> Positions:
        return attrs.evolve(self.logs, isolation_level="read_uncommitted").latest(partitions)

    def earliest(self, partitions: Collection[TopicPartition]) -> Positions:
        return self.logs.earliest(partitions)

    def starting(self, partitions: Collection[TopicPartition], ends: Mapping[TopicPartition, int]) -> Positions:
        """Raises ConfigError for an offset past the end of its log."""
        starting = self.options.starting
        if starting.named is None and starting.timestamp == LATEST:
            return {tp: ends[tp] for tp in partitions}
        found = self.logs.resolve(starting, partitions, self.options.latest_if_no_such_time)
        if beyond := [tp for tp, offset in found.items() if offset > ends[tp]]:
            log_ends = self.log_ends(beyond)
            for tp in beyond:
                if found[tp] > log_ends[tp]:
                    raise ConfigError(f"option {starting.option}: offset {found[tp]} of {tp} is past the end of the log, {log_ends[tp]}")
        return found

    def lose(self, what: str) -> None:
        lose(self.options, what)
