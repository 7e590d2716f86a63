"""Positions: seek, pause, assign, and what becomes of an offset that is out of range."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from threading import Event
from typing import Any

import pytest

from pykafka4 import Consumer, KafkaTimeoutError
from pykafka4.errors import BrokerError, ConfigError, NoOffsetForPartition, OffsetOutOfRange
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from tests.consumer.consuming import LONG, Listener, Maker, fill, poll_until, read, topic
from tests.inspection import inspect


@pytest.mark.parametrize("how", ["close", "unsubscribe", "rebalance"])
def test_a_position_that_is_unknown_when_its_partition_is_revoked_is_an_error_at_once(server: ModelServer, make: Maker, how: str) -> None:
    topic(server, 3, 3)
    server.fail("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS", times=10_000)
    errors: list[str] = []

    class Asking(Listener):
        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            for tp in partitions:
                with pytest.raises(ConfigError, match="was taken away from this consumer before its position was known") as caught:
                    consumer.position(tp, 10 * LONG)
                errors.append(str(caught.value))

    consumer = make.member(Asking())
    poll_until(consumer, consumer.assignment)
    if how == "rebalance":
        other = make.member()
        poll_until(consumer, lambda: other.poll(0) or errors)
    else:
        getattr(consumer, how)()
    assert len(errors) == 2


def test_a_position_that_is_unknown_when_its_consumer_closes_is_an_error(server: ModelServer, make: Maker) -> None:
    """Of a partition that the group does not assign."""
    topic(server, 3)
    server.create_topic("u", 1)
    server.fail("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS", times=10_000)
    errors: list[str] = []

    class Asking(Listener):
        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            with pytest.raises(ConfigError, match="closed before its position was known") as caught:
                consumer.position(("u", 0), 10 * LONG)
            errors.append(str(caught.value))

    consumer = make.member(Asking())
    consumer.assign([("u", 0)])
    poll_until(consumer, lambda: len(consumer.assignment()) == 2)
    consumer.close()
    assert len(errors) == 1


def test_the_position_of_a_partition_whose_end_waits_for_the_next_poll_is_an_error_at_once(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    server.fail("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS", times=10_000)
    consumer = make.member(max_poll_interval_ms=100)
    poll_until(consumer, consumer.assignment)
    with pytest.raises(ConfigError, match="was taken away"):
        consumer.position(("t", 0), 10 * LONG)  # the lease ends meanwhile


def test_seek_drops_what_was_buffered(server: ModelServer, make: Maker) -> None:
    topic(server, 100)
    consumer = make.assigned(0)
    read(consumer, 10, max_records=10)
    consumer.seek(("t", 0), 50)
    assert consumer.position(("t", 0)) == 50
    assert [r.offset for r in read(consumer, 50)] == list(range(50, 100))
    consumer.seek_to_beginning()
    assert [r.offset for r in read(consumer, 100)] == list(range(100))
    consumer.seek_to_end([("t", 0)])
    assert consumer.position(("t", 0), LONG) == 100


def test_a_record_written_after_seek_to_end_is_returned(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    consumer = make.assigned(0)
    read(consumer, 3)
    for end in (3, 4, 5):
        consumer.seek_to_end()
        fill(server, "t", 0, [b"%d" % end])
        assert [r.offset for r in read(consumer, 1)] == [end]


def test_the_end_that_was_sought_is_committed_without_a_poll(server: ModelServer, make: Maker) -> None:
    """A group that skips what has piled up."""
    topic(server, 3, 5)
    consumer = make.member(enable_auto_commit=False)
    poll_until(consumer, lambda: len(consumer.assignment()) == 2)
    consumer.seek_to_end()
    consumer.commit()
    assert {tp.partition: at.offset for tp, at in consumer.committed([("t", 0), ("t", 1)]).items() if at} == {0: 3, 1: 5}


def test_seek_to_end_of_a_partition_without_a_leader_ends_with_its_timeout_and_goes_on(server: ModelServer, make: Maker) -> None:
    topic(server, 3, 3)
    consumer = make.assigned(0, 1)
    read(consumer, 6)
    server.do(lambda cluster: cluster.orphan("t", 0, 1.0))
    with pytest.raises(KafkaTimeoutError, match="position of t-0: not known within"):
        consumer.seek_to_end(timeout=0.1)
    assert consumer.position(("t", 1), LONG) == 3
    assert consumer.position(("t", 0), LONG) == 3


def test_a_listener_may_seek_to_the_end(server: ModelServer, make: Maker) -> None:
    class Listener:
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            consumer.seek_to_end(partitions, LONG)
            fill(server, "t", 0, [b"after"])

    topic(server, 3)
    consumer = make(group_id="g", auto_offset_reset="earliest")
    consumer.subscribe(["t"], Listener())
    assert [r.value for r in read(consumer, 1)] == [b"after"]


def test_seek_moves_several_partitions_with_one_call_of_the_loop(server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic(server, 100, 100, 100)
    consumer = make.assigned(0, 1, 2)
    read(consumer, 300)
    posts: list[object] = []
    loop = inspect(consumer).loop
    monkeypatch.setattr(loop, "call", lambda fn, machine=None: posts.append(fn) or type(loop).call(loop, fn, machine))
    consumer.seek({("t", 0): 98, TopicPartition("t", 2): 97})
    assert len(posts) == 1
    assert sorted((r.partition, r.offset) for r in read(consumer, 5)) == [(0, 98), (0, 99), (2, 97), (2, 98), (2, 99)]
    consumer.seek({})
    assert consumer.position(("t", 1)) == 100


@pytest.fixture
def busy(server: ModelServer, make: Maker) -> Iterator[tuple[Consumer, Event]]:
    """A consumer that has read two partitions, and an event for which its loop waits before it takes further calls."""
    topic(server, 100, 100)
    consumer = make.assigned(0, 1)
    read(consumer, 200)
    free = Event()
    inspect(consumer).loop.call(lambda _: free.wait(LONG))
    yield consumer, free
    free.set()


def test_seeks_one_after_another_are_one_call_of_the_loop(busy: tuple[Consumer, Event], monkeypatch: pytest.MonkeyPatch) -> None:
    consumer, free = busy
    posts: list[object] = []
    loop = inspect(consumer).loop
    monkeypatch.setattr(loop, "call", lambda fn, machine=None: posts.append(fn) or type(loop).call(loop, fn, machine))
    for partition, offset in ((0, 10), (1, 97), (0, 98)):
        consumer.seek(("t", partition), offset)
    assert len(posts) == 1
    free.set()
    assert sorted((r.partition, r.offset) for r in read(consumer, 5)) == [(0, 98), (0, 99), (1, 97), (1, 98), (1, 99)]


def test_a_seek_after_the_call_of_earlier_ones_has_begun_is_not_lost(busy: tuple[Consumer, Event]) -> None:
    consumer, free = busy
    free.set()
    for offset in (10, 98):
        consumer.seek(("t", 0), offset)
        on_loop(consumer, lambda: None)
    assert [r.offset for r in read(consumer, 2)] == [98, 99]
    assert inspect(consumer).session._moving is not None
    assert inspect(consumer).session._moving.moves == []  # it does not keep the claims that have ended


def test_a_seek_does_not_overtake_an_assign(busy: tuple[Consumer, Event]) -> None:
    """The loop would not find the claim that the seek names."""
    consumer, free = busy
    consumer.seek(("t", 0), 10)
    consumer.assign([("t", 1)])
    consumer.assign([("t", 0), ("t", 1)])
    consumer.seek(("t", 0), 98)
    free.set()
    assert [r.offset for r in read(consumer, 2)] == [98, 99]


def on_loop(consumer: Consumer, read: Callable[[], Any]) -> Any:
    """What `read` returns on the loop's thread, after the calls that are posted."""
    return inspect(consumer).loop.ask(lambda _: read(), LONG)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [({("t", 0): 5, ("t", 1): -1}, "offset"), ({("t", 0): 5, ("t", 7): 1}, "t-7 is not assigned")],
    ids=["offset", "partition"],
)
def test_seek_moves_nothing_when_one_of_several_partitions_is_wrong(
    server: ModelServer, make: Maker, wrong: dict[tuple[str, int], int], error: str
) -> None:
    topic(server, 10, 10)
    consumer = make.assigned(0, 1)
    read(consumer, 20)
    with pytest.raises(ConfigError, match=error):
        consumer.seek(wrong)
    assert [consumer.position(("t", p)) for p in (0, 1)] == [10, 10]


