"""Defines the rights that brokers check, by request and kind of resource, so that an error can name the missing right.

An error code names only the kind of the denied resource; the operation follows from the request. Source: Kafka's KafkaApis.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

__all__ = ["CLUSTER", "Right", "needed"]

CLUSTER: Final = "kafka-cluster"  # the cluster's name as a resource


@attrs.frozen
class Right:
    """An operation on a resource: `WRITE` on the topic `orders`."""

    operation: str  # Kafka's name; two names if the response does not show which right is missing: `DESCRIBE or CREATE`
    resource: str  # topic, group, cluster, transactional id or user
    name: str  # an empty name of a topic stands for every topic, as limited by `besides`
    besides: str = ""  # text after the name: another right that is enough or also needed, or a limit on the topics

    def __str__(self) -> str:
        named = f"{self.resource} {self.name!r}" if self.name or self.resource != "topic" else "every topic"
        where = "the cluster" if self.resource == "cluster" else named
        return f"{self.operation} on {where}{self.besides}"

    @property
    def way_out(self) -> str:
        """The right, and the command that grants it."""
        operation = "".join(part.capitalize() for part in self.operation.split(" or ")[0].split("_"))
        named = "" if self.resource == "cluster" else f" {self.name or '<name>'}"
        granting = (
            f"kafka-acls --add --allow-principal User:<name> --operation {operation} --{_OPTIONS.get(self.resource, self.resource)}{named}"
        )
        return f"needs {self}; grant it with `{granting}`, or ask an administrator"


_OPTIONS: Final[Mapping[str, str]] = {"transactional id": "transactional-id", "user": "user-principal"}  # of kafka-acls
# The operation on each kind of resource, by request. Only brokers before Kafka 2.8 require IDEMPOTENT_WRITE.
_OPERATIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "Metadata": {"topic": "DESCRIBE"},
    "Produce": {"topic": "WRITE", "cluster": "IDEMPOTENT_WRITE", "transactional id": "WRITE"},
    "InitProducerId": {"cluster": "IDEMPOTENT_WRITE", "transactional id": "WRITE"},
    "Fetch": {"topic": "READ"},
    "ListOffsets": {"topic": "DESCRIBE"},
    "FindCoordinator": {"group": "DESCRIBE", "transactional id": "DESCRIBE"},
    "AddPartitionsToTxn": {"topic": "WRITE", "transactional id": "WRITE"},
    "AddOffsetsToTxn": {"group": "READ", "transactional id": "WRITE"},
    "TxnOffsetCommit": {"group": "READ", "topic": "READ", "transactional id": "WRITE"},
    "EndTxn": {"transactional id": "WRITE"},
    "JoinGroup": {"group": "READ"},
    "SyncGroup": {"group": "READ"},
    "Heartbeat": {"group": "READ"},
    "ConsumerGroupHeartbeat": {"group": "READ", "topic": "DESCRIBE"},
    "OffsetCommit": {"group": "READ", "topic": "READ"},
    "OffsetFetch": {"group": "DESCRIBE", "topic": "DESCRIBE"},
    "OffsetDelete": {"group": "DELETE", "topic": "READ"},
    "ListGroups": {"cluster": "DESCRIBE"},
    "DescribeLogDirs": {"cluster": "DESCRIBE"},
    "DescribeQuorum": {"cluster": "DESCRIBE"},
    "UpdateFeatures": {"cluster": "ALTER"},
    "UnregisterBroker": {"cluster": "ALTER"},
    "AlterReplicaLogDirs": {"cluster": "ALTER"},
    "AlterPartitionReassignments": {"cluster": "ALTER"},
    "ListPartitionReassignments": {"cluster": "DESCRIBE"},
    "ElectLeaders": {"cluster": "ALTER"},
    "DescribeProducers": {"topic": "READ"},
    "DescribeTransactions": {"transactional id": "DESCRIBE"},
    "WriteTxnMarkers": {"cluster": "ALTER"},
    "DescribeGroups": {"group": "DESCRIBE"},
    "ConsumerGroupDescribe": {"group": "DESCRIBE", "topic": "DESCRIBE"},
    "DeleteGroups": {"group": "DELETE"},
    "CreateTopics": {"topic": "CREATE", "cluster": "CREATE"},
    "CreatePartitions": {"topic": "ALTER"},
    "DeleteTopics": {"topic": "DELETE"},
    "DeleteRecords": {"topic": "DELETE"},
    "DescribeTopicPartitions": {"topic": "DESCRIBE"},
    "DescribeConfigs": {"topic": "DESCRIBE_CONFIGS", "cluster": "DESCRIBE_CONFIGS", "group": "DESCRIBE_CONFIGS"},
    "IncrementalAlterConfigs": {"topic": "ALTER_CONFIGS", "cluster": "ALTER_CONFIGS", "group": "ALTER_CONFIGS"},
    "ListConfigResources": {"cluster": "DESCRIBE_CONFIGS"},
    "DescribeAcls": {"cluster": "DESCRIBE"},
    "CreateAcls": {"cluster": "ALTER"},
    "DeleteAcls": {"cluster": "ALTER"},
    "DescribeUserScramCredentials": {"cluster": "DESCRIBE"},
    "AlterUserScramCredentials": {"cluster": "ALTER"},
    "DescribeClientQuotas": {"cluster": "DESCRIBE_CONFIGS"},
    "AlterClientQuotas": {"cluster": "ALTER_CONFIGS"},
    "ShareGroupDescribe": {"group": "DESCRIBE", "topic": "DESCRIBE"},
    "DescribeShareGroupOffsets": {"group": "DESCRIBE", "topic": "DESCRIBE"},
    "AlterShareGroupOffsets": {"group": "READ", "topic": "READ"},
    "DeleteShareGroupOffsets": {"group": "DELETE", "topic": "READ"},
    "ShareGroupHeartbeat": {"group": "READ", "topic": "DESCRIBE"},
    "ShareFetch": {"group": "READ", "topic": "READ"},
    "ShareAcknowledge": {"group": "READ", "topic": "READ"},
}
_RESOURCES: Final[Mapping[str, str]] = {
    "TOPIC_AUTHORIZATION_FAILED": "topic",
    "GROUP_AUTHORIZATION_FAILED": "group",
    "CLUSTER_AUTHORIZATION_FAILED": "cluster",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "transactional id",
}


def needed(
    error: str, request: str, *, topic: str = "", group: str = "", transactional_id: str = "", creating: bool = False
) -> Right | None:
    """The right that the refused user lacked for `request`; None if the table has none. `error` and `request` are Kafka's names.

    `creating`: brokers would also have created the topic, which needs another right and is denied with the same code.
    """
    resource = _RESOURCES.get(error, "")
    operation = _OPERATIONS.get(request, {}).get(resource)
    if operation is None:
        return None
    if (request, resource) == ("InitProducerId", "cluster") and topic:  # from Kafka 2.8 on, WRITE on any topic is enough
        return Right("WRITE", "topic", topic, " (with brokers before Kafka 2.8 also IDEMPOTENT_WRITE on the cluster)")
    if (request, resource) == ("CreateTopics", "topic"):
        return Right(operation, "topic", topic, " (or on the cluster)")
    if request in ("ConsumerGroupDescribe", "ShareGroupDescribe") and resource == "topic":  # the response names no topic
        return Right(operation, "topic", topic, " of the members of the group")
    if (request, resource) == ("Metadata", "topic") and creating:
        return Right("DESCRIBE or CREATE", "topic", topic, " (CREATE, also on the cluster, if it does not exist)")
    names = {"topic": topic, "group": group, "cluster": CLUSTER, "transactional id": transactional_id}
    return Right(operation, resource, names.get(resource, ""))
