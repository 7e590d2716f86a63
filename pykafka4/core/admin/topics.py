"""Creates and deletes topics, and adds partitions.

Invariant: a creation or addition that is refused when it is repeated (`RefusedRepeat`) counts as done only after a check of the topic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import attrs

from pykafka4.core import Reply
from pykafka4.core.admin.question_run import Question, Refusal
from pykafka4.errors import UnsupportedVersion
from pykafka4.errors.codes import BY_NAME
from pykafka4.wire.protocol.fields import NO_UUID
from pykafka4.wire.protocol.messages_admin import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest

__all__ = [
    "UNKNOWN_TOPIC",
    "CreatePartitions",
    "CreateTopics",
    "CreatedTopic",
    "DeleteTopics",
    "DeletedTopic",
    "NewPartitions",
    "NewTopic",
    "RefusedRepeat",
    "known_id",
]

EXISTS: Final = BY_NAME["TOPIC_ALREADY_EXISTS"].code
BAD_COUNT: Final = BY_NAME["INVALID_PARTITIONS"].code
UNKNOWN_TOPIC: Final = (BY_NAME["UNKNOWN_TOPIC_OR_PARTITION"].code, BY_NAME["UNKNOWN_TOPIC_ID"].code)
DEFAULTS_FROM: Final = 4  # the first version of CreateTopics in which -1 stands for the brokers' default
IDS_FROM: Final = 6  # the first version of DeleteTopics with topic ids


@attrs.frozen
class NewTopic:
    """A topic to create. -1 stands for the brokers' default.

    `assignments` has the brokers of each partition, the leader first, in place of both numbers.
    """

    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, object] = attrs.field(factory=dict)


@attrs.frozen
class NewPartitions:
    """The new total of a topic's partitions, including the existing ones. `assignments` has the brokers of each new partition."""

    total: int
    assignments: Sequence[Sequence[int]] | None = None


@attrs.frozen
class CreatedTopic:
    """A topic whose creation, or whose new number of partitions, the brokers have accepted.

    `topic_id` is None before Kafka 2.8; the numbers are -1 if the broker does not report them. A response to
    CreatePartitions has neither `topic_id` nor `replication_factor`.
    """

    name: str
    topic_id: UUID | None
    partitions: int
    replication_factor: int


@attrs.frozen
class DeletedTopic:
    """A topic that was deleted. `name` and `topic_id` are None unless the broker reports them."""

    name: str | None
    topic_id: UUID | None


@attrs.frozen
class RefusedRepeat:
    """The refusal of a repeated request. The change seems to exist already, perhaps from the first request, whose response was lost."""

    refusal: Refusal


class TopicChange(Question[str, "CreatedTopic | RefusedRepeat"]):
    resource = "topic"
    changes = True
    missing_s = 0.0  # a topic that the controller does not know does not exist: brokers learn of topics from the controller

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms


class CreateTopics(TopicChange):
    api = "CreateTopics"
    about = "creating topic {}"

    def __init__(self, topics: Mapping[str, NewTopic], timeout_ms: int, *, validate_only: bool) -> None:
        super().__init__(timeout_ms)
        self._topics, self._validate_only = topics, validate_only

    def message(self, keys: Sequence[str]) -> CreateTopicsRequest:
        rows = [_row(name, self._topics[name]) for name in keys]
        return CreateTopicsRequest(topics=rows, timeout_ms=self._timeout_ms, validate_only=self._validate_only)

    def fit(self, message: CreateTopicsRequest, version: int) -> None:
        """Raise UnsupportedVersion for the brokers' defaults, which old brokers refuse as invalid numbers."""
        usual = (row.name for row in message.topics if not row.assignments and -1 in (row.num_partitions, row.replication_factor))
        if version < DEFAULTS_FROM and (name := next(usual, None)) is not None:
            raise UnsupportedVersion(
                f"creating topic {name}: the brokers' default for partitions or replication_factor needs CreateTopics v{DEFAULTS_FROM}, "
                "of Kafka 2.4; give both numbers"
            )

    def read(self, keys: Sequence[str], reply: Reply) -> Mapping[str, CreatedTopic | Refusal]:
        return {
            row.name: Refusal(row.error_code, row.error_message)
            if row.error_code
            else CreatedTopic(row.name, known_id(row.topic_id), row.num_partitions, row.replication_factor)
            for row in reply.message.topics
        }

    def repeated(self, found: CreatedTopic | RefusedRepeat | Refusal) -> CreatedTopic | RefusedRepeat | Refusal:
        """`RefusedRepeat` for a topic that exists: the request whose response was lost may have created it."""
        return RefusedRepeat(found) if isinstance(found, Refusal) and found.code == EXISTS else found


