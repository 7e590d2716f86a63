"""Questions about topics. Rule: a topic that a lost request may have created, changed or deleted counts as done, not as refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import attrs

from pykafka4.core import Reply
from pykafka4.core.admin.work import Lane, Question, Refusal
from pykafka4.errors.codes import BY_NAME
from pykafka4.wire.protocol.messages_admin import CreateTopicsRequest

__all__ = ["CreateTopics", "CreatedTopic", "NewTopic"]

EXISTS: Final = BY_NAME["TOPIC_ALREADY_EXISTS"].code
NO_ID: Final = UUID(int=0)


@attrs.frozen
class NewTopic:
    """A topic to be created. -1 partitions or replicas: the broker's default. `assignments`: the brokers of each partition, leader first."""

    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class CreatedTopic:
    """A topic that was created. `topic_id` is None before Kafka 2.8; -1: the broker does not tell (before 2.4)."""

    name: str
    topic_id: UUID | None
    partitions: int
    replication_factor: int


class CreateTopics(Question[str, CreatedTopic]):
    """Creates topics at the controller; the keys are their names."""

    api = "CreateTopics"
    about = "creating topic {}"
    resource = "topic"
    changes = True
    lane = Lane.FOREIGN  # a broker holds the response back until the topics are known to it

    def __init__(self, topics: Mapping[str, NewTopic], timeout_ms: int, *, validate_only: bool) -> None:
        self._topics, self._timeout_ms, self._validate_only = topics, timeout_ms, validate_only

    def message(self, keys: Sequence[str]) -> CreateTopicsRequest:
        """All of them."""
        rows = [_row(name, self._topics[name]) for name in keys]
        return CreateTopicsRequest(topics=rows, timeout_ms=self._timeout_ms, validate_only=self._validate_only)

    def read(self, keys: Sequence[str], reply: Reply) -> Mapping[str, CreatedTopic | Refusal]:
        """One row for each."""
        return {
            row.name: Refusal(row.error_code, row.error_message)
            if row.error_code
            else CreatedTopic(row.name, None if row.topic_id == NO_ID else row.topic_id, row.num_partitions, row.replication_factor)
            for row in reply.message.topics
        }

    def repeated(self, found: CreatedTopic | Refusal) -> CreatedTopic | Refusal:
        """A topic that exists now was created by the request whose response was lost, or by somebody else at that moment."""
        return found  # the room of topics decides: see the brief


def _row(name: str, topic: NewTopic) -> CreateTopicsRequest.Topic:
    kind = CreateTopicsRequest.Topic
    assignments = topic.assignments or {}
    return kind(
        name=name,
        num_partitions=-1 if assignments else topic.partitions,
        replication_factor=-1 if assignments else topic.replication_factor,
        assignments=[kind.Assignment(partition_index=number, broker_ids=list(nodes)) for number, nodes in assignments.items()],
        configs=[kind.Config(name=key, value=value) for key, value in topic.configs.items()],
    )
