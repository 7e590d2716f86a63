"""The model cluster, tested with encoded requests."""

from __future__ import annotations

import re
from uuid import UUID

import pytest

from pykafka4.errors.codes import CODES
from pykafka4.records import TopicPartition
from pykafka4.testing import Fault, ModelCluster, When
from pykafka4.testing.cluster.releases import RELEASES
from pykafka4.testing.requests.handlers import HANDLERS
from pykafka4.wire.protocol.frame import encode_request
from pykafka4.wire.protocol.messages_admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeClusterRequest,
)
from pykafka4.wire.protocol.messages_cluster import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from pykafka4.wire.protocol.messages_fetch import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from pykafka4.wire.protocol.messages_produce import ProduceRequest
from pykafka4.wire.protocol.messages_txn import InitProducerIdRequest
from pykafka4.wire.records.batch import WireRecord, batches, build_batch, records_of
from tests.testing.model_client import ModelClient, fetch_request, produce_request

ONE = build_batch([WireRecord(timestamp_ms=1, value=b"one")])
TWO = build_batch([WireRecord(timestamp_ms=2, value=b"two")])


def name(number: int) -> str:
    return CODES[number].name


@pytest.fixture
def cluster() -> ModelCluster:
    """Three brokers; t-0 is led by 1, t-1 by 2, t-2 by 3."""
    made = ModelCluster()
    made.create_topic("t", 3, leaders=(1, 2, 3))
    return made


def produced(client: ModelClient, partition: int, data: bytes, version: int | None = None) -> tuple[str, int]:
    answer = client.call(produce_request(client.cluster, "t", partition, data), version).responses[0].partition_responses[0]
    return name(answer.error_code), answer.base_offset


def asked_metadata(client: ModelClient, *topics: str, create: bool = False, version: int | None = None) -> MetadataRequest:
    wanted = [MetadataRequest.Topic(topic_id=UUID(int=0), name=topic) for topic in topics]
    return client.call(MetadataRequest(topics=wanted, allow_auto_topic_creation=create), version)


# ---- produce and fetch


def test_what_is_produced_can_be_fetched(cluster: ModelCluster) -> None:
    client = ModelClient(cluster, 1)
    assert produced(client, 0, ONE) == ("NONE", 0)
    assert produced(client, 0, TWO) == ("NONE", 1)
    part = client.call(fetch_request(cluster, "t", 0, 0)).responses[0].partitions[0]
    assert [r.value for b in batches(part.records) for r in records_of(b)] == [b"one", b"two"]
    assert part.high_watermark == 2


@pytest.mark.parametrize("version", range(3, 14))
def test_every_produce_version_is_understood(cluster: ModelCluster, version: int) -> None:
    assert produced(ModelClient(cluster, 1), 0, ONE, version) == ("NONE", 0)


@pytest.mark.parametrize("version", range(4, 19))
def test_every_fetch_version_is_understood(cluster: ModelCluster, version: int) -> None:
    cluster.append("t", 0, [WireRecord(value=b"x")])
    part = ModelClient(cluster, 1).call(fetch_request(cluster, "t", 0, 0), version).responses[0].partitions[0]
    assert len(part.records) > 61


def test_another_broker_names_the_leader(cluster: ModelCluster) -> None:
    client = ModelClient(cluster, 1)
    answer = client.call(produce_request(cluster, "t", 1, ONE))
    part = answer.responses[0].partition_responses[0]
    assert (name(part.error_code), part.current_leader.leader_id) == ("NOT_LEADER_OR_FOLLOWER", 2)
    assert [(e.node_id, e.host) for e in answer.node_endpoints] == [(2, "broker-2")]
    assert name(client.call(fetch_request(cluster, "t", 1, 0), 10).responses[0].partitions[0].error_code) == "NOT_LEADER_OR_FOLLOWER"


def test_a_follower_answers_fetches_and_names_the_leader_to_a_stale_client(cluster: ModelCluster) -> None:
    cluster.append("t", 1, [WireRecord(value=b"x")])
    assert len(ModelClient(cluster, 1).call(fetch_request(cluster, "t", 1, 0)).responses[0].partitions[0].records)
    cluster.move_leader("t", 1, to=3)
    stale = ModelClient(cluster, 1).call(fetch_request(cluster, "t", 1, 0, current_leader_epoch=0)).responses[0].partitions[0]
    assert (name(stale.error_code), stale.current_leader.leader_id) == ("FENCED_LEADER_EPOCH", 3)


