"""Backoff: doubling, jitter, bounds."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from pykafka4.core.backoff import Backoff
from tests.core.scripted_brokers import config


def test_pauses_double_up_to_the_longest_with_at_most_20_percent_jitter() -> None:
    backoff = Backoff(0.1, 1.0, Random(1))
    for plain in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0):
        assert 0.8 * plain <= backoff.next() <= 1.2 * plain


class Steady(Random):
    """No jitter."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


@pytest.mark.parametrize(
    ("kind", "first", "longest"),
    [
        (Backoff.retry, "retry_backoff_ms", "retry_backoff_max_ms"),
        (Backoff.reconnect, "reconnect_backoff_ms", "reconnect_backoff_max_ms"),
        (Backoff.setup, "socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
    ],
)
def test_each_kind_takes_its_pauses_from_its_own_options(kind: Callable[..., Backoff], first: str, longest: str) -> None:
    backoff = kind(config(**{first: 200, longest: 300}), Steady())
    assert [backoff.next() for _ in range(3)] == [0.2, 0.3, 0.3]


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
