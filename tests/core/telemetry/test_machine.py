"""The push of metrics: who is asked, when it pushes, what follows errors, and the last push."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest

from pykafka4.core import INFINITY, Failed, Reply
from pykafka4.core.telemetry.machine import MetricsSubscription, Telemetry, TelemetryState
from pykafka4.errors import ConnectionLost, UnsupportedVersion
from pykafka4.errors.codes import BY_NAME
from pykafka4.options.config import ClientConfig
from pykafka4.records import Written
from pykafka4.wire.protocol.messages_telemetry import GetTelemetrySubscriptionsResponse, PushTelemetryResponse
from pykafka4.wire.records.compression import decompress

INSTANCE = UUID(int=7)
FIGURES = b"figures" * 10
ASK, PUSH = 71, 72


class Brokers:
    """The network: `offers` are the connected brokers that take metrics."""

    def __init__(self) -> None:
        self.changes, self.offers, self.looks = 0, list[int](), 0

    def offering(self, api_key: int) -> int | None:
        self.looks += 1
        return self.offers[0] if self.offers else None

    def is_connected(self, broker: int) -> bool:
        return broker in self.offers

    def connect(self, *brokers: int) -> None:
        self.offers = list(brokers)
        self.changes += 1


class Harness:
    """A machine and its requests without a response."""

    def __init__(self, *brokers: int) -> None:
        self.now, self.figures, self.delta = 100.0, FIGURES, False
        self.brokers: Any = Brokers()
        self.brokers.connect(*brokers)
        self.machine = Telemetry(ClientConfig(bootstrap_servers="h:1"), self.brokers, Random(1), self)
        self.sent: list[Any] = []

    def encode(self, subscription: MetricsSubscription) -> bytes:
        return self.figures

    def poll(self, at: float | None = None) -> list[int]:
        """The API keys of new requests."""
        self.now = self.now if at is None else at
        effects = self.machine.poll(self.now)
        self.wake_at = effects.wake_at
        self.sent += effects.requests
        return [request.message.api_key for request in effects.requests]

    def answer(self, response: Any) -> None:
        request = self.sent.pop(0)
        request.on_reply(self.now, Reply(response, 0, request.node))

    def subscribe(self, *prefixes: str, codecs: tuple[int, ...] = (), error: str = "NONE", limit: int = 1_000) -> None:
        response = GetTelemetrySubscriptionsResponse(
            error_code=BY_NAME[error].code,
            client_instance_id=INSTANCE,
            subscription_id=3,
            accepted_compression_types=list(codecs),
            push_interval_ms=10_000,
            telemetry_max_bytes=limit,
            requested_metrics=list(prefixes),
        )
        self.answer(response)

    def pushed(self, error: str = "NONE") -> None:
        self.answer(PushTelemetryResponse(error_code=BY_NAME[error].code))

    def until_push(self, *prefixes: str, **how: Any) -> Any:
        """The first PushTelemetry."""
        assert self.poll() == [ASK]
        self.subscribe(*(prefixes or ("",)), **how)
        assert self.poll(self.machine._due) == [PUSH]
        return self.sent[0].message


def test_without_a_broker_that_takes_metrics_nothing_is_sent_and_nothing_is_done() -> None:
    harness = Harness()
    for _ in range(3):
        assert harness.poll() == []
        assert harness.wake_at == INFINITY
    assert harness.brokers.looks == 1
    harness.brokers.connect(5)
    assert harness.poll() == [ASK]
    assert harness.sent[0].node == 5


def test_the_first_push_comes_after_half_an_interval_to_one_and_a_half() -> None:
    found = set()
    for seed in range(50):
        harness = Harness(1)
        harness.machine = Telemetry(ClientConfig(bootstrap_servers="h:1"), harness.brokers, Random(seed), harness)
        harness.poll()
        harness.subscribe("")
        harness.poll()
        found.add(round(harness.wake_at - harness.now))
    assert found == set(range(5, 16))


def test_after_a_new_subscription_the_push_comes_after_a_whole_interval() -> None:
    harness = Harness(1)
    harness.until_push()
    harness.pushed("UNKNOWN_SUBSCRIPTION_ID")
    assert harness.poll() == [ASK]
    harness.subscribe("")
    assert harness.poll() == []
    assert harness.wake_at == harness.now + 10


def test_pushes_go_on_at_the_interval_to_the_same_broker() -> None:
    harness = Harness(1, 2)
    message = harness.until_push()
    assert (message.client_instance_id, message.subscription_id, message.terminating, message.metrics) == (INSTANCE, 3, False, FIGURES)
    harness.brokers.connect(2, 1)
    for _ in range(3):
        assert harness.sent[0].node == 1
        harness.pushed()
        assert harness.poll() == []
        assert harness.wake_at == harness.now + 10
        assert harness.poll(harness.now + 10) == [PUSH]


def test_another_broker_is_asked_when_the_first_is_gone() -> None:
    harness = Harness(1)
    harness.until_push()
    harness.pushed()
    harness.brokers.connect(2)
    assert harness.poll(harness.now + 10) == [PUSH]
    assert harness.sent[0].node == 2


def test_a_cluster_that_wants_nothing_is_asked_again() -> None:
    harness = Harness(1)
    assert harness.poll() == [ASK]
    harness.subscribe()
    assert not harness.machine.wanted
    assert harness.poll(harness.machine._due) == [ASK]
    assert harness.sent[0].message.client_instance_id == INSTANCE


def test_metrics_are_compressed_with_the_first_codec_that_brokers_take() -> None:
    message = Harness(1).until_push("", codecs=(4, 3))
    assert message.compression_type == 4
    assert decompress(4, message.metrics, 1_000) == FIGURES


def test_a_refused_codec_is_not_used_again() -> None:
    harness = Harness(1)
    harness.until_push("", codecs=(4,))
    harness.pushed("UNSUPPORTED_COMPRESSION_TYPE")
    assert harness.until_push("", codecs=(4,)).compression_type == 0


@pytest.mark.parametrize("error", ["UNKNOWN_SUBSCRIPTION_ID", "UNSUPPORTED_COMPRESSION_TYPE"])
def test_after_an_outdated_subscription_brokers_are_asked_at_once(error: str) -> None:
    harness = Harness(1)
    harness.until_push()
    harness.pushed(error)
    assert harness.poll() == [ASK]


@pytest.mark.parametrize("error", ["UNKNOWN_SUBSCRIPTION_ID", "UNSUPPORTED_COMPRESSION_TYPE"])
def test_a_broker_that_answers_the_question_with_such_an_error_is_asked_again_minutes_later(error: str) -> None:
    harness = Harness(1)
    assert harness.poll() == [ASK]
    harness.subscribe(error=error)
    assert harness.poll(harness.now + 299) == []
    assert harness.poll(harness.now + 1) == [ASK]


@pytest.mark.parametrize("error", ["TELEMETRY_TOO_LARGE", "THROTTLING_QUOTA_EXCEEDED", "UNKNOWN_SERVER_ERROR"])
def test_after_other_errors_the_next_push_comes_at_the_interval(error: str) -> None:
    harness = Harness(1)
    harness.until_push()
    harness.pushed(error)
    assert harness.poll(harness.now + 9) == []
    assert harness.poll(harness.now + 1) == [PUSH]


@pytest.mark.parametrize("error", ["INVALID_REQUEST", "INVALID_RECORD", "UNSUPPORTED_VERSION"])
def test_after_a_refusal_for_good_nothing_is_pushed(error: str) -> None:
    harness = Harness(1)
    harness.until_push()
    harness.pushed(error)
    assert harness.machine.state is TelemetryState.ENDED
    assert harness.poll(harness.now + 1_000) == []


def test_a_lost_request_is_repeated_later_and_one_that_brokers_do_not_know_is_not() -> None:
    harness = Harness(1)
    assert harness.poll() == [ASK]
    harness.sent.pop().on_reply(harness.now, Failed(ConnectionLost("h:1: reset"), Written.MAYBE))
    assert harness.poll(harness.now + 299) == []
    assert harness.poll(harness.now + 1) == [ASK]
    harness.sent.pop().on_reply(harness.now, Failed(UnsupportedVersion("none"), Written.NO))
    assert harness.machine.state is TelemetryState.ENDED


@pytest.mark.parametrize("figures", [b"", b"x" * 2_000])
def test_a_push_of_nothing_or_of_too_much_is_left_out(figures: bytes) -> None:
    harness = Harness(1)
    harness.figures = figures
    assert harness.poll() == [ASK]
    harness.subscribe("")
    assert harness.poll(harness.machine._due) == []
    assert harness.machine._due == harness.now + 10


def test_the_last_push_ends_with_its_response() -> None:
    harness, ended = Harness(1), list[str]()
    harness.until_push()
    harness.pushed()
    assert harness.machine.wanted
    harness.machine.end(harness.now, lambda: ended.append("ended"))
    assert harness.poll() == [PUSH]
    assert harness.sent[0].message.terminating
    assert not ended
    harness.pushed()
    assert ended == ["ended"]
    assert harness.poll(harness.now + 1_000) == []


def test_the_last_push_is_behind_one_that_is_in_flight() -> None:
    harness, ended = Harness(1), list[str]()
    harness.until_push()
    harness.machine.end(harness.now, lambda: ended.append("ended"))
    assert harness.poll() == []
    harness.pushed()
    assert harness.poll() == [PUSH]
    assert harness.sent[0].message.terminating
    assert not ended
    harness.pushed()
    assert ended == ["ended"]


def test_a_last_push_of_nothing_names_no_codec() -> None:
    harness = Harness(1)
    harness.until_push("", codecs=(4,))
    harness.pushed()
    harness.figures = b""
    harness.machine.end(harness.now, lambda: None)
    assert harness.poll() == [PUSH]
    message = harness.sent[0].message
    assert (message.terminating, message.metrics, message.compression_type) == (True, b"", 0)


def test_the_end_waits_for_nothing_if_no_broker_wants_metrics() -> None:
    harness, ended = Harness(1), list[str]()
    assert harness.poll() == [ASK]
    harness.machine.end(harness.now, lambda: ended.append("ended"))
    assert ended == ["ended"]
    harness.subscribe("")
    assert harness.poll(harness.now + 1_000) == []


def test_a_failure_is_logged_with_the_request_that_failed_and_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "pykafka4.telemetry")
    lost, harness = Failed(ConnectionLost("h:1: reset"), Written.MAYBE), Harness(1)
    assert harness.poll() == [ASK]
    harness.sent.pop().on_reply(harness.now, lost)
    assert harness.poll(harness.now + 300) == [ASK]
    harness.subscribe("")
    assert harness.poll(harness.machine._due) == [PUSH]
    harness.sent.pop().on_reply(harness.now, lost)
    assert harness.poll(harness.machine._due) == [PUSH]
    harness.pushed("TELEMETRY_TOO_LARGE")
    assert [text.partition(": ")[2] for text in caplog.messages] == [
        "brokers did not say which metrics they want: h:1: reset",
        "metrics were not pushed: h:1: reset",
        "metrics were not pushed: TELEMETRY_TOO_LARGE",
    ]
