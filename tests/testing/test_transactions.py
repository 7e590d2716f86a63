"""Transactions in the model cluster: coordinators, markers, the last stable offset, and what readers of committed records get."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.errors.codes import CODES
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelCluster
from pykafka4.testing.transactions.transaction import TransactionState
from pykafka4.wire.protocol.messages_cluster import FindCoordinatorRequest
from pykafka4.wire.protocol.messages_fetch import ListOffsetsRequest
from pykafka4.wire.protocol.messages_group import OffsetCommitRequest, OffsetFetchRequest
from pykafka4.wire.protocol.messages_txn import InitProducerIdRequest
from pykafka4.wire.records.batch import ControlType, WireRecord, batches, build_batch, control_type, records_of
from tests.testing.model_client import ModelClient, fetch_request
from tests.testing.transaction_client import GROUP, NAME, TOPIC, V1, V2, Writer


def made(versions: dict[str, int] = V2, **options: Any) -> tuple[ModelCluster, Writer]:
    cluster = ModelCluster(3, **options)
    cluster.create_topic(TOPIC, 2)
    writer = Writer(cluster, versions)
    assert writer.begin() == "NONE"
    return cluster, writer


def fetched(cluster: ModelCluster, offset: int = 0, partition: int = 0, isolation: int = 1, **options: Any) -> Any:
    leader = cluster.topics[TOPIC].partitions[partition].leader
    message = fetch_request(cluster, TOPIC, partition, offset, isolation_level=isolation, max_wait_ms=0, **options)
    return ModelClient(cluster, leader).call(message).responses[0].partitions[0]


def values(answer: Any) -> list[bytes | None]:
    return [r.value for b in batches(answer.records) if not b.control for r in records_of(b)]


def aborted(answer: Any) -> list[tuple[int, int]] | None:
    if answer.aborted_transactions is None:
        return None
    return [(a.producer_id, a.first_offset) for a in answer.aborted_transactions]


def latest(cluster: ModelCluster, isolation: int) -> int:
    part = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=-1)
    message = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[ListOffsetsRequest.Topic(name=TOPIC, partitions=[part])])
    answer = ModelClient(cluster, cluster.topics[TOPIC].partitions[0].leader).call(message)
    return int(answer.topics[0].partitions[0].offset)


def committed(cluster: ModelCluster, *, stable: bool) -> tuple[int, str]:
    wanted = OffsetFetchRequest.Group.Topic(name=TOPIC, partition_indexes=[0])
    message = OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id=GROUP, topics=[wanted])], require_stable=stable)
    answer = ModelClient(cluster, cluster.coordinator(GROUP) or 1).call(message, 9).groups[0].topics[0].partitions[0]
    return answer.committed_offset, CODES[answer.error_code].name


def markers(cluster: ModelCluster, partition: int = 0) -> list[ControlType | None]:
    found = [b for b in cluster.log(TOPIC, partition).batches if b.header.control]
    return [control_type(records_of(next(batches(b.data)))[0]) for b in found]


@pytest.mark.parametrize("versions", [V1, V2], ids=["v1", "v2"])
def test_a_reader_of_committed_records_sees_a_transaction_when_it_is_committed(versions: dict[str, int]) -> None:
    cluster, writer = made(versions)
    if versions is V1:
        assert writer.add(0) == "NONE"
    assert writer.write(b"a", b"b") == "NONE"
    before = fetched(cluster)
    assert (values(before), before.last_stable_offset, before.high_watermark, aborted(before)) == ([], 0, 2, [])
    assert values(fetched(cluster, isolation=0)) == [b"a", b"b"]
    assert (latest(cluster, 0), latest(cluster, 1)) == (2, 0)
    assert writer.end() == "NONE"
    after = fetched(cluster)
    assert (values(after), after.last_stable_offset, aborted(after)) == ([b"a", b"b"], 3, [])
    assert markers(cluster) == [ControlType.COMMIT]


@pytest.mark.parametrize("versions", [V1, V2], ids=["v1", "v2"])
def test_an_aborted_transaction_is_named_beside_its_records(versions: dict[str, int]) -> None:
    cluster, writer = made(versions)
    if versions is V1:
        assert writer.add(0) == "NONE"
    assert writer.write(b"a") == "NONE"
    first = writer.producer_id
    assert writer.end(False) == "NONE"
    answer = fetched(cluster)
    assert (values(answer), aborted(answer), answer.last_stable_offset) == ([b"a"], [(first, 0)], 2)
    assert aborted(fetched(cluster, offset=1)) == [(first, 0)], "its marker is still ahead"
    assert aborted(fetched(cluster, offset=2)) == []
    assert aborted(fetched(cluster, isolation=0)) is None
    assert markers(cluster) == [ControlType.ABORT]


def test_the_list_is_in_the_order_of_the_markers() -> None:
    cluster, one = made()
    two = Writer(cluster, name="other")
    assert two.begin() == "NONE"
    assert (one.write(b"1"), two.write(b"2")) == ("NONE", "NONE")
    ids = one.producer_id, two.producer_id
    assert two.end(False) == "NONE"
    assert fetched(cluster).last_stable_offset == 0
    assert one.end(False) == "NONE"
    assert aborted(fetched(cluster)) == [(ids[1], 1), (ids[0], 0)]


def test_a_partition_that_was_not_added_refuses_the_write_below_version_12() -> None:
    cluster, writer = made(V1)
    assert writer.write(b"a") == "TRANSACTION_ABORTABLE"
    writer.versions = {**V1, "produce": 9}
    assert writer.write(b"a") == "INVALID_TXN_STATE"
    assert cluster.log(TOPIC, 0).end_offset == 0


def test_before_3_6_leaders_ask_nobody() -> None:
    cluster = ModelCluster(3, release="2.4")
    cluster.create_topic(TOPIC, 2)
    writer = Writer(cluster, {"produce": 8, "end": 1, "offsets": 2})
    assert writer.begin(version=2) == "NONE"
    assert writer.write(b"a") == "NONE"


def test_version_2_raises_the_epoch_with_each_transaction_and_version_1_does_not() -> None:
    for versions, raised in ((V1, 0), (V2, 1)):
        cluster, writer = made(versions)
        assert writer.add(0) == "NONE"
        assert writer.write(b"a") == "NONE"
        epoch = writer.epoch
        assert writer.end() == "NONE"
        assert writer.epoch == epoch + raised
        if versions is V1:
            assert writer.add(0) == "NONE"
        assert writer.write(b"b") == "NONE", "its sequence goes on in the same epoch, or begins again in the next"
        assert writer.end() == "NONE"
        assert values(fetched(cluster)) == [b"a", b"b"]


def test_a_new_producer_fences_the_old_one_and_aborts_its_transaction() -> None:
    cluster, old = made(V1)
    assert old.add(0) == "NONE"
    assert old.write(b"a") == "NONE"
    new = Writer(cluster, V1)
    assert new.begin() == "CONCURRENT_TRANSACTIONS"
    assert new.begin() == "NONE"
    assert new.producer_id == old.producer_id
    assert new.epoch > old.epoch
    assert old.write(b"b") == "INVALID_PRODUCER_EPOCH"
    assert old.add(0) == "PRODUCER_FENCED"
    assert old.add(0, version=1) == "INVALID_PRODUCER_EPOCH", "older versions do not know the error"
    assert old.end() == "PRODUCER_FENCED"
    assert old.begin(keep=True) == "PRODUCER_FENCED"
    assert markers(cluster) == [ControlType.ABORT]


def test_a_producer_that_names_its_epoch_gets_the_next_one_also_when_it_asks_twice() -> None:
    _, writer = made(V1)
    before = writer.producer_id, writer.epoch
    assert writer.begin(keep=True) == "NONE"
    assert (writer.producer_id, writer.epoch) == (before[0], before[1] + 1)
    writer.producer_id, writer.epoch = before
    assert writer.begin(keep=True) == "NONE"
    assert (writer.producer_id, writer.epoch) == (before[0], before[1] + 1)


@pytest.mark.parametrize("versions", [V1, V2], ids=["v1", "v2"])
def test_a_transaction_that_takes_too_long_is_aborted_and_its_epoch_ends(versions: dict[str, int]) -> None:
    cluster, writer = made(versions)
    assert writer.begin(timeout_ms=10_000) == "NONE"
    assert writer.add(0) == "NONE"
    assert writer.write(b"a") == "NONE"
    cluster.timeline.advance(cluster.timeline.now + 9)
    assert markers(cluster) == []
    cluster.timeline.advance(cluster.timeline.now + 2)
    assert markers(cluster) == [ControlType.ABORT]
    assert writer.write(b"b") == "INVALID_PRODUCER_EPOCH"
    assert writer.end() == ("PRODUCER_FENCED" if versions is V1 else "INVALID_TXN_STATE")
    assert writer.end(False) == ("PRODUCER_FENCED" if versions is V1 else "NONE"), "from version 2 on, it takes the next epoch"


def test_a_repeated_end_is_told_the_same() -> None:
    for versions in (V1, V2):
        cluster, writer = made(versions)
        assert writer.add(0) == "NONE"
        assert writer.write(b"a") == "NONE"
        epoch = writer.epoch
        assert writer.end() == "NONE"
        told = writer.epoch
        assert writer.end(epoch=epoch) == "NONE"
        assert writer.epoch == told
        assert writer.end(False, epoch=epoch) == "INVALID_TXN_STATE"
        assert markers(cluster) == [ControlType.COMMIT]


def test_while_markers_are_missing_the_next_transaction_has_to_wait() -> None:
    cluster, writer = made(V1)
    cluster.slow_markers(1.0)
    assert writer.add(0) == "NONE"
    assert writer.write(b"a") == "NONE"
    assert writer.end() == "NONE"
    assert writer.end() == "CONCURRENT_TRANSACTIONS"
    assert writer.add(0) == "CONCURRENT_TRANSACTIONS"
    assert writer.begin() == "CONCURRENT_TRANSACTIONS"
    assert values(fetched(cluster)) == []
    cluster.timeline.advance(1.0)
    assert writer.add(0) == "NONE"
    assert values(fetched(cluster)) == [b"a"]


def test_in_version_2_a_write_while_markers_are_missing_is_told_so() -> None:
    cluster, writer = made()
    cluster.slow_markers(1.0)
    assert writer.write(b"a") == "NONE"
    assert writer.end() == "NONE"
    assert writer.write(b"b") == "CONCURRENT_TRANSACTIONS"
    cluster.timeline.advance(1.0)
    assert writer.write(b"b") == "NONE"


def test_markers_wait_for_a_leader() -> None:
    cluster, writer = made()
    assert (writer.write(b"a"), writer.write(b"b", partition=1, sequence=0)) == ("NONE", "NONE")
    cluster.orphan(TOPIC, 0, 5.0)
    assert writer.end() == "NONE"
    assert cluster.transactions.transactions[NAME].state is TransactionState.PREPARE_COMMIT
    assert markers(cluster, 1) == [ControlType.COMMIT]
    cluster.timeline.advance(6.0)
    assert markers(cluster) == [ControlType.COMMIT]
    assert cluster.transactions.transactions[NAME].state is TransactionState.COMPLETE_COMMIT


def test_a_marker_that_a_leader_lost_is_written_again() -> None:
    cluster, writer = made()
    assert writer.write(b"a") == "NONE"
    leader = cluster.topics[TOPIC].partitions[0].leader
    other = next(node for node in cluster.brokers if node != leader)
    cluster.replication.delay = 0.5
    cluster.timeline.advance(2.0)
    assert writer.end() == "NONE"
    assert markers(cluster) == [ControlType.COMMIT]
    cluster.move_leader(TOPIC, 0, other)
    assert markers(cluster) == []
    assert cluster.log(TOPIC, 0).transactions.open
    cluster.timeline.advance(6.0)
    assert markers(cluster) == [ControlType.COMMIT]
    assert values(fetched(cluster)) == [b"a"]


def test_a_deleted_topic_holds_no_transaction_up() -> None:
    cluster, writer = made()
    assert writer.write(b"a") == "NONE"
    cluster.slow_markers(1.0)
    assert writer.end() == "NONE"
    cluster.recreate_topic(TOPIC)
    cluster.timeline.advance(2.0)
    assert cluster.transactions.transactions[NAME].state is TransactionState.COMPLETE_COMMIT
    assert markers(cluster) == []


def test_only_the_coordinator_serves_a_transactional_id() -> None:
    cluster, writer = made()
    node = cluster.transactions.coordinator_of(NAME)
    question = FindCoordinatorRequest(key="", key_type=1, coordinator_keys=[NAME])
    assert ModelClient(cluster).call(question, 4).coordinators[0].node_id == node
    new = cluster.move_transaction_coordinator(NAME, loading=3.0)
    assert new != node
    assert ModelClient(cluster).call(question, 4).coordinators[0].node_id == new
    message = InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=1000, producer_id=-1, producer_epoch=-1)
    assert CODES[ModelClient(cluster, node or 1).call(message).error_code].name == "NOT_COORDINATOR"
    assert writer.begin() == "COORDINATOR_LOAD_IN_PROGRESS"
    assert writer.write(b"a") == "NOT_ENOUGH_REPLICAS"
    cluster.timeline.advance(3.5)
    assert writer.write(b"a") == "NONE"
    assert writer.begin() == "CONCURRENT_TRANSACTIONS", "the transaction moved with its coordinator"


@pytest.mark.parametrize("versions", [V1, V2], ids=["v1", "v2"])
@pytest.mark.parametrize("commits", [True, False])
def test_offsets_of_a_transaction_are_pending_until_it_ends(versions: dict[str, int], commits: bool) -> None:
    cluster, writer = made(versions)
    if versions is V1:
        assert writer.commit_offset(7) == "TRANSACTION_ABORTABLE"
        assert writer.add_offsets() == "NONE"
    assert writer.commit_offset(7) == "NONE"
    assert committed(cluster, stable=True) == (-1, "UNSTABLE_OFFSET_COMMIT")
    assert committed(cluster, stable=False) == (-1, "NONE")
    assert writer.end(commits) == "NONE"
    assert committed(cluster, stable=True) == (7 if commits else -1, "NONE")


def test_a_commit_that_came_after_the_pending_one_stays() -> None:
    cluster, writer = made()
    assert writer.commit_offset(7) == "NONE"
    part = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=9, committed_metadata="")
    message = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[OffsetCommitRequest.Topic(name=TOPIC, partitions=[part])],
    )
    ModelClient(cluster, cluster.coordinator(GROUP) or 1).call(message, 9)
    assert writer.end() == "NONE"
    assert committed(cluster, stable=True) == (9, "NONE")


def test_epochs_that_are_used_up_lead_to_another_producer_id() -> None:
    for versions in (V1, V2):
        cluster, writer = made(versions)
        known = cluster.transactions.transactions[NAME]
        known.epoch = writer.epoch = 2**15 - 2
        before = writer.producer_id
        assert writer.add(0) == "NONE"
        assert writer.write(b"a") == "NONE"
        assert writer.end() == "NONE"
        if versions is V1:
            assert writer.begin(keep=True) == "NONE"
            assert writer.add(0) == "NONE"
        assert (writer.producer_id > before, writer.epoch) == (True, 0)
        assert writer.write(b"b") == "NONE"
        assert writer.end() == "NONE"
        assert values(fetched(cluster)) == [b"a", b"b"]


def test_a_batch_without_a_transaction_is_refused_inside_one() -> None:
    cluster, writer = made()
    assert writer.write(b"a") == "NONE"
    data = build_batch(
        [WireRecord(timestamp_ms=1, value=b"b")], producer_id=writer.producer_id, producer_epoch=writer.epoch, base_sequence=1
    )
    assert cluster.log(TOPIC, 0).append(data, 0).error == "INVALID_TXN_STATE"


def test_denied_transactional_ids() -> None:
    cluster, writer = made()
    cluster.deny("transactional_id", NAME, "WRITE")
    wanted = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    assert [writer.begin(), writer.add(0), writer.add_offsets(), writer.commit_offset(1), writer.end()] == [wanted] * 5


def test_transactions_of_each_partition_end_where_its_log_is_cut() -> None:
    cluster, writer = made()
    log = cluster.log(TOPIC, 0)
    assert writer.write(b"a") == "NONE"
    assert writer.end(False) == "NONE"
    assert writer.write(b"b") == "NONE"
    assert (log.stable_offset, list(log.transactions.open.values())) == (2, [2])
    log.truncate(2)
    assert (log.stable_offset, log.transactions.open) == (2, {})
    log.truncate(1)
    assert (log.stable_offset, list(log.transactions.open.values()), log.transactions.ended) == (0, [0], [])
    cluster.delete_records(TOPIC, 0, 1)
    assert log.stable_offset == 1


def test_the_partition_of_another_transactional_id_is_none_of_it() -> None:
    cluster, writer = made(V1)
    assert writer.add(0) == "NONE"
    found = cluster.transactions.verify(NAME, writer.producer_id, writer.epoch, TopicPartition(TOPIC, 1))
    assert found == "INVALID_TXN_STATE"


def test_a_transaction_ends_for_readers_when_its_marker_is_replicated() -> None:
    cluster, writer = made()
    assert writer.write(b"a") == "NONE"
    cluster.replication.delay = 0.5
    assert writer.end() == "NONE"
    log = cluster.log(TOPIC, 0)
    assert (log.end_offset, log.high_watermark, log.stable_offset, log.transactions.open) == (2, 1, 0, {})
    cluster.timeline.advance(3.0)
    assert (log.high_watermark, log.stable_offset) == (2, 2)
