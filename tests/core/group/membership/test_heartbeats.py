"""When heartbeats are due: on time at the coordinator, although the loop's turns come late."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from pykafka4.core.group.membership.heartbeats import FADES, LARGEST_MARGIN, SOON_S, HeartbeatTimer
from pykafka4.wire.protocol.messages_group import HeartbeatRequest
from tests.core.consumer_harness import ConsumerHarness, tp
from tests.core.member_harness import keep_alive, steady

INTERVAL_S = 3.0


def moments(lateness: list[float]) -> list[float]:
    """When heartbeats are sent, by a loop whose turns come so much later than they are due."""
    timer, now, sent = HeartbeatTimer(INTERVAL_S), 100.0, [100.0]
    timer.start(now)
    timer.sent(now)
    for late in lateness:
        due = timer.wait(now)
        assert due is not None
        now = due + late
        assert timer.wait(now) is None
        timer.sent(now)
        sent.append(now)
    return sent


def gaps(lateness: list[float]) -> list[float]:
    return [after - before for before, after in itertools.pairwise(moments(lateness))]


def test_with_a_loop_that_is_on_time_they_keep_their_interval() -> None:
    assert gaps([0.0] * 10) == pytest.approx([INTERVAL_S] * 10)


def test_one_late_heartbeat_makes_the_next_ones_due_earlier() -> None:
    first, second, third = gaps([0.2, 0.2, 0.2])
    assert first == pytest.approx(INTERVAL_S + 0.2)
    assert second == third == pytest.approx(INTERVAL_S)


def test_the_margin_fades_while_the_loop_is_on_time() -> None:
    _, *later = gaps([0.2, *[0.0] * 60])
    assert later[0] == pytest.approx(INTERVAL_S - 0.2)
    assert later[1] == pytest.approx(INTERVAL_S - 0.2 * FADES)
    assert later[-1] == pytest.approx(INTERVAL_S, abs=0.001)


def test_it_follows_the_latest_of_recent_ones() -> None:
    """A lottery: most come 30 ms late, few 200 ms. The next one must allow for those few."""
    draw = Random(1)
    lateness = [0.2 if draw.random() < 0.2 else 0.03 for _ in range(300)]
    late = [gap - INTERVAL_S for gap in gaps(lateness)[10:]]
    assert sum(by > 0.05 for by in late) < 0.1 * len(late) < sum(by > 0.05 for by in lateness)


def test_however_late_they_are_at_most_a_third_more_are_sent() -> None:
    assert min(gaps([60.0, 0.0])) == pytest.approx(INTERVAL_S * (1 - LARGEST_MARGIN))


def test_what_held_a_heartbeat_back_other_than_the_loop_does_not_count() -> None:
    timer = HeartbeatTimer(INTERVAL_S)
    timer.start(100)
    assert timer.wait(99) == 100
    assert timer.wait(100) is None
    timer.blocked()
    assert timer.wait(101) is None
    timer.sent(101)
    assert timer.wait(101) == pytest.approx(101 + INTERVAL_S)
    timer.start(200)  # at once, as the last one failed
    assert timer.wait(205) is None
    timer.sent(205)
    assert timer.wait(205) == pytest.approx(205 + INTERVAL_S)


def test_after_a_change_they_come_sooner_with_pauses_that_double(harness: ConsumerHarness) -> None:
    """The group may have changed again: a member that waits for its usual interval would hold the others up."""
    harness.stable(tp(0))
    keep_alive(harness)
    sent = steady(harness, seconds=12.0)
    pauses = [after - before for before, after in itertools.pairwise([0.0, *sent])]
    assert pauses == pytest.approx([min(SOON_S * 2**n, INTERVAL_S) for n in range(len(pauses))], abs=0.06)
    assert len(pauses) >= 6


def test_an_interval_that_is_short_is_kept_after_a_change() -> None:
    timer = HeartbeatTimer(0.1)
    timer.changed(100)
    assert timer.wait(100) == pytest.approx(100.1)
    assert timer.wait(100.1) is None
    timer.sent(100.1)
    assert timer.wait(100.1) == pytest.approx(100.2)


def test_a_member_without_a_coordinator_for_a_while_is_not_a_late_loop(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    keep_alive(harness)
    steady(harness)
    harness.machine.coordinator.lost(harness.now, 1, None)
    harness.run(5)
    harness.find_coordinator(2)
    harness.beat(harness.one(HeartbeatRequest))
    harness.run(2.9)
    assert harness.pending(HeartbeatRequest) == []
    harness.run(0.2)
    assert harness.one(HeartbeatRequest)
