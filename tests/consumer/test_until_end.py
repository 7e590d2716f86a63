"""`until_end`: a loop over a consumer that ends, with its commits and rebalances."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from pykafka4 import ConfigError, CorruptRecord, KafkaError
from pykafka4.testing import ModelServer
from tests.consumer.consuming import LONG, Maker, damage, fill, numbers, poll_until, read, topic
from tests.consumer.test_read_committed import Writers

T0 = ("t", 0)


def places(records: Any) -> list[tuple[int, int]]:
    return sorted((record.partition, record.offset) for record in records)


def test_the_loop_ends_at_the_ends_of_the_call(make: Maker, server: ModelServer) -> None:
    topic(server, 10, 0, 3)
    consumer = make.assigned(0, 1, 2)
    loop = consumer.until_end()
    fill(server, "t", 0, numbers(10, 12))
    assert places(loop) == [*((0, n) for n in range(10)), *((2, n) for n in range(3))]
    assert list(loop) == []


def test_the_consumer_reads_on_after_it(make: Maker, server: ModelServer) -> None:
    topic(server, 10)
    consumer = make.assigned(0)
    assert len(list(consumer.until_end())) == 10
    fill(server, "t", 0, numbers(10, 15))
    assert [r.offset for r in consumer.until_end()] == list(range(10, 15))
    fill(server, "t", 0, numbers(15, 20))
    assert [r.offset for r in read(consumer, 5)] == list(range(15, 20))
    fill(server, "t", 0, numbers(20, 22))
    assert [r.offset for r in islice(consumer, 2)] == [20, 21]


def test_records_behind_the_end_that_were_fetched_are_returned_afterwards(make: Maker, server: ModelServer) -> None:
    topic(server, 10)
    consumer = make.assigned(0)
    loop = consumer.until_end()
    assert next(loop).offset == 0
    fill(server, "t", 0, numbers(10, 20))
    assert [r.offset for r in loop] == list(range(1, 10))
    assert [r.offset for r in read(consumer, 10)] == list(range(10, 20))


def test_a_loop_that_is_left_leaves_no_end_behind(make: Maker, server: ModelServer) -> None:
    topic(server, 10)
    consumer = make.assigned(0)
    for record in consumer.until_end():
        if record.offset == 4:
            break
    fill(server, "t", 0, numbers(10, 12))
    assert [r.offset for r in read(consumer, 7)] == list(range(5, 12))


def test_no_records_and_a_transaction_that_is_open(make: Maker, server: ModelServer) -> None:
    writers = Writers(server)
    assert list(make.assigned(0).until_end()) == []
    writers.write(b"open")
    fill(server, "t", 0, [b"behind"])
    assert list(make.assigned(0, isolation_level="read_committed").until_end()) == []
    assert len(list(make.assigned(0).until_end())) == 2


def test_all_records_are_finished_at_the_end(make: Maker, server: ModelServer) -> None:
    topic(server, 5, 2)
    consumer = make.member(enable_auto_commit=False)
    for record in consumer.until_end():
        if (record.partition, record.offset) == (0, 3):
            consumer.commit()
            assert server.committed("g")[T0] == 3
    consumer.commit()
    assert server.committed("g") == {("t", 0): 5, ("t", 1): 2}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_reads_what_it_gets_and_a_member_without_partitions_ends(make: Maker, server: ModelServer, protocol: str) -> None:
    topic(server, 5)
    options = {"group_protocol": protocol} if protocol == "consumer" else {}
    first = make.member(**options)
    assert places(first.until_end()) == [(0, n) for n in range(5)]
    second = make.member(**options)
    found = places(second.until_end()) if protocol == "consumer" else None
    assert found in ([], None)


def test_partitions_that_come_are_read_up_to_their_ends(make: Maker, server: ModelServer) -> None:
    topic(server, 3, 3)
    leaves = make.member()
    poll_until(leaves, lambda: len(leaves.assignment()) == 2)
    stays = make.member()
    both = [leaves, stays]
    while not all(len(consumer.assignment()) == 1 for consumer in both):
        for consumer in both:
            consumer.poll(0.05)
    (own,) = stays.assignment()
    stays.seek_to_beginning()
    loop = stays.until_end()
    found = [next(loop)]
    leaves.close(LONG)
    other = 1 - own.partition
    fill(server, "t", other, numbers(3, 6))
    found += list(loop)
    assert {r.offset for r in found if r.partition == own.partition} == {0, 1, 2}
    assert all(r.offset < 6 for r in found)


def test_paused_partitions_are_left_out(make: Maker, server: ModelServer) -> None:
    topic(server, 5, 5)
    consumer = make.assigned(0, 1)
    consumer.pause([("t", 1)])
    assert places(consumer.until_end()) == [(0, n) for n in range(5)]
    consumer.resume([("t", 1)])
    assert places(consumer.until_end()) == [(1, n) for n in range(5)]


def test_a_seek_during_the_loop_keeps_the_end(make: Maker, server: ModelServer) -> None:
    topic(server, 5)
    consumer = make.assigned(0)
    loop = consumer.until_end()
    first = [next(loop).offset for _ in range(5)]
    consumer.seek(T0, 3)
    fill(server, "t", 0, numbers(5, 9))
    assert [*first, *(r.offset for r in loop)] == [0, 1, 2, 3, 4, 3, 4]


def test_an_exception_does_not_look_like_the_end(make: Maker, server: ModelServer) -> None:
    topic(server, 2)
    fill(server, "t", 0, numbers(2, 4))
    fill(server, "t", 0, numbers(4, 6))
    damage(server, 1)
    consumer = make.assigned(0)
    loop = consumer.until_end()
    assert [next(loop).offset, next(loop).offset] == [0, 1]
    with pytest.raises(CorruptRecord) as raised:
        next(loop)
    consumer.seek(T0, raised.value.next_offset)
    assert [r.offset for r in loop] == [4, 5]


def test_a_poll_in_between_ends_the_loop_with_an_error(make: Maker, server: ModelServer) -> None:
    topic(server, 10)
    consumer = make.assigned(0)
    loop = consumer.until_end()
    assert next(loop).offset == 0
    consumer.poll(1, max_records=1)
    with pytest.raises(KafkaError, match="call until_end again"):
        list(loop)


def test_without_partitions(make: Maker) -> None:
    with pytest.raises(ConfigError, match="until_end: no topics or partitions; call subscribe or assign first"):
        make().until_end()


def test_a_partition_that_comes_later_gets_its_end_before_its_records(make: Maker, server: ModelServer) -> None:
    topic(server, 100, 5)
    consumer = make.assigned(0, 1, max_poll_records=1)
    consumer.pause([("t", 1)])
    loop = consumer.until_end()
    found = [next(loop)]
    consumer.resume([("t", 1)])
    found += islice(loop, 40)
    fill(server, "t", 1, numbers(5, 300))  # no poll comes back empty before these are read
    found += loop
    assert sum(record.partition == 1 for record in found) == 5


def truncate(server: ModelServer, offset: int) -> None:
    def change(cluster: Any) -> None:
        log = cluster.log("t", 0)
        log.truncate(offset)
        log.high_watermark = min(log.high_watermark, offset)

    server.do(change)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_committed_offset_behind_the_end_of_the_log_is_reset(make: Maker, server: ModelServer, isolation: str) -> None:
    topic(server, 3)
    fill(server, "t", 0, numbers(3, 5))
    before = make.member(enable_auto_commit=False)
    poll_until(before, before.assignment)
    before.commit({T0: 5})
    before.close(LONG)
    truncate(server, 3)
    consumer = make.member(isolation_level=isolation)
    assert [r.offset for r in consumer.until_end()] == [0, 1, 2]
