"""Calls of an admin client about the cluster, and the right that each of them needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from integration.access import Operation
from pykafka4 import AdminClient, TopicPartition
from pykafka4.admin.calls import raised
from pykafka4.core.admin.producers import ActiveProducer

Call = Callable[[AdminClient, str], Any]
HANGS = ActiveProducer(1, 0, 0, 0, None, 0)
# Each call about the cluster, the right that it needs, and on what; without it, whether the call raises or returns the error.
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
]
