"""What brokers say about themselves. Rule: every answer is made of the cluster's picture, which a fault may have left behind the truth."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from pykafka4.testing.requests.session import Call, Handler, code
from pykafka4.wire.messages_cluster import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from pykafka4.wire.messages_txn import InitProducerIdRequest, InitProducerIdResponse

__all__ = ["HANDLERS", "bad_name"]

LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
GROUP_KEY: Final = 0
NAMELESS_FROM: Final = 12  # versions of Metadata whose answers may leave out the name of a topic asked for by id


def bad_name(name: str) -> bool:
    """Whether Kafka refuses a topic of this name."""
    return not LEGAL.fullmatch(name) or name in (".", "..")


def api_versions(call: Call) -> ApiVersionsResponse:
    """The ranges of the release."""
    refused = call.cluster.controls.error_for(call.key)
    return ApiVersionsResponse(
        error_code=code(refused or "NONE"),
        api_keys=[
            ApiVersionsResponse.Api(api_key=key, min_version=low, max_version=high) for key, (low, high) in call.cluster.versions.items()
        ],
    )


def metadata(call: Call) -> MetadataResponse:
    """Brokers, leaders, ids; unknown topics are made when everybody agrees to that."""
    cluster, message = call.cluster, call.message
    picture = cluster.picture(call.broker.node)
    everything = message.topics is None or (call.version == 0 and not message.topics)
    wanted = [(name, None) for name in picture.topics] if everything else [(t.name, t.topic_id) for t in message.topics]
    return MetadataResponse(
        brokers=[
            MetadataResponse.Broker(node_id=b.node, host=b.host, port=b.port, rack=b.rack)
            for b in cluster.brokers.values()
            if b.node in picture.brokers
        ],
        cluster_id=cluster.cluster_id,
        controller_id=picture.controller,
        topics=[_topic(call, picture, name, topic_id) for name, topic_id in wanted],
    )


def _topic(call: Call, picture: Any, name: str | None, topic_id: UUID | None) -> MetadataResponse.Topic:
    if name is None:
        name = next((n for n, (known, _) in picture.topics.items() if known == topic_id), None)
        if name is None:
            nameless = None if call.version >= NAMELESS_FROM else ""
            return MetadataResponse.Topic(
                error_code=code("UNKNOWN_TOPIC_ID"), name=nameless, topic_id=topic_id or UUID(int=0), partitions=[]
            )
    error = call.cluster.controls.error_for(call.key, name) or _missing(call, picture, name)
    if error:
        return MetadataResponse.Topic(error_code=code(error), name=name, topic_id=UUID(int=0), partitions=[])
    known, partitions = picture.topics[name]
    return MetadataResponse.Topic(
        error_code=0,
        name=name,
        topic_id=known,
        partitions=[_partition(number, picture, *told) for number, told in enumerate(partitions)],
    )


def _missing(call: Call, picture: Any, name: str) -> str | None:
    cluster = call.cluster
    if name in picture.topics:
        return None
    if bad_name(name):
        return "INVALID_TOPIC_EXCEPTION"
    if name not in cluster.topics and cluster.auto_create_topics and call.message.allow_auto_topic_creation:
        cluster.timeline.after(cluster.creation_delay, lambda: cluster.ensure_topic(name))
        return "LEADER_NOT_AVAILABLE" if int(cluster.release.split(".")[0]) < 3 else "UNKNOWN_TOPIC_OR_PARTITION"
    return "UNKNOWN_TOPIC_OR_PARTITION"


def _partition(
    number: int, picture: Any, leader: int, epoch: int, replicas: tuple[int, ...], in_sync: tuple[int, ...]
) -> MetadataResponse.Topic.Partition:
    return MetadataResponse.Topic.Partition(
        error_code=code("LEADER_NOT_AVAILABLE" if leader < 0 else "NONE"),
        partition_index=number,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=list(replicas),
        isr_nodes=list(in_sync),
        offline_replicas=[n for n in replicas if n not in picture.brokers],
    )


def find_coordinator(call: Call) -> FindCoordinatorResponse:
    """Who coordinates each group."""
    message: FindCoordinatorRequest = call.message
    if call.version >= 4:
        found = [_coordinator(call, key, message.key_type) for key in message.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    one = _coordinator(call, message.key, message.key_type)
    return FindCoordinatorResponse(error_code=one.error_code, error_message=None, node_id=one.node_id, host=one.host, port=one.port)


def _coordinator(call: Call, key: str, kind: int) -> FindCoordinatorResponse.Coordinator:
    refused = call.cluster.controls.error_for(call.key)
    node = call.cluster.picture(call.broker.node).coordinators.get(key) or call.cluster.coordinator(key)
    if refused is None and (node is None or kind != GROUP_KEY):
        refused = "COORDINATOR_NOT_AVAILABLE"
    if refused or node is None:
        return FindCoordinatorResponse.Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=code(refused or "NONE"), error_message=None
        )
    broker = call.cluster.brokers[node]
    return FindCoordinatorResponse.Coordinator(key=key, node_id=node, host=broker.host, port=broker.port, error_code=0, error_message=None)


def describe_cluster(call: Call) -> DescribeClusterResponse:
    """Brokers and controller."""
    picture = call.cluster.picture(call.broker.node)
    return DescribeClusterResponse(
        cluster_id=call.cluster.cluster_id,
        controller_id=picture.controller,
        brokers=[
            DescribeClusterResponse.Broker(broker_id=b.node, host=b.host, port=b.port, rack=b.rack)
            for b in call.cluster.brokers.values()
            if b.node in picture.brokers
        ],
    )


def init_producer_id(call: Call) -> InitProducerIdResponse:
    """A new id: without a transactional id nobody can keep an old one, whatever the request carries."""
    refused = call.cluster.controls.error_for(call.key)
    if refused is None and call.message.transactional_id is not None:
        refused = "COORDINATOR_NOT_AVAILABLE"
    if refused:
        return InitProducerIdResponse(error_code=code(refused), producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(error_code=0, producer_id=call.cluster.new_producer_id(), producer_epoch=0)


HANDLERS: Final[Mapping[int, Handler]] = {
    ApiVersionsRequest.api_key: api_versions,
    MetadataRequest.api_key: metadata,
    FindCoordinatorRequest.api_key: find_coordinator,
    DescribeClusterRequest.api_key: describe_cluster,
    InitProducerIdRequest.api_key: init_producer_id,
}
