"""Serves CreateTopics, DeleteTopics, CreatePartitions, DescribeLogDirs and DeleteRecords. Invariant: a refused topic is not changed."""

from __future__ import annotations

from pykafka4.testing.cluster.settings import MOST_PARTITIONS, settings_from_configs
from pykafka4.testing.requests.metadata import bad_name
from pykafka4.testing.requests.partitions import led
from pykafka4.testing.requests.session import Call, code
from pykafka4.testing.storage.partition import Partition
from pykafka4.wire.protocol.messages_admin import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeLogDirsResponse,
)

__all__ = ["create_partitions", "create_topics", "delete_records", "delete_topics", "describe_log_dirs"]

HIGH_WATERMARK = -1  # the offset in DeleteRecords requests that stands for the high watermark


def create_topics(call: Call) -> CreateTopicsResponse:
    """The first replica of each assignment leads its partition, if its broker runs.

    The first assignment sets the number of replicas of all partitions.
    """
    return CreateTopicsResponse(topics=[_create(call, topic) for topic in call.message.topics])


def _create(call: Call, wanted: CreateTopicsRequest.Topic) -> CreateTopicsResponse.Topic:
    error = call.ordered_error(wanted.name) or call.denied("topic", wanted.name, "CREATE") or _create_refusal(call, wanted)
    answer = CreateTopicsResponse.Topic(name=wanted.name, error_code=code(error), error_message=None)
    if error or call.message.validate_only:
        return answer
    leaders = [a.broker_ids[0] for a in sorted(wanted.assignments, key=lambda a: a.partition_index)]
    replicas = len(wanted.assignments[0].broker_ids) if leaders else wanted.replication_factor
    replicas = replicas if replicas > 0 else len(call.cluster.brokers)
    count = len(leaders) or (wanted.num_partitions if wanted.num_partitions > 0 else call.cluster.default_partitions)
    try:
        configs = {c.name: c.value or "" for c in wanted.configs}
        topic = call.cluster.create_topic(wanted.name, count, leaders=leaders, replicas=replicas, **settings_from_configs(configs))
    except ValueError as wrong:
        answer.error_code, answer.error_message = code("INVALID_CONFIG"), str(wrong)
        return answer
    topic.configs = configs
    answer.topic_id, answer.num_partitions, answer.replication_factor = topic.id, count, replicas
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
    fits = wanted.replication_factor == -1 or 0 < wanted.replication_factor <= len(call.cluster.brokers)
    return None if fits else "INVALID_REPLICATION_FACTOR"


def delete_topics(call: Call) -> DeleteTopicsResponse:
    if call.version < 6:
        return DeleteTopicsResponse(responses=[_delete(call, name) for name in call.message.topic_names])
    return DeleteTopicsResponse(responses=[_delete_by_name_or_id(call, topic) for topic in call.message.topics])


def _delete_by_name_or_id(call: Call, wanted: DeleteTopicsRequest.Topic) -> DeleteTopicsResponse.Topic:
    found = call.cluster.topics.by_id(wanted.topic_id)
    name = found.name if wanted.name is None and found is not None else wanted.name
    if name is not None:
        return _delete(call, name)
    error = call.ordered_error() or "UNKNOWN_TOPIC_ID"
    return DeleteTopicsResponse.Topic(name=None, topic_id=wanted.topic_id, error_code=code(error))


def _delete(call: Call, name: str) -> DeleteTopicsResponse.Topic:
    error = (
        call.ordered_error(name)
        or call.denied("topic", name, "DELETE")
        or (None if name in call.cluster.topics else "UNKNOWN_TOPIC_OR_PARTITION")
    )
    answer = DeleteTopicsResponse.Topic(name=name, error_code=code(error))
    if error is None:
        answer.topic_id = call.cluster.topics[name].id
        call.cluster.delete_topic(name)
    return answer


def create_partitions(call: Call) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(results=[_grow(call, topic) for topic in call.message.topics])


def _grow(call: Call, wanted: CreatePartitionsRequest.Topic) -> CreatePartitionsResponse.Result:
    error = call.ordered_error(wanted.name) or call.denied("topic", wanted.name, "ALTER") or _growth_refusal(call, wanted)
    if error is None and not call.message.validate_only:
        call.cluster.add_partitions(wanted.name, wanted.count)
    return CreatePartitionsResponse.Result(name=wanted.name, error_code=code(error))


def _growth_refusal(call: Call, wanted: CreatePartitionsRequest.Topic) -> str | None:
    topic = call.cluster.topics.get(wanted.name)
    if topic is None:
        return "UNKNOWN_TOPIC_OR_PARTITION"
    return None if len(topic.partitions) < wanted.count <= MOST_PARTITIONS else "INVALID_PARTITIONS"


def delete_records(call: Call) -> DeleteRecordsResponse:
    kind, topics = DeleteRecordsResponse.Topic, call.message.topics
    rows = [kind(name=t.name, partitions=[_cut(call, t.name, p.partition_index, p.offset) for p in t.partitions]) for t in topics]
    return DeleteRecordsResponse(topics=rows)


def _cut(call: Call, topic: str, partition: int, offset: int) -> DeleteRecordsResponse.Topic.Partition:
    kind = DeleteRecordsResponse.Topic.Partition
    found, refused = led(call, topic, partition)
    error = call.ordered_error(topic, partition) or call.denied("topic", topic, "DELETE") or refused
    if error is None and found is not None and not HIGH_WATERMARK <= offset <= found.log.high_watermark:
        error = "OFFSET_OUT_OF_RANGE"
    if found is None or error:
        return kind(partition_index=partition, low_watermark=-1, error_code=code(error))
    call.cluster.delete_records(topic, partition, found.log.high_watermark if offset == HIGH_WATERMARK else offset)
    return kind(partition_index=partition, low_watermark=found.log.start_offset, error_code=0)


def describe_log_dirs(call: Call) -> DescribeLogDirsResponse:
    if refused := call.ordered_error():
        return DescribeLogDirsResponse(error_code=code(refused), results=[])
    kind, node, wanted = DescribeLogDirsResponse.Result.Topic, call.broker.node, call.message.topics
    names = {t.topic: set(t.partitions) for t in wanted} if wanted is not None else dict.fromkeys(call.cluster.topics)
    topics = []
    for name, numbers in names.items():
        found = call.cluster.topics.get(name)
        rows = [
            kind.Partition(partition_index=p.tp.partition, partition_size=_size(p, node), offset_lag=0, is_future_key=False)
            for p in (found.partitions if found else ())
            if node in p.replicas and (numbers is None or p.tp.partition in numbers)
        ]
        topics.append(kind(name=name, partitions=rows))
    return DescribeLogDirsResponse(results=[DescribeLogDirsResponse.Result(error_code=0, log_dir="/model", topics=topics)])


def _size(partition: Partition, node: int) -> int:
    return sum(len(batch.data) for batch in partition.copies[node].log.batches)