def test_topic_ids_of_deleted_topics_are_unknown(cluster: ModelCluster) -> None:
    message = produce_request(cluster, "t", 0, ONE)
    cluster.recreate_topic("t")
    part = ModelClient(cluster, 1).call(message).responses[0].partition_responses[0]
    assert name(part.error_code) == "UNKNOWN_TOPIC_ID"


def test_acks_0_gets_no_answer_and_a_closed_connection_on_error(cluster: ModelCluster) -> None:
    client = ModelClient(cluster, 1)
    client.ask(produce_request(cluster, "t", 0, ONE, acks=0))
    assert client.answers == {}
    assert len(cluster.records("t", 0)) == 1
    client.ask(produce_request(cluster, "t", 1, ONE, acks=0))
    assert client.closed


def test_a_fetch_waits_for_records_and_no_longer_than_asked(cluster: ModelCluster) -> None:
    client = ModelClient(cluster, 1)
    first = client.ask(fetch_request(cluster, "t", 0, 0))
    assert first not in client.answers
    cluster.append("t", 0, [WireRecord(value=b"x")])
    assert len(client.answers[first].responses[0].partitions[0].records)
    second = client.ask(fetch_request(cluster, "t", 0, 1))
    cluster.timeline.advance(0.49)
    assert second not in client.answers
    cluster.timeline.advance(0.51)
    assert not len(client.answers[second].responses[0].partitions[0].records)


def test_a_waiting_fetch_hears_of_a_leader_change(cluster: ModelCluster) -> None:
    client = ModelClient(cluster, 1)
    number = client.ask(fetch_request(cluster, "t", 0, 0, current_leader_epoch=0))
    cluster.move_leader("t", 0, to=2)
    assert name(client.answers[number].responses[0].partitions[0].error_code) == "FENCED_LEADER_EPOCH"


def test_the_first_batch_comes_whole_whatever_the_limit(cluster: ModelCluster) -> None:
    cluster.append("t", 0, [WireRecord(value=b"x" * 1000)])
    cluster.append("t", 0, [WireRecord(value=b"y" * 1000)])
    part = ModelClient(cluster, 1).call(fetch_request(cluster, "t", 0, 0, partition_max_bytes=10, max_bytes=10)).responses[0].partitions[0]
    assert [r.value for b in batches(part.records) for r in records_of(b)] == [b"x" * 1000]


@pytest.mark.parametrize(("offset", "error"), [(-1, "OFFSET_OUT_OF_RANGE"), (2, "OFFSET_OUT_OF_RANGE"), (0, "NONE")])
def test_offsets_out_of_range_are_refused(cluster: ModelCluster, offset: int, error: str) -> None:
    cluster.append("t", 0, [WireRecord(value=b"x")])
    assert name(ModelClient(cluster, 1).call(fetch_request(cluster, "t", 0, offset)).responses[0].partitions[0].error_code) == error


def test_old_and_future_leader_epochs_are_fenced(cluster: ModelCluster) -> None:
    cluster.move_leader("t", 0, to=1)
    client = ModelClient(cluster, 1)
    for epoch, error in ((0, "FENCED_LEADER_EPOCH"), (2, "UNKNOWN_LEADER_EPOCH")):
        part = client.call(fetch_request(cluster, "t", 0, 0, current_leader_epoch=epoch)).responses[0].partitions[0]
        assert name(part.error_code) == error


def test_a_fetch_of_a_lost_epoch_gets_the_end_of_that_epoch(cluster: ModelCluster) -> None:
    for _ in range(3):
        cluster.append("t", 0, [WireRecord(value=b"x")])
    cluster.log("t", 0).truncate(1)
    cluster.move_leader("t", 0, to=1)
    cluster.append("t", 0, [WireRecord(value=b"y")])
    part = ModelClient(cluster, 1).call(fetch_request(cluster, "t", 0, 2, last_fetched_epoch=0)).responses[0].partitions[0]
    assert (part.diverging_epoch.epoch, part.diverging_epoch.end_offset) == (0, 1)


def test_offsets_are_listed(cluster: ModelCluster) -> None:
    cluster.append("t", 0, [WireRecord(timestamp_ms=100 + n, value=b"x") for n in range(3)])
    cluster.log("t", 0).delete_before(1)
    got = []
    for asked in (-1, -2, 102, 999):
        wanted = ListOffsetsRequest.Topic(
            name="t", partitions=[ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=asked, current_leader_epoch=-1)]
        )
        answer = ModelClient(cluster, 1).call(ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[wanted]))
        got.append(answer.topics[0].partitions[0].offset)
    assert got == [3, 1, 2, -1]


