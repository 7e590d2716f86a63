"""Subscription: which states of a position may follow each other."""

from __future__ import annotations

import pytest

from pykafka4.core.subscription import STAGES, Claim, Position, Stage, Start
from tests.core.consumer_harness import tp


def position(start: Start | int = Start.COMMITTED, fallback: Start = Start.LATEST) -> Position:
    return Position(Claim(tp(0)), start, fallback, 1000)


def test_a_position_with_an_offset_fetches_at_once() -> None:
    assert (position(7).stage, position(7).offset) == (Stage.FETCHING, 7)


def test_a_position_at_an_end_of_the_log_searches_its_offset() -> None:
    at = position(Start.LATEST)
    assert (at.stage, at.target, at.by_policy) == (Stage.RESETTING, Start.LATEST, False)


def test_a_position_without_a_start_requests_the_committed_offset_first() -> None:
    at = position()
    assert (at.stage, at.fallback, at.by_policy) == (Stage.UNKNOWN, Start.LATEST, True)


@pytest.mark.parametrize("before", Stage)
@pytest.mark.parametrize("after", Stage)
def test_only_the_moves_of_the_table_are_possible(before: Stage, after: Stage) -> None:
    at = position()
    at.stage = before
    if after in STAGES.table[before]:
        at.move(after)
        assert at.stage is after
    else:
        with pytest.raises(RuntimeError, match=f"{after.name} cannot follow {before.name}"):
            at.move(after)
        assert at.stage is before


def test_what_is_buffered_is_what_was_delivered_and_not_consumed() -> None:
    at = position()
    at.claim.delivered, at.claim.consumed = 100, 30
    assert at.buffered == 70
