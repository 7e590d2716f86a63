"""Records out of `poll` and `for` loops."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka4 import Consumer
from pykafka4.errors import ClosedError, NoOffsetForPartition
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from tests.consumer.consuming import LONG, Maker, fill, numbers, poll_until, read, topic
from tests.inspection import inspect


def test_assigned_partitions_are_read_in_order_without_a_group(server: ModelServer, make: Maker) -> None:
    topic(server, 100, 100, 100)
    consumer = make.assigned(0, 1, 2)
    by_partition: dict[int, list[bytes]] = {}
    for record in read(consumer, 300):
        by_partition.setdefault(record.partition, []).append(record.value)
    assert by_partition == {p: numbers(0, 100) for p in range(3)}
    assert consumer.assignment() == {TopicPartition("t", p) for p in range(3)}


@pytest.mark.parametrize("most", [1 << 31, 1 << 64])
def test_max_records_may_be_any_number(server: ModelServer, make: Maker, most: int) -> None:
    topic(server, 10)
    consumer = make.assigned(0)
    assert len(read(consumer, 10, max_records=most)) == 10
    consumer.seek(("t", 0), 0)
    assert next(iter(consumer)).offset == 0
    assert len(read(consumer, 9, max_records=most)) == 9  # of the list of the loop


def test_poll_hands_out_at_most_max_records_and_an_empty_list_when_there_are_none(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    consumer = make.assigned(0)
    assert [r.value for r in read(consumer, 4, max_records=4)] == numbers(0, 4)
    assert [r.value for r in read(consumer, 6)] == numbers(4, 10)
    assert consumer.poll(0) == []


def test_iteration_goes_on_from_list_to_list(server: ModelServer, make: Maker) -> None:
    topic(server, 500, 0)
    fill(server, "t", 1, numbers(500, 1000))
    consumer = make.assigned(0, 1)
    seen = set()
    for record in consumer:
        seen.add(int(record.value))
        if len(seen) == 1000:
            break
    assert seen == set(range(1000))


def test_records_left_by_a_loop_are_handed_out_by_the_next_poll(server: ModelServer, make: Maker) -> None:
    topic(server, 40)
    consumer = make.assigned(0)
    looped = []
    for record in consumer:
        looped.append(record.value)
        if len(looped) == 3:
            break
    assert consumer.position(("t", 0)) == 3
    polled = [r.value for r in read(consumer, 37)]
    assert looped + polled == numbers(0, 40)


def test_a_second_loop_goes_on_where_the_first_stopped(server: ModelServer, make: Maker) -> None:
    topic(server, 40)
    consumer = make.assigned(0)
    seen = []
    for stop in (3, 7, 40):
        for record in consumer:
            seen.append(record.value)
            if len(seen) == stop:
                break
    assert seen == numbers(0, 40)


@pytest.mark.parametrize("kind", [iter, lambda consumer: consumer.batches(LONG, 1)])
def test_an_iterator_goes_on_after_what_a_poll_raises(server: ModelServer, make: Maker, kind: Callable[[Consumer], Iterator[Any]]) -> None:
    topic(server, 3)
    consumer = make.assigned(0, auto_offset_reset="none")
    iterator = kind(consumer)
    for _ in range(2):
        with pytest.raises(NoOffsetForPartition):
            next(iterator)
    consumer.seek(("t", 0), 1)
    found = next(iterator)
    assert (found[0] if isinstance(found, list) else found).offset == 1
    consumer.close()
    for _ in range(2):
        with pytest.raises(ClosedError):
            next(iterator)


def test_a_loop_that_a_poll_has_ended_with_an_error_keeps_nothing_alive(server: ModelServer) -> None:
    topic(server, 3)
    consumer = Consumer(bootstrap_servers=server.bootstrap_servers, auto_offset_reset="none")
    consumer.assign([("t", 0)])
    session = inspect(consumer).session
    gone = weakref.ref(consumer)
    gc.disable()
    try:
        with pytest.raises(NoOffsetForPartition) as caught:
            for _ in consumer:
                pass
        assert caught.value is not None
        assert session.guard.looping(None) is None, "the loop was left, although its error is still there"
        consumer.close()
        del consumer, caught
        assert gone() is None
    finally:
        gc.enable()


def test_batches_yields_lists_and_empty_ones_too(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    consumer = make.assigned(0)
    seen = []
    for records in consumer.batches(timeout=0.05):
        seen += records
        if len(seen) == 10 and not records:
            break
    assert [r.value for r in seen] == numbers(0, 10)


def test_poll_wakes_when_data_comes(server: ModelServer, make: Maker) -> None:
    topic(server, 0)
    consumer = make.assigned(0, fetch_max_wait_ms=10_000)
    assert consumer.poll(0.1) == []
    threading.Timer(0.1, fill, (server, "t", 0, numbers(0, 1))).start()
    began = time.monotonic()
    assert [r.value for r in consumer.poll(LONG)] == numbers(0, 1)
    assert time.monotonic() - began < 5


def test_latest_begins_at_the_end_and_earliest_at_the_beginning(server: ModelServer, make: Maker) -> None:
    topic(server, 5)
    latest, earliest = make(auto_offset_reset="latest"), make()
    for consumer in (latest, earliest):
        consumer.assign([("t", 0)])
    assert latest.position(("t", 0), LONG) == 5
    assert earliest.position(("t", 0), LONG) == 0


def test_a_topic_that_does_not_exist_is_waited_for_and_read_from_its_beginning(server: ModelServer, make: Maker) -> None:
    consumer = make(auto_offset_reset="latest", group_id="g")
    consumer.subscribe(["later"])
    poll_until(consumer, lambda: consumer.status()["consumer"]["state"] == "stable")
    assert consumer.status()["consumer"]["unknown_topics"] == ["later"]
    server.create_topic("later", 2)
    fill(server, "later", 0, numbers(0, 3))
    assert [r.value for r in read(consumer, 3)] == numbers(0, 3)


def test_an_assigned_partition_of_a_topic_created_later_is_read_from_its_beginning(server: ModelServer, make: Maker) -> None:
    consumer = make(auto_offset_reset="latest")
    consumer.assign([("later", 0)])
    poll_until(consumer, lambda: "UNKNOWN_TOPIC_OR_PARTITION" in str(consumer.status()["topics"]))
    server.create_topic("later", 1)
    fill(server, "later", 0, numbers(0, 3))
    assert [r.value for r in read(consumer, 3)] == numbers(0, 3)


def test_lag_and_stats_tell_how_far_behind(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    consumer = make.assigned(0)
    read(consumer, 4, max_records=4)
    assert consumer.lag(("t", 0)) == 6
    assert consumer.stats()["partitions"] == 1
    read(consumer, 6)
    assert consumer.lag(("t", 0)) == 0
    assert consumer.stats()["buffered_bytes"] == 0


def test_every_codec_is_read(server: ModelServer, make: Maker) -> None:
    topic(server, 0)
    for codec in range(5):
        fill(server, "t", 0, [b"value %d" % codec * 100], codec=codec)
    consumer = make.assigned(0)
    assert [r.value for r in read(consumer, 5)] == [b"value %d" % codec * 100 for codec in range(5)]


def test_wakeup_ends_a_poll_that_waits_and_only_that(server: ModelServer, make: Maker) -> None:
    topic(server, 0)
    consumer = make.assigned(0)
    consumer.poll(0.2)
    began = time.monotonic()
    threading.Timer(0.2, consumer.wakeup).start()
    assert consumer.poll(LONG) == []
    assert 0.1 < time.monotonic() - began < LONG / 2
    began = time.monotonic()
    assert consumer.poll(0.3) == []
    assert time.monotonic() - began >= 0.3


def test_wakeup_before_a_poll_ends_the_next_one(server: ModelServer, make: Maker) -> None:
    topic(server, 0)
    consumer = make.assigned(0)
    consumer.poll(0.2)
    consumer.wakeup()
    began = time.monotonic()
    assert consumer.poll(LONG) == []
    assert time.monotonic() - began < LONG / 2
    fill(server, "t", 0, numbers(0, 3))
    assert len(read(consumer, 3)) == 3


def test_wakeup_does_not_end_a_loop(server: ModelServer, make: Maker) -> None:
    topic(server, 2)
    consumer = make.assigned(0)
    got = []
    for record in consumer:
        got.append(record.offset)
        consumer.wakeup()
        if len(got) == 2:
            threading.Timer(0.2, lambda: fill(server, "t", 0, numbers(2, 4))).start()
        if len(got) == 4:
            break
    assert got == [0, 1, 2, 3]
