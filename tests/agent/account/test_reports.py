"""Reports: where intervals begin and end, and what is lost if nobody reads them."""

from __future__ import annotations

import pytest

from pykafka4.agent.account.ledger import Ledger
from pykafka4.agent.message import Reason, Refused, Source
from pykafka4.agent.settings.values import ReportSettings
from tests.agent.account.accounting import Clock, message

START = 1_700_000_000


@pytest.fixture
def clock() -> Clock:
    return Clock(5.0)


@pytest.fixture
def ledger(clock: Clock) -> Ledger:
    return Ledger(ReportSettings(interval_s=600), clock=clock, wall_clock=Clock(START + 0.9))


def discard(ledger: Ledger, count: int = 1) -> None:
    for _ in range(count):
        ledger.discarded(message(), Reason.NO_MEM)


def test_the_first_interval_has_no_finished_report(ledger: Ledger, clock: Clock) -> None:
    discard(ledger)
    clock.now += 599.9
    assert ledger.finished_report() is None
    report = ledger.unfinished_report()
    assert (report.number, report.started_at, report.ended_at) == (0, START, None)
    assert report.by_reason == {Reason.NO_MEM: 1}


def test_a_report_is_finished_at_the_end_of_its_interval(ledger: Ledger, clock: Clock) -> None:
    discard(ledger, 3)
    clock.now += 600
    discard(ledger, 2)
    finished, unfinished = ledger.finished_report(), ledger.unfinished_report()
    assert finished is not None
    assert (finished.number, finished.started_at, finished.ended_at) == (0, START, START + 600)
    assert (unfinished.number, unfinished.started_at) == (1, START + 600)
    assert (finished.by_reason, unfinished.by_reason) == ({Reason.NO_MEM: 3}, {Reason.NO_MEM: 2})
    assert ledger.total_report().by_reason == {Reason.NO_MEM: 5}


def test_a_failure_counts_in_the_interval_in_which_it_happened(ledger: Ledger, clock: Clock) -> None:
    """Its message was accepted in the one before: its timestamp says so."""
    clock.now += 600
    ledger.failed([message(timestamp_ms=START * 1000)], Reason.TIMED_OUT)
    finished = ledger.finished_report()
    assert finished is not None
    assert finished.by_reason == {}
    assert ledger.unfinished_report().topics["clicks"].first_ms == START * 1000


def test_intervals_without_an_event_are_empty_reports(ledger: Ledger, clock: Clock) -> None:
    discard(ledger)
    clock.now += 600 * 3 + 1
    finished = ledger.finished_report()
    assert finished is not None
    assert (finished.number, finished.started_at, finished.by_reason) == (2, START + 1200, {})
    assert ledger.unfinished_report().number == 3
    assert ledger.total_report().by_reason == {Reason.NO_MEM: 1}


def unread(ledger: Ledger) -> int:
    return ledger.counters()["NoDiscardQuery"]


def test_a_finished_report_that_nobody_read_is_counted_when_the_next_one_replaces_it(ledger: Ledger, clock: Clock) -> None:
    clock.now += 600
    assert unread(ledger) == 0
    clock.now += 600
    assert unread(ledger) == 1
    clock.now += 600 * 4
    assert unread(ledger) == 5
    ledger.finished_report()
    clock.now += 600
    assert unread(ledger) == 5


def test_a_reader_once_an_interval_misses_nothing(ledger: Ledger, clock: Clock) -> None:
    seen = 0
    for _ in range(10):
        clock.now += 300
        discard(ledger, 4)
        clock.now += 300
        report = ledger.finished_report()
        assert report is not None
        seen += report.by_reason.get(Reason.NO_MEM, 0)
    assert seen == 40
    assert unread(ledger) == 0


def test_an_end_that_the_clock_cannot_represent_is_still_an_end() -> None:
    """At 134.4 + 8.6 the interval is over, but (134.4 + 8.6 - 134.4) // 8.6 is 0."""
    clock = Clock(134.4)
    ledger = Ledger(ReportSettings(interval_s=8.6), clock=clock, wall_clock=Clock())
    discard(ledger)
    clock.now += 8.6
    finished = ledger.finished_report()
    assert finished is not None
    assert (finished.number, finished.by_reason) == (0, {Reason.NO_MEM: 1})
    assert ledger.unfinished_report().number == 1


def test_lists_and_versions_of_all_intervals_are_together_in_the_total(ledger: Ledger, clock: Clock) -> None:
    for number in range(3):
        ledger.refused(b"%d" % number, Refused(Reason.MALFORMED), Source.TCP)
        ledger.refused(b"", Refused(Reason.VERSION, 1), Source.TCP)
        ledger.repeated("t", 1, number, number)
        clock.now += 600
    total = ledger.total_report()
    assert total.recent_malformed == (b"2", b"1", b"0")
    assert total.versions == {1: 3}
    assert total.refused == {Reason.MALFORMED: 3, Reason.VERSION: 3}
    assert total.refused_bytes == {Reason.MALFORMED: 3, Reason.VERSION: 0}
    assert (total.possible_duplicates["t"].count, total.possible_duplicates["t"].last_ms) == (3, 2)