def test_epochs_are_looked_up(cluster: ModelCluster) -> None:
    cluster.append("t", 0, [WireRecord(value=b"x")])
    cluster.move_leader("t", 0, to=1)
    cluster.append("t", 0, [WireRecord(value=b"y")])
    part = OffsetForLeaderEpochRequest.Topic.Partition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    message = OffsetForLeaderEpochRequest(replica_id=-1, topics=[OffsetForLeaderEpochRequest.Topic(topic="t", partitions=[part])])
    assert ModelClient(cluster, 1).call(message).topics[0].partitions[0].end_offset == 1


# ---- metadata


def test_metadata_tells_leaders_ids_and_brokers(cluster: ModelCluster) -> None:
    answer = asked_metadata(ModelClient(cluster), "t")
    assert [b.node_id for b in answer.brokers] == [1, 2, 3]
    assert [(p.leader_id, p.leader_epoch) for p in answer.topics[0].partitions] == [(1, 0), (2, 0), (3, 0)]
    assert answer.topics[0].topic_id == cluster.topics["t"].id


def test_unknown_topics_are_created_when_both_sides_agree(cluster: ModelCluster) -> None:
    client = ModelClient(cluster)
    assert name(asked_metadata(client, "new").topics[0].error_code) == "UNKNOWN_TOPIC_OR_PARTITION"
    cluster.timeline.advance(1)
    assert "new" not in cluster.topics
    asked_metadata(client, "new", create=True)
    cluster.timeline.advance(2)
    assert len(asked_metadata(client, "new").topics[0].partitions) == 3
    assert name(asked_metadata(client, "no/good", create=True).topics[0].error_code) == "INVALID_TOPIC_EXCEPTION"


def test_stale_metadata_tells_how_things_were(cluster: ModelCluster) -> None:
    cluster.stale_metadata(1.0)
    cluster.move_leader("t", 0, to=3)
    assert asked_metadata(ModelClient(cluster), "t").topics[0].partitions[0].leader_id == 1
    cluster.timeline.advance(1.1)
    assert asked_metadata(ModelClient(cluster), "t").topics[0].partitions[0].leader_id == 3


def test_a_hidden_topic_still_takes_records(cluster: ModelCluster) -> None:
    cluster.hide_topic("t", 5.0)
    client = ModelClient(cluster, 1)
    assert name(asked_metadata(client, "t").topics[0].error_code) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert produced(client, 0, ONE) == ("NONE", 0)


def test_a_stopped_broker_refuses_and_its_partitions_move(cluster: ModelCluster) -> None:
    client = ModelClient(cluster, 1)
    cluster.stop_broker(1, failover=0.5)
    assert client.closed
    assert cluster.accept(1, client) is None
    other = ModelClient(cluster, 2)
    assert asked_metadata(other, "t").topics[0].partitions[0].leader_id == 1
    cluster.timeline.advance(1.0)
    moved = asked_metadata(other, "t").topics[0].partitions[0]
    assert (moved.leader_id in (2, 3), moved.leader_epoch) == (True, 1)
    cluster.start_broker(1)
    assert produced(ModelClient(cluster, moved.leader_id), 0, ONE) == ("NONE", 0)


def test_a_partition_without_leader_says_so(cluster: ModelCluster) -> None:
    cluster.orphan("t", 0, 1.0)
    part = asked_metadata(ModelClient(cluster), "t").topics[0].partitions[0]
    assert (part.leader_id, name(part.error_code)) == (-1, "LEADER_NOT_AVAILABLE")
    cluster.timeline.advance(1.5)
    assert asked_metadata(ModelClient(cluster), "t").topics[0].partitions[0].leader_id > 0


def test_a_producer_without_transactions_always_gets_a_new_id(cluster: ModelCluster) -> None:
    ask = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000, producer_id=5, producer_epoch=3)
    got = [ModelClient(cluster).call(ask) for _ in range(2)]
    assert got[0].producer_id != got[1].producer_id
    assert [g.producer_epoch for g in got] == [0, 0]


