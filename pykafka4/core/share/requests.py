"""Builds the requests of a share session. Invariant: a broker that cannot renew locks gets no request to renew them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

from pykafka4.core.share.values import Acknowledgements, AcknowledgeType, ranges
from pykafka4.errors import UnsupportedVersion
from pykafka4.options.share import ShareConsumerConfig
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_share import AcknowledgementBatch, ShareAcknowledgeRequest, ShareFetchRequest

__all__ = ["CLOSE", "by_partition", "require_renewals", "not_supported", "share_acknowledge", "share_fetch"]

CLOSE = -1  # the session epoch of a request that ends the session
RENEWALS_FROM = 2  # the first version of ShareAcknowledge with the type RENEW
ACQUIRE_MODES = {"batch_optimized": 0, "record_limit": 1}


def by_partition(acknowledgements: Iterable[Acknowledgements]) -> dict[tuple[UUID, int], list[AcknowledgementBatch]]:
    """Acknowledgements as brokers expect them: ascending, one batch for each run of offsets with the same type.

    Of several acknowledgements of one offset, the last one applies.
    """
    merged: dict[tuple[UUID, int], dict[int, AcknowledgeType]] = {}
    for each in acknowledgements:
        lease = each.acquired.lease
        merged.setdefault((lease.topic_id, lease.tp.partition), {}).update(each.types)
    return {key: _batches(types) for key, types in merged.items()}


def _batches(types: Mapping[int, AcknowledgeType]) -> list[AcknowledgementBatch]:
    found: list[tuple[int, int, AcknowledgeType]] = []
    for kind in AcknowledgeType:
        found += [(first, last, kind) for first, last in ranges(offset for offset, its in types.items() if its is kind)]
    found.sort()
    return [AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind.value]) for first, last, kind in found]


def share_fetch(
    config: ShareConsumerConfig,
    member_id: str,
    epoch: int,
    added: Mapping[TopicPartition, UUID],
    forgotten: Mapping[TopicPartition, UUID],
    acknowledged: Mapping[tuple[UUID, int], list[AcknowledgementBatch]],
    most: int,
) -> ShareFetchRequest:
    """`most` limits the records; with share_acquire_mode=batch_optimized, the broker also acquires the rest of the last batch."""

    kind = ShareFetchRequest.Topic
    topics: dict[UUID, list[ShareFetchRequest.Topic.Partition]] = {}
    named = dict.fromkeys([*((topic_id, tp.partition) for tp, topic_id in added.items()), *acknowledged])
    for topic_id, partition in named:
        batches = acknowledged.get((topic_id, partition), [])
        topics.setdefault(topic_id, []).append(kind.Partition(partition_index=partition, acknowledgement_batches=batches))
    gone: dict[UUID, list[int]] = {}
    for tp, topic_id in forgotten.items():
        gone.setdefault(topic_id, []).append(tp.partition)
    return ShareFetchRequest(
        group_id=config.group_id,
        member_id=member_id,
        share_session_epoch=epoch,
        max_wait_ms=int(config.fetch_max_wait_ms),
        min_bytes=config.fetch_min_bytes,
        max_bytes=config.fetch_max_bytes,
        max_records=most,
        batch_size=most,
        share_acquire_mode=ACQUIRE_MODES[config.share_acquire_mode],
        topics=[kind(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()],
        forgotten_topics_data=[ShareFetchRequest.ForgottenTopic(topic_id=i, partitions=p) for i, p in gone.items()],
    )


def share_acknowledge(
    config: ShareConsumerConfig, member_id: str, epoch: int, acknowledgements: Collection[Acknowledgements]
) -> ShareAcknowledgeRequest:
    """With epoch CLOSE the broker also ends the session, and releases all other records of the session's partitions."""
    kind = ShareAcknowledgeRequest.Topic
    topics: dict[UUID, list[ShareAcknowledgeRequest.Topic.Partition]] = {}
    merged = by_partition(acknowledgements)
    for (topic_id, partition), batches in merged.items():
        topics.setdefault(topic_id, []).append(kind.Partition(partition_index=partition, acknowledgement_batches=batches))
    return ShareAcknowledgeRequest(
        group_id=config.group_id,
        member_id=member_id,
        share_session_epoch=epoch,
        is_renew_ack=any(AcknowledgeType.RENEW.value in batch.acknowledge_types for batches in merged.values() for batch in batches),
        topics=[kind(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()],
    )


def require_renewals(message: ShareAcknowledgeRequest, version: int) -> None:
    """Raise UnsupportedVersion if `message` renews locks and the broker cannot."""
    if version < RENEWALS_FROM and message.is_renew_ack:
        raise UnsupportedVersion(
            f"renewing the lock of a record needs brokers with Kafka 4.2 or newer (ShareAcknowledge 2; this broker has {version}): "
            "accept or release the record instead, or raise the group's config share.record.lock.duration.ms"
        )


def not_supported(reason: str | None, metadata_version: int | None, share_version: int | None) -> UnsupportedVersion:
    """The error for brokers without share groups. A feature level is None while the client does not know it."""
    theirs = f"the cluster has metadata.version {metadata_version or 'none'}, share.version {share_version or 0}"
    return UnsupportedVersion(
        "share groups need brokers with Kafka 4.2 or newer (a preview is in 4.1), and the feature share.version: upgrade the brokers, "
        "then run `kafka-features.sh --bootstrap-server … upgrade --feature share.version=1`; or use Consumer, which all brokers support "
        f"({theirs}; {reason or 'the broker refuses share groups'})"
    )
