"""A run with very many keys: what a poll looks at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest

from pykafka4.core import Failed, Reply
from pykafka4.core.admin.calls import in_doubt
from pykafka4.core.admin.question_run import CHECK_S, BrokerChoice, Question, QuestionRun, Refusal, RunContext
from pykafka4.core.outbox import Outbox
from pykafka4.errors import ConnectionLost, KafkaError, broker_error
from pykafka4.errors.codes import BY_NAME
from pykafka4.options.config import ClientConfig
from pykafka4.records import Written

MANY = 500
LOADING = Refusal(BY_NAME["COORDINATOR_LOAD_IN_PROGRESS"].code)


class OneAtATime(Question[int, bool]):
    """As of a broker that takes one key in a request."""

    api = "Question"
    many_from = 1

    def __init__(self) -> None:
        self.found: bool | Refusal = True

    def message(self, keys: Sequence[int]) -> list[int]:
        return list(keys)

    def read(self, keys: Sequence[int], reply: Reply) -> Mapping[int, bool | Refusal]:
        return {keys[0]: self.found}

    def what(self, key: int) -> str:
        return str(key)

    def error(self, key: int, refusal: Refusal) -> KafkaError:
        return broker_error(refusal.code, str(key), None, self.api)


class Changing(OneAtATime):
    changes = True


class Counted(BrokerChoice[int]):
    """Broker 1, once it is known. Counts the looks at keys."""

    def __init__(self) -> None:
        self.looks = 0
        self.known = True

    def node(self, key: int) -> int | None:
        self.looks += 1
        return 1 if self.known else None


class Bench:
    """A run with many keys, whose requests the test answers."""

    def __init__(self, question: OneAtATime | None = None, many: int = MANY) -> None:
        outbox = Outbox()
        self.requests = outbox.requests
        self.settled: dict[int, Any] = {}
        self.question, self.choice = question or OneAtATime(), Counted()
        config = ClientConfig.parse({"bootstrap_servers": "b:1", "retry_backoff_ms": 100})
        context = RunContext(config, Random(1), (0, 0, 0), outbox, lambda: "")
        self.run = QuestionRun(context, self.question, self.choice, self.settled.__setitem__, 1000.0, 1000.0)
        self.run.add(range(many))

    def answer(self, now: float) -> None:
        """Each request on its own, with a poll after each."""
        while self.requests:
            self.requests.pop(0).on_reply(now, Reply(None, 0, 1))
            self.run.poll(now)


def test_a_poll_looks_only_at_keys_with_news() -> None:
    bench = Bench()
    bench.run.poll(0.0)
    bench.answer(0.0)
    assert len(bench.settled) == MANY
    assert bench.choice.looks <= 3 * MANY


def test_a_poll_looks_only_at_keys_whose_back_off_is_over() -> None:
    bench = Bench()
    bench.question.found = LOADING
    bench.run.poll(0.0)
    bench.answer(0.0)
    bench.question.found = True
    bench.choice.looks = 0
    while bench.run.open:  # every key has a backoff of its own
        now = bench.run.wake_at
        assert 0.0 < now < 1.0
        bench.run.poll(now)
        bench.answer(now)
    assert set(bench.settled.values()) == {True}
    assert bench.choice.looks <= 3 * MANY


def test_keys_whose_broker_is_not_known_are_looked_at_from_time_to_time_and_when_it_is_found() -> None:
    bench = Bench()
    bench.choice.known = False
    for number in range(5):
        bench.run.check_all()
        bench.run.poll(number / 100)
    assert bench.choice.looks == 5 * MANY
    assert bench.run.poll(0.1) == CHECK_S
    bench.run.poll(CHECK_S)
    assert bench.choice.looks == 6 * MANY  # not once more for each time before
    bench.choice.known = True
    bench.run.placed("a group that is none of the keys")
    assert bench.run.wake_at > CHECK_S
    bench.run.check_all()
    bench.run.poll(0.3)
    bench.answer(0.3)
    assert len(bench.settled) == MANY


UNREADABLE = Failed(KafkaError("the response cannot be read"), Written.MAYBE)
LOST = Failed(ConnectionLost("reset"), Written.MAYBE)
TOO_OLD = Failed(KafkaError("the broker is too old"), Written.NO)


@pytest.mark.parametrize(
    ("question", "failures", "doubtful"),
    [
        (Changing, [UNREADABLE], True),
        (Changing, [LOST, TOO_OLD], True),
        (Changing, [TOO_OLD], False),
        (OneAtATime, [UNREADABLE], False),
    ],
)
def test_a_change_whose_response_was_lost_is_in_doubt_after_an_error_that_ends_it(
    question: type[OneAtATime], failures: list[Failed], doubtful: bool
) -> None:
    bench = Bench(question(), many=1)
    for failure in failures:
        while not bench.requests:
            bench.run.poll(max(0.0, bench.run.wake_at))
        bench.requests.pop(0).on_reply(0.0, failure)
    assert str(bench.settled[0]) == str(failures[-1].reason)
    assert in_doubt(bench.settled[0]) is doubtful
