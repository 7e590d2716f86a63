"""Ledger: every accepted record is in exactly one place, and any thread can read the failures."""

from __future__ import annotations

import json
import sys
import threading
from types import SimpleNamespace
from typing import cast

import pytest

from pykafka4.core.producer.outcomes.ledger import REMEMBERED, Ledger, ProducerStats, RecordCounts
from pykafka4.core.producer.outcomes.losses import RETIRED
from pykafka4.errors import KafkaTimeoutError
from pykafka4.records import TopicPartition, Written
from pykafka4.wire.records.hot import Batch
from tests.core.counting import bytecodes

WHY = KafkaTimeoutError("late")


def lose(ledger: Ledger, partition: int, records: int = 1) -> None:
    ledger.lost("t", partition, "TIMED_OUT", Written.NO, records, WHY)


def batch(partition: int, count: int, in_flight: bool = False) -> tuple[Batch, int, bool]:
    """A batch without an outcome, as the accumulator counts it."""
    return cast("Batch", SimpleNamespace(topic="t", partition=partition)), count, in_flight


def acknowledge(ledger: Ledger, partition: int, records: int, raw_bytes: int, sent_bytes: int) -> None:
    tp = TopicPartition("t", partition)
    ledger.meet(tp)
    ledger.acknowledged(tp, records, raw_bytes, sent_bytes)


def balance(counts: RecordCounts | ProducerStats) -> int:
    return counts.acked + counts.queued + counts.in_flight + counts.lost + sum(counts.dropped.values())


def test_every_record_is_in_exactly_one_place() -> None:
    ledger = Ledger()
    ledger.sent(10, retried_batches=0)
    acknowledge(ledger, 0, 4, 1000, 300)
    ledger.requeued(6)
    lose(ledger, 0, 2)
    ledger.lost("t", 1, "CLOSED", Written.MAYBE, 1, WHY, (50, 60))
    ledger.sent(3, retried_batches=1)
    dropping(ledger, ("t", 1, "BUFFER_FULL", 2, 40, 40), ("u", -1, "RATE_LIMIT", 5, 70, 70))
    stats = ledger.snapshot((20, [batch(0, 3, in_flight=True), batch(1, 6), batch(7, 1)], [("v", 3)]), 1000).stats()
    assert (stats.accepted, stats.acked, stats.in_flight, stats.lost, stats.queued) == (27, 4, 3, 3, 10)
    assert balance(stats) == 27
    assert stats.failed == {("TIMED_OUT", Written.NO): 2, ("CLOSED", Written.MAYBE): 1}
    assert stats.dropped == {"BUFFER_FULL": 2, "RATE_LIMIT": 5}
    assert (stats.retries, stats.requests, stats.buffered_bytes) == (1, 2, 1000)
    assert (stats.uncompressed_bytes, stats.compressed_bytes) == (1000, 300)
    assert (stats.first_lost_ms, stats.last_lost_ms) == (40, 70)
    assert {str(tp): (counts.accepted, balance(counts)) for tp, counts in stats.partitions.items()} == {
        "t-0": (9, 9),
        "t-1": (9, 9),
        "t-7": (1, 1),
    }
    by_topic = {topic: (counts.accepted, balance(counts)) for topic, counts in stats.topics.items()}
    assert by_topic == {
        "t": (19, 19),
        "u": (5, 5),
        "v": (3, 3),
    }
    lost = stats.partitions[TopicPartition("t", 1)]
    assert (lost.failed, lost.dropped) == ({("CLOSED", Written.MAYBE): 1}, {"BUFFER_FULL": 2})
    assert (lost.first_lost_ms, lost.last_lost_ms) == (40, 60)
    assert stats.topics["t"].failed == stats.failed


def test_the_counts_are_ready_for_json() -> None:
    ledger = Ledger()
    ledger.meet(TopicPartition("t", 0))
    lose(ledger, 0, 2)
    dropping(ledger, ("t", 0, "BUFFER_FULL", 1, -1, -1))
    counts = ledger.snapshot((2, [], []), 0).stats()
    stats = json.loads(json.dumps(counts.asdict()))
    assert json.loads(json.dumps(counts.totals()))["failed"] == stats["failed"]
    assert stats["failed"] == stats["partitions"]["t-0"]["failed"] == {"TIMED_OUT, not written": 2}
    assert stats["topics"]["t"]["dropped"] == {"BUFFER_FULL": 1}
    assert (stats["accepted"], stats["topics"]["t"]["first_lost_ms"]) == (3, -1)