def test_seek_inside_a_loop_takes_effect_with_the_next_record(server: ModelServer, make: Maker) -> None:
    topic(server, 100)
    consumer = make.assigned(0)
    offsets = []
    for record in consumer:
        offsets.append(record.offset)
        if len(offsets) == 5:
            consumer.seek(("t", 0), 90)
        if record.offset == 99:
            break
    assert offsets == [0, 1, 2, 3, 4, *range(90, 100)]


def test_paused_partitions_hand_out_nothing_until_resumed(server: ModelServer, make: Maker) -> None:
    topic(server, 50, 50)
    consumer = make.assigned(0, 1)
    read(consumer, 5, max_records=5)
    consumer.pause([("t", 0)])
    assert consumer.paused() == {("t", 0)}
    before = consumer.position(("t", 0))
    rest = poll_until(consumer, lambda: consumer.position(("t", 1)) == 50)
    assert all(r.partition == 1 for r in rest)
    consumer.resume([("t", 0)])
    assert [r.offset for r in read(consumer, 50 - before)] == list(range(before, 50))


def test_pause_inside_a_loop_holds_back_the_rest_and_loses_none(server: ModelServer, make: Maker) -> None:
    topic(server, 50, 50)
    consumer = make.assigned(0, 1)
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


def test_paused_data_does_not_take_the_room_of_other_partitions(server: ModelServer, make: Maker) -> None:
    topic(server, 0, 0)
    for p in (0, 1):
        for _ in range(20):
            fill(server, "t", p, [b"x" * 1000] * 10)
    consumer = make.assigned(0, 1, prefetch_bytes=20_000, max_partition_fetch_bytes=10_000)
    read(consumer, 2, max_records=1)
    consumer.pause([("t", 0)])
    poll_until(consumer, lambda: consumer.position(("t", 1)) == 200)
    at = consumer.position(("t", 0))
    consumer.resume([("t", 0)])
    assert [r.offset for r in read(consumer, 200 - at)] == list(range(at, 200))


