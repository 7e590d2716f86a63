"""Calls of an admin client, and the right that each of them needs beside DESCRIBE on the topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from integration.access import Operation
from pykafka4 import ActiveProducer, AdminClient, TopicPartition
from pykafka4.admin.calls import raised

Call = Callable[[AdminClient, str], Any]
HANGS = ActiveProducer(1, 0, 0, 0, None, 0)
# Each call, the right that it needs, and on what; without it, whether the call raises or returns the error.
NEEDS: list[tuple[Call, Operation, str]] = [
    (lambda admin, _: admin.describe_quorum(), "describe", "cluster"),
    (lambda admin, _: raised(admin.describe_log_dirs([1])[1]), "describe", "cluster"),
    (lambda admin, _: admin.list_reassignments(), "describe", "cluster"),
    (lambda admin, topic: admin.alter_reassignments({(topic, 0): [1]}), "alter", "cluster"),
    (lambda admin, topic: admin.elect_leaders([(topic, 0)]), "alter", "cluster"),
    (lambda admin, _: admin.update_features({"group.version": 1}, validate_only=True), "alter", "cluster"),
    (lambda admin, topic: admin.abort_transaction((topic, 0), HANGS), "alter", "cluster"),
    (lambda admin, topic: raised(admin.describe_producers([(topic, 0)])[TopicPartition(topic, 0)]), "read", "topic"),
    (lambda admin, topic: admin.describe_transaction(topic), "describe", "transactional id"),
    (lambda admin, topic: admin.create_topics({f"{topic}-new": 1}), "create", "topic"),
    (lambda admin, topic: admin.describe_topic(f"{topic}-new"), "describe", "topic"),
    (lambda admin, topic: admin.create_partitions({topic: 2}), "alter", "topic"),
    (lambda admin, topic: admin.delete_topics([topic]), "delete", "topic"),
    (lambda admin, topic: admin.delete_records({(topic, 0): 0}), "delete", "topic"),
    (lambda admin, topic: admin.describe_config("topic", topic), "describe_configs", "topic"),
    (lambda admin, topic: admin.alter_configs({("topic", topic): {"retention.ms": 5000}}), "alter_configs", "topic"),
    (lambda admin, topic: admin.describe_config("group", topic), "describe_configs", "group"),
    (lambda admin, _: admin.list_config_resources(), "describe_configs", "cluster"),
    (lambda admin, topic: raised(admin.share_group_offsets([topic])[topic]), "describe", "group"),
    (lambda admin, topic: admin.delete_groups([topic]), "describe", "group"),
]