def test_of_a_topic_that_is_not_used_any_more_only_the_sums_remain() -> None:
    ledger = Ledger()
    for partition in range(3):
        acknowledge(ledger, partition, 10, 100, 50)
        ledger.sent(10, 0)
        ledger.lost("t", partition, "TIMED_OUT", Written.NO, 1, WHY, (partition, partition + 10))
    before = ledger.snapshot((33, [], []), 0).stats()
    ledger.retire("t")
    after = ledger.snapshot((33, [], []), 0).stats()
    assert after.topics == before.topics
    assert (len(before.partitions), after.partitions) == (3, {})
    assert after.topics["t"].accepted == 33
    acknowledge(ledger, 0, 1, 1, 1)  # it is used again
    again = ledger.snapshot((34, [], []), 0).stats()
    assert (again.topics["t"].acked, again.partitions[TopicPartition("t", 0)].acked) == (31, 1)


def test_topics_that_come_and_go_do_not_fill_memory() -> None:
    ledger = Ledger()
    for number in range(RETIRED + 50):
        ledger.meet(TopicPartition(f"t{number}", 0))
        lose_of(ledger, f"t{number}")
        ledger.retire(f"t{number}")
        lose_of(ledger, f"never known {number}")
    stats = ledger.snapshot((2 * (RETIRED + 50), [], []), 0).stats()
    assert len(stats.topics) == RETIRED
    assert stats.lost == stats.accepted == 2 * (RETIRED + 50)
    assert "t0" not in stats.topics
    assert f"t{RETIRED + 49}" in stats.topics


def test_the_counts_of_a_topic_in_use_never_go_back() -> None:
    ledger = Ledger()
    ledger.meet(TopicPartition("t", 0))
    lose(ledger, 0, 3)
    ledger.retire("t")
    ledger.meet(TopicPartition("t", 0))
    for number in range(RETIRED + 1):
        ledger.meet(TopicPartition(f"t{number}", 0))
        lose_of(ledger, f"t{number}")
        ledger.retire(f"t{number}")
    assert ledger.snapshot((4 + RETIRED, [], []), 0).stats().topics["t"].lost == 3


def lose_of(ledger: Ledger, topic: str) -> None:
    ledger.lost(topic, None, "TIMED_OUT", Written.NO, 1, WHY)


def test_drops_are_added_up_once_and_not_on_the_loop() -> None:
    ledger, rows = Ledger(), []
    ledger.meet(TopicPartition("t", 0))
    ledger.take_dropped = lambda: [*rows.pop()] if rows else []
    rows.append(("t", 0, "BUFFER_FULL", 2, 40, 50))
    first = ledger.snapshot((0, [], []), 0)
    drops = first.all_drops
    rows.append(("t", 0, "BUFFER_FULL", 1, 30, 30))
    second = ledger.snapshot((0, [], []), 0)  # before the sums of the first are back
    ledger.settle_drops(second, second.all_drops)
    ledger.settle_drops(first, drops)  # too late: it began with the same, and knows less
    assert [snapshot.stats().dropped for snapshot in (first, second, ledger.snapshot((0, [], []), 0))] == [
        {"BUFFER_FULL": 2},
        {"BUFFER_FULL": 3},
        {"BUFFER_FULL": 3},
    ]
    third = ledger.snapshot((0, [], []), 0)
    ledger.settle_drops(third, third.all_drops)
    last = ledger.snapshot((0, [], []), 0)
    assert last.fresh_drops == ()
    stats = last.stats()
    assert (stats.accepted, stats.first_lost_ms, stats.last_lost_ms) == (3, 30, 50)
    assert stats.partitions[TopicPartition("t", 0)].dropped == stats.topics["t"].dropped == {"BUFFER_FULL": 3}


def test_a_dropped_record_without_a_timestamp_hides_no_earlier_one() -> None:
    ledger = Ledger()
    for partition in range(2):
        acknowledge(ledger, partition, 1, 1, 1)
    dropped = [("t", 0, "BUFFER_FULL", 1, ms, ms) for ms in (1000, -1, 5000)]
    dropping(ledger, ("t", 1, "BUFFER_FULL", 1, -1, -1), *dropped)
    before = ledger.snapshot((2, [], []), 0)
    ledger.settle_drops(before, before.all_drops)
    stats = before.stats()
    for loss in (stats, stats.topics["t"], stats.partitions[TopicPartition("t", 0)]):
        assert (loss.first_lost_ms, loss.last_lost_ms) == (1000, 5000)
    ledger.retire("t")
    after = ledger.snapshot((2, [], []), 0).stats().topics["t"]
    assert (after.first_lost_ms, after.last_lost_ms) == (1000, 5000)


