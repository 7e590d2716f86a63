"""Lists the handler of each API. Invariant: each API that a release accepts (`cluster.releases`) has a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pykafka4.testing.faults.names import KEYS
from pykafka4.testing.requests import commits, configs, fetch, groups, metadata, offsets, produce, shares, topics, transactions
from pykafka4.testing.requests.session import Handler

__all__ = ["HANDLERS"]

_BY_NAME: Final[Mapping[str, Handler]] = {
    "ApiVersions": metadata.api_versions,
    "Metadata": metadata.metadata,
    "DescribeCluster": metadata.describe_cluster,
    "InitProducerId": transactions.init_producer_id,
    "Produce": produce.produce,
    "Fetch": fetch.fetch,
    "ListOffsets": offsets.list_offsets,
    "OffsetForLeaderEpoch": offsets.offsets_for_epochs,
    "CreateTopics": topics.create_topics,
    "DeleteTopics": topics.delete_topics,
    "CreatePartitions": topics.create_partitions,
    "DescribeConfigs": configs.describe_configs,
    "IncrementalAlterConfigs": configs.alter_configs,
    "DeleteRecords": topics.delete_records,
    "DescribeLogDirs": topics.describe_log_dirs,
    "FindCoordinator": groups.find_coordinator,
    "DescribeGroups": groups.describe,
    "ListGroups": groups.list_groups,
    "DeleteGroups": groups.delete_groups,
    "ConsumerGroupDescribe": groups.describe_consumer_groups,
    "JoinGroup": groups.join,
    "SyncGroup": groups.sync,
    "Heartbeat": groups.heartbeat,
    "LeaveGroup": groups.leave,
    "ConsumerGroupHeartbeat": groups.group_heartbeat,
    "ShareGroupHeartbeat": shares.heartbeat,
    "ShareFetch": shares.fetch,
    "ShareAcknowledge": shares.acknowledge,
    "OffsetCommit": commits.commit,
    "OffsetFetch": commits.fetch_offsets,
    "OffsetDelete": commits.delete_offsets,
    "AddPartitionsToTxn": transactions.add_partitions,
    "AddOffsetsToTxn": transactions.add_offsets,
    "EndTxn": transactions.end,
    "TxnOffsetCommit": transactions.commit_offsets,
}
HANDLERS: Final[Mapping[int, Handler]] = {KEYS[name]: handler for name, handler in _BY_NAME.items()}
