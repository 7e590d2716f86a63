"""The application's side of a share consumer on a clock that a test sets."""

from __future__ import annotations

from uuid import UUID

import pytest

from pykafka4.core.share.mailbox import Mailbox
from pykafka4.core.share.values import AcknowledgementReport, AcknowledgeType, Acquired, SessionLease
from pykafka4.errors import RecordLockLost
from pykafka4.records import TopicPartition
from pykafka4.share.delivered import APPLICATION, LOOP, DeliveredRecords, Outgoing
from pykafka4.share.record import ShareRecord
from pykafka4.wire.records.batch import WireRecord, build_batch
from tests.net.interrupts import interrupts

ACCEPT, RELEASE, RENEW = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.RENEW
GAP, REJECT = AcknowledgeType.GAP, AcknowledgeType.REJECT
LOCK = 30.0


class Harness:
    """Delivered records, and the loop's part."""

    def __init__(self, limit: int = 1 << 20, lock: float = LOCK) -> None:
        """`limit`: bytes of the records that wait. `lock` in seconds."""
        self.lock = lock
        self.now = 100.0
        self.mailbox = Mailbox(lambda: None)
        self.records = DeliveredRecords(self.mailbox, lambda: self.now, limit)
        self.records.keep(("t",))
        self.lease = SessionLease(TopicPartition("t", 0), UUID(int=7), 1)

    def arrive(self, first: int, last: int, topic: str = "t", gaps: int = 0) -> Acquired:
        records = [WireRecord(timestamp_ms=1, value=b"x") for _ in range(last - first + 1)]
        data = bytes(build_batch(records, base_offset=first, last_offset_delta=last + gaps - first))  # compacted, if it has gaps
        lease = self.lease if topic == "t" else SessionLease(TopicPartition(topic, 0), UUID(int=8), 1)
        acquired = Acquired(lease, ((first, last + gaps, 1),), data, self.now + self.lock)
        lease.deliver(acquired, self.now)
        self.mailbox.put(acquired)
        return acquired

    def take(self, limit: int = 100) -> list[ShareRecord]:
        """A poll that returns."""
        self.records.stock()
        found = self.records.take(limit)
        self.records.out = []
        return found

    def offsets(self, limit: int = 100) -> list[int]:
        return [record.offset for record in self.take(limit)]


def test_a_record_whose_renewal_is_under_way_can_be_acknowledged_after_the_end_of_the_old_lock() -> None:
    harness = Harness()
    acquired = harness.arrive(0, 1)
    first, second = harness.take()
    harness.records.acknowledge(first, RENEW)
    outgoing = harness.records.collect()
    report = outgoing.report = AcknowledgementReport(lambda _: None)
    harness.records.sent(outgoing)
    harness.now += LOCK
    harness.records.acknowledge(first, ACCEPT)
    with pytest.raises(RecordLockLost):
        harness.records.acknowledge(second, ACCEPT)
    assert harness.records.collect().types == {acquired: {0: ACCEPT}}
    report.close()  # the broker has refused it
    with pytest.raises(RecordLockLost, match="expired"):
        harness.records.acknowledge(first, ACCEPT)


def test_offsets_of_a_batch_that_was_cut_off_are_released_and_those_without_a_record_are_gaps() -> None:
    """A broker cuts off the last batch of a full response; its records are acquired all the same."""
    harness = Harness()
    whole, cut_off = (build_batch([WireRecord(timestamp_ms=1, value=b"x")] * 2, base_offset=first) for first in (0, 2))
    acquired = Acquired(harness.lease, ((0, 3, 1),), bytes(whole) + bytes(cut_off)[:-1], harness.now + LOCK)
    harness.lease.deliver(acquired, harness.now)
    harness.mailbox.put(acquired)
    assert harness.offsets() == [0, 1]
    assert harness.records.collect().types[acquired] == {2: RELEASE, 3: RELEASE}


