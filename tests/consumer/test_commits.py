"""Commits: finished records are committed, records that the application still processes never are."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from integration.waiting import until
from pykafka4.consumer import Consumer
from pykafka4.errors import BufferFull, ConfigError, GroupError, KafkaTimeoutError
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.testing import Fault, ModelServer
from pykafka4.wire.protocol.messages_group import OffsetCommitRequest
from tests.consumer.consuming import LONG, Maker, fill, numbers, poll_until, read, topic


def test_commit_covers_everything_handed_out_by_polls_that_returned(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    consumer = make.member(enable_auto_commit=False)
    read(consumer, 4, max_records=4)
    consumer.commit()
    assert consumer.committed(("t", 0)) == OffsetAndMetadata(4, 0)
    assert consumer.committed([("t", 0)]) == {("t", 0): OffsetAndMetadata(4, 0)}


def test_commit_inside_a_loop_leaves_out_the_record_in_hand(server: ModelServer, make: Maker) -> None:
    topic(server, 10, 0)
    consumer = make.member(enable_auto_commit=False)
    for count, record in enumerate(consumer):
        assert record.offset == count
        consumer.commit()
        stored = consumer.committed(("t", 0))
        assert (stored.offset if stored else 0) == count
        if count == 9:
            break


def test_commits_can_name_offsets_and_be_asynchronous(server: ModelServer, make: Maker) -> None:
    topic(server, 0, 0)
    consumer = make.assigned(0, 1, group_id="g", enable_auto_commit=False)
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


def test_a_commit_without_a_callback_that_fails_is_logged(server: ModelServer, make: Maker, caplog: pytest.LogCaptureFixture) -> None:
    topic(server, 0)
    consumer = make.assigned(0, group_id="g", enable_auto_commit=False)
    server.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED")
    consumer.commit_async({("t", 0): 7})

    def logged() -> list[str]:
        return [line for line in caplog.messages if "group g: commit_async without a callback failed: " in line]

    until(logged, LONG, "the log line")
    assert "GROUP_AUTHORIZATION_FAILED" in logged()[0]
    consumer.commit_async({("t", 0): 7})
    consumer.commit({("t", 0): 8})
    assert len(logged()) == 1


def test_callbacks_of_commits_that_wait_for_a_blocked_one_are_bounded(
    server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykafka4.consumer.commits.MOST_OWED", 20)
    topic(server, 0)
    consumer = make.assigned(0, group_id="g", enable_auto_commit=False)
    begun, go, done = threading.Event(), threading.Event(), list[int]()
    consumer.commit_async({("t", 0): 0}, lambda *_: (begun.set(), go.wait(LONG)))
    assert begun.wait(LONG)
    for n in range(1, 21):
        consumer.commit_async({("t", 0): n}, lambda offsets, _: done.append(offsets["t", 0].offset))
    with pytest.raises(BufferFull, match="20 commit_async callbacks are waiting"):
        consumer.commit_async({("t", 0): 99}, lambda *_: None)
    consumer.commit_async({("t", 0): 21})
    go.set()
    consumer.commit({("t", 0): 22})
    poll_until(consumer, lambda: len(done) == 20)
    assert done == list(range(1, 21))
    consumer.commit_async({("t", 0): 23}, lambda *_: None)


def test_a_new_consumer_of_the_group_goes_on_behind_what_was_committed(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    first = make.member(enable_auto_commit=False)
    read(first, 6, max_records=6)
    first.commit()
    first.close()
    second = make.member()
    assert [r.offset for r in read(second, 4)] == [6, 7, 8, 9]


def stored(make: Maker) -> int:
    place = make(group_id="g").committed(("t", 0))
    return place.offset if place else 0


def polled(consumer: Consumer) -> None:
    """Four records finished, three in hand."""
    read(consumer, 4, max_records=4)
    assert len(consumer.poll(1, max_records=3)) == 3


def iterated(consumer: Consumer) -> None:
    """Six records finished, one in hand."""
    for record in consumer:
        if record.offset == 6:
            break


@pytest.mark.parametrize(("work", "clean", "failed"), [(polled, 7, 4), (iterated, 6, 6)])
def test_close_finishes_the_list_in_hand_and_not_the_record_that_a_loop_holds(
    server: ModelServer, make: Maker, work: Callable[[Consumer], None], clean: int, failed: int
) -> None:
    """The table of `Consumer.close`, row by row."""
    topic(server, 10)

    def fresh() -> Consumer:
        server.do(lambda cluster: cluster.group("g").offsets.clear())
        consumer = make.member()
        work(consumer)
        return consumer

    fresh().close()
    assert stored(make) == clean

    with fresh():
        pass
    assert stored(make) == clean

    with pytest.raises(ZeroDivisionError), fresh():
        raise ZeroDivisionError
    assert stored(make) == failed

    consumer = fresh()
    with contextlib.suppress(ZeroDivisionError):
        try:
            raise ZeroDivisionError
        finally:
            consumer.close()
    assert stored(make) == failed

    consumer = fresh()
    thread = threading.Thread(target=consumer.close)
    thread.start()
    thread.join(LONG)
    assert stored(make) == failed


def test_a_handled_error_around_a_with_block_does_not_unfinish_its_list(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        with make.member() as consumer:
            polled(consumer)
    assert stored(make) == 7


def test_a_record_committed_by_name_is_not_uncommitted_by_close(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    with make.member() as consumer:
        iterated(consumer)
        consumer.commit({("t", 0): 7})
    assert stored(make) == 7


def test_the_list_in_hand_is_not_committed_without_auto_commit(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    with make.member(enable_auto_commit=False) as consumer:
        polled(consumer)
    assert stored(make) == 0


def test_auto_commit_never_goes_back_behind_an_explicit_commit(server: ModelServer, make: Maker) -> None:
    topic(server, 10, 0)
    for offsets, stored in ((None, 4), ({("t", 0): 7}, 7)):
        consumer = make(group_id=f"g{stored}", auto_commit_interval_ms=10)
        consumer.subscribe(["t"])
        read(consumer, 4, max_records=4)
        consumer.commit(offsets)
        consumer.close()
        assert make(group_id=f"g{stored}").committed(("t", 0)).offset == stored


def test_close_in_a_loop_commits_what_comes_before_the_record_in_hand(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    with make(group_id="g") as consumer:
        consumer.subscribe(["t"])
        for record in consumer:
            if record.offset == 5:
                break
    assert make(group_id="g").committed(("t", 0)) == OffsetAndMetadata(5, 0)


def test_auto_commit_goes_on_while_the_application_polls(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    consumer, other = make(group_id="g", auto_commit_interval_ms=20), make(group_id="g")
    consumer.subscribe(["t"])
    read(consumer, 10)
    poll_until(consumer, lambda: other.committed(("t", 0)) == OffsetAndMetadata(10, 0))


def test_auto_commit_never_covers_the_list_in_hand_or_what_is_prefetched(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    consumer, other = make(group_id="g", auto_commit_interval_ms=10), make(group_id="g")
    consumer.subscribe(["t"])
    read(consumer, 3, max_records=3)
    read(consumer, 3, max_records=3)
    deadline = time.monotonic() + LONG
    while other.committed(("t", 0)) != OffsetAndMetadata(3, 0):
        assert time.monotonic() < deadline
    for _ in range(10):
        assert other.committed(("t", 0)) == OffsetAndMetadata(3, 0)


def test_an_offset_chosen_by_the_reset_policy_is_committed_too(server: ModelServer, make: Maker) -> None:
    """Else what is written between two runs of a `latest` consumer that read nothing would be lost."""
    topic(server, 5)
    consumer = make.member(auto_offset_reset="latest", auto_commit_interval_ms=10)
    other = make(group_id="g")
    poll_until(consumer, lambda: other.committed(("t", 0)) == OffsetAndMetadata(5))


def test_a_commit_is_retried_through_a_coordinator_move_and_a_lost_answer(server: ModelServer, make: Maker) -> None:
    topic(server, 0)
    consumer = make.assigned(0, group_id="g", enable_auto_commit=False)
    consumer.commit({("t", 0): 1})
    server.do(lambda c: c.move_coordinator("g", loading=0.2))
    server.do(lambda c: c.inject(OffsetCommitRequest, Fault.DROP_AFTER))
    consumer.commit({("t", 0): 2})
    assert consumer.committed(("t", 0)) == OffsetAndMetadata(2)


def test_a_commit_without_answer_is_an_error_and_not_a_success(server: ModelServer, make: Maker) -> None:
    topic(server, 0)
    consumer = make.assigned(0, group_id="g", enable_auto_commit=False)
    consumer.commit({("t", 0): 0})  # from here on it has a connection to the coordinator
    server.do(lambda c: c.inject(OffsetCommitRequest, Fault.SWALLOW, times=100))
    with pytest.raises(KafkaTimeoutError, match=r"commit of t-0: .*may have been stored"):
        consumer.commit({("t", 0): 1}, timeout=0.3)


def test_a_member_cannot_commit_partitions_that_it_does_not_have(server: ModelServer, make: Maker) -> None:
    """The coordinator would take it, and their owner would begin there."""
    topic(server, 5, 5)
    server.create_topic("u", 1)
    first, second = make.member(enable_auto_commit=False), make.member(enable_auto_commit=False)
    poll_until(first, lambda: second.poll(0.01) is not None and first.assignment() and second.assignment())
    (mine,), (other,) = first.assignment(), second.assignment()
    for wrong in (other, TopicPartition("u", 0)):
        for call in (first.commit, first.commit_async):
            with pytest.raises(GroupError, match=f"{wrong}: not assigned to this consumer"):
                call({mine: 1, wrong: 4})
    first.commit({mine: 1})
    assert first.committed([mine, other]) == {mine: OffsetAndMetadata(1), other: None}


def test_a_member_without_a_share_commits_what_it_assigned_by_hand(server: ModelServer, make: Maker) -> None:
    topic(server, 0)
    server.create_topic("u", 1)
    by_hand, members = {("u", 0)}, [make.member(enable_auto_commit=False) for _ in range(2)]
    for member in members:
        member.assign(by_hand)
    first, second = members
    poll_until(first, lambda: second.poll(0.01) == [] and all(m.status()["consumer"]["state"] == "stable" for m in members))
    poll_until(first, lambda: second.poll(0.01) == [] and len(first.assignment()) + len(second.assignment()) == 3)
    idle = first if first.assignment() == by_hand else second
    idle.commit({("u", 0): 3})
    assert idle.committed(("u", 0)) == OffsetAndMetadata(3, -1)


def test_without_a_subscription_any_partition_can_be_committed(server: ModelServer, make: Maker) -> None:
    topic(server, 5, 5)
    consumer = make.assigned(0, group_id="g", enable_auto_commit=False)
    consumer.commit({("t", 1): 3})
    assert consumer.committed(("t", 1)) == OffsetAndMetadata(3)


def test_what_was_finished_of_a_partition_is_committed_when_it_is_no_longer_assigned(server: ModelServer, make: Maker) -> None:
    topic(server, 5, 5)
    consumer = make.assigned(0, 1, group_id="g", auto_commit_interval_ms=60_000)
    read(consumer, 10)
    consumer.poll(0)
    assert not server.committed("g")
    consumer.assign([("t", 1)])
    poll_until(consumer, lambda: server.committed("g"))
    assert server.committed("g") == {("t", 0): 5}


# -- of one topic, and with metadata


def two_topics(server: ModelServer, make: Maker, **options: Any) -> Consumer:
    topic(server, 5)
    server.create_topic("u", 1)
    fill(server, "u", 0, numbers(0, 5))
    consumer = make(group_id="g", enable_auto_commit=False, **options)
    consumer.subscribe(["t", "u"])
    return consumer


def offsets_of(consumer: Consumer) -> list[int | None]:
    found = consumer.committed([("t", 0), ("u", 0)])
    return [place and place.offset for place in found.values()]


def test_a_commit_of_one_topic_leaves_the_others(server: ModelServer, make: Maker) -> None:
    consumer = two_topics(server, make)
    read(consumer, 10)
    consumer.commit(topic="u")
    assert offsets_of(consumer) == [None, 5]
    done = threading.Event()
    consumer.commit_async(topic="t", on_done=lambda *_: done.set())
    assert done.wait(LONG)
    assert offsets_of(consumer) == [5, 5]


def test_a_commit_of_one_topic_in_a_loop_covers_the_records_before_the_current_one(server: ModelServer, make: Maker) -> None:
    consumer = two_topics(server, make)
    seen = {"t": 0, "u": 0}
    for record in consumer:
        if sum(seen.values()) == 7:
            break
        seen[record.topic] += 1
    consumer.commit(topic="t")
    assert offsets_of(consumer) == [seen["t"], None]


def test_a_commit_of_a_topic_that_is_not_read_is_named(server: ModelServer, make: Maker) -> None:
    consumer = two_topics(server, make)
    with pytest.raises(ConfigError, match=r"'v'.*: this consumer does not read the topic"):
        consumer.commit(topic="v")
    with pytest.raises(ConfigError, match="offsets or topic='t', not both"):
        consumer.commit_async({("t", 0): 1}, topic="t")
    consumer.subscribe("t.*")
    consumer.commit(topic="t2")


def test_metadata_of_a_commit_is_returned(server: ModelServer, make: Maker) -> None:
    consumer = two_topics(server, make)
    read(consumer, 10)
    consumer.commit({("t", 0): OffsetAndMetadata(3, -1, "checkpoint 7"), ("u", 0): 4})
    assert consumer.committed(("t", 0)) == OffsetAndMetadata(3, -1, "checkpoint 7")
    assert offsets_of(consumer) == [3, 4]


def test_the_current_record_of_a_loop_is_not_committed_after_a_poll_in_its_body(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    consumer = make(group_id="g", enable_auto_commit=False)
    consumer.assign([("t", 0)])
    polled: list[int] = []
    for record in consumer:
        if not polled:
            polled += [other.offset for other in consumer.poll(0, max_records=1)]
            continue
        consumer.commit()
        assert (polled, record.offset) == ([1], 2)
        break
    position = consumer.committed(("t", 0))
    assert position is not None
    assert position.offset == 2
