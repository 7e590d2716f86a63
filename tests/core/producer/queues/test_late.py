"""Batches that get their partition when they are sent: shares of the brokers, partitions that are offline, and what is never sent."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pykafka4.core import Request
from pykafka4.core.producer.partition_status import show
from pykafka4.core.producer.queues.late import HUNGER_S, LAGGARD_S, MOST_CHECKS, PACE_S
from pykafka4.errors import ClosedError, DeliveryFailed
from pykafka4.records import TopicPartition
from tests.core.producer.sender_harness import SenderHarness, header

PARTITIONS = 10


class LateHarness(SenderHarness):
    """Ten partitions of topic t: node 1 leads three of them, node 2 seven."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"partitioner": "late", "batch_size": 1024, **options})
        self.cluster.partitions = lambda topic: PARTITIONS  # type: ignore[method-assign]
        self.cluster.available = lambda topic: list(range(PARTITIONS))  # type: ignore[method-assign]
        self.recovery.leaders = {TopicPartition("t", p): 1 if p < 3 else 2 for p in range(PARTITIONS)}
        self.slow: set[int] = set()  # nodes that do not answer
        self.got: Counter[int] = Counter()  # records by partition

    def offline(self, partition: int) -> None:
        del self.recovery.leaders[TopicPartition("t", partition)]
        self.recovery.losses += 1

    def online(self, partition: int, node: int) -> None:
        self.recovery.leaders[TopicPartition("t", partition)] = node
        self.recovery.changes += 1
        self.recovery.bring_back()

    def send_all(self, records: int, **more: Any) -> list[Any]:
        return [self.acc.send("t", bytes(90), **more) for _ in range(records)]

    def answer_once(self) -> int:
        """Answer what was sent to nodes that are not slow; returns how many requests."""
        requests, self.requests = self.requests, []
        answered = 0
        for request in requests:
            if request.node in self.slow:
                self.requests.append(request)
                continue
            for partition, count in records_in(request):
                self.got[partition] += count
            self.answer(request)
            answered += 1
        return answered

    def run(self) -> None:
        """Until nothing more can be sent and answered at this moment."""
        idle = 0
        while idle < 3:
            self.poll()
            idle = 0 if self.answer_once() else idle + 1

    def to(self, node: int) -> int:
        """Records that the partitions got which that node leads at first."""
        return sum(count for partition, count in self.got.items() if (partition < 3) == (node == 1))


def records_in(request: Request) -> list[tuple[int, int]]:
    (topic,) = request.message.topic_data  # type: ignore[attr-defined]
    return [(part.index, part.records.count) for part in topic.partition_data]


def test_brokers_get_records_in_proportion_to_the_partitions_that_they_lead() -> None:
    it = LateHarness()
    for _ in range(40):
        it.send_all(100)
        it.run()
    assert it.got.total() == 4000
    assert 0.27 < it.to(1) / 4000 < 0.33
    assert set(it.got) == set(range(PARTITIONS))
    assert max(it.got.values()) < 2 * min(it.got.values())


def test_a_request_gets_one_such_batch_of_each_topic() -> None:
    it = LateHarness()
    it.send_all(200)
    it.poll()
    it.answer_once()
    it.poll()
    assert len(it.requests) >= 4
    assert all(len(records_in(request)) == 1 for request in it.requests)


def test_a_broker_ahead_of_its_share_waits_for_the_other_one_but_not_for_long() -> None:
    it = LateHarness()
    it.send_all(100)
    it.run()
    it.slow.add(2)
    it.send_all(400)
    it.run()
    share = it.to(1) / it.got.total()
    waiting = 500 - it.got.total()
    assert waiting > 200
    assert share < 0.6
    assert it.sender.poll(it.now).wake_at <= it.now + LAGGARD_S
    it.poll(LAGGARD_S)
    it.run()
    in_flight = sum(count for request in it.requests for _, count in records_in(request))
    assert it.got.total() == 500 - in_flight


def test_a_broker_that_was_slow_does_not_catch_up() -> None:
    it = LateHarness()
    it.send_all(100)
    it.run()
    it.slow.add(2)
    for _ in range(10):
        it.send_all(100)
        it.run()
        it.poll(LAGGARD_S)
        it.run()
    it.slow.clear()
    it.run()
    it.got.clear()
    for _ in range(20):
        it.send_all(100)
        it.run()
    assert 0.27 < it.to(1) / it.got.total() < 0.35


def test_a_partition_that_is_offline_gets_nothing_and_nothing_waits_for_it() -> None:
    it = LateHarness()
    it.offline(4)
    for _ in range(20):
        it.send_all(50)
        it.run()
    assert it.got.total() == 1000
    assert it.got[4] == 0
    assert 0.30 < it.to(1) / 1000 < 0.37  # 3 of 9
    it.online(4, 2)
    for _ in range(20):
        it.send_all(50)
        it.run()
    assert it.got.total() == 2000
    assert it.got[4] > 0