def test_of_what_was_dropped_for_a_topic_that_is_not_used_any_more_only_the_sums_remain() -> None:
    ledger = Ledger()
    for partition in range(3):
        acknowledge(ledger, partition, 1, 1, 1)
    dropping(ledger, ("t", 0, "BUFFER_FULL", 2, 40, 50), ("t", 1, "BUFFER_FULL", 1, 30, 30), ("t", -1, "RATE_LIMITED", 1, 60, 60))
    before = ledger.snapshot((3, [], []), 0)
    ledger.settle_drops(before, before.all_drops)
    ledger.retire("t")
    after = ledger.snapshot((3, [], []), 0).stats()
    assert (after.partitions, after.topics["t"]) == ({}, before.stats().topics["t"])
    assert after.topics["t"].dropped == {"BUFFER_FULL": 3, "RATE_LIMITED": 1}
    assert (after.topics["t"].first_lost_ms, after.topics["t"].last_lost_ms) == (30, 60)


def test_drops_of_topics_that_come_and_go_do_not_fill_memory() -> None:
    ledger = Ledger()
    dropping(ledger, *((f"t{number}", 0, "BUFFER_FULL", 1, 1, 1) for number in range(RETIRED + 50)))
    snapshot = ledger.snapshot((0, [], []), 0)
    assert len(snapshot.all_drops.rows) == RETIRED
    assert snapshot.stats().accepted == RETIRED + 50


def dropping(ledger: Ledger, *rows: tuple[str, int, str, int, int, int]) -> None:
    """Let these be what the accumulator hands out, once."""
    waiting = [[item for row in rows for item in row]]
    ledger.take_dropped = lambda: waiting.pop() if waiting else []


def test_the_first_failure_after_a_mark_and_how_many_there_were() -> None:
    ledger = Ledger()
    assert ledger.failures_since(0) == (0, None)
    lose(ledger, 0, 3)
    mark = ledger.failures_seen
    assert ledger.failures_since(mark) == (0, None)
    lose(ledger, 1, 2)
    lose(ledger, 2)
    count, first = ledger.failures_since(mark)
    assert count == 3
    assert first is not None
    assert (first.partition, first.cause) == (1, WHY)
    assert ledger.failures_since(0)[0] == 6


@pytest.mark.parametrize("many", [REMEMBERED, REMEMBERED + 1, 2 * REMEMBERED + 51, 12_345])
def test_of_many_failures_the_first_is_reported_and_an_early_one_after_any_mark(many: int) -> None:
    ledger = Ledger()
    for partition in range(many):
        lose(ledger, partition)
    assert len(ledger.failures) <= REMEMBERED
    for mark in range(many):
        count, first = ledger.failures_since(mark)
        assert count == many - mark
        assert first is not None
        assert first.partition is not None
        assert mark <= first.partition <= mark + many // 50 * (many > REMEMBERED and mark > 0)


@pytest.fixture
def _hasty() -> object:
    """Threads take turns as often as can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_hasty")
def test_asking_while_records_fail_is_allowed() -> None:
    ledger, over = Ledger(), threading.Event()

    def fail() -> None:
        for number in range(3000):
            lose(ledger, number)
        over.set()

    thread = threading.Thread(target=fail, daemon=True)
    thread.start()
    while not over.is_set():
        ledger.failures_since(10**9)
    thread.join()


def test_failures_that_were_reported_or_looked_at_are_told_apart_quickly() -> None:
    def cost(failures: int) -> int:
        ledger = Ledger()
        for partition in range(failures):
            lose(ledger, partition)
        seen, reported = range(0, failures, 2), [(n, n + 1) for n in range(1, failures, 4)]
        count, first = ledger.failures_since(0, seen, reported)
        assert count == failures - len(seen) - len(reported)
        assert first is not None
        assert first.partition % 4 == 3
        return bytecodes(lambda: ledger.failures_since(0, seen, reported))

    assert cost(1600) < 6 * cost(400)
