"""Questions by themselves: what is sent, and what a response means."""

from __future__ import annotations

import pytest

from pykafka4.core import Reply
from pykafka4.core.admin.cluster import THE_CLUSTER, DescribeQuorum, QuorumDescription
from pykafka4.core.admin.producers import AbortTransaction, ActiveProducer
from pykafka4.core.admin.question_run import Refusal
from pykafka4.core.admin.replicas import DescribeLogDirs, LogDir
from pykafka4.core.admin.topic_queries import AwaitChanges, Change
from pykafka4.errors.codes import BY_NAME
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_admin import DescribeLogDirsResponse
from pykafka4.wire.protocol.messages_cluster import MetadataResponse
from pykafka4.wire.protocol.messages_replicas import DescribeQuorumResponse

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize(("known", "sent"), [(3, 3), (None, 0)])
def test_an_abort_has_the_epoch_of_the_last_coordinator(known: int | None, sent: int) -> None:
    """A leader refuses an older one: TRANSACTION_COORDINATOR_FENCED."""
    producer = ActiveProducer(4, 1, 2, 1_000, known, 7)
    (marker,) = AbortTransaction(producer).message([T0]).markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_result) == (4, 1, sent, False)
    assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("t", [0])]


@pytest.mark.parametrize(("leaders", "is_known"), [([1], False), ([1, -1], False), ([1, 2], True)])
def test_a_change_is_known_to_a_broker_that_knows_a_leader_of_each_partition(leaders: list[int], *, is_known: bool) -> None:
    parts = [MetadataResponse.Topic.Partition(partition_index=number, leader_id=leader) for number, leader in enumerate(leaders)]
    answer = MetadataResponse(topics=[MetadataResponse.Topic(name="t", partitions=parts)])
    late = Refusal(BY_NAME["LEADER_NOT_AVAILABLE"].code, "t")
    assert AwaitChanges({"t": Change(2)}).read([1], Reply(answer, 12, 1)) == {1: True if is_known else late}


@pytest.mark.parametrize(("version", "space"), [(3, (None, None)), (4, (100, 40))])
def test_the_space_of_a_volume_is_known_from_version_4_on(version: int, space: tuple[int | None, int | None]) -> None:
    row = DescribeLogDirsResponse.Result(log_dir="/d", topics=[], total_bytes=100, usable_bytes=40)
    answer = DescribeLogDirsResponse(results=[row])
    assert DescribeLogDirs().read([1], Reply(answer, version, 1)) == {1: (LogDir("/d", {}, *space),)}


def test_a_replica_without_a_known_end_has_no_lag() -> None:
    """A leader reports -1 until the replica has fetched from it (`LeaderState.describeReplicaState`)."""
    topic = DescribeQuorumResponse.Topic
    voters = [topic.Partition.Voter(replica_id=id_, log_end_offset=end) for id_, end in ((1, 100), (2, 95), (3, -1))]
    row = topic.Partition(leader_id=1, leader_epoch=5, high_watermark=95, current_voters=voters, observers=[])
    answer = DescribeQuorumResponse(topics=[topic(partitions=[row])])
    found = DescribeQuorum().read([THE_CLUSTER], Reply(answer, 0, 1))[THE_CLUSTER]
    assert isinstance(found, QuorumDescription)
    assert [(voter.id, voter.log_end_offset, voter.lag) for voter in found.voters] == [(1, 100, 0), (2, 95, 5), (3, None, None)]
    assert found.max_lag == 5
