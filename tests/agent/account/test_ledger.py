"""The ledger: what reports say of each message, and that nobody can make it grow."""

from __future__ import annotations

import sys
import threading
import tracemalloc

import pytest

from pykafka4.agent.account.ledger import Ledger
from pykafka4.agent.account.tallies import BAD_TOPICS, RECENT, TOPICS
from pykafka4.agent.account.values import Discards, Repeats
from pykafka4.agent.message import Message, Reason, Refused, Source
from pykafka4.agent.settings.values import ReportSettings
from pykafka4.misuse import LONGEST_TOPIC
from tests.agent.account.accounting import Clock, message


@pytest.fixture
def clock() -> Clock:
    return Clock(1000.0)


@pytest.fixture
def ledger(clock: Clock) -> Ledger:
    return Ledger(ReportSettings(interval_s=600, prefix_size=16), clock=clock, wall_clock=Clock(1_700_000_000.5))


def test_a_discard_counts_for_its_topic_and_reason_with_the_first_and_last_timestamp(ledger: Ledger) -> None:
    for timestamp_ms in (50, 20, 70):
        ledger.discarded(message("clicks", timestamp_ms=timestamp_ms), Reason.NO_MEM)
    ledger.discarded(message("clicks", timestamp_ms=60), Reason.RATE_LIMIT)
    ledger.discarded(message("views", timestamp_ms=-1), Reason.NO_MEM)
    report = ledger.unfinished_report()
    assert report.topics == {
        "clicks": Discards({Reason.NO_MEM: 3, Reason.RATE_LIMIT: 1}, 20, 70),
        "views": Discards({Reason.NO_MEM: 1}, -1, -1),
    }
    assert report.by_reason == {Reason.NO_MEM: 4, Reason.RATE_LIMIT: 1}


def test_a_message_that_failed_in_the_producer_is_in_the_report_but_not_in_the_ledgers_part_of_the_account(ledger: Ledger) -> None:
    ledger.failed([message("clicks", timestamp_ms=5), message("clicks", timestamp_ms=9)], Reason.KAFKA_ERROR_ACK)
    ledger.discarded(message("clicks", timestamp_ms=7), Reason.NO_MEM)
    assert ledger.unfinished_report().topics == {"clicks": Discards({Reason.NO_MEM: 1, Reason.KAFKA_ERROR_ACK: 2}, 5, 9)}
    assert ledger.before_producer().topics == {"clicks": Discards({Reason.NO_MEM: 1}, 7, 7)}


def test_refused_bytes_are_counted_by_reason_with_the_newest_prefixes_first(ledger: Ledger) -> None:
    for data in (b"first", b"second", b"first", b"x" * 100):
        ledger.refused(data, Refused(Reason.MALFORMED), Source.TCP)
    ledger.refused(b"abc", Refused(Reason.UNCLEAN_UNIX), Source.UNIX_STREAM)
    ledger.refused(b"def", Refused(Reason.UNCLEAN_TCP), Source.TCP)
    ledger.refused(b"12345", Refused(Reason.API_KEY, 7), Source.TCP)
    report = ledger.unfinished_report()
    assert report.refused == {Reason.MALFORMED: 4, Reason.UNCLEAN_UNIX: 1, Reason.UNCLEAN_TCP: 1, Reason.API_KEY: 1}
    assert report.refused_bytes == {Reason.MALFORMED: 116, Reason.UNCLEAN_UNIX: 3, Reason.UNCLEAN_TCP: 3, Reason.API_KEY: 5}
    assert report.recent_malformed == (b"x" * 16, b"first", b"second")
    assert (report.recent_unclean_unix, report.recent_unclean_tcp) == ((b"abc",), (b"def",))


def test_lists_keep_the_25_newest_distinct_entries(ledger: Ledger) -> None:
    for number in [*range(40), 20]:
        ledger.refused(b"%d" % number, Refused(Reason.MALFORMED), Source.TCP)
        ledger.discarded(message(f"bad {number}"), Reason.BAD_TOPIC)
    report = ledger.unfinished_report()
    numbers = [20, *(n for n in range(39, 14, -1) if n != 20)]
    assert report.recent_malformed == tuple(b"%d" % n for n in numbers)
    assert report.recent_bad_topics == tuple(f"bad {n}" for n in numbers)
    assert len(numbers) == RECENT


def test_unsupported_versions_are_counted_each(ledger: Ledger) -> None:
    for version in (1, 2, 1, -5):
        ledger.refused(b"", Refused(Reason.VERSION, version), Source.UNIX_DATAGRAM)
    assert ledger.unfinished_report().versions == {1: 2, 2: 1, -5: 1}


def test_a_message_that_is_too_long_is_shown_as_topic_space_value(ledger: Ledger) -> None:
    ledger.discarded(message("clicks", b"0123456789abcdef"), Reason.LONG_MSG)
    ledger.failed([message("é", None)], Reason.LONG_MSG)
    ledger.discarded(message("t" * 300, b"v"), Reason.LONG_MSG)
    assert ledger.unfinished_report().recent_too_long == (b"t" * 16, "é ".encode(), b"clicks 012345678")


