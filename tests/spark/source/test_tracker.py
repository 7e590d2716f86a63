"""Tracker: where batches end, what is lost, and how many lookups that takes."""

from __future__ import annotations

import json

import attrs
import pytest

from pykafka4.errors import ConfigError, KafkaError
from pykafka4.records import TopicPartition
from pykafka4.spark.source.losses import DataLost
from pykafka4.spark.source.offsets import INITIAL, StreamOffset
from pykafka4.spark.source.tracker import Topics, Tracker

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@attrs.define
class FakeCluster:
    """Logs whose ends a test sets. `asked` counts the lookups."""

    logs: dict[TopicPartition, tuple[int, int]]  # first offset, end
    ids: dict[str, str] = attrs.field(factory=lambda: {"a": "id-a", "b": "id-b"})
    stable: dict[TopicPartition, int] = attrs.Factory(dict)  # last stable offsets, where a transaction is open
    undeleted: dict[TopicPartition, tuple[int, int]] = attrs.Factory(dict)  # that metadata still lists
    start_at: dict[TopicPartition, int] | str = "latest"
    missing: str = ""
    fails_on_loss: bool = True
    lost: list[str] = attrs.Factory(list)
    asked: list[str] = attrs.Factory(list)
    now: float = 0.0

    def topics(self):
        self.asked.append("topics")
        partitions = frozenset(self.logs | self.undeleted)
        names = {tp.topic for tp in partitions}
        return Topics(partitions, {name: self.ids[name] for name in names if name in self.ids}, self.missing)

    def ends(self, partitions):
        self.asked.append("ends")
        if not set(partitions) <= self.logs.keys():
            return None
        return {tp: self.stable.get(tp, self.logs[tp][1]) for tp in partitions}

    def log_ends(self, partitions):
        self.asked.append("log_ends")
        return {tp: self.logs[tp][1] for tp in partitions}

    def earliest(self, partitions):
        self.asked.append("earliest")
        return {tp: self.logs[tp][0] for tp in partitions}

    def starting(self, partitions, ends):
        if self.start_at == "latest":
            return {tp: ends[tp] for tp in partitions}
        if self.start_at == "earliest":
            return self.earliest(partitions)
        return {tp: self.start_at[tp] for tp in partitions}

    def pause(self, seconds):
        self.asked.append("pause")
        self.now += seconds

    def lose(self, what):
        if self.fails_on_loss:
            raise DataLost(what)
        self.lost.append(what)

    def tracker(self, fails_on_loss=True, **options):
        self.fails_on_loss = fails_on_loss
        return Tracker(self, fails_on_loss, clock=lambda: self.now, pause=self.pause, **options)


def run(tracker, start=INITIAL, most=None, least=None):
    """The end of a batch as it comes back from the checkpoint, and the ranges of the batch."""
    end = tracker.next_end(start, most, least)
    if end is None:
        return None, {}
    again = StreamOffset.of_json(json.loads(json.dumps(end.as_json())))
    assert again == end
    return again, end.ranges(start)


def test_the_first_batch_logs_where_the_query_starts_even_without_records():
    cluster = FakeCluster({A0: (0, 100)})
    end, ranges = run(cluster.tracker())
    assert (end.positions, end.starts, ranges) == ({A0: 100}, {A0: 100}, {})


def test_records_that_arrive_while_the_first_batch_fails_are_read_after_the_restart():
    cluster = FakeCluster({A0: (0, 100)})
    first, _ = run(cluster.tracker())
    cluster.logs[A0] = (0, 150)
    second, ranges = run(cluster.tracker(), first)
    assert ranges == {A0: (100, 150)}
    cluster.logs[A0] = (0, 300)  # and the restarted query runs the same batch
    assert second.ranges(first) == {A0: (100, 150)}
    assert first.ranges(INITIAL) == {}


def test_an_idle_trigger_has_no_batch():
    cluster = FakeCluster({A0: (0, 100), B0: (0, 7)})
    tracker = cluster.tracker()
    end, _ = run(tracker)
    assert [run(tracker, end)[0] for _ in range(50)] == [None] * 50


