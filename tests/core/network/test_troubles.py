"""Troubles: what is retried without end is logged rarely, with its usual cause, and shown while it lasts."""

from __future__ import annotations

import logging
import weakref
from random import Random
from typing import Any

import pytest

from pykafka4.core import Reply
from pykafka4.core.backoff import Backoff
from pykafka4.core.network.call import AnyBroker, Call, Next
from pykafka4.core.network.troubles import GAP_S, REPEAT_S, STALE_S, WARN_AFTER_S, Troubles
from pykafka4.core.outbox import Outbox
from pykafka4.errors import ConnectionLost, KafkaError, broker_error
from tests.core.network.network_harness import NetworkHarness

NONE = broker_error(15, "coordinator of group g")


def test_an_error_without_end_is_logged_after_some_seconds_and_rarely_again(caplog: pytest.LogCaptureFixture) -> None:
    troubles = Troubles("c")
    for second in range(100):
        troubles.note(float(second), "what", NONE)
        assert (troubles.reason(float(second)) is None) == (second < WARN_AFTER_S)
    assert len(caplog.records) == 1 + (99 - WARN_AFTER_S) // REPEAT_S
    assert "COORDINATOR_NOT_AVAILABLE" in caplog.text
    assert "offsets.topic.replication.factor" in caplog.text
    troubles.over("what")
    assert troubles.reason(100.0) is None


def test_an_error_that_ends_soon_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    troubles = Troubles("c")
    for second in range(0, 100, 4):
        troubles.note(float(second), "what", NONE)
        troubles.note(second + 1.0, "what", NONE)
        troubles.over("what")
    assert caplog.records == []


@pytest.mark.parametrize("ends", [None, (Next.GIVE_UP, NONE)], ids=["success", "given up"])
def test_a_call_reports_what_it_repeats_until_it_ends(ends: Any) -> None:
    network: Any = NetworkHarness().network
    verdicts: list[Any] = [(Next.RETRY, NONE)] * 10
    call = Call(AnyBroker(network), Backoff(1.0, 1.0, Random(1)), 30.0, object, lambda now, outcome: verdicts.pop(0), lambda *_: None)
    outbox = Outbox()
    sent, now = outbox.requests, 0.0
    for _ in range(10):
        now = max(now, call.poll(now, outbox) if not sent else now)
        call.poll(now, outbox)
        sent.pop().on_reply(now, Reply(None, 0, 1))
    assert "COORDINATOR_NOT_AVAILABLE" in str(network.troubles.reason(now))
    verdicts.append(ends)
    call.poll(now + 2.0, outbox)
    sent.pop().on_reply(now + 2.0, Reply(None, 0, 1))
    assert network.troubles.reason(now + 10.0) is None


def test_a_client_without_a_reachable_broker_says_so_again_and_again(caplog: pytest.LogCaptureFixture) -> None:
    harness = NetworkHarness(bootstrap_servers="b1:1").placed()
    harness.network.want(2)
    with caplog.at_level(logging.WARNING):
        harness.outage(0.0, 100.0)
        assert [("no broker reachable" in line.getMessage()) for line in caplog.records][1:] == [True, True, True]
        now = 100.0
        while not harness.poll(now).connect:
            now = max(now, harness.effects.wake_at)
        harness.accept(now)
        before = len(caplog.records)
        harness.network.lost(now + 1.0, harness.connects[-1].link, ConnectionLost("reset"))
        harness.outage(now + 2.0, now + 20.0)
    assert len(caplog.records) == before, "another outage begins"


def test_the_reason_is_the_latest_error_of_the_oldest_trouble() -> None:
    troubles = Troubles("c")
    troubles.note(0.0, "old", KafkaError("first"))
    troubles.note(1.0, "new", KafkaError("other"))
    troubles.note(WARN_AFTER_S + 1.0, "new", KafkaError("other"))
    troubles.note(WARN_AFTER_S + 2.0, "old", KafkaError("second"))
    assert troubles.reason(WARN_AFTER_S + 2.0) == "second"


def test_one_failure_and_failures_that_nobody_retries_any_more_are_no_reason() -> None:
    troubles = Troubles("c")
    troubles.note(0.0, "once", NONE)
    assert troubles.reason(WARN_AFTER_S + 1.0) is None
    troubles.note(WARN_AFTER_S, "once", NONE)
    assert troubles.reason(WARN_AFTER_S + STALE_S) is not None
    assert troubles.reason(WARN_AFTER_S + STALE_S + 1.0) is None
    troubles.note(WARN_AFTER_S + STALE_S + 1.0, "once", NONE)
    assert troubles.reason(WARN_AFTER_S + STALE_S + 1.0) is None, "it begins anew"


def test_an_error_of_requests_that_take_longer_than_a_minute_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    troubles = NetworkHarness(request_timeout_ms=300_000).network.troubles
    for attempt in range(3):
        troubles.note(attempt * 301.0, "what", NONE)
    assert len(caplog.records) == 2
    assert troubles.reason(2 * 301.0 + 300.0) is not None


def test_attempts_that_ended_without_an_outcome_are_forgotten() -> None:
    troubles, keys = Troubles("c"), [KafkaError(str(number)) for number in range(100)]
    references = [weakref.ref(key) for key in keys]
    for now, key in enumerate(keys):
        troubles.note(float(now), key, NONE)
    keys.clear()
    del key
    troubles.note(100.0 + STALE_S, "another", NONE)
    assert [reference for reference in references if reference() is not None] == []


def test_of_many_causes_one_is_logged_at_a_time(caplog: pytest.LogCaptureFixture) -> None:
    troubles = Troubles("c")
    for second in range(60):
        for partition in range(1000):
            troubles.note(float(second), partition, NONE)
    assert len(caplog.records) == (59 - WARN_AFTER_S) // GAP_S + 1