def test_only_the_acquired_records_of_a_batch_are_returned_each_with_its_delivery_count() -> None:
    harness = Harness(limit=1)
    data = build_batch([WireRecord(timestamp_ms=1, value=b"x")] * 5, base_offset=0)
    acquired = Acquired(harness.lease, ((0, 0, 1), (2, 3, 2)), bytes(data), harness.now + LOCK)
    harness.lease.deliver(acquired, harness.now)
    harness.mailbox.put(acquired)
    found = [record for _ in range(4) for record in harness.take(1)]
    assert [(record.offset, record.delivery_count) for record in found] == [(0, 1), (2, 2), (3, 2)]


def test_offsets_before_a_damaged_batch_are_gaps_and_only_its_own_are_rejected() -> None:
    """The batch before it has lost all its records to compaction."""
    harness = Harness()
    empty = bytes(build_batch([], base_offset=0, last_offset_delta=1))
    damaged = bytes(build_batch([WireRecord(timestamp_ms=1, value=b"x")] * 2, base_offset=2))[:-1] + b"?"
    acquired = Acquired(harness.lease, ((0, 3, 1),), empty + damaged, harness.now + LOCK)
    harness.lease.deliver(acquired, harness.now)
    harness.mailbox.put(acquired)
    assert harness.offsets() == []
    assert harness.records.collect_aside().types == {acquired: {0: GAP, 1: GAP, 2: REJECT, 3: REJECT}}


def test_a_record_that_was_acquired_again_cannot_be_acknowledged_any_more() -> None:
    harness = Harness()
    harness.arrive(0, 0)
    (before,) = harness.take()
    again = harness.arrive(0, 0)
    with pytest.raises(RecordLockLost):
        harness.records.acknowledge(before, ACCEPT)
    (after,) = harness.take()
    harness.records.acknowledge(after, ACCEPT)
    assert harness.records.collect().types == {again: {0: ACCEPT}}


@pytest.mark.parametrize("lock", [LOCK, 0.5])
def test_the_locks_of_buffered_records_are_renewed_in_time(lock: float) -> None:
    harness = Harness(lock=lock)
    acquired = harness.arrive(0, 3)
    assert harness.offsets(1) == [0]
    assert harness.records.renewals(lock / 2) == {}
    harness.now += 0.6 * lock
    found = harness.records.renewals(lock / 2)
    assert {each: list(records) for each, records in found.items()} == {acquired: [1, 2, 3]}
    for record in found[acquired].values():
        record._renewal = AcknowledgementReport(lambda _: None)
    assert harness.records.renewals(lock / 2) == {}  # it is under way
    for record in found[acquired].values():
        acquired.renewed[record.offset] = harness.now + lock
        assert record._renewal is not None
        record._renewal.close()
    assert harness.records.renewals(lock / 2) == {}
    harness.now += 0.6 * lock
    assert list(harness.records.renewals(lock / 2)[acquired]) == [1, 2, 3]
    assert (harness.offsets(2), harness.records.expired) == ([1, 2], 0)


def test_a_lock_that_is_about_to_end_is_not_renewed() -> None:
    harness = Harness()
    harness.arrive(0, 1)
    harness.take(1)
    harness.now += 0.97 * LOCK
    assert harness.records.renewals(LOCK / 2) == {}
    harness.now += 0.03 * LOCK
    assert (harness.offsets(), harness.records.dropped, harness.records.expired) == ([], 1, 1)


def test_records_that_a_broker_has_released_do_not_count_as_locked_too_long() -> None:
    harness = Harness()
    harness.arrive(0, 1)
    harness.records.stock()
    harness.lease.ended = "another leader"
    assert (harness.offsets(), harness.records.dropped, harness.records.expired) == ([], 2, 0)


def test_records_of_other_topics_are_released_by_a_subscription() -> None:
    harness = Harness()
    first = harness.arrive(0, 2)
    (record,) = harness.take(1)
    late = harness.arrive(3, 4)
    harness.records.keep(("u",))
    later = harness.arrive(5, 5)
    there = harness.arrive(0, 0, "u")
    assert [(each.topic, each.offset) for each in harness.take()] == [("u", 0)]
    assert harness.records.collect_aside().types == {first: {1: RELEASE, 2: RELEASE}, late: {3: RELEASE, 4: RELEASE}, later: {5: RELEASE}}
    harness.records.acknowledge(record, ACCEPT)  # the application has it
    assert harness.records.collect().types[first] == {0: ACCEPT, 1: RELEASE, 2: RELEASE}
    assert there not in harness.records.collect().types