def test_while_no_partition_is_online_records_wait_and_then_all_are_sent() -> None:
    it = LateHarness()
    for partition in range(PARTITIONS):
        it.offline(partition)
    deliveries = it.send_all(30)
    it.run()
    assert not any(delivery.done() for delivery in deliveries)
    assert deliveries[0].partition is None
    it.online(7, 2)
    it.run()
    assert {delivery.partition for delivery in deliveries} == {7}
    assert all(delivery.done() for delivery in deliveries)


def test_a_broker_that_is_not_connected_is_waited_for_briefly() -> None:
    it = LateHarness()
    it.network.up.remove(2)
    it.send_all(100)
    it.run()
    assert 2 in it.network.wanted
    it.poll(LAGGARD_S)
    it.run()
    assert it.got.total() == it.to(1) == 100


def test_a_batch_that_was_sent_keeps_its_partition() -> None:
    it = LateHarness()
    (delivery,) = it.send_all(1)
    it.settle()
    partition = delivery.partition
    assert partition is not None
    it.recovery.leaders[TopicPartition("t", partition)] = 3
    it.answer(it.requests.pop(), "NOT_LEADER_OR_FOLLOWER")
    it.cluster.change()
    it.poll(1.0)
    (request,) = it.requests
    assert request.node == 3
    assert records_in(request) == [(partition, 1)]
    it.answer(it.requests.pop(), offset=5)
    assert delivery.result(0).partition == partition
    assert delivery.result(0).offset == 5


def test_records_with_a_key_or_a_partition_do_not_wait() -> None:
    it = LateHarness()
    for partition in (0, 1, 2):
        it.offline(partition)
    assert it.acc.send("t", b"v", key=b"abc").partition is None  # the topic is not known yet
    it.settle()
    assert it.acc.send("t", b"v", key=b"abc").partition == 479470107 % PARTITIONS
    assert it.acc.send("t", b"v", partition=1).partition == 1
    assert it.acc.send("t", b"v").partition is None


def test_batches_without_a_partition_time_out_and_say_so() -> None:
    it = LateHarness(delivery_timeout_ms=1_000)
    it.send_all(1)
    it.run()
    it.network.up.clear()
    deliveries = it.send_all(3)
    it.poll()
    it.poll(1.1)
    for delivery in deliveries:
        with pytest.raises(DeliveryFailed, match=r"^t: TIMED_OUT, not written") as caught:
            delivery.result(0)
        assert caught.value.record is not None
        assert caught.value.record.partition is None
    stats = it.sender.ledger.snapshot(it.acc.census(), 0).stats()
    assert stats.topics["t"].lost == 3
    assert all(tp.partition >= 0 for tp in stats.partitions)


def test_records_without_a_partition_are_counted_with_their_topic() -> None:
    it = LateHarness()
    it.network.up.clear()
    it.send_all(5)
    it.settle()
    stats = it.sender.ledger.snapshot(it.acc.census(), 0).stats()
    assert (stats.queued, stats.topics["t"].queued) == (5, 5)
    assert not any(tp.partition < 0 for tp in stats.partitions)
    found = it.sender.partition_status.look(it.sender.queues.values(), it.now)
    row = show(it.now, found, it.acc.census())["t (no partition yet)"]
    assert (row["reason"], row["queued"]) == ("waits for a broker that can take a batch", 5)


def test_what_is_given_up_comes_back_without_a_partition() -> None:
    it = LateHarness()
    it.send_all(1)
    it.run()
    it.network.up.clear()
    deliveries = it.send_all(40)
    it.poll()
    it.sender.fail_all(ClosedError("closed"))
    it.poll()
    lost = [record for delivery in deliveries for record in delivery.lost()]
    assert len(lost) == 40
    assert {record.partition for record in lost} == {None}
    assert it.acc.unfinished() == []


def test_a_batch_that_waited_for_longer_than_those_before_it_expires_first() -> None:
    it = LateHarness(delivery_timeout_ms=1_000)
    for partition in range(3, PARTITIONS):
        it.offline(partition)
    it.send_all(1)
    it.run()
    for partition in (0, 1, 2):
        it.offline(partition)
    (late,) = it.send_all(1)
    it.poll()
    it.poll(0.6)
    it.slow.add(1)
    keyed = it.send_all(20, partition=0)
    it.online(0, 1)
    it.poll()
    assert late.partition == 0
    it.poll(0.45)
    assert late.done()
    assert not any(delivery.done() for delivery in keyed)


