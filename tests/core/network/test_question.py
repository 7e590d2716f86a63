"""Question: another broker is asked when one is silent, and each question has one answer."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.core import ANY, INFINITY, Failed, Outcome, Reply
from pykafka4.core.network.question import PATIENCE, Question
from pykafka4.error_table import Written
from pykafka4.errors import ConnectionLost

LOST = Failed(ConnectionLost("gone"), Written.MAYBE)
HELLO: Any = object()


class Asking:
    def __init__(self) -> None:
        self.answers: list[Outcome] = []
        self.question = Question(lambda now, outcome: self.answers.append(outcome))

    def ask(self, now: float = 0.0) -> Any:
        return self.question.ask(now, HELLO, 30.0, 3)


@pytest.fixture
def asking() -> Asking:
    return Asking()


def told(node: int) -> Reply:
    return Reply(HELLO, 1, node)


def test_a_question_is_pending_until_it_is_answered(asking: Asking) -> None:
    assert (asking.question.open, asking.question.again_at) == (False, INFINITY)
    request = asking.ask(5.0)
    assert (request.node, request.message, request.deadline, request.max_version) == (ANY, HELLO, 35.0, 3)
    assert (asking.question.open, asking.question.again_at) == (True, 5.0 + PATIENCE)
    request.on_reply(6.0, LOST)
    assert asking.answers == [LOST]
    assert not asking.question.open


@pytest.mark.parametrize("first", [0, 1])
def test_the_first_answer_counts_whoever_gives_it(asking: Asking, first: int) -> None:
    requests = [asking.ask(0.0), asking.ask(PATIENCE)]
    requests[first].on_reply(4.0, told(1))
    requests[1 - first].on_reply(5.0, told(2))
    assert [answer.node for answer in asking.answers if isinstance(answer, Reply)] == [1]


def test_a_late_failure_of_a_silent_broker_is_ignored(asking: Asking) -> None:
    silent, other = asking.ask(0.0), asking.ask(PATIENCE)
    silent.on_reply(4.0, LOST)
    assert asking.question.open
    other.on_reply(5.0, LOST)
    assert asking.answers == [LOST]


def test_late_answers_are_no_answers_to_the_next_question(asking: Asking) -> None:
    silent, other = asking.ask(0.0), asking.ask(PATIENCE)
    other.on_reply(4.0, LOST)
    third = asking.ask(5.0)
    silent.on_reply(6.0, told(1))
    assert asking.answers == [LOST]
    third.on_reply(7.0, told(3))
    assert [answer.node for answer in asking.answers if isinstance(answer, Reply)] == [3]
