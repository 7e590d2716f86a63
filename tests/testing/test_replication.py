"""Replicas, the in-sync replicas, the high watermark, and what acks means with them."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.errors.codes import CODES
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelCluster
from pykafka4.wire.protocol.messages_fetch import ListOffsetsRequest, OffsetForLeaderEpochRequest
from pykafka4.wire.records.batch import WireRecord, batches, build_batch, records_of
from tests.testing.model_client import ModelClient, fetch_request, produce_request

LATEST = -1
TP = TopicPartition("t", 0)


def batch(text: str, *, pid: int = -1, epoch: int = -1, sequence: int = -1) -> bytes:
    return build_batch([WireRecord(timestamp_ms=1, value=text.encode())], producer_id=pid, producer_epoch=epoch, base_sequence=sequence)


def make(*, delay: float = 0.0, release: str = "4.4", **settings: Any) -> ModelCluster:
    """Three brokers and a topic of one partition, led by 1."""
    cluster = ModelCluster(release=release)
    cluster.create_topic("t", 1, leaders=(1,), **settings)
    cluster.replication.delay = delay
    return cluster


def ask(cluster: ModelCluster, data: bytes, *, acks: int = -1, node: int = 1) -> tuple[ModelClient, int]:
    client = ModelClient(cluster, node)
    return client, client.ask(produce_request(cluster, "t", 0, data, acks=acks))


def outcome(asked: tuple[ModelClient, int]) -> tuple[str, int] | None:
    """(error, base offset) of a Produce, None while it is not answered."""
    client, number = asked
    if number not in client.answers:
        return None
    part = client.answers[number].responses[0].partition_responses[0]
    return CODES[part.error_code].name, part.base_offset


def values(cluster: ModelCluster, node: int | None = None) -> list[bytes | None]:
    """What is in the leader's log, or in one broker's."""
    target = cluster.topics["t"].partitions[0]
    log = target.log if node is None else target.copies[node].log
    return [record.value for record in log.records()]


def fetched(cluster: ModelCluster, node: int, offset: int = 0, **options: Any) -> tuple[str, list[bytes | None], int]:
    """(error, values, high watermark) that a consumer gets now."""
    part = ModelClient(cluster, node).call(fetch_request(cluster, "t", 0, offset, max_wait_ms=0, **options)).responses[0].partitions[0]
    found = [r.value for b in batches(part.records) for r in records_of(b)] if len(part.records) else []
    return CODES[part.error_code].name, found, part.high_watermark


def latest(cluster: ModelCluster, node: int, version: int | None = None) -> tuple[str, int]:
    row = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=LATEST)
    message = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.Topic(name="t", partitions=[row])])
    part = ModelClient(cluster, node).call(message, version).topics[0].partitions[0]
    return CODES[part.error_code].name, part.offset


def isr(cluster: ModelCluster) -> list[int]:
    return cluster.topics["t"].partitions[0].in_sync


# ---- acknowledgements


def test_without_a_delay_every_replica_has_a_record_when_it_is_acknowledged() -> None:
    cluster = make()
    assert outcome(ask(cluster, batch("a"))) == ("NONE", 0)
    assert [values(cluster, node) for node in (1, 2, 3)] == [[b"a"]] * 3
    assert fetched(cluster, 2) == ("NONE", [b"a"], 1)


def test_acks_all_waits_for_the_in_sync_replicas_and_acks_1_does_not() -> None:
    cluster = make(delay=0.3)
    every, leader = ask(cluster, batch("a")), ask(cluster, batch("b"), acks=1)
    assert (outcome(every), outcome(leader)) == (None, ("NONE", 1))
    cluster.timeline.advance(0.29)
    assert outcome(every) is None
    cluster.timeline.advance(0.31)
    assert outcome(every) == ("NONE", 0)


def test_acks_all_ends_with_its_timeout_and_the_record_stays_in_the_log() -> None:
    cluster = make()
    cluster.pause_replication(2, 60.0)
    asked = ask(cluster, batch("a"))
    cluster.timeline.advance(0.99)
    assert outcome(asked) is None
    cluster.timeline.advance(1.0)
    assert outcome(asked) == ("REQUEST_TIMED_OUT", 0)
    assert values(cluster) == [b"a"]
    cluster.timeline.advance(60.0)
    assert fetched(cluster, 1)[1] == [b"a"]


def test_a_follower_that_is_behind_too_long_leaves_the_in_sync_replicas_and_comes_back() -> None:
    cluster = make()
    cluster.replication.lag_max = 0.5
    cluster.pause_replication(3, 2.0)
    asked = ask(cluster, batch("a"))
    cluster.timeline.advance(0.5)
    assert (outcome(asked), isr(cluster)) == (("NONE", 0), [1, 2])
    cluster.timeline.advance(2.0)
    assert isr(cluster) == [1, 2, 3]


def test_too_few_in_sync_replicas_refuse_acks_all_before_the_append_and_let_acks_1_pass() -> None:
    cluster = make(min_in_sync=2)
    cluster.shrink_isr("t", 0, 5.0)
    assert outcome(ask(cluster, batch("a"))) == ("NOT_ENOUGH_REPLICAS", -1)
    assert outcome(ask(cluster, batch("b"), acks=1)) == ("NONE", 0)
    assert values(cluster) == [b"b"]
    cluster.timeline.advance(5.0)
    assert outcome(ask(cluster, batch("c"))) == ("NONE", 1)


@pytest.mark.parametrize(("release", "error"), [("2.8", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"), ("4.4", None)])
def test_replicas_lost_while_waiting_are_an_error_after_the_append_or_waited_for_since_3_7(release: str, error: str | None) -> None:
    cluster = make(delay=0.5, release=release, min_in_sync=2)
    asked = ask(cluster, batch("a"))
    cluster.shrink_isr("t", 0, 60.0)
    found = outcome(asked)
    assert (found and found[0]) == error
    assert values(cluster) == [b"a"]


@pytest.mark.parametrize("kept", [True, False])
def test_leadership_lost_after_the_append_refuses_a_record_that_may_be_in_the_log(kept: bool) -> None:
    cluster = make()
    cluster.lose_leadership_after_append("t", 0, 2, kept=kept)
    assert outcome(ask(cluster, batch("a"))) == ("NOT_LEADER_OR_FOLLOWER", 0)
    assert values(cluster) == ([b"a"] if kept else [])
    assert outcome(ask(cluster, batch("b"), node=2)) == ("NONE", 1 if kept else 0)


def test_a_topic_deleted_while_replicas_are_awaited_is_unknown() -> None:
    cluster = make(delay=0.5)
    asked = ask(cluster, batch("a"))
    cluster.delete_topic("t")
    assert outcome(asked) == ("UNKNOWN_TOPIC_OR_PARTITION", 0)


def test_a_repeated_batch_waits_for_the_replicas_of_its_first_copy() -> None:
    cluster = make(delay=0.5)
    ask(cluster, batch("a", pid=7, epoch=0, sequence=0))
    again = ask(cluster, batch("a", pid=7, epoch=0, sequence=0))
    assert outcome(again) is None
    cluster.timeline.advance(0.5)
    assert outcome(again) == ("NONE", 0)
    assert values(cluster) == [b"a"]


# ---- leaders


def test_a_killed_leader_loses_what_was_not_replicated_and_cuts_it_off_when_it_is_back() -> None:
    cluster = make(delay=0.2)
    lost: list[tuple[TopicPartition, int]] = []
    cluster.replication.on_truncate.append(lambda *what: lost.append(what))
    assert outcome(ask(cluster, batch("kept"), acks=1)) == ("NONE", 0)
    cluster.timeline.advance(1.0)
    assert outcome(ask(cluster, batch("gone"), acks=1)) == ("NONE", 1)
    cluster.stop_broker(1)
    cluster.timeline.advance(1.1)
    assert (values(cluster), lost) == ([b"kept"], [(TP, 1)])
    leader = cluster.topics["t"].partitions[0].leader
    assert outcome(ask(cluster, batch("new"), acks=1, node=leader)) == ("NONE", 1)
    cluster.start_broker(1)
    cluster.timeline.advance(3.0)
    assert values(cluster, 1) == [b"kept", b"new"]
    assert isr(cluster) == [1, 2, 3]


def test_a_partition_has_no_leader_until_an_in_sync_replica_returns_unless_unclean_elections_are_allowed() -> None:
    for unclean, leader in ((False, -1), (True, 2)):
        cluster = make(unclean=unclean)
        cluster.stop_broker(2)
        cluster.stop_broker(3)
        cluster.timeline.advance(1.0)
        outcome(ask(cluster, batch("a")))
        cluster.stop_broker(1)
        cluster.timeline.advance(2.0)
        cluster.start_broker(2)
        assert cluster.topics["t"].partitions[0].leader == leader
        assert (values(cluster, 2), isr(cluster)) == ([], [1] if leader < 0 else [2])
        cluster.start_broker(1)
        assert values(cluster) == ([] if unclean else [b"a"])


def test_an_unclean_election_takes_back_what_was_acknowledged() -> None:
    cluster = make()
    for text in "abc":
        ask(cluster, batch(text))
    cluster.unclean_election("t", 0, lost=2, to=3)
    assert [values(cluster, node) for node in (1, 2, 3)] == [[b"a"]] * 3
    assert fetched(cluster, 3, 3)[0] == "OFFSET_OUT_OF_RANGE"


def test_producer_state_is_each_replicas_own() -> None:
    cluster = make()
    ask(cluster, batch("a", pid=7, epoch=0, sequence=0))
    cluster.lose_leadership_after_append("t", 0, 2, kept=False)
    ask(cluster, batch("b", pid=7, epoch=0, sequence=1))
    assert outcome(ask(cluster, batch("c", pid=7, epoch=0, sequence=2), node=2)) == ("OUT_OF_ORDER_SEQUENCE_NUMBER", -1)
    assert outcome(ask(cluster, batch("b", pid=7, epoch=0, sequence=1), node=2)) == ("NONE", 1)


# ---- reading


def test_consumers_read_up_to_the_high_watermark() -> None:
    cluster = make(delay=0.5)
    ask(cluster, batch("a"), acks=1)
    assert (fetched(cluster, 1), latest(cluster, 1)) == (("NONE", [], 0), ("NONE", 0))
    waiting = ModelClient(cluster, 1)
    number = waiting.ask(fetch_request(cluster, "t", 0, 0, max_wait_ms=2000))
    cluster.timeline.advance(0.5)
    assert len(waiting.answers[number].responses[0].partitions[0].records)
    assert (fetched(cluster, 1), latest(cluster, 1)) == (("NONE", [b"a"], 1), ("NONE", 1))


def test_a_follower_learns_of_the_high_watermark_one_fetch_later() -> None:
    cluster = make(delay=0.5)
    ask(cluster, batch("a"), acks=1)
    cluster.timeline.advance(0.5)
    assert fetched(cluster, 2) == ("NONE", [], 0)
    cluster.timeline.advance(1.0)
    assert fetched(cluster, 2) == ("NONE", [b"a"], 1)


@pytest.mark.parametrize(("version", "error"), [(4, "LEADER_NOT_AVAILABLE"), (11, "OFFSET_NOT_AVAILABLE")])
def test_a_new_leader_cannot_tell_the_end_before_its_followers_have_fetched(version: int, error: str) -> None:
    cluster = make(delay=0.5)
    cluster.timeline.advance(1.0)
    ask(cluster, batch("a"), acks=1)
    cluster.timeline.advance(1.5)
    cluster.move_leader("t", 0, to=2)
    assert latest(cluster, 2, version) == (error, -1)
    assert fetched(cluster, 2) == ("NONE", [], 0)
    cluster.timeline.advance(2.0)
    assert (latest(cluster, 2, version), fetched(cluster, 2)) == (("NONE", 1), ("NONE", [b"a"], 1))


def test_a_fetch_of_a_truncated_log_gets_the_offset_where_it_diverges() -> None:
    cluster = make()
    ask(cluster, batch("a"))
    cluster.move_leader("t", 0, to=2)
    for text in "bc":
        ask(cluster, batch(text), node=2)
    cluster.unclean_election("t", 0, lost=2, to=3)
    ask(cluster, batch("d"), node=3)
    client = ModelClient(cluster, 3)
    part = client.call(fetch_request(cluster, "t", 0, 3, last_fetched_epoch=1)).responses[0].partitions[0]
    assert (part.diverging_epoch.epoch, part.diverging_epoch.end_offset) == (0, 1)
    row = OffsetForLeaderEpochRequest.Topic.Partition(partition=0, current_leader_epoch=2, leader_epoch=1)
    message = OffsetForLeaderEpochRequest(replica_id=-1, topics=[OffsetForLeaderEpochRequest.Topic(topic="t", partitions=[row])])
    told = client.call(message).topics[0].partitions[0]
    assert (told.leader_epoch, told.end_offset) == (0, 1)


def test_an_epoch_newer_than_the_leaders_is_out_of_range() -> None:
    cluster = make()
    ask(cluster, batch("a"))
    assert fetched(cluster, 1, 1, last_fetched_epoch=5)[0] == "OFFSET_OUT_OF_RANGE"


def test_a_frozen_follower_copies_nothing_where_replication_takes_time() -> None:
    cluster = make(delay=0.1)
    cluster.freeze(3, 0.7)
    asked = ask(cluster, batch("a"))
    cluster.timeline.advance(0.5)
    assert outcome(asked) is None
    cluster.timeline.advance(0.81)
    assert outcome(asked) == ("NONE", 0)


def test_a_follower_that_is_no_longer_slow_has_the_delay_of_all_followers() -> None:
    cluster = make(delay=0.3)
    cluster.slow_follower(3, 50.0)
    cluster.slow_follower(3, 0.0)
    ask(cluster, batch("a"))
    assert values(cluster, 3) == []
    cluster.timeline.advance(0.3)
    assert values(cluster, 3) == [b"a"]


def test_healing_has_all_replicas_in_sync() -> None:
    cluster = make()
    cluster.pause_replication(2, 100.0)
    cluster.slow_follower(3, 50.0)
    asked = ask(cluster, batch("a"))
    cluster.heal()
    assert (outcome(asked), isr(cluster)) == (("NONE", 0), [1, 2, 3])


# ---- records that are refused


def refused(cluster: ModelCluster, records: list[WireRecord]) -> tuple[str, list[int], str | None]:
    answer = ModelClient(cluster, 1).call(produce_request(cluster, "t", 0, build_batch(records)))
    part = answer.responses[0].partition_responses[0]
    return CODES[part.error_code].name, [e.batch_index for e in part.record_errors], part.error_message


def test_records_without_a_key_are_refused_by_a_compacted_topic_with_the_whole_batch() -> None:
    cluster = make(compacted=True)
    records = [WireRecord(timestamp_ms=1, key=key, value=b"v") for key in (b"k", None, b"", None)]
    error, indexes, message = refused(cluster, records)
    assert (error, indexes) == ("INVALID_RECORD", [1, 3])
    assert message is not None
    assert values(cluster) == []


def test_timestamps_out_of_range_are_refused_by_name() -> None:
    cluster = make(before_max_ms=1000, after_max_ms=1000)
    now = cluster.wall_ms()
    records = [WireRecord(timestamp_ms=now + shift, value=b"v") for shift in (0, -1001, -1000, 1001, 1000)] + [WireRecord(timestamp_ms=-1)]
    assert refused(cluster, records)[:2] == ("INVALID_TIMESTAMP", [1, 3])


def test_a_topic_can_refuse_any_record() -> None:
    cluster = make(refuse=lambda record: "no" if record.value == b"bad" else None)
    assert refused(cluster, [WireRecord(timestamp_ms=1, value=v) for v in (b"good", b"bad")])[:2] == ("INVALID_RECORD", [1])


def test_a_broker_that_restarts_knows_only_the_last_batch_of_a_producer() -> None:
    cluster = make()
    for sequence in range(3):
        assert outcome(ask(cluster, batch("v", pid=1, epoch=0, sequence=sequence))) == ("NONE", sequence)
    assert outcome(ask(cluster, batch("v", pid=1, epoch=0, sequence=0))) == ("NONE", 0)
    cluster.stop_broker(1)
    cluster.start_broker(1)
    assert outcome(ask(cluster, batch("v", pid=1, epoch=0, sequence=1))) == ("OUT_OF_ORDER_SEQUENCE_NUMBER", -1)
    assert outcome(ask(cluster, batch("v", pid=1, epoch=0, sequence=2))) == ("NONE", 2)
    assert outcome(ask(cluster, batch("v", pid=1, epoch=0, sequence=3))) == ("NONE", 3)