def test_a_response_about_a_batch_that_has_timed_out_does_not_send_the_next_batch_a_second_time() -> None:
    it = LateHarness(delivery_timeout_ms=10_000)
    for partition in range(1, PARTITIONS):
        it.offline(partition)
    it.send_all(1)
    it.run()
    it.cluster.available = lambda topic: []  # type: ignore[method-assign]
    it.recovery.changes += 1
    (late,) = it.send_all(1)
    it.poll(5.0)
    first = it.batch(partition=0)
    it.cluster.available = lambda topic: [0]  # type: ignore[method-assign]
    it.recovery.changes += 1
    it.settle()
    third = it.batch(partition=0)
    for request in it.requests[:]:
        it.requests.remove(request)
        it.lose(request)  # so all three may be in the log, and are sent again unchanged
    it.settle()
    assert [header(request) for request in it.requests] == [(0, 1, 0), (0, 2, 0), (0, 3, 0)]
    it.answer(it.requests.pop(0), "NOT_ENOUGH_REPLICAS")
    it.poll(5.0)
    assert late.done()
    assert not first.done()
    it.answer(it.requests.pop(0), "NOT_ENOUGH_REPLICAS")
    it.poll(1.0)
    assert [header(request) for request in it.requests] == [(0, 3, 0)]
    it.answer(it.requests.pop())
    it.poll(1.0)
    assert [header(request) for request in it.requests] == [(0, 1, 0)]
    it.answer(it.requests.pop())
    assert (first.result(0).partition, third.result(0).partition) == (0, 0)


def test_records_with_keys_do_not_keep_the_others_waiting_for_ever() -> None:
    it = LateHarness(max_in_flight_requests_per_connection=1)
    for partition in range(1, PARTITIONS):
        it.offline(partition)
    it.send_all(1, partition=0)
    it.run()
    it.network.up.clear()
    late = it.send_all(1)
    it.poll()
    deliveries = []
    it.network.up.add(1)
    for _ in range(30):
        deliveries += it.send_all(20, partition=0)  # always more than one batch
        it.poll(HUNGER_S / 10)
        it.answer_once()
        if late[0].done():
            break
    assert late[0].done()
    assert not all(delivery.done() for delivery in deliveries)


def test_a_dropped_topic_takes_its_queue_along() -> None:
    it = LateHarness(metadata_max_idle_ms=1_000)
    it.send_all(3)
    it.run()
    assert ("t", -1) in it.sender.queues
    it.poll(2.0)
    it.poll(2.0)
    assert it.sender.queues == {}
    assert it.sender._ready.late == {}


class ManyHarness(LateHarness):
    """Many partitions of topic t, all of node 1."""

    def __init__(self, partitions: int, **options: Any) -> None:
        super().__init__(**options)
        self.cluster.partitions = lambda topic: partitions  # type: ignore[method-assign]
        self.cluster.available = lambda topic: list(range(partitions))  # type: ignore[method-assign]
        self.recovery.leaders = {TopicPartition("t", p): 1 for p in range(partitions)}
        self.stuck: set[int] = set()
        self.asked: Counter[int] = Counter()
        sender: Any = self.sender
        may_send = sender.late_queue

        def not_stuck(topic: str, partition: int, node: int, now: float) -> Any:
            self.asked[partition] += 1
            return None if partition in self.stuck else may_send(topic, partition, node, now)

        sender.late_queue = not_stuck


def test_stuck_neighbours_do_not_hide_the_partitions_behind_them() -> None:
    it = ManyHarness(3 * MOST_CHECKS)
    it.send_all(1)
    it.run()
    it.stuck.update(range(3 * MOST_CHECKS - 1))
    it.got.clear()
    it.send_all(30)
    turns = 0
    while it.got.total() < 30:
        it.poll(PACE_S)
        it.answer_once()
        turns += 1
        assert turns < 60
    assert set(it.got) == {3 * MOST_CHECKS - 1}


def test_partitions_that_are_all_stuck_are_looked_at_now_and_then() -> None:
    it = ManyHarness(3 * MOST_CHECKS)
    it.send_all(1)
    it.run()
    it.stuck.update(range(3 * MOST_CHECKS))
    it.send_all(1)
    it.asked.clear()
    for _ in range(3):
        it.poll()
    assert set(it.asked) == set(range(3 * MOST_CHECKS))
    assert it.sender.poll(it.now).wake_at == pytest.approx(it.now + PACE_S)


def test_a_batch_that_has_waited_for_long_prefers_an_idle_partition_to_one_with_something_to_send() -> None:
    it = ManyHarness(2 * MOST_CHECKS)
    it.send_all(1)
    it.run()
    it.network.up.clear()
    for partition in range(MOST_CHECKS, 2 * MOST_CHECKS - 1):
        it.send_all(20, partition=partition)  # more than one batch
    it.poll()
    (late,) = it.send_all(1)
    it.poll()
    it.poll(HUNGER_S)
    it.stuck.update(range(MOST_CHECKS - 1))
    it.sender._late._shares["t"].by_node[1].cursor = MOST_CHECKS - 1
    it.network.up.add(1)
    for _ in range(4):
        it.poll()
        it.answer_once()
    assert late.partition in (MOST_CHECKS - 1, 2 * MOST_CHECKS - 1)