def test_assign_keeps_the_position_of_what_stays(server: ModelServer, make: Maker) -> None:
    topic(server, 10, 10, 10)
    consumer = make.assigned(0, 1)
    read(consumer, 20)
    consumer.assign([("t", 1), ("t", 2)])
    assert {(r.partition, r.offset) for r in read(consumer, 10)} == {(2, i) for i in range(10)}
    assert consumer.assignment() == {("t", 1), ("t", 2)}


def test_partitions_that_are_no_longer_assigned_are_not_fetched(server: ModelServer, make: Maker) -> None:
    topic(server, 10, 10)
    consumer = make.assigned(0, 1)
    read(consumer, 20)
    consumer.assign([("t", 1)])
    session = inspect(consumer).session
    assert session.runtime.loop.ask(lambda now: set(session.machine.fetcher.positions), LONG) == {("t", 1)}


def test_an_offset_out_of_range_without_a_policy_names_the_valid_range(server: ModelServer, make: Maker) -> None:
    topic(server, 5)
    consumer = make.assigned(0, auto_offset_reset="none")
    with pytest.raises(NoOffsetForPartition, match=r"t-0: no committed offset .* auto_offset_reset=none") as unknown:
        poll_until(consumer, lambda: False)
    assert (unknown.value.topic, unknown.value.partition, unknown.value.offset) == ("t", 0, None)
    consumer.seek(("t", 0), 99)
    raised = []
    for _ in range(2):
        with pytest.raises(OffsetOutOfRange, match=r"t-0: OFFSET_OUT_OF_RANGE .*offset 99 is not in the log's range, 0 to 5") as caught:
            poll_until(consumer, lambda: False)
        raised.append(caught.value)
    error = raised[0]
    assert (error.topic, error.partition, error.offset, error.earliest, error.latest) == ("t", 0, 99, 0, 5)
    assert isinstance(error, BrokerError)
    assert raised[0] is not raised[1]  # one instance raised again and again would collect tracebacks
    consumer.seek(("t", 0), 3)
    assert [r.offset for r in read(consumer, 2)] == [3, 4]