def test_an_idle_trigger_is_one_look_up_of_ends_until_topics_are_old():
    cluster = FakeCluster({A0: (0, 100)})
    tracker = cluster.tracker(topics_age_s=10.0)
    end, _ = run(tracker)
    cluster.asked.clear()
    for _ in range(3):
        run(tracker, end)
    assert cluster.asked == ["ends"] * 3
    cluster.now = 10.0
    run(tracker, end)
    assert cluster.asked[3:] == ["topics", "ends"]


def test_a_batch_is_a_look_up_of_ends_and_then_one_of_topics():
    cluster = FakeCluster({A0: (0, 100)})
    tracker = cluster.tracker()
    end, _ = run(tracker)
    cluster.asked.clear()
    cluster.logs[A0] = (0, 101)
    run(tracker, end)
    assert cluster.asked == ["ends", "topics"]


def test_a_new_partition_starts_at_its_first_record_and_its_start_is_logged():
    cluster = FakeCluster({A0: (0, 100)})
    first, _ = run(cluster.tracker())
    cluster.logs[A1] = (3, 8)
    end, ranges = run(cluster.tracker(), first)
    assert (end.starts, ranges) == ({A1: 3}, {A1: (3, 8)})
    assert run(cluster.tracker(), end)[0] is None


def test_a_subscription_without_topics_starts_new_ones_at_their_first_records():
    cluster = FakeCluster({})
    first, _ = run(cluster.tracker())
    assert first == StreamOffset()
    cluster.logs[A0] = (0, 5)
    assert run(cluster.tracker(), first)[1] == {A0: (0, 5)}


def test_a_missing_topic_is_an_error_when_the_query_starts():
    with pytest.raises(ConfigError, match="option subscribe: no topic x"):
        run(FakeCluster({A0: (0, 1)}, missing="option subscribe: no topic x").tracker(fails_on_loss=False))


def test_a_pinned_query_ends_while_records_arrive():
    cluster = FakeCluster({A0: (0, 100)}, start_at="earliest")
    tracker = cluster.tracker()
    tracker.pin()
    end, sizes = INITIAL, []
    while True:
        cluster.logs[A0] = (0, cluster.logs[A0][1] + 10)
        cluster.logs[A1] = (0, 10)
        new, ranges = run(tracker, end, most=40, least=1000)
        if new is None:
            break
        end = new
        sizes.append(ranges[A0][1] - ranges[A0][0])
    assert sizes == [40, 40, 20]


def test_latest_of_a_pinned_query_is_the_pinned_end():
    cluster = FakeCluster({A0: (0, 100)})
    tracker = cluster.tracker()
    tracker.pin()
    cluster.logs[A0] = (0, 120)
    end, _ = run(tracker)
    assert end.positions == {A0: 100}
    assert run(cluster.tracker(), end)[1] == {A0: (100, 120)}


def test_a_limit_counts_new_partitions_too():
    cluster = FakeCluster({A0: (0, 0)})
    tracker = cluster.tracker(topics_age_s=0.0)
    end, _ = run(tracker)
    cluster.logs = {A0: (0, 90), A1: (0, 10)}
    _, ranges = run(tracker, end, most=10)
    assert ranges == {A0: (0, 9), A1: (0, 1)}


def test_a_batch_waits_for_the_minimum_and_then_has_all():
    cluster = FakeCluster({A0: (0, 0)})
    tracker = cluster.tracker(max_delay_s=60.0)
    end, _ = run(tracker, least=10)
    cluster.logs[A0] = (0, 9)
    assert run(tracker, end, least=10)[0] is None
    cluster.logs[A0] = (0, 10)
    end, ranges = run(tracker, end, least=10)
    assert ranges == {A0: (0, 10)}
    cluster.logs[A0] = (0, 11)
    assert run(tracker, end, least=10)[0] is None
    cluster.now += 60.0
    assert run(tracker, end, least=10)[1] == {A0: (10, 11)}