def _row(name: str, topic: NewTopic) -> CreateTopicsRequest.Topic:
    kind = CreateTopicsRequest.Topic
    assignments = topic.assignments or {}
    return kind(
        name=name,
        num_partitions=-1 if assignments else topic.partitions,
        replication_factor=-1 if assignments else topic.replication_factor,
        assignments=[kind.Assignment(partition_index=number, broker_ids=list(nodes)) for number, nodes in assignments.items()],
        configs=[kind.Config(name=key, value=str(value)) for key, value in topic.configs.items()],
    )


class CreatePartitions(TopicChange):
    api = "CreatePartitions"
    about = "adding partitions to topic {}"

    def __init__(self, topics: Mapping[str, NewPartitions], timeout_ms: int, *, validate_only: bool) -> None:
        super().__init__(timeout_ms)
        self._topics, self._validate_only = topics, validate_only

    def message(self, keys: Sequence[str]) -> CreatePartitionsRequest:
        rows = [_growth(name, self._topics[name]) for name in keys]
        return CreatePartitionsRequest(topics=rows, timeout_ms=self._timeout_ms, validate_only=self._validate_only)

    def read(self, keys: Sequence[str], reply: Reply) -> Mapping[str, CreatedTopic | Refusal]:
        return {
            row.name: Refusal(row.error_code, row.error_message)
            if row.error_code
            else CreatedTopic(row.name, None, self._topics[row.name].total, -1)
            for row in reply.message.results
            if row.name in self._topics
        }

    def repeated(self, found: CreatedTopic | RefusedRepeat | Refusal) -> CreatedTopic | RefusedRepeat | Refusal:
        """`RefusedRepeat` for an invalid number of partitions: the topic may have this number already."""
        return RefusedRepeat(found) if isinstance(found, Refusal) and found.code == BAD_COUNT else found


def _growth(name: str, topic: NewPartitions) -> CreatePartitionsRequest.Topic:
    kind = CreatePartitionsRequest.Topic
    rows = None if topic.assignments is None else [kind.Assignment(broker_ids=list(nodes)) for nodes in topic.assignments]
    return kind(name=name, count=topic.total, assignments=rows)


class DeleteTopics(Question["str | UUID", DeletedTopic]):
    """Deletes topics; the keys are names or ids."""

    api = "DeleteTopics"
    about = "deleting topic {}"
    resource = "topic"
    changes = True
    missing_s = 0.0

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms

    def message(self, keys: Sequence[str | UUID]) -> DeleteTopicsRequest:
        kind = DeleteTopicsRequest.Topic
        rows = [kind(name=key) if isinstance(key, str) else kind(topic_id=key) for key in keys]
        return DeleteTopicsRequest(topics=rows, timeout_ms=self._timeout_ms)

    def fit(self, message: DeleteTopicsRequest, version: int) -> None:
        """For brokers that do not know ids, use the field that has only names, or raise UnsupportedVersion for an id."""
        if version < IDS_FROM:
            if any(row.name is None for row in message.topics):
                raise UnsupportedVersion(f"deleting a topic by its id needs DeleteTopics v{IDS_FROM}, of Kafka 2.8; give its name")
            message.topic_names, message.topics = [row.name for row in message.topics if row.name is not None], []

    def read(self, keys: Sequence[str | UUID], reply: Reply) -> Mapping[str | UUID, DeletedTopic | Refusal]:
        """In the row of an id, brokers leave out a name that the user may not see."""
        return {
            row.topic_id if row.topic_id in keys else row.name or "": Refusal(row.error_code, row.error_message)
            if row.error_code
            else DeletedTopic(row.name, known_id(row.topic_id))
            for row in reply.message.responses
        }

    def repeated(self, found: DeletedTopic | Refusal) -> DeletedTopic | Refusal:
        """A `DeletedTopic` for a topic that does not exist: the request whose response was lost may have deleted it."""
        return DeletedTopic(None, None) if isinstance(found, Refusal) and found.code in UNKNOWN_TOPIC else found


def known_id(topic_id: UUID) -> UUID | None:
    """None if the broker does not report the id."""
    return None if topic_id == NO_UUID else topic_id
