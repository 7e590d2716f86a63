"""Requests that change topics. Rule: what they change is what every other answer is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pykafka4.testing.requests.metadata import bad_name
from pykafka4.testing.requests.session import Call, Handler, code
from pykafka4.wire.messages_admin import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

__all__ = ["HANDLERS"]


def settings_of(configs: Mapping[str, str]) -> dict[str, Any]:
    """The settings of `ModelCluster.create_topic` that Kafka's topic configs stand for; others mean nothing to the model."""
    settings = {name: read(configs[config]) for config, (name, read) in CONFIGS.items() if config in configs}
    if BOTH_LIMITS in configs:  # before 3.6, one limit for both directions
        settings = {"before_max_ms": int(configs[BOTH_LIMITS]), "after_max_ms": int(configs[BOTH_LIMITS]), **settings}
    return settings


BOTH_LIMITS: Final = "message.timestamp.difference.max.ms"
MOST_PARTITIONS: Final = 100_000  # of one topic; the model keeps all of them in memory
CONFIGS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "cleanup.policy": ("compacted", lambda text: "compact" in text),
    "max.message.bytes": ("max_message_bytes", int),
    "message.timestamp.type": ("append_time", lambda text: text == "LogAppendTime"),
    "message.timestamp.before.max.ms": ("before_max_ms", int),
    "message.timestamp.after.max.ms": ("after_max_ms", int),
    "min.insync.replicas": ("min_in_sync", int),
    "unclean.leader.election.enable": ("unclean", lambda text: text == "true"),
}


def create_topics(call: Call) -> CreateTopicsResponse:
    """New topics; assignments are taken as leaders."""
    return CreateTopicsResponse(topics=[_create(call, topic) for topic in call.message.topics])


def _create(call: Call, wanted: CreateTopicsRequest.Topic) -> CreateTopicsResponse.Topic:
    error = call.cluster.controls.error_for(call.key, wanted.name) or _create_refusal(call, wanted)
    answer = CreateTopicsResponse.Topic(name=wanted.name, error_code=code(error or "NONE"), error_message=None)
    if error or call.message.validate_only:
        return answer
    leaders = [a.broker_ids[0] for a in sorted(wanted.assignments, key=lambda a: a.partition_index)]
    count = len(leaders) or (wanted.num_partitions if wanted.num_partitions > 0 else call.cluster.default_partitions)
    try:
        settings = settings_of({c.name: c.value or "" for c in wanted.configs})
        topic = call.cluster.create_topic(wanted.name, count, leaders=leaders, **settings)
    except ValueError as wrong:
        answer.error_code, answer.error_message = code("INVALID_CONFIG"), str(wrong)
        return answer
    answer.topic_id, answer.num_partitions, answer.replication_factor = topic.id, count, len(call.cluster.brokers)
    answer.configs = []
    return answer


def _create_refusal(call: Call, wanted: CreateTopicsRequest.Topic) -> str | None:
    if wanted.name in call.cluster.topics:
        return "TOPIC_ALREADY_EXISTS"
    if bad_name(wanted.name):
        return "INVALID_TOPIC_EXCEPTION"
    if not 0 < wanted.num_partitions <= MOST_PARTITIONS and (wanted.num_partitions != -1):
        return "INVALID_PARTITIONS"
    if any(not a.broker_ids or not set(a.broker_ids) <= call.cluster.brokers.keys() for a in wanted.assignments):
        return "INVALID_REPLICA_ASSIGNMENT"
    if sorted(a.partition_index for a in wanted.assignments) != list(range(len(wanted.assignments))):
        return "INVALID_REPLICA_ASSIGNMENT"
    return "INVALID_REPLICATION_FACTOR" if wanted.replication_factor > len(call.cluster.brokers) else None


def delete_topics(call: Call) -> DeleteTopicsResponse:
    """Topics go, by name or id."""
    if call.version < 6:
        return DeleteTopicsResponse(responses=[_delete(call, name) for name in call.message.topic_names])
    known = call.cluster.topic_by_id
    names = [t.name if t.name is not None else getattr(known(t.topic_id), "name", "") for t in call.message.topics]
    return DeleteTopicsResponse(responses=[_delete(call, name) for name in names])


def _delete(call: Call, name: str) -> DeleteTopicsResponse.Topic:
    error = call.cluster.controls.error_for(call.key, name)
    if error is None and name not in call.cluster.topics:
        error = "UNKNOWN_TOPIC_OR_PARTITION"
    answer = DeleteTopicsResponse.Topic(name=name, error_code=code(error or "NONE"))
    if error is None:
        answer.topic_id = call.cluster.topics[name].id
        call.cluster.delete_topic(name)
    return answer


def create_partitions(call: Call) -> CreatePartitionsResponse:
    """Topics grow."""
    return CreatePartitionsResponse(results=[_grow(call, topic) for topic in call.message.topics])


def _grow(call: Call, wanted: CreatePartitionsRequest.Topic) -> CreatePartitionsResponse.Result:
    topic = call.cluster.topics.get(wanted.name)
    if topic is None:
        error = "UNKNOWN_TOPIC_OR_PARTITION"
    elif not len(topic.partitions) < wanted.count <= MOST_PARTITIONS:
        error = "INVALID_PARTITIONS"
    else:
        error = "NONE"
        call.cluster.add_partitions(wanted.name, wanted.count)
    return CreatePartitionsResponse.Result(name=wanted.name, error_code=code(error))


def delete_records(call: Call) -> DeleteRecordsResponse:
    """Logs start later."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponse.Topic(name=t.name, partitions=[_cut(call, t.name, p.partition_index, p.offset) for p in t.partitions])
            for t in call.message.topics
        ]
    )


def _cut(call: Call, topic: str, partition: int, offset: int) -> DeleteRecordsResponse.Topic.Partition:
    found = call.cluster.partition(topic, partition)
    kind = DeleteRecordsResponse.Topic.Partition
    if found is None or found.leader != call.broker.node:
        error = "UNKNOWN_TOPIC_OR_PARTITION" if found is None else "NOT_LEADER_OR_FOLLOWER"
        return kind(partition_index=partition, low_watermark=-1, error_code=code(error))
    if offset > found.log.high_watermark:
        return kind(partition_index=partition, low_watermark=-1, error_code=code("OFFSET_OUT_OF_RANGE"))
    call.cluster.delete_records(topic, partition, found.log.high_watermark if offset == -1 else offset)
    return kind(partition_index=partition, low_watermark=found.log.start_offset, error_code=0)


HANDLERS: Final[Mapping[int, Handler]] = {
    CreateTopicsRequest.api_key: create_topics,
    DeleteTopicsRequest.api_key: delete_topics,
    CreatePartitionsRequest.api_key: create_partitions,
    DeleteRecordsRequest.api_key: delete_records,
}
