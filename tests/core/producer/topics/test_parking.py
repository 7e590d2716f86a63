"""Parking: records of a topic without metadata move in order, or fail with their reason; none stays behind."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pytest

from pykafka4.core import INFINITY
from pykafka4.core.producer.topics.parking import MISSING_PARTITION_S, SLICE, Parking
from pykafka4.errors import BufferFull, ClosedError, KafkaError, broker_error
from pykafka4.errors.codes import BY_NAME, ErrorCode
from pykafka4.options.config import ProducerConfig
from pykafka4.wire.records.hot import Accumulator
from tests.net.net_helpers import SECONDS


class Lot:
    """A parking machine, and what it requests and reports."""

    def __init__(self, **options: Any) -> None:
        self.now = 1000.0
        self.count, self.code = 0, ""  # what the cluster knows of every topic
        self.asked = 0  # Metadata requests so far
        self.answered_request = 1  # the one whose response has `code`
        self.noted: set[str] = set()  # topics to look at in the next poll
        self.error: KafkaError | None = None
        self.unreachable = ""
        self.missing: float | None = None  # since when no broker knows it
        self.busy = False  # batches wait
        self.full = False  # no room becomes free
        self.idle: list[str] = []  # topics said to be idle
        self.wanted: list[tuple[str, bool]] = []
        self.forgotten: list[str] = []
        self.refreshed: list[str] = []
        self.lost: list[tuple[str, str, str, int]] = []
        self.callbacks: list[Any] = []
        self.acc = Accumulator(
            batch_size=16_384,
            linger=0.005,
            buffer_memory=2**24,
            max_partition_bytes=2**24,
            max_request_size=2**20,
            clock=lambda: self.now,
            wake=lambda: None,
            new_topic=lambda topic: self.parking.want(topic),
            make_room=lambda *_: self.wait_for_room(),
            wait=lambda predicate, timeout: predicate(),
            submit=lambda fn: fn(),
            lock=contextlib.nullcontext(),
        )
        config = ProducerConfig.parse({"bootstrap_servers": "b", **options})
        self.parking = Parking(
            config,
            self.acc,
            self,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            self,
            self,
        )

    # the sender, its outcomes and changes

    def is_busy(self, topic: str) -> bool:
        return self.busy

    def drop_topic(self, topic: str) -> None:
        self.idle.append(topic)

    def note(self, topic: str) -> None:
        self.noted.add(topic)

    def wait_for_room(self) -> float:
        """What a `send` does that finds no room: there is some in the end, or it raises."""
        if self.full:
            raise BufferFull("no room")
        return 0.0

    # the cluster and the network

    def partitions(self, topic: str) -> int:
        return self.count

    def available(self, topic: str) -> list[int]:
        return list(range(self.count))

    def refresh(self, now: float, topics: list[str]) -> None:
        self.refreshed += topics

    def topic_error(self, topic: str) -> ErrorCode | None:
        return BY_NAME[self.code] if self.code else None

    def refusal(self, topic: str, after_request: int) -> KafkaError | None:
        error = self.topic_error(topic)
        if error is None or error.retriable or self.answered_request <= after_request:
            return None
        return broker_error(error.code, f"topic {topic}", None, "Metadata", topic=topic, creating=True)

    def want(self, topic: str, user: object, create: bool = False) -> None:
        assert user is self.parking
        self.wanted.append((topic, create))

    def forget(self, topic: str, user: object) -> None:
        assert user is self.parking
        self.forgotten.append(topic)

    def unknown_since(self, topic: str) -> float | None:
        return self.missing

    def why_unreachable(self) -> str:
        return self.unreachable

    # the sender

    def lose_parked(self, topic: str, code: str, cause: Exception, records: int, callbacks: Any, times: tuple[int, int]) -> None:
        self.lost.append((topic, code, str(cause), records))
        self.callbacks.append(callbacks)

    def learn(self, count: int) -> None:
        self.count = count
        self.noted |= set(self.parking.topics)

    def poll(self, seconds: float = 0.0) -> float:
        self.now += seconds
        changed, self.noted = self.noted, set()
        return self.parking.poll(self.now, sorted(changed))


def test_the_first_record_of_a_topic_has_it_looked_up_and_created() -> None:
    lot = Lot()
    lot.acc.send("t", b"1")
    lot.acc.send("t", b"2")
    assert lot.wanted == [("t", True)]
    assert lot.parking.topics == ["t"]
    assert lot.parking


def test_records_move_a_slice_per_turn_in_their_order() -> None:
    lot = Lot()
    sent = [lot.acc.send("t", b"%d" % n, partition=0) for n in range(SLICE + 1)]
    lot.learn(1)
    assert lot.poll() == lot.now
    assert [delivery.partition for delivery in sent] == [0] * SLICE + [None]
    lot.poll()
    assert sent[-1].partition == 0
    assert not lot.parking
    assert lot.poll() == INFINITY
    assert not lot.lost


def test_a_record_for_a_missing_partition_fails_and_the_others_move() -> None:
    lot = Lot()
    called: list[Any] = []
    bad = lot.acc.send("t", b"bad", partition=99, on_delivery=called.append)
    good = lot.acc.send("t", b"good", partition=1)
    lot.learn(3)
    lot.poll()
    assert not bad.done(), "it may have been added just now"
    assert good.partition is None, "nothing passes what is parked"
    lot.poll(MISSING_PARTITION_S)
    why = "t: partition=99, but the highest partition of the topic is 2"
    assert lot.lost == [("t", "UNKNOWN_TOPIC_OR_PARTITION", why, 1)]
    assert bad.done()
    assert not called, "callbacks run where the sender has them run"
    lot.callbacks[0]()
    assert called[0].exception(0).record.value == b"bad"
    assert good.partition == 1
    assert not lot.parking


def test_a_partition_that_was_just_added_is_asked_for_again_until_brokers_know_it() -> None:
    lot = Lot(retry_backoff_ms=100)
    new = lot.acc.send("t", b"new", partition=1)
    lot.learn(1)
    assert lot.poll() == lot.now + 0.1
    assert lot.refreshed == ["t"]
    for _ in range(3):
        lot.learn(1)
        lot.poll(0.03)
    assert lot.refreshed == ["t"], "not more often than failed requests are tried again"
    lot.poll(0.02)
    assert lot.refreshed == ["t", "t"]
    lot.learn(2)
    lot.poll()
    assert new.partition == 1
    assert not lot.lost
    assert not lot.parking
    assert lot.poll() == INFINITY


def test_a_partition_is_not_waited_for_longer_than_the_delivery_may_take() -> None:
    lot = Lot(delivery_timeout_ms=500, linger_ms=0)
    bad = lot.acc.send("t", b"bad", partition=1)
    lot.learn(1)
    lot.poll()
    lot.poll(0.49)
    assert not bad.done()
    lot.poll(0.02)
    assert bad.done()


def test_no_loss_is_reported_where_nothing_is_parked() -> None:
    lot = Lot()
    lot.parking.fail("t", ClosedError("closed"))
    assert lot.lost == []


def test_a_topic_that_stays_unknown_gives_its_records_back_in_time_with_the_reason() -> None:
    lot = Lot(unknown_topic_timeout_ms=5000)
    lot.code = "UNKNOWN_TOPIC_OR_PARTITION"
    lot.acc.send("t", b"old")
    lot.now += 1
    lot.acc.send("t", b"young")
    assert lot.poll(3.9) == pytest.approx(1005)
    assert lot.poll(0.1) == pytest.approx(1006)
    assert lot.poll(1) == INFINITY
    row = ("t", "UNKNOWN_TOPIC_OR_PARTITION", "topic 't' did not exist for 5 s: UNKNOWN_TOPIC_OR_PARTITION", 1)
    assert lot.lost == [row, row]


def test_records_that_were_sent_within_microseconds_time_out_together() -> None:
    lot = Lot(delivery_timeout_ms=2000)
    for _ in range(20):
        lot.acc.send("t", b"v")
        lot.now += 0.00001
    turns = 0
    while (due := lot.poll()) < INFINITY:
        lot.now = max(lot.now, due)
        turns += 1
    assert sum(records for *_, records in lot.lost) == 20
    assert turns <= 3


@pytest.mark.parametrize(
    ("unreachable", "error", "why"),
    [
        ("no broker reachable: b:9092 connection refused", None, "no broker reachable: b:9092 connection refused"),
        ("", None, "no broker responded"),
    ],
)
def test_a_topic_lookup_without_answer_times_out_and_names_the_silent_broker(unreachable: str, error: KafkaError | None, why: str) -> None:
    lot = Lot(delivery_timeout_ms=2000)
    lot.unreachable, lot.error = unreachable, error
    lot.acc.send("t", b"v")
    lot.poll(2)
    assert lot.lost == [("t", "TIMED_OUT", f"topic 't' could not be looked up for 2 s: {why}", 1)]


def test_records_of_an_unknown_topic_wait_for_brokers_that_are_away_and_the_first_answer_does_not_fail_them() -> None:
    lot = Lot(unknown_topic_timeout_ms=5000, delivery_timeout_ms=3_600_000)
    lot.unreachable = "no broker reachable: b:9092 connection refused"
    lot.acc.send("t", b"v")
    for _ in range(30):
        lot.poll(60)
    assert lot.lost == []
    lot.unreachable, lot.code = "", "UNKNOWN_TOPIC_OR_PARTITION"  # a broker that has just started
    lot.noted.add("t")
    assert lot.poll(1) == pytest.approx(lot.now + 5)
    lot.poll(4.9)
    assert lot.lost == []
    lot.poll(0.2)
    assert [code for _, code, _, _ in lot.lost] == ["UNKNOWN_TOPIC_OR_PARTITION"]


def test_brokers_that_were_lost_again_do_not_fail_a_topic_by_their_last_answer() -> None:
    lot = Lot(unknown_topic_timeout_ms=5000, delivery_timeout_ms=3_600_000)
    lot.code = "UNKNOWN_TOPIC_OR_PARTITION"
    lot.acc.send("t", b"v")
    lot.poll(1)
    lot.unreachable = "no broker reachable: b:9092 connection refused"
    for _ in range(30):
        lot.poll(60)
    assert lot.lost == []


def test_a_permanent_error_fails_the_records_at_once() -> None:
    lot = Lot()
    lot.code = "TOPIC_AUTHORIZATION_FAILED"
    lot.acc.send("t", b"v")
    lot.poll()
    ((topic, code, cause, records),) = lot.lost
    assert (topic, code, records) == ("t", "TOPIC_AUTHORIZATION_FAILED", 1)
    assert cause.startswith("topic t: TOPIC_AUTHORIZATION_FAILED (needs DESCRIBE or CREATE on topic 't'")


def test_what_brokers_refused_to_others_before_a_record_was_sent_does_not_fail_it() -> None:
    """Another user of the client was refused; the right may have been granted since."""
    lot = Lot()
    lot.code, lot.asked, lot.answered_request = "TOPIC_AUTHORIZATION_FAILED", 5, 5
    lot.acc.send("t", b"v")
    lot.poll()
    assert lot.lost == []
    lot.asked = lot.answered_request = 6
    lot.noted.add("t")
    lot.poll()
    assert [code for _, code, _, _ in lot.lost] == ["TOPIC_AUTHORIZATION_FAILED"]


def test_a_refusal_from_before_the_record_is_not_its_reason_when_it_times_out() -> None:
    lot = Lot(delivery_timeout_ms=2000)
    lot.code, lot.asked, lot.answered_request = "TOPIC_AUTHORIZATION_FAILED", 5, 5
    lot.acc.send("t", b"v")
    lot.poll(2)
    assert [code for _, code, _, _ in lot.lost] == ["TIMED_OUT"]


# -- how long a topic is wanted


def test_a_topic_that_was_given_up_is_dropped_until_the_next_record() -> None:
    lot = Lot(unknown_topic_timeout_ms=5000)
    lot.code = "UNKNOWN_TOPIC_OR_PARTITION"
    lot.acc.send("typo", b"1")
    lot.now += 1
    lot.acc.send("typo", b"2")
    lot.poll(4)
    assert lot.forgotten == [], "one still waits"
    lot.poll(1)
    assert lot.forgotten == ["typo"]
    assert not lot.parking
    lot.acc.send("typo", b"3")
    assert lot.wanted == [("typo", True)] * 2
    assert lot.parking.topics == ["typo"]


def test_an_unused_topic_is_dropped_and_wanted_again_by_the_next_batch() -> None:
    lot = Lot(metadata_max_idle_ms=10_000)
    lot.acc.send("t", b"1", partition=0)
    lot.learn(1)
    lot.poll()
    lot.poll(6)
    lot.parking.used("t", lot.now)
    lot.poll(9)
    assert lot.forgotten == []
    lot.poll(1)
    assert (lot.forgotten, lot.idle) == (["t"], ["t"])
    assert lot.parking.topics == []
    lot.count = 2  # another producer of the client made it known meanwhile
    lot.parking.used("t", lot.now)
    assert lot.wanted == [("t", True)] * 2
    lot.poll()
    assert lot.acc.send("t", b"2", partition=1).partition == 1, "the accumulator gets the new state"


def test_of_several_topics_the_unused_ones_are_dropped() -> None:
    lot = Lot(metadata_max_idle_ms=10_000)
    for topic in ("first", "second", "third"):
        lot.acc.send(topic, b"1", partition=0)
    lot.learn(1)
    lot.poll()
    lot.now += 6
    lot.parking.used("first", lot.now)
    lot.poll(4)
    assert lot.forgotten == ["second", "third"]
    lot.poll(5.9)
    assert lot.forgotten == ["second", "third"]
    lot.poll(0.2)
    assert lot.idle == ["second", "third", "first"]


def test_a_topic_whose_batches_wait_is_not_idle() -> None:
    lot = Lot(metadata_max_idle_ms=10_000)
    lot.acc.send("t", b"1", partition=0)
    lot.learn(1)
    lot.poll()
    lot.busy = True
    lot.poll(50)
    assert lot.forgotten == []
    lot.busy = False
    lot.poll(10)
    assert lot.forgotten == ["t"]


@pytest.mark.parametrize("busy", [True, False])
def test_a_deleted_topic_is_created_again_only_for_producers_that_send_to_it(busy: bool) -> None:
    lot = Lot()
    lot.acc.send("t", b"1", partition=0)
    lot.learn(1)
    lot.poll()
    lot.missing, lot.busy = lot.now, busy
    lot.learn(0)
    lot.poll()
    assert lot.wanted == [("t", True)] * (1 + busy)
    lot.parking.used("t", lot.now)
    assert lot.wanted == [("t", True)] * (2 + busy)


def test_a_closed_producer_wants_no_topics() -> None:
    lot = Lot()
    lot.acc.send("known", b"1", partition=0)
    lot.learn(1)
    lot.poll()
    lot.acc.send("unknown", b"1")
    lot.parking.dispose()
    assert sorted(lot.forgotten) == ["known", "unknown"]
    assert lot.parking.topics == []


def test_an_empty_topic_that_a_send_is_just_about_to_use_is_looked_at_again_later() -> None:
    lot = Lot(unknown_topic_timeout_ms=5000)
    lot.code = "UNKNOWN_TOPIC_OR_PARTITION"
    real = lot.acc

    class InUse:
        """An accumulator that cannot forget a topic now."""

        def forget(self, topic: str) -> bool:
            return False

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

    lot.parking._acc = InUse()  # type: ignore[assignment]
    lot.parking.want("t")
    assert lot.poll() == lot.now + 5.0
    assert lot.poll(5.0) == lot.now + 5.0
    assert lot.forgotten == []


def test_a_record_that_is_parked_while_the_others_fail_keeps_its_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread, which had announced the topic before, parks its record between the failure of the last one and letting go."""
    lot = Lot()
    lot.acc.set_partitions("t", 0, [])
    announced, go_on = threading.Event(), threading.Event()
    late: list[Any] = []
    want = lot.parking.want

    def held_up(topic: str) -> None:
        want(topic)
        if threading.current_thread() is thread:
            announced.set()
            assert go_on.wait(SECONDS)

    class Between:
        def __getattr__(self, name: str) -> Any:
            return getattr(lot.acc, name)

        def forget(self, topic: str) -> bool:
            go_on.set()
            thread.join(SECONDS)
            return lot.acc.forget(topic)

    monkeypatch.setattr(Parking, "want", lambda _, topic: held_up(topic))
    thread = threading.Thread(target=lambda: late.append(lot.acc.send("t", b"late")), daemon=True)
    thread.start()
    assert announced.wait(SECONDS)
    first = lot.acc.send("t", b"first")
    lot.parking._acc = Between()  # type: ignore[assignment]
    lot.code = "TOPIC_AUTHORIZATION_FAILED"
    lot.poll()
    lot.parking._acc = lot.acc
    assert first.done()
    assert len(late) == 1
    lot.poll(0.2)
    assert late[0].done()


@pytest.mark.parametrize("later", [0.0, 0.05, 10.0])
def test_a_record_for_a_forbidden_topic_fails_soon_although_the_first_send_to_it_raised(later: float) -> None:
    lot = Lot(retry_backoff_ms=100)
    lot.code = "TOPIC_AUTHORIZATION_FAILED"
    lot.full, lot.acc.waiters = True, 1
    with pytest.raises(BufferFull):
        lot.acc.send("t", b"announces the topic")
    lot.full, lot.acc.waiters = False, 0
    assert lot.poll() <= lot.now + 0.1
    if later:
        lot.poll(later)
    delivery = lot.acc.send("t", b"wakes nobody, unless the topic was let go")
    lot.poll(0.1)
    assert delivery.exception(0).code == "TOPIC_AUTHORIZATION_FAILED"
    assert lot.forgotten
    assert not lot.parking
    assert lot.poll() == INFINITY