def test_a_subscription_releases_records_whose_locks_were_renewed() -> None:
    harness = Harness()
    acquired = harness.arrive(0, 3)
    harness.take(1)
    harness.now += 0.9 * LOCK
    acquired.renewed.update({1: harness.now + LOCK, 2: harness.now + LOCK})
    harness.now += 0.2 * LOCK  # the lock of record 3 has ended
    harness.records.keep(("u",))
    assert harness.records.collect_aside().types == {acquired: {1: RELEASE, 2: RELEASE}}


def test_what_a_poll_has_not_returned_is_not_accepted() -> None:
    harness = Harness()
    acquired = harness.arrive(0, 2)
    harness.take(1)
    harness.records.take(1)  # this poll has not returned
    harness.records.recover()
    harness.records.accept_all()
    assert harness.records.collect().types == {acquired: {0: ACCEPT}}


@pytest.mark.parametrize("loop_first", [True, False])
def test_acknowledgements_that_ctrl_c_has_interrupted_are_sent_once(loop_first: bool) -> None:
    harness = Harness()
    acquired = harness.arrive(0, 1)
    first, second = harness.take()
    harness.records.acknowledge(first, ACCEPT)
    harness.records.acknowledge(second, RENEW)
    outgoing = harness.records.collect()
    harness.records.sending(outgoing)  # Ctrl-C: `sent` is not called
    if loop_first:
        assert outgoing.take(LOOP)
    harness.records.recover()
    again = harness.records.collect()
    assert again.types == ({} if loop_first else {acquired: {0: ACCEPT, 1: RENEW}})
    assert not outgoing.take(APPLICATION if loop_first else LOOP)
    assert list(harness.records.held) == ([second] if loop_first else [first, second])
    assert harness.records.unacknowledged() == []


@pytest.mark.parametrize("loop_first", [True, False])
def test_ctrl_c_at_any_place_of_sent_forgets_nothing_and_sends_nothing_twice(loop_first: bool) -> None:
    def prepare() -> None:
        nonlocal harness, acquired, second, outgoing
        harness = Harness()
        acquired = harness.arrive(0, 2)
        first, second, third = harness.take()
        harness.records.acknowledge(first, ACCEPT)
        harness.records.acknowledge(second, RENEW)
        harness.records.acknowledge(third, ACCEPT)
        outgoing = harness.records.collect()
        if loop_first:
            outgoing.take(LOOP)
        harness.records.sending(outgoing)

    harness: Harness
    acquired: Acquired
    second: ShareRecord
    outgoing: Outgoing
    prepare()
    for place in interrupts(lambda: harness.records.sent(outgoing)):
        harness.records.recover()  # by the next call
        again = harness.records.collect().types
        if outgoing.take(LOOP):
            assert again == {}, place
            assert list(harness.records.held) == [second], place
        else:
            assert again == {acquired: {0: ACCEPT, 1: RENEW, 2: ACCEPT}}, place
        prepare()


def test_ctrl_c_at_any_place_of_decoding_loses_nothing() -> None:
    def prepare() -> None:
        nonlocal harness, acquired
        harness = Harness()
        acquired = harness.arrive(0, 3, gaps=2)

    harness: Harness
    acquired: Acquired
    prepare()
    for place in interrupts(lambda: harness.records.stock()):
        assert harness.offsets() == [0, 1, 2, 3], place
        assert harness.records.collect_aside().types == {acquired: {4: GAP, 5: GAP}}, place
        assert harness.records._renew_from == acquired.until, place
        prepare()


def test_ctrl_c_at_any_place_of_a_subscription_loses_nothing_and_returns_nothing_that_it_releases() -> None:
    def prepare() -> None:
        nonlocal harness, acquired
        harness = Harness()
        acquired = harness.arrive(0, 3, gaps=1)
        harness.take(1)

    harness: Harness
    acquired: Acquired
    prepare()
    for place in interrupts(lambda: harness.records.keep(("u",))):
        ready = [record.offset for record in harness.records.ready]
        aside = harness.records.collect_aside().types[acquired]
        assert (ready, aside) in (([1, 2, 3], {4: GAP}), ([], {1: RELEASE, 2: RELEASE, 3: RELEASE, 4: GAP})), place
        harness.records.keep(("u",))
        assert harness.offsets() == [], place
        assert harness.records.collect_aside().types == {acquired: {1: RELEASE, 2: RELEASE, 3: RELEASE, 4: GAP}}, place
        prepare()