def test_latest_shows_the_ends_of_the_logs_not_those_of_the_batch():
    cluster = FakeCluster({A0: (0, 100)}, start_at="earliest")
    tracker = cluster.tracker()
    run(tracker, most=10)
    assert tracker.latest == {A0: 100}


def test_the_planning_of_a_batch_is_logged():
    cluster = FakeCluster({A0: (0, 100)})
    end, _ = run(cluster.tracker(planning={"minPartitions": 4}))
    assert end.planning == {"minPartitions": 4}
    assert run(cluster.tracker(planning={"minPartitions": 8}), end)[0] is None


# ---------------------------------------------------------------- losses


def test_a_recreated_topic_is_an_error():
    cluster = FakeCluster({A0: (0, 100)})
    end, _ = run(cluster.tracker())
    cluster.ids["a"] = "id-a2"
    cluster.logs[A0] = (0, 500)  # it has overtaken the old one
    with pytest.raises(DataLost, match=r"topic a was deleted and created again \(its id was id-a, now it is id-a2\)"):
        run(cluster.tracker(), end)


def test_a_recreated_topic_is_read_from_its_first_record_if_losses_are_allowed():
    cluster = FakeCluster({A0: (0, 100), B0: (0, 5)})
    end, _ = run(cluster.tracker())
    cluster.ids["a"] = "id-a2"
    cluster.logs[A0] = (0, 500)
    end, ranges = run(cluster.tracker(fails_on_loss=False), end)
    assert ranges == {A0: (0, 500)}
    assert "topic a was deleted and created again" in cluster.lost[0]
    assert run(cluster.tracker(), end)[0] is None


def test_a_topic_that_is_recreated_during_a_run_is_noticed_before_a_batch_has_its_records():
    cluster = FakeCluster({A0: (0, 100)})
    tracker = cluster.tracker(fails_on_loss=False)
    end, _ = run(tracker)
    cluster.ids["a"] = "id-a2"
    cluster.logs[A0] = (0, 500)
    assert run(tracker, end)[1] == {A0: (0, 500)}


def test_topics_that_brokers_do_not_agree_on_are_waited_for():
    cluster = FakeCluster({A0: (0, 100), B0: (0, 5)})
    tracker = cluster.tracker(fails_on_loss=False)
    end, _ = run(tracker)
    cluster.undeleted = {B0: cluster.logs.pop(B0)}
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 3:
            cluster.undeleted.clear()

    tracker.pause = pause
    assert run(tracker, end)[0] is None
    assert (len(pauses), len(cluster.lost)) == (3, 1)


def test_topics_that_never_agree_are_an_error():
    cluster = FakeCluster({A0: (0, 100)}, undeleted={B0: (0, 5)})
    with pytest.raises(KafkaError, match=r"a-0, b-0: topics change while their ends are looked up"):
        run(cluster.tracker())


def test_a_recreated_topic_with_fewer_partitions_has_no_range_of_the_others():
    cluster = FakeCluster({A0: (0, 100), A1: (0, 100)})
    end, _ = run(cluster.tracker())
    cluster.ids["a"] = "id-a2"
    cluster.logs = {A0: (0, 3)}
    end, ranges = run(cluster.tracker(fails_on_loss=False), end)
    assert (end.positions, ranges) == ({A0: 3}, {A0: (0, 3)})


def test_a_deleted_topic_is_an_error():
    cluster = FakeCluster({A0: (0, 100), B0: (0, 5)})
    tracker = cluster.tracker()
    end, _ = run(tracker)
    del cluster.logs[B0]
    with pytest.raises(DataLost, match=r"b-0: in the checkpoint, but not in the subscription any more: the topic was deleted"):
        run(tracker, end)