def test_a_seek_does_not_wait_until_the_broker_answers_the_fetch_under_way(server: ModelServer, make: Maker) -> None:
    topic(server, 5)
    consumer = make.assigned(0, fetch_max_wait_ms=20_000)
    read(consumer, 5)
    consumer.poll(0.2)  # by now the next Fetch waits
    consumer.seek(("t", 0), 3)
    began = time.monotonic()
    assert [r.offset for r in read(consumer, 2)] == [3, 4]
    assert time.monotonic() - began < 5.0


def test_an_offset_out_of_range_is_reset_by_policy(server: ModelServer, make: Maker) -> None:
    topic(server, 5)
    consumer = make.assigned(0)
    consumer.seek(("t", 0), 99)
    assert [r.offset for r in read(consumer, 5)] == list(range(5))


def test_a_recreated_topic_is_read_from_its_beginning(server: ModelServer, make: Maker) -> None:
    topic(server, 50)
    consumer = make.assigned(0, metadata_max_age_ms=200)
    read(consumer, 50)
    server.do(lambda cluster: cluster.recreate_topic("t"))
    fill(server, "t", 0, [b"new"])
    assert [(r.offset, r.value) for r in read(consumer, 1)] == [(0, b"new")]


def test_a_paused_partition_is_not_fetched_until_it_is_resumed(server: ModelServer, make: Maker) -> None:
    topic(server, 3, 3)
    consumer = make.assigned(0, 1)
    read(consumer, 6)
    consumer.pause([("t", 0)])
    positions = inspect(consumer).machine.fetcher.positions
    poll_until(consumer, lambda: positions[TopicPartition("t", 0)].paused)
    assert not positions[TopicPartition("t", 1)].paused
    consumer.resume([("t", 0)])
    poll_until(consumer, lambda: not positions[TopicPartition("t", 0)].paused)


# -- seek_to_time: record n of the tests has timestamp 1000 + n


@pytest.mark.parametrize(("time_ms", "offset"), [(0, 0), (1_000, 0), (1_042, 42), (1_099, 99), (1_100, 100)])
def test_seek_to_time_continues_at_the_first_record_that_is_not_older(server: ModelServer, make: Maker, time_ms: int, offset: int) -> None:
    topic(server, 100)
    consumer = make.assigned(0)
    read(consumer, 10, max_records=10)
    consumer.seek_to_time(time_ms)
    assert consumer.position(("t", 0), LONG) == offset
    assert [r.offset for r in read(consumer, 100 - offset)] == list(range(offset, 100))


def test_seek_to_time_takes_a_datetime_and_partitions(server: ModelServer, make: Maker) -> None:
    topic(server, 100, 100)
    consumer = make.assigned(0, 1)
    read(consumer, 200)
    consumer.seek_to_time(datetime(1970, 1, 1, 1, 0, 1, 95_000, tzinfo=timezone(timedelta(hours=1))), [("t", 1)])
    assert [(r.partition, r.offset) for r in read(consumer, 5)] == [(1, n) for n in range(95, 100)]


@pytest.mark.parametrize(
    ("wrong", "error", "match"),
    [
        (datetime(2024, 1, 1), ConfigError, "has no time zone"),
        (-1, ConfigError, "must be from 0 to"),
        ("now", TypeError, "milliseconds since 1970, or a datetime"),
    ],
)
def test_a_wrong_time_is_refused(server: ModelServer, make: Maker, wrong: Any, error: type[Exception], match: str) -> None:
    topic(server, 1)
    consumer = make.assigned(0)
    with pytest.raises(error, match=match):
        consumer.seek_to_time(wrong)
    with pytest.raises(ConfigError, match="t-7 is not assigned"):
        consumer.seek_to_time(0, [("t", 7)])
