"""Share sessions of the model broker, as Kafka has them."""

from __future__ import annotations

from typing import Any

from pykafka4.testing import ModelCluster
from pykafka4.wire.protocol.messages_share import AcknowledgementBatch, ShareFetchRequest, ShareFetchResponse
from pykafka4.wire.records.batch import WireRecord
from tests.testing.model_client import ModelClient

ACCEPT = 1
Partition = ShareFetchRequest.Topic.Partition


def fetch(cluster: ModelCluster, member: str, epoch: int, *acknowledged: AcknowledgementBatch, most: int = 10) -> Any:
    part = Partition(partition_index=0, acknowledgement_batches=list(acknowledged))
    return ShareFetchRequest(
        group_id="g",
        member_id=member,
        share_session_epoch=epoch,
        max_wait_ms=0,
        min_bytes=0,
        max_records=most,
        batch_size=most,
        topics=[ShareFetchRequest.Topic(topic_id=cluster.topics["t"].id, partitions=[part])],
        forgotten_topics_data=[],
    )


def acquired(response: ShareFetchResponse) -> list[tuple[int, int]]:
    assert response.error_code == 0
    parts = [part for topic in response.responses for part in topic.partitions]
    return [(span.first_offset, span.last_offset) for part in parts for span in part.acquired_records]


def test_a_fetch_that_closes_its_session_acquires_nothing_and_releases_the_records() -> None:
    cluster = ModelCluster(brokers=1)
    cluster.create_topic("t", 1)
    cluster.shares.auto_offset_reset = "earliest"
    for _ in range(4):
        cluster.append("t", 0, [WireRecord(value=b"v")])
    client = ModelClient(cluster)
    assert acquired(client.call(fetch(cluster, "m", 0, most=2))) == [(0, 1)]
    accepted = AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[ACCEPT])
    last = client.call(fetch(cluster, "m", -1, accepted))
    assert acquired(last) == []
    assert [part.acknowledge_error_code for topic in last.responses for part in topic.partitions] == [0]
    assert client.call(fetch(cluster, "m", 1)).error_code != 0
    assert acquired(ModelClient(cluster).call(fetch(cluster, "other", 0)))[0][0] == 1
