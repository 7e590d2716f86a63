"""Makes the heartbeats of the consumer protocol (KIP-848). Invariant: every heartbeat but a full one omits the parts of a report that are
unchanged since the last confirmed report."""

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

import attrs

from pykafka4.errors import UnsupportedVersion
from pykafka4.options.config import ConsumerConfig
from pykafka4.wire.protocol.messages_group import ConsumerGroupHeartbeatRequest

__all__ = ["Owned", "Report", "group_heartbeat", "needs_version_1", "not_supported"]

Owned: TypeAlias = tuple[UUID, int]  # topic id, partition


@attrs.frozen
class Report:
    topics: tuple[str, ...]  # the subscribed topics; with `regex`, only those subscribed to by name
    regex: str | None  # the pattern with which the coordinator matches topics; None: the coordinator matches none
    owned: frozenset[Owned]


def group_heartbeat(
    config: ConsumerConfig, member_id: str, epoch: int, report: Report | None, told: Report | None
) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat with the parts of `report` that differ from `told`, the last report that the coordinator confirmed.

    Without `told` the heartbeat is a full one; without `report` it leaves the group.
    """
    message = ConsumerGroupHeartbeatRequest(
        group_id=config.group_id or "", member_id=member_id, member_epoch=epoch, instance_id=config.group_instance_id
    )
    if report is None:
        return message
    if told is None:
        message.rack_id = config.client_rack
        message.rebalance_timeout_ms = int(config.max_poll_interval_ms)
        message.server_assignor = config.group_remote_assignor
    if told is None or told.topics != report.topics:
        message.subscribed_topic_names = list(report.topics)
    if told is None or told.regex != report.regex:
        message.subscribed_topic_regex = report.regex or ""  # null would mean: as before
    if told is None or told.owned != report.owned:
        message.topic_partitions = _by_topic(report.owned)
    return message


def _by_topic(owned: frozenset[Owned]) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(owned):
        topics.setdefault(topic_id, []).append(partition)
    kind = ConsumerGroupHeartbeatRequest.TopicPartitions
    return [kind(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()]


def needs_version_1(message: ConsumerGroupHeartbeatRequest, version: int) -> None:
    """Raise UnsupportedVersion for version 0, in which the coordinator makes the member ids."""
    if version < 1:
        raise UnsupportedVersion("ConsumerGroupHeartbeat: the broker supports version 0, this client needs version 1")


def not_supported(reason: str | None) -> UnsupportedVersion:
    return UnsupportedVersion(
        "group_protocol='consumer' needs brokers with Kafka 4.0 or newer, and `consumer` in their group.coordinator.rebalance.protocols; "
        f"use group_protocol='classic', which all brokers support ({reason or 'the coordinator refuses the protocol'})"
    )