def test_a_deleted_topic_that_comes_back_is_another_one():
    cluster = FakeCluster({A0: (0, 100), B0: (0, 5)})
    end, _ = run(cluster.tracker())
    del cluster.logs[B0]
    tracker = cluster.tracker(fails_on_loss=False, topics_age_s=0.0)
    assert [run(tracker, end)[0] for _ in range(3)] == [None] * 3
    assert ["b-0: in the checkpoint" in what for what in cluster.lost] == [True]
    cluster.logs[A0] = (0, 101)
    end, ranges = run(tracker, end)
    assert ranges == {A0: (100, 101)}
    cluster.logs[B0], cluster.ids["b"] = (0, 9), "id-b2"
    assert run(tracker, end)[1] == {B0: (0, 9)}


def test_a_topic_that_a_broker_did_not_know_for_a_while_goes_on_where_it_was():
    cluster = FakeCluster({A0: (0, 100), B0: (0, 5)})
    tracker = cluster.tracker(fails_on_loss=False, topics_age_s=0.0)
    end, _ = run(tracker)
    log = cluster.logs.pop(B0)
    cluster.logs[A0] = (0, 101)
    end, _ = run(tracker, end)
    cluster.logs[B0] = (0, log[1] + 1)
    assert run(tracker, end)[1] == {B0: (5, 6)}


def test_a_log_that_ends_before_the_position_is_an_error():
    cluster = FakeCluster({A0: (0, 100)})
    tracker = cluster.tracker()
    end, _ = run(tracker)
    cluster.logs[A0] = (0, 60)
    with pytest.raises(DataLost, match="a-0: the log ends at 60, before offset 100"):
        run(tracker, end)


def test_a_truncated_log_is_read_on_from_its_end_if_losses_are_allowed():
    cluster = FakeCluster({A0: (0, 100)})
    tracker = cluster.tracker(fails_on_loss=False)
    end, _ = run(tracker)
    cluster.logs[A0] = (0, 60)
    end, ranges = run(tracker, end)
    assert (end.positions, end.starts, ranges) == ({A0: 60}, {A0: 60}, {})
    cluster.logs[A0] = (0, 61)
    assert run(tracker, end)[1] == {A0: (60, 61)}


def test_deleted_records_under_a_limit_are_passed_over_in_one_batch():
    cluster = FakeCluster({A0: (0, 0), A1: (0, 0)})
    tracker = cluster.tracker(fails_on_loss=False)
    end, _ = run(tracker)
    cluster.logs = {A0: (1_000_000, 1_000_060), A1: (0, 30)}
    end, ranges = run(tracker, end, most=30)
    assert (end.starts, ranges) == ({A0: 1_000_000}, {A0: (1_000_000, 1_000_020), A1: (0, 10)})
    assert cluster.lost == ["a-0: offsets 0 to 999999 were deleted before they were read"]
    assert run(tracker, end, most=30)[1] == {A0: (1_000_020, 1_000_040), A1: (10, 20)}


def test_all_that_waits_may_be_deleted():
    cluster = FakeCluster({A0: (0, 0)})
    tracker = cluster.tracker(fails_on_loss=False)
    end, _ = run(tracker)
    cluster.logs = {A0: (50, 50)}
    end, ranges = run(tracker, end, most=30)
    assert (end.positions, ranges) == ({A0: 50}, {})
    assert run(tracker, end, most=30)[0] is None


def test_a_new_leader_that_lags_for_a_moment_loses_nothing():
    cluster = FakeCluster({A0: (0, 100)})
    tracker = cluster.tracker()
    end, _ = run(tracker)
    cluster.logs[A0] = (0, 99)
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 2:
            cluster.logs[A0] = (0, 105)

    tracker.pause = pause
    assert run(tracker, end)[0] is None
    assert run(tracker, end)[1] == {A0: (100, 105)}


def test_a_query_that_has_read_uncommitted_records_waits_for_the_transaction():
    cluster = FakeCluster({A0: (0, 100)}, stable={A0: 40})
    tracker = cluster.tracker()
    assert run(tracker, StreamOffset({A0: 100}, topic_ids={"a": "id-a"}))[0] is None
    cluster.stable.clear()
    cluster.logs[A0] = (0, 110)
    assert run(tracker, StreamOffset({A0: 100}))[1] == {A0: (100, 110)}
