"""The consumer as applications meet it, against model brokers on loopback sockets. Nothing here sleeps: it polls, with deadlines."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs
import pytest

from pykafka4.client import Client
from pykafka4.consumer import Consumer
from pykafka4.errors import (
    AuthorizationError,
    BrokerError,
    ClosedError,
    ConfigError,
    CorruptRecord,
    ForkedClientError,
    GroupError,
    KafkaError,
    KafkaTimeoutError,
    RecordTooLarge,
)
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.testing import Fault, ModelServer
from pykafka4.wire.batch import WireRecord
from pykafka4.wire.messages_cluster import FindCoordinatorRequest
from pykafka4.wire.messages_data import FetchRequest, ListOffsetsRequest
from pykafka4.wire.messages_group import HeartbeatRequest, JoinGroupRequest, OffsetCommitRequest, OffsetFetchRequest

LONG = 20.0  # seconds; nothing that works takes so long


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(brokers=3) as server:
        yield server


Make = Callable[..., Consumer]


@pytest.fixture
def make(server: ModelServer) -> Iterator[Make]:
    made: list[Consumer] = []

    def make(**options: Any) -> Consumer:
        options = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50, "heartbeat_interval_ms": 50, **options}
        consumer = Consumer(bootstrap_servers=server.bootstrap_servers, **options)
        made.append(consumer)
        return consumer

    yield make
    for consumer in made:
        consumer.close(2)


class Listener:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[TopicPartition]]] = []

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.told.append(("assigned", sorted(partitions)))

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.told.append(("revoked", sorted(partitions)))

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.told.append(("lost", sorted(partitions)))

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.told]


def fill(server: ModelServer, topic: str, partition: int, values: Iterable[bytes], **options: Any) -> None:
    records = [WireRecord(timestamp_ms=1_000 + i, value=value) for i, value in enumerate(values)]
    server.do(lambda cluster: cluster.append(topic, partition, records, **options))


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % i for i in range(first, last)]


def read(consumer: Consumer, count: int, **options: Any) -> list[Any]:
    """Exactly `count` records, with polls."""
    records: list[Any] = []
    deadline = time.monotonic() + LONG
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records; {consumer.status()}"
        records += consumer.poll(0.2, **options)
    assert len(records) == count
    return records


def poll_until(consumer: Consumer, condition: Callable[[], Any]) -> list[Any]:
    records: list[Any] = []
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline, consumer.status()
        records += consumer.poll(0.05)
    return records


# ---------------------------------------------------------------- reading


def test_assigned_partitions_are_read_in_order_without_a_group(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 3)
    for p in range(3):
        fill(server, "t", p, numbers(0, 100))
    consumer = make()
    consumer.assign([("t", p) for p in range(3)])
    by_partition: dict[int, list[bytes]] = {}
    for record in read(consumer, 300):
        by_partition.setdefault(record.partition, []).append(record.value)
    assert by_partition == {p: numbers(0, 100) for p in range(3)}
    assert consumer.assignment() == {TopicPartition("t", p) for p in range(3)}


def test_poll_hands_out_at_most_max_records_and_an_empty_list_when_there_are_none(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 10))
    consumer = make()
    consumer.assign([("t", 0)])
    assert [r.value for r in read(consumer, 4, max_records=4)] == numbers(0, 4)
    assert [r.value for r in read(consumer, 6)] == numbers(4, 10)
    assert consumer.poll(0) == []


def test_iteration_goes_on_from_list_to_list(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 2)
    fill(server, "t", 0, numbers(0, 500))
    fill(server, "t", 1, numbers(500, 1000))
    consumer = make()
    consumer.assign([("t", 0), ("t", 1)])
    seen = set()
    for record in consumer:
        seen.add(int(record.value))
        if len(seen) == 1000:
            break
    assert seen == set(range(1000))


def test_records_left_by_a_loop_are_handed_out_by_the_next_poll(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 40))
    consumer = make()
    consumer.assign([("t", 0)])
    looped = []
    for record in consumer:
        looped.append(record.value)
        if len(looped) == 3:
            break
    assert consumer.position(("t", 0)) == 3
    polled = [r.value for r in read(consumer, 37)]
    assert looped + polled == numbers(0, 40)


def test_a_second_loop_goes_on_where_the_first_stopped(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 40))
    consumer = make()
    consumer.assign([("t", 0)])
    seen = []
    for stop in (3, 7, 40):
        for record in consumer:
            seen.append(record.value)
            if len(seen) == stop:
                break
    assert seen == numbers(0, 40)


def test_batches_yields_lists_and_empty_ones_too(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 10))
    consumer = make()
    consumer.assign([("t", 0)])
    seen = []
    for records in consumer.batches(timeout=0.05):
        seen += records
        if len(seen) == 10 and not records:
            break
    assert [r.value for r in seen] == numbers(0, 10)


def test_poll_wakes_when_data_comes(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    consumer = make(fetch_max_wait_ms=10_000)
    consumer.assign([("t", 0)])
    assert consumer.poll(0.1) == []
    threading.Timer(0.1, fill, (server, "t", 0, numbers(0, 1))).start()
    began = time.monotonic()
    assert [r.value for r in consumer.poll(LONG)] == numbers(0, 1)
    assert time.monotonic() - began < 5


def test_latest_begins_at_the_end_and_earliest_at_the_beginning(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 5))
    latest, earliest = make(auto_offset_reset="latest"), make()
    for consumer in (latest, earliest):
        consumer.assign([("t", 0)])
    assert latest.position(("t", 0), LONG) == 5
    assert earliest.position(("t", 0), LONG) == 0


def test_a_topic_that_does_not_exist_is_waited_for_and_read_from_its_beginning(server: ModelServer, make: Make) -> None:
    consumer = make(auto_offset_reset="latest", group_id="g")
    consumer.subscribe(["later"])
    poll_until(consumer, lambda: consumer.status()["consumer"]["state"] == "has its partitions")
    assert consumer.status()["consumer"]["unknown_topics"] == ["later"]
    server.create_topic("later", 2)
    fill(server, "later", 0, numbers(0, 3))
    assert [r.value for r in read(consumer, 3)] == numbers(0, 3)


def test_an_assigned_partition_of_a_topic_created_later_is_read_from_its_beginning(server: ModelServer, make: Make) -> None:
    consumer = make(auto_offset_reset="latest")
    consumer.assign([("later", 0)])
    poll_until(consumer, lambda: "UNKNOWN_TOPIC_OR_PARTITION" in str(consumer.status()["topics"]))
    server.create_topic("later", 1)
    fill(server, "later", 0, numbers(0, 3))
    assert [r.value for r in read(consumer, 3)] == numbers(0, 3)


def test_lag_and_stats_tell_how_far_behind(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 10))
    consumer = make()
    consumer.assign([("t", 0)])
    read(consumer, 4, max_records=4)
    assert consumer.lag(("t", 0)) == 6
    assert consumer.stats()["partitions"] == 1
    read(consumer, 6)
    assert consumer.lag(("t", 0)) == 0
    assert consumer.stats()["buffered_bytes"] == 0


# ---------------------------------------------------------------- positions


def test_seek_drops_what_was_buffered(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 2)
    fill(server, "t", 0, numbers(0, 100))
    consumer = make()
    consumer.assign([("t", 0)])
    read(consumer, 10, max_records=10)
    consumer.seek(("t", 0), 50)
    assert consumer.position(("t", 0)) == 50
    assert [r.offset for r in read(consumer, 50)] == list(range(50, 100))
    consumer.seek_to_beginning()
    assert [r.offset for r in read(consumer, 100)] == list(range(100))
    consumer.seek_to_end([("t", 0)])
    assert consumer.position(("t", 0), LONG) == 100


def test_seek_inside_a_loop_takes_effect_with_the_next_record(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 100))
    consumer = make()
    consumer.assign([("t", 0)])
    offsets = []
    for record in consumer:
        offsets.append(record.offset)
        if len(offsets) == 5:
            consumer.seek(("t", 0), 90)
        if record.offset == 99:
            break
    assert offsets == [0, 1, 2, 3, 4, *range(90, 100)]


def test_paused_partitions_hand_out_nothing_until_resumed(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 2)
    fill(server, "t", 0, numbers(0, 50))
    fill(server, "t", 1, numbers(50, 100))
    consumer = make()
    consumer.assign([("t", 0), ("t", 1)])
    read(consumer, 5, max_records=5)
    consumer.pause([("t", 0)])
    assert consumer.paused() == {("t", 0)}
    before = consumer.position(("t", 0))
    rest = poll_until(consumer, lambda: consumer.position(("t", 1)) == 50)
    assert all(r.partition == 1 for r in rest)
    consumer.resume([("t", 0)])
    assert [r.offset for r in read(consumer, 50 - before)] == list(range(before, 50))


def test_pause_inside_a_loop_holds_back_the_rest_and_loses_none(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 2)
    fill(server, "t", 0, numbers(0, 50))
    fill(server, "t", 1, numbers(0, 50))
    consumer = make()
    consumer.assign([("t", 0), ("t", 1)])
    seen: dict[int, list[int]] = {0: [], 1: []}
    for record in consumer:
        seen[record.partition].append(record.offset)
        if len(seen[0]) == 3 and not consumer.paused():
            consumer.pause([("t", 0)])
        if len(seen[1]) == 50 and consumer.paused():
            assert seen[0] == [0, 1, 2]
            consumer.resume([("t", 0)])
        if sum(map(len, seen.values())) == 100:
            break
    assert seen == {0: list(range(50)), 1: list(range(50))}


def test_paused_data_does_not_take_the_room_of_other_partitions(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 2)
    for p in (0, 1):
        for _ in range(20):
            fill(server, "t", p, [b"x" * 1000] * 10)
    consumer = make(prefetch_bytes=20_000, max_partition_fetch_bytes=10_000)
    consumer.assign([("t", 0), ("t", 1)])
    read(consumer, 2, max_records=1)
    consumer.pause([("t", 0)])
    poll_until(consumer, lambda: consumer.position(("t", 1)) == 200)
    at = consumer.position(("t", 0))
    consumer.resume([("t", 0)])
    assert [r.offset for r in read(consumer, 200 - at)] == list(range(at, 200))


def test_assign_keeps_the_position_of_what_stays(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 3)
    for p in range(3):
        fill(server, "t", p, numbers(0, 10))
    consumer = make()
    consumer.assign([("t", 0), ("t", 1)])
    read(consumer, 20)
    consumer.assign([("t", 1), ("t", 2)])
    assert {(r.partition, r.offset) for r in read(consumer, 10)} == {(2, i) for i in range(10)}
    assert consumer.assignment() == {("t", 1), ("t", 2)}


# ---------------------------------------------------------------- commits


def test_commit_covers_everything_handed_out_by_polls_that_returned(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 10))
    consumer = make(group_id="g", enable_auto_commit=False)
    consumer.subscribe(["t"])
    read(consumer, 4, max_records=4)
    consumer.commit()
    assert consumer.committed(("t", 0)) == OffsetAndMetadata(4, 0)
    assert consumer.committed([("t", 0)]) == {("t", 0): OffsetAndMetadata(4, 0)}


def test_commit_inside_a_loop_leaves_out_the_record_in_hand(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 2)
    fill(server, "t", 0, numbers(0, 10))
    consumer = make(group_id="g", enable_auto_commit=False)
    consumer.subscribe(["t"])
    for count, record in enumerate(consumer):
        assert record.offset == count
        consumer.commit()
        stored = consumer.committed(("t", 0))
        assert (stored.offset if stored else 0) == count
        if count == 9:
            break


def test_commits_can_name_offsets_and_be_asynchronous(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 2)
    consumer = make(group_id="g", enable_auto_commit=False)
    consumer.assign([("t", 0), ("t", 1)])
    consumer.commit({("t", 0): 7, TopicPartition("t", 1): OffsetAndMetadata(8, 3, "note")})
    assert consumer.committed([("t", 0), ("t", 1)]) == {("t", 0): OffsetAndMetadata(7), ("t", 1): OffsetAndMetadata(8, 3, "note")}
    done = threading.Event()
    outcomes: list[Any] = []

    def on_done(offsets: Any, error: Any) -> None:
        outcomes.append((offsets, error))
        done.set()

    consumer.commit_async({("t", 0): 9}, on_done)
    assert done.wait(LONG)
    assert outcomes == [({("t", 0): OffsetAndMetadata(9)}, None)]


def test_a_new_consumer_of_the_group_goes_on_behind_what_was_committed(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 10))
    first = make(group_id="g", enable_auto_commit=False)
    first.subscribe(["t"])
    read(first, 6, max_records=6)
    first.commit()
    first.close()
    second = make(group_id="g")
    second.subscribe(["t"])
    assert [r.offset for r in read(second, 4)] == [6, 7, 8, 9]


def test_close_commits_what_was_finished_and_not_what_is_in_hand(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 10))
    first = make(group_id="g")
    first.subscribe(["t"])
    read(first, 4, max_records=4)
    first.poll(1, max_records=3)
    first.close()
    second = make(group_id="g")
    second.subscribe(["t"])
    assert second.committed(("t", 0)) == OffsetAndMetadata(4, 0)


def test_auto_commit_never_goes_back_behind_an_explicit_commit(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 2)
    fill(server, "t", 0, numbers(0, 10))
    for offsets, stored in ((None, 4), ({("t", 0): 7}, 7)):
        consumer = make(group_id=f"g{stored}", auto_commit_interval_ms=10)
        consumer.subscribe(["t"])
        read(consumer, 4, max_records=4)
        consumer.commit(offsets)
        consumer.close()
        assert make(group_id=f"g{stored}").committed(("t", 0)).offset == stored


def test_close_in_a_loop_commits_what_comes_before_the_record_in_hand(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 10))
    with make(group_id="g") as consumer:
        consumer.subscribe(["t"])
        for record in consumer:
            if record.offset == 5:
                break
    assert make(group_id="g").committed(("t", 0)) == OffsetAndMetadata(5, 0)


def test_auto_commit_goes_on_while_the_application_polls(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 10))
    consumer, other = make(group_id="g", auto_commit_interval_ms=20), make(group_id="g")
    consumer.subscribe(["t"])
    read(consumer, 10)
    poll_until(consumer, lambda: other.committed(("t", 0)) == OffsetAndMetadata(10, 0))


def test_auto_commit_never_covers_the_list_in_hand_or_what_is_prefetched(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 10))
    consumer, other = make(group_id="g", auto_commit_interval_ms=10), make(group_id="g")
    consumer.subscribe(["t"])
    read(consumer, 3, max_records=3)
    read(consumer, 3, max_records=3)
    deadline = time.monotonic() + LONG
    while other.committed(("t", 0)) != OffsetAndMetadata(3, 0):
        assert time.monotonic() < deadline
    for _ in range(10):
        assert other.committed(("t", 0)) == OffsetAndMetadata(3, 0)


def test_a_place_chosen_by_the_reset_policy_is_committed_too(server: ModelServer, make: Make) -> None:
    """Else what is written between two runs of a `latest` consumer that read nothing would be lost."""
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 5))
    consumer = make(group_id="g", auto_offset_reset="latest", auto_commit_interval_ms=10)
    consumer.subscribe(["t"])
    other = make(group_id="g")
    poll_until(consumer, lambda: other.committed(("t", 0)) == OffsetAndMetadata(5))


def test_a_commit_is_retried_through_a_coordinator_move_and_a_lost_answer(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    consumer = make(group_id="g", enable_auto_commit=False)
    consumer.assign([("t", 0)])
    consumer.commit({("t", 0): 1})
    server.do(lambda c: c.move_coordinator("g", loading=0.2))
    server.do(lambda c: c.inject(OffsetCommitRequest, Fault.DROP_AFTER))
    consumer.commit({("t", 0): 2})
    assert consumer.committed(("t", 0)) == OffsetAndMetadata(2)


def test_a_commit_without_answer_is_an_error_and_not_a_success(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    consumer = make(group_id="g", enable_auto_commit=False)
    consumer.assign([("t", 0)])
    server.do(lambda c: c.inject(OffsetCommitRequest, Fault.SWALLOW, times=100))
    with pytest.raises(KafkaTimeoutError, match=r"commit of t-0: .* unknown"):
        consumer.commit({("t", 0): 1}, timeout=0.3)


# ---------------------------------------------------------------- groups


def test_members_share_out_partitions_and_take_over_from_each_other(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 4)
    first, second = make(group_id="g"), make(group_id="g")
    told, told_second = Listener(), Listener()
    first.subscribe(["t"], told)
    poll_until(first, lambda: len(first.assignment()) == 4)
    second.subscribe(["t"], told_second)
    poll_until(first, lambda: second.poll(0.01) is not None and len(second.assignment()) == 2 and len(first.assignment()) == 2)
    assert first.assignment() | second.assignment() == {("t", p) for p in range(4)}
    assert told.kinds == ["assigned", "revoked", "assigned"]
    second.close()
    poll_until(first, lambda: len(first.assignment()) == 4)
    assert told_second.kinds == ["assigned", "revoked"]


def test_no_record_is_skipped_or_regressed_when_members_come_and_go(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 4)
    for p in range(4):
        fill(server, "t", p, numbers(0, 300))
    first, second = make(group_id="g"), make(group_id="g")
    first.subscribe(["t"])
    seen = {(r.partition, r.offset) for r in read(first, 200, max_records=50)}
    second.subscribe(["t"])
    deadline = time.monotonic() + LONG
    while len(seen) < 1200:
        assert time.monotonic() < deadline
        for consumer in (first, second):
            seen |= {(r.partition, r.offset) for r in consumer.poll(0.02, max_records=50)}
    assert seen == {(p, i) for p in range(4) for i in range(300)}


def test_commit_in_on_partitions_revoked_works(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 2)
    fill(server, "t", 0, numbers(0, 10))
    first = make(group_id="g", enable_auto_commit=False)

    class Committing(Listener):
        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            first.commit(timeout=LONG)
            super().on_partitions_revoked(partitions)

    told = Committing()
    first.subscribe(["t"], told)
    read(first, 4, max_records=4)
    second = make(group_id="g", enable_auto_commit=False)
    second.subscribe(["t"])
    poll_until(second, lambda: first.poll(0.01) is not None and second.assignment() and "revoked" in told.kinds)
    assert second.committed(("t", 0)) == OffsetAndMetadata(10 if first.position(("t", 0), LONG) == 10 else 4, 0)


def test_records_of_revoked_partitions_are_dropped_before_the_listener_runs(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 2)
    for p in (0, 1):
        fill(server, "t", p, numbers(0, 500))
    first = make(group_id="g")
    buffered: list[int] = []

    class Looking(Listener):
        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            buffered.append(first.stats()["buffered_bytes"])

    first.subscribe(["t"], Looking())
    read(first, 10, max_records=10)
    second = make(group_id="g")
    second.subscribe(["t"])
    poll_until(second, lambda: first.poll(0.01, max_records=1) is not None and buffered)
    assert buffered[0] == 0


def test_seek_in_on_partitions_assigned_decides_where_to_begin(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 10))
    consumer = make(group_id="g", auto_offset_reset="none")

    class Seeking(Listener):
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            for tp in partitions:
                consumer.seek(tp, 7)

    consumer.subscribe(["t"], Seeking())
    assert [r.offset for r in read(consumer, 3)] == [7, 8, 9]


def test_an_exception_in_a_listener_comes_out_of_poll_and_the_consumer_goes_on(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 3))
    consumer = make(group_id="g")

    class Failing(Listener):
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            raise ZeroDivisionError

    consumer.subscribe(["t"], Failing())
    with pytest.raises(ZeroDivisionError):
        poll_until(consumer, consumer.assignment)
    assert [r.offset for r in read(consumer, 3)] == [0, 1, 2]


def test_a_member_that_polls_too_rarely_loses_its_partitions_and_joins_again(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    consumer = make(group_id="g", max_poll_interval_ms=200)
    told = Listener()
    consumer.subscribe(["t"], told)
    poll_until(consumer, consumer.assignment)
    server.wait_for(lambda cluster: not cluster.group("g").members)
    with pytest.raises(GroupError, match="max_poll_interval_ms"):
        consumer.commit({("t", 0): 1})
    poll_until(consumer, lambda: told.kinds == ["assigned", "lost", "assigned"])


def test_the_member_lives_on_while_the_application_works(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    consumer = make(group_id="g", session_timeout_ms=300, enable_auto_commit=False)
    told = Listener()
    consumer.subscribe(["t"], told)
    poll_until(consumer, consumer.assignment)
    beats = server.do(lambda cluster: cluster.requests["Heartbeat"])
    server.wait_for(lambda cluster: cluster.requests["Heartbeat"] >= beats + 12)  # twice the session without a poll
    consumer.commit({("t", 0): 1})
    consumer.poll(0)
    assert told.kinds == ["assigned"]


def test_a_coordinator_change_is_no_rebalance(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 2)
    consumer = make(group_id="g")
    told = Listener()
    consumer.subscribe(["t"], told)
    poll_until(consumer, consumer.assignment)
    node = server.do(lambda cluster: cluster.coordinator("g"))
    server.do(lambda cluster: cluster.stop_broker(node, failover=0.1))
    fill(server, "t", 0, numbers(0, 5))
    fill(server, "t", 1, numbers(0, 5))
    read(consumer, 10)
    consumer.commit()
    assert told.kinds == ["assigned"]
    assert consumer.status()["consumer"]["coordinator"] != node


@pytest.mark.parametrize("error", ["UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"])
def test_a_member_the_coordinator_forgot_loses_its_partitions_and_joins_again(server: ModelServer, make: Make, error: str) -> None:
    server.create_topic("t", 1)
    consumer = make(group_id="g", session_timeout_ms=500)
    told = Listener()
    consumer.subscribe(["t"], told)
    poll_until(consumer, consumer.assignment)
    server.do(lambda cluster: cluster.push_error(HeartbeatRequest, error))
    poll_until(consumer, lambda: told.kinds == ["assigned", "lost", "assigned"])


@pytest.mark.parametrize(
    ("api", "error"),
    [
        (JoinGroupRequest, "GROUP_AUTHORIZATION_FAILED"),
        (JoinGroupRequest, "GROUP_MAX_SIZE_REACHED"),
        (HeartbeatRequest, "FENCED_INSTANCE_ID"),
        (FindCoordinatorRequest, "GROUP_AUTHORIZATION_FAILED"),
    ],
)
def test_what_no_retry_helps_is_raised_from_every_poll(server: ModelServer, make: Make, api: Any, error: str) -> None:
    server.create_topic("t", 1)
    consumer = make(group_id="g")
    server.do(lambda cluster: cluster.push_error(api, error))
    consumer.subscribe(["t"])
    for _ in range(2):
        with pytest.raises(BrokerError, match=error):
            poll_until(consumer, lambda: False)
    consumer.unsubscribe()
    consumer.subscribe(["t"])
    poll_until(consumer, consumer.assignment)


@pytest.mark.parametrize(
    ("api", "error"),
    [
        (JoinGroupRequest, "COORDINATOR_LOAD_IN_PROGRESS"),
        (JoinGroupRequest, "NOT_COORDINATOR"),
        (JoinGroupRequest, "UNKNOWN_MEMBER_ID"),
        (JoinGroupRequest, "UNKNOWN_SERVER_ERROR"),
        (FindCoordinatorRequest, "COORDINATOR_NOT_AVAILABLE"),
        (OffsetFetchRequest, "COORDINATOR_LOAD_IN_PROGRESS"),
        (OffsetFetchRequest, "NOT_COORDINATOR"),
        (ListOffsetsRequest, "NOT_LEADER_OR_FOLLOWER"),
        (ListOffsetsRequest, "OFFSET_NOT_AVAILABLE"),
        (FetchRequest, "NOT_LEADER_OR_FOLLOWER"),
        (FetchRequest, "UNKNOWN_LEADER_EPOCH"),
        (FetchRequest, "KAFKA_STORAGE_ERROR"),
        (FetchRequest, "UNKNOWN_SERVER_ERROR"),
        (FetchRequest, "CORRUPT_MESSAGE"),
    ],
)
def test_passing_errors_are_retried_without_a_word(server: ModelServer, make: Make, api: Any, error: str) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 5))
    server.do(lambda cluster: cluster.push_error(api, error, times=3))
    consumer = make(group_id="g", retry_backoff_ms=10, retry_backoff_max_ms=50)
    consumer.subscribe(["t"])
    assert [r.offset for r in read(consumer, 5)] == list(range(5))


def test_new_partitions_of_a_subscribed_topic_are_read_from_their_beginning(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    consumer = make(group_id="g", auto_offset_reset="latest", metadata_max_age_ms=200)
    consumer.subscribe(["t"])
    poll_until(consumer, lambda: consumer.assignment() == {("t", 0)})
    server.do(lambda cluster: cluster.add_partitions("t", 3))
    fill(server, "t", 2, numbers(0, 3))
    assert [(r.partition, r.offset) for r in read(consumer, 3)] == [(2, 0), (2, 1), (2, 2)]


def test_a_static_member_comes_back_without_a_rebalance(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 2)
    other, told = make(group_id="g"), Listener()
    other.subscribe(["t"], told)
    static = make(group_id="g", group_instance_id="s1")
    static.subscribe(["t"])
    poll_until(static, lambda: other.poll(0.01) is not None and len(static.assignment()) == 1 and len(other.assignment()) == 1)
    before = len(told.told)
    had = static.assignment()
    static.close()
    back = make(group_id="g", group_instance_id="s1")
    back.subscribe(["t"])
    poll_until(back, lambda: other.poll(0.01) is not None and back.assignment())
    assert back.assignment() == had
    assert len(told.told) == before


def test_subscribed_and_assigned_partitions_live_side_by_side(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    server.create_topic("u", 1)
    fill(server, "t", 0, numbers(0, 3))
    fill(server, "u", 0, numbers(0, 3))
    consumer = make(group_id="g")
    consumer.assign([("u", 0)])
    consumer.subscribe(["t"])
    assert {(r.topic, r.offset) for r in read(consumer, 6)} == {(t, i) for t in "tu" for i in range(3)}
    consumer.commit()
    assert consumer.committed([("t", 0), ("u", 0)]) == {("t", 0): OffsetAndMetadata(3, 0), ("u", 0): OffsetAndMetadata(3, 0)}
    with pytest.raises(ConfigError, match="'u'"):
        consumer.subscribe(["u"])
    with pytest.raises(ConfigError, match="'t'"):
        consumer.assign([("t", 0)])


def test_unsubscribe_leaves_the_group_and_subscribe_joins_again(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    consumer, told = make(group_id="g"), Listener()
    consumer.subscribe(["t"], told)
    poll_until(consumer, consumer.assignment)
    consumer.unsubscribe()
    assert consumer.assignment() == set()
    assert consumer.subscription() == set()
    assert told.kinds == ["assigned", "revoked"]
    server.wait_for(lambda cluster: not cluster.group("g").members)
    consumer.subscribe(["t"])
    poll_until(consumer, consumer.assignment)


# ---------------------------------------------------------------- what goes wrong with data


def test_a_damaged_batch_is_raised_on_every_poll_until_seek_passes_it(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 2)
    fill(server, "t", 0, numbers(0, 3))
    fill(server, "t", 0, numbers(3, 6))
    fill(server, "t", 0, numbers(6, 9))
    fill(server, "t", 1, numbers(0, 3))

    def damage(cluster: Any) -> None:
        batches = cluster.log("t", 0).batches
        batches[1] = attrs.evolve(batches[1], data=batches[1].data[:-1] + b"?")

    server.do(damage)
    consumer = make()
    consumer.assign([("t", 0)])
    assert [r.offset for r in read(consumer, 3)] == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(CorruptRecord, match="t-0 at offset 3"):
            poll_until(consumer, lambda: False)
    assert consumer.position(("t", 0)) == 3
    consumer.seek(("t", 0), 6)
    assert [r.offset for r in read(consumer, 3)] == [6, 7, 8]


def test_an_offset_out_of_range_without_a_policy_names_the_valid_range(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 5))
    consumer = make(auto_offset_reset="none")
    consumer.assign([("t", 0)])
    with pytest.raises(KafkaError, match=r"t-0: no committed offset .* auto_offset_reset=none"):
        poll_until(consumer, lambda: False)
    consumer.seek(("t", 0), 99)
    for _ in range(2):
        with pytest.raises(BrokerError, match=r"t-0: OFFSET_OUT_OF_RANGE .*offset 99 is not among 0 to 5"):
            poll_until(consumer, lambda: False)
    consumer.seek(("t", 0), 3)
    assert [r.offset for r in read(consumer, 2)] == [3, 4]


def test_an_offset_out_of_range_is_reset_by_policy(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 5))
    consumer = make()
    consumer.assign([("t", 0)])
    consumer.seek(("t", 0), 99)
    assert [r.offset for r in read(consumer, 5)] == list(range(5))


def test_a_topic_made_anew_is_read_from_its_beginning(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 50))
    consumer = make(metadata_max_age_ms=200)
    consumer.assign([("t", 0)])
    read(consumer, 50)
    server.do(lambda cluster: cluster.recreate_topic("t"))
    fill(server, "t", 0, [b"new"])
    assert [(r.offset, r.value) for r in read(consumer, 1)] == [(0, b"new")]


def test_authorization_errors_are_raised_and_reading_goes_on_when_they_are_cured(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    server.do(lambda cluster: cluster.push_error(FetchRequest, "TOPIC_AUTHORIZATION_FAILED", times=1))
    consumer = make()
    consumer.assign([("t", 0)])
    with pytest.raises(AuthorizationError, match="t-0"):
        poll_until(consumer, lambda: False)
    fill(server, "t", 0, numbers(0, 1))
    read(consumer, 1)


def test_leaders_that_move_and_brokers_that_go_cost_no_record(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 3)
    consumer = make(reconnect_backoff_ms=10, retry_backoff_ms=10)
    consumer.assign([("t", p) for p in range(3)])
    seen: list[tuple[int, int]] = []
    for round_ in range(6):
        for p in range(3):
            fill(server, "t", p, numbers(0, 20))
        if round_ == 1:
            server.do(lambda cluster: cluster.move_leader("t", 0))
        elif round_ == 3:
            server.do(lambda cluster: cluster.stop_broker(1, failover=0.05))
        elif round_ == 4:
            server.do(lambda cluster: cluster.drop_connections())
        seen += [(r.partition, r.offset) for r in read(consumer, 60)]
    assert len(seen) == 360
    for p in range(3):
        assert [offset for partition, offset in seen if partition == p] == list(range(120))


def test_records_larger_than_every_fetch_option_come_all_the_same(server: ModelServer, make: Make) -> None:
    server.do(lambda cluster: cluster.create_topic("t", 3, leaders=[1, 1, 1]))
    for p in range(3):
        fill(server, "t", p, [b"x" * 50_000])
        fill(server, "t", p, [b"y" * 50_000])
    consumer = make(max_partition_fetch_bytes=1_000, fetch_max_bytes=1_000, prefetch_bytes=2_000)
    consumer.assign([("t", p) for p in range(3)])
    assert sorted((r.partition, r.offset) for r in read(consumer, 6)) == [(p, i) for p in range(3) for i in range(2)]


def test_a_batch_that_unpacks_to_too_much_is_refused_by_name_and_can_be_passed(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 2))
    fill(server, "t", 0, [b"x" * 100_000], codec=1)
    fill(server, "t", 0, numbers(3, 4))
    consumer = make(max_decompressed_bytes=10_000)
    consumer.assign([("t", 0)])
    assert [r.offset for r in read(consumer, 2)] == [0, 1]
    for _ in range(2):
        with pytest.raises(RecordTooLarge, match="t-0 at offset 2"):
            poll_until(consumer, lambda: False)
    consumer.seek(("t", 0), 3)
    assert [r.offset for r in read(consumer, 1)] == [3]


def test_every_codec_is_read(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    for codec in range(5):
        fill(server, "t", 0, [b"value %d" % codec * 100], codec=codec)
    consumer = make()
    consumer.assign([("t", 0)])
    assert [r.value for r in read(consumer, 5)] == [b"value %d" % codec * 100 for codec in range(5)]


@pytest.mark.parametrize("release", ["0.11", "2.1", "2.8", "3.9", "4.0", "4.4"])
def test_groups_and_reading_work_on_every_release(release: str) -> None:
    with ModelServer(brokers=2, release=release) as server:
        server.create_topic("t", 2)
        for p in (0, 1):
            fill(server, "t", p, numbers(0, 10))
        for rest in (20, 0):
            with Consumer(bootstrap_servers=server.bootstrap_servers, group_id="g", auto_offset_reset="earliest") as consumer:
                consumer.subscribe(["t"])
                records = read(consumer, rest)
                poll_until(consumer, consumer.assignment)
                consumer.commit()
                assert {(r.partition, r.offset) for r in records} == {(p, i) for p in (0, 1) for i in range(rest // 2)}
                assert {tp: place.offset for tp, place in consumer.committed(consumer.assignment()).items()} == {("t", 0): 10, ("t", 1): 10}


# ---------------------------------------------------------------- misuse and ends


def test_misuse_is_answered_with_the_right_way(server: ModelServer, make: Make) -> None:
    consumer, alone = make(group_id="g"), make()
    with pytest.raises(ConfigError, match=r"takes a list of names"):
        consumer.subscribe("t")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="named twice"):
        consumer.subscribe(["t", "t"])
    with pytest.raises(ConfigError, match="unsubscribe"):
        consumer.subscribe([])
    with pytest.raises(ConfigError, match="group_id"):
        alone.subscribe(["t"])
    with pytest.raises(ConfigError, match="group_id"):
        alone.commit()
    with pytest.raises(ConfigError, match="group_id"):
        alone.committed([("t", 0)])
    with pytest.raises(ConfigError, match="t-0 is not assigned"):
        consumer.seek(("t", 0), 1)
    with pytest.raises(ConfigError, match="t-0 is not assigned"):
        consumer.position(("t", 0))
    with pytest.raises(ConfigError, match="negative"):
        consumer.assign([("t", -1)])
    with pytest.raises(ConfigError, match="named twice"):
        consumer.assign([("t", 1), ("t", 1)])
    with pytest.raises(ConfigError, match="on_partitions_assigned"):
        consumer.subscribe(["t"], object())
    with pytest.raises(ConfigError, match="max_records"):
        consumer.poll(0, max_records=0)
    with pytest.raises(ConfigError, match="timeout"):
        consumer.poll(-1)
    with pytest.raises(ConfigError, match="nothing to read; subscribe or assign"):
        consumer.poll()
    with pytest.raises(AttributeError, match="Consumer has no 'consume'; use 'poll'"):
        consumer.consume  # noqa: B018
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(consumer)
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        Consumer(group_id="g")
    with pytest.raises(TypeError, match="offset of"):
        consumer.commit({("t", 0): "1"})  # type: ignore[dict-item]


def test_a_poll_from_a_second_thread_is_refused_and_both_are_named(server: ModelServer, make: Make) -> None:
    consumer = make()
    consumer.assign([("t", 0)])

    def wait() -> None:
        with pytest.raises(ClosedError):
            consumer.poll(LONG)

    thread = threading.Thread(target=wait, name="first")
    thread.start()
    deadline = time.monotonic() + LONG
    while not consumer._session._busy:
        assert time.monotonic() < deadline
    with pytest.raises(KafkaError, match="'first' is in poll and thread 'MainThread' called poll"):
        consumer.poll(0)
    with pytest.raises(KafkaError, match="'first' is in poll and thread 'MainThread' called seek"):
        consumer.seek(("t", 0), 1)
    consumer.close()
    thread.join(LONG)
    assert not thread.is_alive()


def test_poll_inside_a_listener_is_refused(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    consumer = make(group_id="g")

    class Polling(Listener):
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            consumer.poll(0)

    consumer.subscribe(["t"], Polling())
    with pytest.raises(KafkaError, match="inside on_partitions_assigned"):
        poll_until(consumer, lambda: False)


def test_after_close_every_call_says_so_and_close_works_again(server: ModelServer, make: Make) -> None:
    consumer = make(group_id="g")
    consumer.close()
    consumer.close()
    for call in (consumer.poll, consumer.commit, lambda: consumer.subscribe(["t"]), lambda: consumer.assign([("t", 0)])):
        with pytest.raises(ClosedError):
            call()
    assert consumer.status()["consumer"]["state"] == "closed"


def test_close_leaves_the_group_at_once(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    consumer = make(group_id="g")
    consumer.subscribe(["t"])
    poll_until(consumer, consumer.assignment)
    consumer.close()
    server.wait_for(lambda cluster: not cluster.group("g").members, 1.0)


def test_close_is_bounded_when_no_broker_is_in_reach(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 3))
    consumer = make(group_id="g")
    consumer.subscribe(["t"])
    read(consumer, 3)
    consumer.poll(0)
    server.do(lambda cluster: [cluster.stop_broker(node) for node in cluster.brokers])
    began = time.monotonic()
    consumer.close(1.0)
    assert time.monotonic() - began < 1.6


def test_ctrl_c_leaves_poll_at_once_and_loses_nothing(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    consumer = make()
    consumer.assign([("t", 0)])
    consumer.poll(0.1)
    main = threading.get_ident()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background ignores it
    try:
        threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT)).start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(LONG)
        assert time.monotonic() - began < 3
    finally:
        signal.signal(signal.SIGINT, before)
    fill(server, "t", 0, numbers(0, 3))
    assert [r.offset for r in read(consumer, 3)] == [0, 1, 2]


def test_a_forked_child_is_told_to_make_its_own_and_the_parent_reads_on(server: ModelServer, make: Make) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 4))
    consumer = make(group_id="g")
    consumer.subscribe(["t"])
    read(consumer, 2, max_records=2)
    child = os.fork()
    if child == 0:
        refused = 0
        for call in (consumer.poll, consumer.commit, lambda: consumer.seek(("t", 0), 0), lambda: next(iter(consumer))):
            try:
                call()
            except ForkedClientError:
                refused += 1
        consumer.close()
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
    assert [r.offset for r in read(consumer, 2)] == [2, 3]
    consumer.commit()


def test_a_client_that_closes_closes_its_consumers(server: ModelServer) -> None:
    server.create_topic("t", 1)
    client = Client(bootstrap_servers=server.bootstrap_servers)
    consumer = Consumer(client=client, group_id="g", auto_offset_reset="earliest")
    consumer.subscribe(["t"])
    poll_until(consumer, consumer.assignment)
    client.close()
    with pytest.raises(ClosedError):
        consumer.poll(0)
    server.wait_for(lambda cluster: not cluster.group("g").members)
    consumer.close()


def test_consumers_share_a_client_and_leave_it_open(server: ModelServer) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 3))
    with Client(bootstrap_servers=server.bootstrap_servers) as client:
        for _ in range(2):
            with Consumer(client=client, auto_offset_reset="earliest") as consumer:
                consumer.assign([("t", 0)])
                read(consumer, 3)
        assert client.partitions_for("t", LONG) == [0]
        with pytest.raises(ConfigError, match="client_id"):
            Consumer(client=client, client_id="x")


def test_a_forgotten_consumer_warns_and_leaves(server: ModelServer) -> None:
    server.create_topic("t", 1)
    consumer = Consumer(bootstrap_servers=server.bootstrap_servers, group_id="g")
    consumer.subscribe(["t"])
    poll_until(consumer, consumer.assignment)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del consumer
        gc.collect()
    assert [w.category for w in caught] == [ResourceWarning]
    server.wait_for(lambda cluster: not cluster.group("g").members)
