"""The applications of the schedules judge what they claim to judge."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pykafka4.errors import KafkaTimeoutError
from tests.simulation.judge.invariants import Broken
from tests.simulation.users.applications import timed

pytestmark = pytest.mark.simulation


def test_a_call_that_times_out_too_late_breaks_the_promise_about_waits() -> None:
    sim = SimpleNamespace(timeline=SimpleNamespace(now=0.0))
    with pytest.raises(Broken, match=r"flush took 3\.000 s of 1"), timed(sim, "flush", 1.0):
        sim.timeline.now = 3.0
        raise KafkaTimeoutError("flush: time is over")


def test_a_call_that_times_out_in_time_raises_its_own_error() -> None:
    sim = SimpleNamespace(timeline=SimpleNamespace(now=0.0))
    with pytest.raises(KafkaTimeoutError), timed(sim, "flush", 1.0):
        sim.timeline.now = 1.1
        raise KafkaTimeoutError("flush: time is over")
