"""Call: when a request is sent again, to whom, and which response counts."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pykafka4.core import ANY, INFINITY, Failed, Outcome, Reply, Request
from pykafka4.core.backoff import Backoff
from pykafka4.core.network.call import OTHER_BROKER_S, AnyBroker, Call, Next, Verdict, unanswered
from pykafka4.core.network.troubles import Troubles
from pykafka4.core.outbox import Outbox
from pykafka4.errors import ConnectionLost, KafkaError, KafkaTimeoutError, UnsupportedVersion
from pykafka4.records import Written

LOST = Failed(ConnectionLost("gone"), Written.MAYBE)
TOO_OLD = Failed(UnsupportedVersion("too old"), Written.NO)
NO = KafkaError("no")
LANE_1 = 1 << 32


class Leader:
    """A target that is broker 1 on a lane, until it is lost."""

    def __init__(self) -> None:
        self.address: int | None = LANE_1 + 1
        self.next: int | None = None  # the broker that is found at once when one is lost
        self.last_error: KafkaError | None = None
        self.wanted = 0
        self.troubles = Troubles("c")
        self.losses: list[tuple[int, KafkaError]] = []

    def want(self) -> None:
        self.wanted += 1

    def lost(self, now: float, node: int, reason: KafkaError) -> None:
        self.losses.append((node, reason))
        self.address = self.next


class Harness:
    """A call, and all that comes of it."""

    def __init__(self, any_broker: bool = False) -> None:
        self.avoided: list[int] = []
        self.troubles = Troubles("c")
        network: Any = self
        self.leader = Leader()
        self.message: Any = object()
        self.verdict: Verdict = None
        self.outcomes: list[Outcome] = []
        self.errors: list[KafkaError] = []
        self.outbox = Outbox()
        self.sent = self.outbox.requests
        target = AnyBroker(network) if any_broker else self.leader
        self.call = Call(target, Backoff(0.1, 1.0, Random(1)), 30.0, lambda: self.message, self.answered, self.gave_up, 3)

    def avoid(self, now: float, node: int) -> None:
        self.avoided.append(node)

    def answered(self, now: float, outcome: Outcome) -> Verdict:
        self.outcomes.append(outcome)
        return unanswered(outcome) if isinstance(outcome, Failed) else self.verdict

    def gave_up(self, now: float, error: KafkaError) -> None:
        self.errors.append(error)

    def poll(self, now: float) -> float:
        return self.call.poll(now, self.outbox)

    def ask(self, now: float) -> Request:
        before = len(self.sent)
        self.poll(now)
        (request,) = self.sent[before:]
        return request

    def reply(self, request: Request, now: float, node: int = 1) -> None:
        request.on_reply(now, Reply(self.message, 1, node))

    @property
    def answers(self) -> list[int]:
        return [outcome.node for outcome in self.outcomes if isinstance(outcome, Reply)]


@pytest.fixture
def h() -> Harness:
    return Harness()


@pytest.fixture
def anyone() -> Harness:
    return Harness(any_broker=True)


# ---------------------------------------------------------------- what is sent


def test_a_request_goes_to_the_target_with_its_full_timeout(h: Harness) -> None:
    request = h.ask(5.0)
    assert (request.node, request.message, request.deadline, request.max_version) == (LANE_1 + 1, h.message, 35.0, 3)


def test_only_one_request_is_in_flight(h: Harness) -> None:
    request = h.ask(0.0)
    assert h.call.in_flight
    assert h.poll(100.0) == INFINITY
    assert h.sent == [request]
    h.reply(request, 101.0)
    assert not h.call.in_flight
    assert h.ask(101.0) is not request


def test_an_unknown_target_is_wanted_and_nothing_is_sent(h: Harness) -> None:
    h.leader.address = None
    assert h.poll(0.0) == INFINITY
    assert (h.sent, h.leader.wanted) == ([], 1)


def test_a_target_that_is_lost_while_a_request_is_in_flight_is_wanted(h: Harness) -> None:
    h.ask(0.0)
    h.leader.address = None
    h.poll(1.0)
    assert (len(h.sent), h.leader.wanted) == (1, 1)


# ---------------------------------------------------------------- what an outcome means


def test_success_is_neither_repeated_after_a_back_off_nor_reported(h: Harness) -> None:
    h.reply(h.ask(0.0), 1.0)
    assert (h.leader.losses, h.errors, h.call.last_error) == ([], [], None)
    assert h.ask(1.0)


def test_a_retry_waits_for_a_back_off_that_grows_until_it_is_reset(h: Harness) -> None:
    h.verdict, now, pauses = (Next.RETRY, NO), 0.0, []
    for _ in range(3):
        h.reply(h.ask(now), now)
        pauses.append(h.poll(now) - now)
        now += pauses[-1]
    assert pauses == pytest.approx([0.1, 0.2, 0.4], rel=0.2)
    assert (h.leader.losses, h.errors) == ([], [])
    assert h.call.last_error is NO
    h.call.reset()
    assert h.call.last_error is None
    h.reply(h.ask(now), now)
    assert h.poll(now) - now == pytest.approx(0.1, rel=0.2)


def test_elsewhere_loses_the_target_and_the_next_one_is_asked_at_once(h: Harness) -> None:
    h.verdict, h.leader.next = (Next.ELSEWHERE, NO), 2
    h.reply(h.ask(0.0), 1.0)
    assert h.leader.losses == [(1, NO)]
    assert h.call.last_error is NO
    assert h.ask(1.0).node == 2


def test_elsewhere_waits_for_a_back_off_if_the_target_is_the_same_as_before(h: Harness) -> None:
    h.verdict, h.leader.next = (Next.ELSEWHERE, NO), h.leader.address
    h.reply(h.ask(0.0), 1.0)
    assert h.poll(1.0) == pytest.approx(1.1, rel=0.2)
    assert len(h.sent) == 1


def test_a_retry_does_not_wait_for_a_target_that_has_moved(h: Harness) -> None:
    request = h.ask(0.0)
    h.verdict, h.leader.address = (Next.RETRY, NO), 2
    h.reply(request, 1.0)
    assert h.ask(1.0).node == 2


def test_a_lost_connection_is_a_lost_target(h: Harness) -> None:
    h.ask(0.0).on_reply(1.0, LOST)
    assert h.leader.losses == [(1, LOST.reason)]
    assert h.errors == []


def test_what_no_retry_can_cure_is_reported_once_and_repeated_only_after_a_back_off(h: Harness) -> None:
    h.ask(0.0).on_reply(1.0, TOO_OLD)
    assert (h.errors, h.leader.losses) == ([TOO_OLD.reason], [])
    assert h.poll(1.0) == pytest.approx(1.1, rel=0.2)


def test_a_request_for_another_purpose_does_not_wait(h: Harness) -> None:
    h.verdict = (Next.RETRY, NO)
    h.reply(h.ask(0.0), 1.0)
    h.call.start_over()
    assert h.call.last_error is None
    assert h.ask(1.0)


def test_a_rest_is_a_back_off_without_a_request(h: Harness) -> None:
    h.call.back_off(0.0, NO)
    assert h.call.last_error is NO
    assert h.poll(0.0) == pytest.approx(0.1, rel=0.2)


def test_a_timeout_names_the_last_error_of_the_call_or_else_of_its_target(h: Harness) -> None:
    def text() -> str:
        error = h.call.timed_out("commit: timed out")
        assert isinstance(error, KafkaTimeoutError)
        return str(error)

    assert text() == "commit: timed out (last error: none)"
    h.leader.last_error = KafkaError("no coordinator")
    assert text() == "commit: timed out (last error: no coordinator)"
    h.call.back_off(0.0, NO)
    assert text() == "commit: timed out (last error: no)"


# ---------------------------------------------------------------- any broker


def test_a_broker_that_refuses_is_avoided_and_no_broker_is_asked_before_a_back_off(anyone: Harness) -> None:
    anyone.verdict = (Next.ELSEWHERE, NO)
    anyone.reply(anyone.ask(0.0), 1.0, node=2)
    assert anyone.avoided == [2]
    assert anyone.poll(1.0) == pytest.approx(1.1, rel=0.2)


def test_which_broker_was_lost_is_unknown(anyone: Harness) -> None:
    request = anyone.ask(0.0)
    assert request.node == ANY
    request.on_reply(1.0, LOST)
    assert anyone.avoided == []
    assert anyone.poll(1.0) == pytest.approx(1.1, rel=0.2)


def test_another_broker_is_asked_when_one_is_silent(anyone: Harness) -> None:
    anyone.ask(5.0)
    assert anyone.poll(6.0) == 5.0 + OTHER_BROKER_S
    anyone.ask(5.0 + OTHER_BROKER_S)
    assert anyone.poll(5.0 + OTHER_BROKER_S) == 5.0 + 2 * OTHER_BROKER_S


@pytest.mark.parametrize("first", [0, 1])
def test_the_first_response_counts_whoever_gives_it(anyone: Harness, first: int) -> None:
    requests = [anyone.ask(0.0), anyone.ask(OTHER_BROKER_S)]
    anyone.reply(requests[first], 4.0, node=1)
    anyone.reply(requests[1 - first], 5.0, node=2)
    assert anyone.answers == [1]


def test_the_silent_one_that_fails_at_last_is_ignored(anyone: Harness) -> None:
    silent, other = anyone.ask(0.0), anyone.ask(OTHER_BROKER_S)
    silent.on_reply(4.0, LOST)
    assert anyone.call.in_flight
    other.on_reply(5.0, LOST)
    assert anyone.outcomes == [LOST]


@pytest.mark.parametrize("asked_again", [False, True], ids=["during the backoff", "after the next request"])
def test_a_late_response_that_ends_the_call_counts(anyone: Harness, asked_again: bool) -> None:
    silent, other = anyone.ask(0.0), anyone.ask(OTHER_BROKER_S)
    other.on_reply(3.1, LOST)
    third = [anyone.ask(4.0)] if asked_again else []
    anyone.reply(silent, 4.0, node=1)
    assert not anyone.call.in_flight
    for request in [*third, anyone.ask(8.0)]:  # what is left of the call that is over does not count in the next one
        anyone.reply(request, 9.0, node=3)
    assert anyone.answers == [1, 3]


def test_a_slow_broker_is_heard_although_the_others_refuse_at_once(anyone: Harness) -> None:
    """Otherwise, while it takes longer than OTHER_BROKER_S, each refusal of another one would void its response, for ever."""
    silent, other = anyone.ask(0.0), anyone.ask(OTHER_BROKER_S)
    anyone.verdict = (Next.ELSEWHERE, NO)
    anyone.reply(other, OTHER_BROKER_S, node=2)
    anyone.reply(anyone.ask(3.5), 3.5, node=2)
    anyone.verdict = None
    anyone.reply(silent, 4.0, node=1)
    assert anyone.answers == [2, 2, 1]
    assert not anyone.call.in_flight


@pytest.mark.parametrize("then", [Next.RETRY, Next.ELSEWHERE, Next.GIVE_UP])
def test_a_late_response_that_does_not_end_the_call_changes_nothing(anyone: Harness, then: Next) -> None:
    silent, other = anyone.ask(0.0), anyone.ask(OTHER_BROKER_S)
    other.on_reply(3.1, LOST)
    anyone.ask(4.0)
    anyone.verdict = (then, NO)
    anyone.reply(silent, 4.5, node=1)
    assert anyone.call.in_flight
    assert anyone.avoided == anyone.errors == []


def test_a_late_failure_is_ignored(anyone: Harness) -> None:
    silent, other = anyone.ask(0.0), anyone.ask(OTHER_BROKER_S)
    other.on_reply(3.1, LOST)
    silent.on_reply(3.1, LOST)
    assert anyone.outcomes == [LOST]


def test_a_failure_after_another_broker_refused_is_ignored(anyone: Harness) -> None:
    first, other = anyone.ask(0.0), anyone.ask(OTHER_BROKER_S)
    anyone.verdict = (Next.ELSEWHERE, NO)
    anyone.reply(first, 3.1, node=1)
    other.on_reply(3.1, LOST)
    assert anyone.answers == [1]
    assert len(anyone.outcomes) == 1


def test_after_the_owner_was_told_late_responses_are_ignored(anyone: Harness) -> None:
    silent, other = anyone.ask(0.0), anyone.ask(OTHER_BROKER_S)
    other.on_reply(3.1, TOO_OLD)
    anyone.reply(silent, 4.0, node=1)
    assert anyone.answers == []
