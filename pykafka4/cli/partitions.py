"""Finds the partitions that a command names, and makes errors for topics and partitions that were not found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pykafka4.cli.show import counted
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition

if TYPE_CHECKING:
    from pykafka4.admin import AdminClient
    from pykafka4.core.admin.topic_queries import PartitionDescription

__all__ = ["find_partitions"]


def find_partitions(
    admin: AdminClient, items: Iterable[str | TopicPartition], timeout: float | None
) -> tuple[dict[TopicPartition, PartitionDescription], dict[str | TopicPartition, KafkaError]]:
    """Return the found partitions, sorted, and the errors of other topics and partitions."""
    wanted = list(dict.fromkeys(items))
    topics = admin.describe_topics(list(dict.fromkeys(item if isinstance(item, str) else item.topic for item in wanted)), timeout=timeout)
    errors: dict[str | TopicPartition, KafkaError] = {str(name): topic for name, topic in topics.items() if isinstance(topic, KafkaError)}
    known = {
        TopicPartition(str(name), part.partition): part
        for name, topic in topics.items()
        if not isinstance(topic, KafkaError)
        for part in topic.partitions
    }
    whole = {item for item in wanted if isinstance(item, str)}
    for item in wanted:
        if isinstance(item, TopicPartition) and item not in known and item.topic not in errors:
            count = sum(tp.topic == item.topic for tp in known)
            errors[item] = KafkaError(f"{item}: the topic has {counted(count, 'partition')}")
    return {tp: part for tp, part in sorted(known.items()) if tp.topic in whole or tp in wanted}, errors
