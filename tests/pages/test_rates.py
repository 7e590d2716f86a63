"""Rates of the last ten minutes, from samples at any distance."""

from __future__ import annotations

import pytest

from pykafka4.pages.rates import POINTS, STEP_S, Rates, Sample

NAMES = ("accepted", "acknowledged", "discarded")


def sample(at: float, *counts: int) -> Sample:
    return Sample(at, dict(zip(NAMES, counts)))


def filled(seconds: int, per_second: int = 10, step: int = 1, begin: float = 1000.0) -> Rates:
    rates = Rates(NAMES)
    for second in range(0, seconds + 1, step):
        rates.add(sample(begin + second, per_second * second, (per_second - 2) * second, 2 * second))
    return rates


def test_rates_of_now_are_means_of_the_last_seconds() -> None:
    rates = filled(60)
    rates.add(sample(1061.0, 600 + 110, 480, 120))
    assert rates.now() == {"accepted": pytest.approx(150 / 5), "acknowledged": pytest.approx(32 / 5), "discarded": pytest.approx(8 / 5)}


def test_without_two_samples_there_is_no_rate() -> None:
    rates = Rates(NAMES)
    assert rates.now() == {"accepted": 0.0, "acknowledged": 0.0, "discarded": 0.0}
    assert rates.curves(NAMES)["accepted"] == [None] * POINTS
    rates.add(sample(1.0, 5, 5, 0))
    assert rates.now()["accepted"] == 0.0


@pytest.mark.parametrize("step", [1, 3, 7])
def test_a_curve_has_the_same_rate_whatever_the_distance_of_samples(step: int) -> None:
    curve = filled(700, step=step).curves(NAMES)["accepted"]
    assert len(curve) == POINTS
    assert set(curve) == {10.0}


def test_a_curve_begins_with_the_first_sample() -> None:
    curve = filled(20).curves(NAMES)["acknowledged"]
    assert curve[-4:] == [8.0] * 4
    assert curve[:-4] == [None] * (POINTS - 4)


def test_points_do_not_change_while_they_move_to_the_left() -> None:
    rates = Rates(NAMES)
    count = 0
    for second in range(300):
        count += second % 7
        rates.add(sample(float(second), count, count, 0))
    before = rates.curves(NAMES)["accepted"]
    for second in range(300, 300 + int(STEP_S)):
        rates.add(sample(float(second), count, count, 0))
    assert rates.curves(NAMES)["accepted"][:-2] == before[1:-1]


def test_samples_are_bounded_and_a_clock_that_stands_still_adds_none() -> None:
    rates = filled(5000)
    rates.add(sample(6000.0, 10**9, 0, 0))
    rates.add(sample(6000.0, 10**9, 0, 0))
    assert rates.now()["accepted"] > 0