def test_possible_duplicates_have_rows_of_their_own(ledger: Ledger) -> None:
    ledger.repeated("clicks", 3, 100, 200)
    ledger.repeated("clicks", 2, 90, 150)
    report = ledger.unfinished_report()
    assert report.possible_duplicates == {"clicks": Repeats(5, 90, 200)}
    assert report.topics == {}


def test_damaged_messages_on_disk_have_no_times(ledger: Ledger) -> None:
    ledger.damaged("clicks", 4)
    assert ledger.before_producer().topics == {"clicks": Discards({Reason.SPOOL_DAMAGED: 4}, None, None)}


def test_invented_topics_neither_grow_the_ledger_nor_displace_other_topics(ledger: Ledger) -> None:
    ledger.discarded(message("clicks", timestamp_ms=5), Reason.RATE_LIMIT)
    many = 20_000
    for number in range(many):
        ledger.discarded(message(f"{'x' * 1000}{number}" if number % 2 else f"invented-{number}", timestamp_ms=number), Reason.BAD_TOPIC)
    report = ledger.unfinished_report()
    assert report.topics["clicks"] == Discards({Reason.RATE_LIMIT: 1}, 5, 5)
    assert len(report.topics) <= BAD_TOPICS + 1
    assert max(map(len, report.topics)) <= LONGEST_TOPIC + 1
    assert report.by_reason == {Reason.RATE_LIMIT: 1, Reason.BAD_TOPIC: many}
    assert report.others.first_ms == 0


def test_a_million_invented_topics_of_32_kib_take_less_than_a_few_mib() -> None:
    """A sample: the memory after 5,000 of them is that after 2,500, and their names were 160 MB."""
    ledger = Ledger(clock=Clock(), wall_clock=Clock())
    sizes = []
    tracemalloc.start()
    try:
        for number in range(5_000):
            ledger.discarded(message(f"{number}".ljust(32_767)), Reason.BAD_TOPIC)
            if number in (2_499, 4_999):
                sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert sizes[1] < 4 * 1024 * 1024
    assert sizes[1] < sizes[0] * 1.1


def test_of_more_topics_than_rows_the_latest_are_kept_and_the_sums_are_exact(ledger: Ledger) -> None:
    for _ in range(2):
        for number in range(TOPICS + 50):
            ledger.discarded(message(f"topic-{number}", timestamp_ms=number), Reason.NO_MEM)
    report = ledger.unfinished_report()
    assert len(report.topics) == TOPICS
    assert f"topic-{TOPICS + 49}" in report.topics
    assert report.by_reason == {Reason.NO_MEM: 2 * (TOPICS + 50)}


def test_no_count_is_lost_when_threads_count_while_others_read(clock: Clock) -> None:
    """Intervals end all the time meanwhile. Fails without the ledger's lock."""
    ledger = Ledger(ReportSettings(interval_s=1), clock=clock, wall_clock=Clock())
    each, threads, done = 2_000, 4, threading.Event()

    def count(number: int) -> None:
        for index in range(each):
            if number % 2:
                ledger.failed([message(f"t{index % 7}")], Reason.TIMED_OUT)
            else:
                ledger.discarded(message(f"t{index % 7}"), Reason.NO_MEM)
            clock.now += 0.01

    def read() -> None:
        while not done.is_set():
            ledger.total_report()
            ledger.finished_report()
            ledger.before_producer()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        counting = [threading.Thread(target=count, args=(number,)) for number in range(threads)]
        reading = threading.Thread(target=read)
        for thread in [*counting, reading]:
            thread.start()
        for thread in counting:
            thread.join()
        done.set()
        reading.join()
    finally:
        sys.setswitchinterval(before)
    half = each * threads // 2
    assert ledger.total_report().by_reason == {Reason.TIMED_OUT: half, Reason.NO_MEM: half}


class Entries:
    def __init__(self) -> None:
        self.lines: list[tuple[object, Reason]] = []

    def refused(self, data: bytes, refused: Refused) -> None:
        self.lines.append((data, refused.reason))

    def discarded(self, message: Message, reason: Reason) -> None:
        self.lines.append((message, reason))


def test_the_discard_log_gets_an_entry_for_each_message_and_each_refusal() -> None:
    entries = Entries()
    ledger = Ledger(entries=entries)
    ledger.refused(b"?", Refused(Reason.MALFORMED), Source.TCP)
    ledger.discarded(message("a"), Reason.NO_MEM)
    ledger.failed([message("b"), message("c")], Reason.TIMED_OUT)
    assert entries.lines == [
        (b"?", Reason.MALFORMED),
        (message("a"), Reason.NO_MEM),
        (message("b"), Reason.TIMED_OUT),
        (message("c"), Reason.TIMED_OUT),
    ]