def test_cluster_and_coordinators_are_described(cluster: ModelCluster) -> None:
    answer = ModelClient(cluster).call(DescribeClusterRequest(include_cluster_authorized_operations=False))
    assert (answer.cluster_id, len(answer.brokers)) == ("model-cluster", 3)
    found = ModelClient(cluster).call(FindCoordinatorRequest(key="", key_type=0, coordinator_keys=["a", "b"])).coordinators
    assert [f.node_id for f in found] == [cluster.coordinator("a"), cluster.coordinator("b")]


# ---- versions


def test_every_api_of_a_release_has_a_handler() -> None:
    assert [release for release, ranges in RELEASES.items() if ranges.keys() - HANDLERS.keys()] == []


@pytest.mark.parametrize("release", sorted(RELEASES))
def test_every_release_answers_api_versions_and_metadata(release: str) -> None:
    cluster = ModelCluster(release=release)
    cluster.create_topic("t", 1)
    client = ModelClient(cluster)
    spoken = {a.api_key: (a.min_version, a.max_version) for a in client.call(ApiVersionsRequest()).api_keys}
    assert spoken == cluster.versions
    assert asked_metadata(client, "t").topics[0].name == "t"


def test_an_api_versions_request_too_new_is_answered_in_version_0() -> None:
    client = ModelClient(ModelCluster(release="2.1"))
    assert name(client.call(ApiVersionsRequest(), 3).error_code) == "UNSUPPORTED_VERSION"
    assert len(client.call(ApiVersionsRequest(), 0).api_keys)


