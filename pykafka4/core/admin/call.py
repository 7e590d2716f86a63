"""Runs one call, which asks one or more questions. Invariant: `done` is called only when each expected key has an outcome."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any, TypeVar

from pykafka4.core.admin.broker_choices import LeaderChoice
from pykafka4.core.admin.machine import AdminMachine
from pykafka4.core.admin.question_run import BrokerChoice, Question, QuestionRun
from pykafka4.errors import KafkaError

__all__ = ["Ask", "Begin", "Call", "Done", "Settled"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Done = Callable[[dict[Any, Any]], None]
Begin = Callable[[AdminMachine, float, float, Done], Callable[[], None]]  # (machine, now, seconds, done); its result stops the call
Ask = Callable[[Iterable[K]], None]
Settled = Callable[[K, "V | KafkaError"], None]


class Call:
    """`done` is called with the outcomes of all expected keys, unless the call is stopped earlier."""

    def __init__(self, machine: AdminMachine, now: float, seconds: float, done: Done) -> None:
        self.machine = machine
        self._began, self._seconds, self._done = now, seconds, done
        self._expected: dict[Any, None] = {}
        self._found: dict[Any, Any] = {}
        self._runs: list[QuestionRun[Any, Any]] = []
        self.topics = LeaderChoice(machine.cluster)  # keeps the metadata of topics until the call ends
        machine.hold(self.topics)

    def question(self, question: Question[K, V], choice: BrokerChoice[K], settled: Settled[K, V], within: float | None = None) -> Ask[K]:
        """Add a question that ends by the call's deadline, or `within` seconds after the call's start. Return a function that adds keys."""
        seconds = self._seconds if within is None else within
        run = self.machine.new_run(question, choice, settled, self._began + seconds, seconds)
        self._runs.append(run)
        return partial(self.machine.add, run)

    def begin(self, keys: Iterable[Any], ask: Ask[Any]) -> Callable[[], None]:
        """Ask the first question about `keys`, and expect their outcomes. Return a function that stops the call."""
        self.expect(keys)
        ask(list(self._expected))
        return self.started()

    def started(self) -> Callable[[], None]:
        """End the call if each expected key has an outcome already. Return a function that stops the call."""
        self._check()
        return self._stop

    def expect(self, keys: Iterable[Any]) -> None:
        self._expected.update(dict.fromkeys(keys))

    def settle(self, key: Any, outcome: Any) -> None:
        """Keep only the first outcome of `key`. The last expected outcome ends the call."""
        if key not in self._found:
            self._found[key] = outcome
            self._check()

    def _stop(self) -> None:
        self.machine.stop(*self._runs)
        self.machine.release(self.topics)

    def _check(self) -> None:
        if len(self._found) == len(self._expected):
            self.machine.release(self.topics)
            self._done({key: self._found[key] for key in self._expected})
