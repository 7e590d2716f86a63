"""Back-off: doubling, jitter, bounds."""

from __future__ import annotations

from random import Random

from pykafka4.core.backoff import Backoff


def test_pauses_double_up_to_the_longest_with_at_most_20_percent_jitter() -> None:
    backoff = Backoff(0.1, 1.0, Random(1))
    for plain in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0):
        assert 0.8 * plain <= backoff.next() <= 1.2 * plain


def test_two_clients_do_not_retry_in_step() -> None:
    assert Backoff(0.1, 1.0, Random(1)).next() != Backoff(0.1, 1.0, Random(2)).next()


def test_reset_begins_with_the_first_pause_again() -> None:
    backoff = Backoff(0.1, 1.0, Random(1))
    for _ in range(5):
        backoff.next()
    backoff.reset()
    assert backoff.next() <= 0.12


def test_an_outage_of_weeks_does_not_overflow() -> None:
    backoff = Backoff(0.05, 1.0, Random(1))
    backoff.attempts = 10**7
    assert backoff.next() <= 1.2


def test_a_longest_below_the_first_counts_as_the_first() -> None:
    assert Backoff(2.0, 1.0, Random(1)).next() >= 1.6