def test_a_request_too_new_costs_the_connection() -> None:
    cluster = ModelCluster(release="2.1")
    cluster.create_topic("t", 1, leaders=(1,))
    client = ModelClient(cluster)
    client.ask(produce_request(cluster, "t", 0, ONE), 12)
    assert client.closed


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (b"\0\x03\0\x0c\0\0\0\x07\0\x02me\0\x09", "Metadata v12 of client 'me' cannot be decoded: MetadataRequest"),
        (
            b"\0\x03\0\x63\0\0\0\x07\0\x02me",
            "Metadata v99 of client 'me' cannot be decoded: the model of Kafka 4.4 supports versions 0 to 13",
        ),
        (b"\0\x63\0\0\0\0\0\x07\0\x02me", "API 99 v0 of client 'me' cannot be decoded: the model of Kafka 4.4 supports no version of it"),
        (b"\0\x03\0\0\0\0\0\x07\x7f\xffme", "Metadata v0 of client 'me' cannot be decoded: a client id of 32767 bytes"),
        (b"\0\x03", "a request of client '' cannot be decoded: a frame of size 2 is too small for a request header"),
    ],
)
def test_a_request_that_cannot_be_decoded_is_logged(
    cluster: ModelCluster, frame: bytes, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = ModelClient(cluster)
    client.session.receive(len(frame).to_bytes(4, "big") + frame)
    assert client.closed
    assert re.search(f"broker 1 closes a connection: {told}", caplog.text), caplog.text


def test_any_number_of_requests_that_arrive_together_are_answered_in_order(cluster: ModelCluster) -> None:
    client = ModelClient(cluster)
    message = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    many = range(3_000)
    client.asked = dict.fromkeys(many, (MetadataRequest, 9))
    client.session.receive(b"".join(bytes(part) for number in many for part in encode_request(message, 9, number, "client")))
    assert client.order == list(many)
    assert not client.closed


def test_bytes_behind_a_request_are_ignored_as_brokers_do(cluster: ModelCluster) -> None:
    client = ModelClient(cluster)
    client.asked[7] = (MetadataRequest, 12)
    request = b"".join(bytes(part) for part in encode_request(MetadataRequest(topics=None), 12, 7, "me"))[4:] + b"\0\0\0"
    client.session.receive(len(request).to_bytes(4, "big") + request)
    assert [topic.name for topic in client.answers[7].topics] == ["t"]


@pytest.mark.parametrize("rubbish", [b"\xff\xff\xff\xff", b"\0\0\0\x02ab", b"\0\0\0\x08\0\x03\0\x09aaaa", b"GET / HTTP/1.1\r\n\r\n"])
def test_invalid_bytes_close_the_connection_and_nothing_else(cluster: ModelCluster, rubbish: bytes) -> None:
    client = ModelClient(cluster)
    client.session.receive(rubbish)
    assert client.closed
    assert asked_metadata(ModelClient(cluster), "t").topics[0].name == "t"


def test_requests_may_arrive_in_any_pieces(cluster: ModelCluster) -> None:
    client = ModelClient(cluster)
    message = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    client.asked[0] = (MetadataRequest, 12)
    for byte in b"".join(bytes(part) for part in encode_request(message, 12, 0, "client")):
        client.session.receive(bytes([byte]))
    assert client.answers[0].topics[0].name == "t"


# ---- faults


def test_pushed_errors_hit_their_partition_as_often_as_ordered(cluster: ModelCluster) -> None:
    cluster.push_error(ProduceRequest, "KAFKA_STORAGE_ERROR", topic="t", partition=0, times=2)
    client = ModelClient(cluster, 1)
    assert [produced(client, 0, ONE)[0] for _ in range(3)] == ["KAFKA_STORAGE_ERROR", "KAFKA_STORAGE_ERROR", "NONE"]
    assert len(cluster.records("t")) == 1


def test_an_error_after_the_append_leaves_the_record_there(cluster: ModelCluster) -> None:
    cluster.push_error(ProduceRequest, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", when=When.AFTER)
    assert produced(ModelClient(cluster, 1), 0, ONE)[0] == "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    assert len(cluster.records("t", 0)) == 1


@pytest.mark.parametrize(
    ("fault", "appended", "closed"), [(Fault.DROP_BEFORE, 0, True), (Fault.DROP_AFTER, 1, True), (Fault.SWALLOW, 1, False)]
)
def test_faults_do_what_they_say(cluster: ModelCluster, fault: Fault, appended: int, closed: bool) -> None:
    cluster.inject(ProduceRequest, fault)
    client = ModelClient(cluster, 1)
    client.ask(produce_request(cluster, "t", 0, ONE))
    assert (len(cluster.records("t", 0)), client.closed, client.answers) == (appended, closed, {})


def test_an_answer_cut_midway_delivers_its_first_half(cluster: ModelCluster) -> None:
    cluster.inject(ProduceRequest, Fault.DROP_MIDWAY)
    client = ModelClient(cluster, 1)
    client.ask(produce_request(cluster, "t", 0, ONE))
    assert client.bytes
    assert client.closed
    assert client.answers == {}


def test_later_answers_come_later_and_hold_up_those_behind(cluster: ModelCluster) -> None:
    cluster.inject(ProduceRequest, Fault.DELAY_REPLY, seconds=1.0)
    client = ModelClient(cluster, 1)
    client.ask(produce_request(cluster, "t", 0, ONE))
    client.ask(produce_request(cluster, "t", 0, TWO))
    assert len(cluster.records("t", 0)) == 1
    cluster.timeline.advance(1.0)
    assert client.order == [0, 1]


def test_a_frozen_broker_executes_what_piled_up_even_for_the_dead(cluster: ModelCluster) -> None:
    cluster.zombies = 1.0
    client = ModelClient(cluster, 1)
    cluster.freeze(1, 5.0)
    client.ask(produce_request(cluster, "t", 0, ONE))
    client.session.lost()
    assert cluster.records("t", 0) == []
    cluster.timeline.advance(6.0)
    assert len(cluster.records("t", 0)) == 1


def test_a_slow_broker_takes_its_time(cluster: ModelCluster) -> None:
    cluster.slow(1, 2.0)
    client = ModelClient(cluster, 1)
    client.ask(produce_request(cluster, "t", 0, ONE))
    cluster.timeline.advance(1.9)
    assert client.answers == {}
    cluster.timeline.advance(2.1)
    assert len(client.answers) == 1


def test_requests_of_a_stopped_broker_die_with_it(cluster: ModelCluster) -> None:
    cluster.slow(1, 1.0)
    ModelClient(cluster, 1).ask(produce_request(cluster, "t", 0, ONE))
    cluster.stop_broker(1)
    cluster.start_broker(1)
    cluster.timeline.advance(5.0)
    assert cluster.records("t", 0) == []


def test_throttled_answers_say_so_and_the_broker_reads_nothing_meanwhile(cluster: ModelCluster) -> None:
    cluster.throttle(ProduceRequest, 2.0)
    client = ModelClient(cluster, 1)
    assert client.call(produce_request(cluster, "t", 0, ONE)).throttle_time_ms == 2000
    client.ask(produce_request(cluster, "t", 0, TWO))
    assert len(client.answers) == 1
    cluster.timeline.advance(2.0)
    assert client.answers[1].throttle_time_ms == 0


def test_control_functions_answer_in_the_brokers_place(cluster: ModelCluster) -> None:
    seen = []

    def answer(call: object) -> None:
        seen.append(call)

    cluster.control(ProduceRequest, answer)
    client = ModelClient(cluster, 1)
    assert produced(client, 0, ONE) == ("NONE", 0)
    assert produced(client, 0, TWO) == ("NONE", 1)
    assert len(seen) == 1


def test_healing_ends_everything_that_was_ordered(cluster: ModelCluster) -> None:
    cluster.push_error(ProduceRequest, "KAFKA_STORAGE_ERROR")
    cluster.inject(FetchRequest, Fault.SWALLOW)
    cluster.freeze(1, 100.0)
    cluster.hide_topic("t", 100.0)
    cluster.stop_broker(2, failover=100.0)
    cluster.heal()
    assert produced(ModelClient(cluster, 1), 0, ONE) == ("NONE", 0)
    assert len(asked_metadata(ModelClient(cluster, 2), "t").topics[0].partitions) == 3


# ---- admin


def test_topics_are_created_grown_cut_and_deleted(cluster: ModelCluster) -> None:
    client = ModelClient(cluster, 1)
    wanted = CreateTopicsRequest.Topic(name="n", num_partitions=2, replication_factor=3, assignments=[], configs=[])
    made = client.call(CreateTopicsRequest(topics=[wanted], timeout_ms=1000, validate_only=False)).topics[0]
    assert (name(made.error_code), made.num_partitions) == ("NONE", 2)
    again = client.call(CreateTopicsRequest(topics=[wanted], timeout_ms=1000, validate_only=False)).topics[0]
    assert name(again.error_code) == "TOPIC_ALREADY_EXISTS"
    more = CreatePartitionsRequest.Topic(name="n", count=4, assignments=None)
    client.call(CreatePartitionsRequest(topics=[more], timeout_ms=1000, validate_only=False))
    assert len(cluster.topics["n"].partitions) == 4
    cluster.append("t", 0, [WireRecord(value=b"x"), WireRecord(value=b"y")])
    assert cut(cluster, 1) == ("NONE", 1)
    gone = DeleteTopicsRequest.Topic(name="n", topic_id=UUID(int=0))
    client.call(DeleteTopicsRequest(topics=[gone], topic_names=[], timeout_ms=1000))
    assert "n" not in cluster.topics


def deleted_by_id(cluster: ModelCluster, topic_id: UUID) -> tuple[str, str | None, UUID]:
    """(error, name, id) in the response to a DeleteTopics."""
    wanted = DeleteTopicsRequest.Topic(name=None, topic_id=topic_id)
    row = ModelClient(cluster).call(DeleteTopicsRequest(topics=[wanted], topic_names=[], timeout_ms=1000)).responses[0]
    return name(row.error_code), row.name, row.topic_id


def test_a_topic_is_deleted_by_its_id_and_then_the_id_is_unknown(cluster: ModelCluster) -> None:
    topic_id = cluster.topics["t"].id
    assert deleted_by_id(cluster, topic_id) == ("NONE", "t", topic_id)
    assert deleted_by_id(cluster, topic_id) == ("UNKNOWN_TOPIC_ID", None, topic_id)
    cluster.push_error(DeleteTopicsRequest, "NOT_CONTROLLER")
    assert deleted_by_id(cluster, topic_id) == ("NOT_CONTROLLER", None, topic_id)


def cut(cluster: ModelCluster, offset: int, topic: str = "t") -> tuple[str, int]:
    """(error, low watermark) after the deletion of the records of partition 0 below `offset`."""
    part = DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsRequest.Topic(name=topic, partitions=[part])], timeout_ms=1000)
    row = ModelClient(cluster).call(request).topics[0].partitions[0]
    return name(row.error_code), row.low_watermark


