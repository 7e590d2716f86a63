"""Ledger: every accepted record is in exactly one place, and any thread can read the failures."""

from __future__ import annotations

import sys
import threading

import pytest

from pykafka4.core.producer.ledger import REMEMBERED, Ledger
from pykafka4.error_table import Written
from pykafka4.errors import KafkaTimeoutError

WHY = KafkaTimeoutError("late")


def lose(ledger: Ledger, partition: int, records: int = 1) -> None:
    ledger.lost("t", partition, "TIMED_OUT", Written.NO, records, WHY)


def test_every_record_is_in_exactly_one_place() -> None:
    ledger = Ledger()
    ledger.sent(10, retried_batches=0)
    ledger.acknowledged(4)
    ledger.requeued(6)
    lose(ledger, 0, 2)
    ledger.lost("t", 1, "CLOSED", Written.MAYBE, 1, WHY)
    ledger.sent(3, retried_batches=1)
    stats = ledger.stats(20, 1000)
    assert (stats.accepted, stats.acked, stats.in_flight, stats.lost, stats.queued) == (20, 4, 3, 3, 10)
    assert stats.failed == {("TIMED_OUT", Written.NO): 2, ("CLOSED", Written.MAYBE): 1}
    assert (stats.retries, stats.requests, stats.buffered_bytes) == (1, 2, 1000)


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
