"""Serves ApiVersions, Metadata and DescribeCluster. Invariant: a broker returns the brokers and leaders
that it knows, which may be outdated."""

from __future__ import annotations

import re
from typing import Final
from uuid import UUID

from pykafka4.testing.cluster.metadata import Snapshot
from pykafka4.testing.requests.session import Call, code
from pykafka4.wire.protocol.messages_admin import DescribeClusterResponse
from pykafka4.wire.protocol.messages_cluster import ApiVersionsResponse, MetadataResponse

__all__ = ["api_versions", "bad_name", "describe_cluster", "metadata"]

LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
NO_ID: Final = UUID(int=0)
NAMELESS_FROM: Final = 12  # the first version of Metadata whose responses may omit the name of a topic requested by id


def bad_name(name: str) -> bool:
    return not LEGAL.fullmatch(name) or name in (".", "..")


def api_versions(call: Call) -> ApiVersionsResponse:
    ranges = call.cluster.versions.items()
    keys = [ApiVersionsResponse.Api(api_key=key, min_version=low, max_version=high) for key, (low, high) in ranges]
    level = call.cluster.transaction_version
    kind = ApiVersionsResponse.FinalizedFeature
    features = [kind(name="transaction.version", max_version_level=level, min_version_level=level)] if level else []
    epoch = 0 if level else -1
    error = code(call.ordered_error())
    return ApiVersionsResponse(error_code=error, api_keys=keys, finalized_features_epoch=epoch, finalized_features=features)


def metadata(call: Call) -> MetadataResponse:
    """An unknown topic is created if both the request and the cluster allow it."""
    cluster, message = call.cluster, call.message
    known = cluster.metadata.snapshot(call.broker.node)
    everything = message.topics is None or (call.version == 0 and not message.topics)
    wanted = [(name, None) for name in known.topics] if everything else [(t.name, t.topic_id) for t in message.topics]
    brokers = [cluster.brokers[node] for node in known.brokers]
    return MetadataResponse(
        brokers=[MetadataResponse.Broker(node_id=b.node, host=b.host, port=b.port, rack=b.rack) for b in brokers],
        cluster_id=cluster.cluster_id,
        controller_id=known.controller,
        topics=[_topic(call, known, name, topic_id) for name, topic_id in wanted],
    )


def _topic(call: Call, known: Snapshot, name: str | None, topic_id: UUID | None) -> MetadataResponse.Topic:
    kind = MetadataResponse.Topic
    if name is None:
        name = next((n for n, (found, _) in known.topics.items() if found == topic_id), None)
    if name is None:
        nameless = None if call.version >= NAMELESS_FROM else ""
        return kind(error_code=code("UNKNOWN_TOPIC_ID"), name=nameless, topic_id=topic_id or NO_ID, partitions=[])
    error = call.ordered_error(name) or call.denied("topic", name, "DESCRIBE") or _missing(call, known, name)
    if error:
        return kind(error_code=code(error), name=name, topic_id=NO_ID, partitions=[])
    topic_id, partitions = known.topics[name]
    parts = [_partition(number, known, *state) for number, state in enumerate(partitions)]
    return kind(error_code=0, name=name, topic_id=topic_id, partitions=parts)


def _missing(call: Call, known: Snapshot, name: str) -> str | None:
    cluster = call.cluster
    if name in known.topics:
        return None
    if bad_name(name):
        return "INVALID_TOPIC_EXCEPTION"
    if name not in cluster.topics and cluster.auto_create_topics and call.message.allow_auto_topic_creation:
        if denied := call.denied("topic", name, "CREATE"):
            return denied
        cluster.timeline.after(0.0, lambda: cluster.ensure_topic(name))
        return cluster.behaviour.missing_topic
    return "UNKNOWN_TOPIC_OR_PARTITION"


def _partition(
    number: int, known: Snapshot, leader: int, epoch: int, replicas: tuple[int, ...], in_sync: tuple[int, ...]
) -> MetadataResponse.Topic.Partition:
    return MetadataResponse.Topic.Partition(
        error_code=code("LEADER_NOT_AVAILABLE" if leader < 0 else "NONE"),
        partition_index=number,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=list(replicas),
        isr_nodes=list(in_sync),
        offline_replicas=[n for n in replicas if n not in known.brokers],
    )


def describe_cluster(call: Call) -> DescribeClusterResponse:
    known = call.cluster.metadata.snapshot(call.broker.node)
    brokers = [call.cluster.brokers[node] for node in known.brokers]
    rows = [DescribeClusterResponse.Broker(broker_id=b.node, host=b.host, port=b.port, rack=b.rack) for b in brokers]
    return DescribeClusterResponse(cluster_id=call.cluster.cluster_id, controller_id=known.controller, brokers=rows)