@pytest.mark.parametrize("offset", [-(2**63), -2, 3, 2**31, 2**63 - 1])
def test_an_offset_outside_the_log_deletes_no_records(cluster: ModelCluster, offset: int) -> None:
    cluster.append("t", 0, [WireRecord(value=b"x"), WireRecord(value=b"y")])
    assert cut(cluster, offset) == ("OFFSET_OUT_OF_RANGE", -1)
    assert len(cluster.records("t", 0)) == 2
    assert cut(cluster, -1) == ("NONE", 2)


def test_records_are_deleted_below_an_offset_of_more_than_32_bits(cluster: ModelCluster) -> None:
    cluster.append("t", 0, [WireRecord(value=b"x")], gap=2**31)
    assert cut(cluster, 2**31 + 1) == ("NONE", 2**31 + 1)


def test_records_are_deleted_only_without_ordered_errors_and_denials(cluster: ModelCluster) -> None:
    cluster.append("t", 0, [WireRecord(value=b"x")])
    cluster.push_error(DeleteRecordsRequest, "REQUEST_TIMED_OUT", topic="t", partition=0)
    assert cut(cluster, 1) == ("REQUEST_TIMED_OUT", -1)
    cluster.deny("topic", "t", "DELETE")
    cluster.deny("topic", "missing", "DELETE")
    assert cut(cluster, 1) == cut(cluster, 1, "missing") == ("TOPIC_AUTHORIZATION_FAILED", -1)
    assert len(cluster.records("t", 0)) == 1
    cluster.allow("topic", "t")
    assert cut(cluster, 1) == ("NONE", 1)