def test_ctrl_c_at_any_place_of_a_poll_and_of_its_end_loses_no_record() -> None:
    harness = Harness()
    got: list[ShareRecord] = []

    def act() -> None:
        harness.records.recover()
        found = harness.records.take(2)
        harness.records.out = []
        got.extend(found)

    harness.arrive(0, 3)
    harness.records.stock()
    for place in interrupts(act):
        harness.records.recover()
        assert [record.offset for record in harness.records.ready] == [0, 1, 2, 3], place
        assert (harness.records.held, harness.records.delivered) == ({}, 0)
    assert [record.offset for record in got] == [0, 1]


# ---------------------------------------------------------------- memory


def large(harness: Harness, first: int, last: int, size: int = 300_000) -> Acquired:
    """Large records, each in a batch of its own, of a few bytes on the wire."""
    one = [WireRecord(timestamp_ms=1, value=b"x" * size)]
    data = b"".join(bytes(build_batch(one, base_offset=offset, codec=1)) for offset in range(first, last + 1))
    acquired = Acquired(harness.lease, ((first, last, 1),), data, harness.now + LOCK)
    harness.lease.deliver(acquired, harness.now)
    harness.mailbox.put(acquired)
    return acquired


def test_polls_decode_until_the_records_that_wait_take_the_limit() -> None:
    harness = Harness()
    large(harness, 0, 5)
    large(harness, 6, 7)
    harness.records.stock()
    assert len(harness.records.ready) == 4, "1 MiB"
    assert [harness.offsets() for _ in range(3)] == [[0, 1, 2, 3], [4, 5, 6, 7], []]
    assert not harness.mailbox.arrivals


def test_records_that_wait_for_a_poll_count_until_all_are_returned() -> None:
    harness = Harness()
    large(harness, 0, 5)
    assert [harness.offsets(limit=3) for _ in range(4)] == [[0, 1, 2], [3], [4, 5], []]


def test_ctrl_c_at_any_place_of_decoding_a_part_loses_nothing() -> None:
    def prepare() -> None:
        nonlocal harness
        harness = Harness(limit=1 << 14)
        large(harness, 0, 5, 4_700)

    harness: Harness
    prepare()
    for place in interrupts(lambda: harness.records.stock()):
        assert [offset for _ in range(4) for offset in harness.offsets()] == [0, 1, 2, 3, 4, 5], place
        assert harness.records.collect_aside().types == {}, place
        prepare()


def test_a_topic_that_is_no_longer_subscribed_while_a_part_waits_is_released() -> None:
    harness = Harness()
    acquired = large(harness, 0, 5)
    assert harness.offsets(limit=3) == [0, 1, 2]
    harness.records.keep(("u",))
    harness.records.stock()
    assert harness.records.collect_aside().types == {acquired: dict.fromkeys((3, 4, 5), RELEASE)}


def test_the_locks_of_every_part_of_a_response_are_renewed() -> None:
    """The first part was renewed, so nothing else in `ready` needs a renewal when the second part is decoded."""
    harness = Harness(limit=300)  # bytes of one decoding step: a part of the records
    acquired = harness.arrive(0, 19)
    harness.records.stock()
    first = len(harness.records.ready)
    harness.take(1)
    harness.now += LOCK / 2
    renewed = harness.records.renewals(LOCK / 2)[acquired]
    assert len(renewed) == first - 1 < 19
    acquired.renewed.update(dict.fromkeys(renewed, harness.now + LOCK))
    assert harness.records.renewals(LOCK / 2) == {}
    harness.take(first - 1)
    assert harness.offsets(1) == [first]
    assert min(harness.records.renewals(LOCK / 2)[acquired]) == first + 1