@pytest.mark.parametrize(("factor", "replicas"), [(1, 1), (2, 2), (-1, 3)])
def test_a_topic_has_the_replicas_that_are_wanted(cluster: ModelCluster, factor: int, replicas: int) -> None:
    wanted = CreateTopicsRequest.Topic(name="n", num_partitions=1, replication_factor=factor, assignments=[], configs=[])
    made = ModelClient(cluster).call(CreateTopicsRequest(topics=[wanted], timeout_ms=1000, validate_only=False)).topics[0]
    assert (made.replication_factor, len(cluster.topics["n"].partitions[0].replicas)) == (replicas, replicas)


@pytest.mark.parametrize("factor", [0, -2, 4])
def test_an_impossible_number_of_replicas_is_refused(cluster: ModelCluster, factor: int) -> None:
    wanted = CreateTopicsRequest.Topic(name="n", num_partitions=1, replication_factor=factor, assignments=[], configs=[])
    answer = ModelClient(cluster).call(CreateTopicsRequest(topics=[wanted], timeout_ms=1000, validate_only=False)).topics[0]
    assert name(answer.error_code) == "INVALID_REPLICATION_FACTOR"


def test_a_topic_grows_only_if_it_is_allowed_and_no_test_run(cluster: ModelCluster) -> None:
    def grow(count: int, *, validate_only: bool = False) -> str:
        more = CreatePartitionsRequest.Topic(name="t", count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[more], timeout_ms=1000, validate_only=validate_only)
        return name(ModelClient(cluster).call(request).results[0].error_code)

    assert grow(9, validate_only=True) == "NONE"
    assert grow(1, validate_only=True) == "INVALID_PARTITIONS"
    cluster.push_error(CreatePartitionsRequest, "REASSIGNMENT_IN_PROGRESS", topic="t")
    assert grow(9) == "REASSIGNMENT_IN_PROGRESS"
    cluster.deny("topic", "t", "ALTER")
    assert grow(9) == "TOPIC_AUTHORIZATION_FAILED"
    assert len(cluster.topics["t"].partitions) == 3
    cluster.allow("topic", "t")
    assert grow(9) == "NONE"
    assert len(cluster.topics["t"].partitions) == 9


@pytest.mark.parametrize("nodes", [[], [7], [1, 7]])
def test_a_topic_on_a_broker_that_does_not_exist_is_refused(cluster: ModelCluster, nodes: list[int]) -> None:
    assignment = CreateTopicsRequest.Topic.Assignment(partition_index=0, broker_ids=nodes)
    wanted = CreateTopicsRequest.Topic(name="n", num_partitions=-1, replication_factor=-1, assignments=[assignment], configs=[])
    answer = ModelClient(cluster).call(CreateTopicsRequest(topics=[wanted], timeout_ms=1000, validate_only=False)).topics[0]
    assert name(answer.error_code) == "INVALID_REPLICA_ASSIGNMENT"
    assert "n" not in cluster.topics


def test_watchers_are_notified_of_every_append(cluster: ModelCluster) -> None:
    told: list[tuple[TopicPartition, int, int]] = []
    cluster.on_append.append(lambda *what: told.append(what))
    produced(ModelClient(cluster, 1), 0, ONE)
    cluster.append("t", 1, [WireRecord(value=b"x"), WireRecord(value=b"y")], gap=3)
    assert told == [(TopicPartition("t", 0), 0, 1), (TopicPartition("t", 1), 3, 2)]
