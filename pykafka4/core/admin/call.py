"""A stateless call: its questions, and the outcome of each key. Invariant: it ends once, when each key that is expected has one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any, TypeVar

from pykafka4.core.admin.machine import AdminMachine
from pykafka4.core.admin.places import Leaders
from pykafka4.core.admin.work import Place, Question, Work
from pykafka4.errors import KafkaError

__all__ = ["Ask", "Begin", "Call", "Done", "Settled"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Done = Callable[[dict[Any, Any]], None]
Begin = Callable[[AdminMachine, float, float, Done], Callable[[], None]]  # (machine, now, seconds, done): returns what ends the call
Ask = Callable[[Iterable[K]], None]
Settled = Callable[[K, "V | KafkaError"], None]


class Call:
    """One call under way. `done` is called with the outcome of each key that is expected, as soon as all have one."""

    def __init__(self, machine: AdminMachine, now: float, seconds: float, done: Done) -> None:
        self.machine = machine
        self._began, self._seconds, self._done = now, seconds, done
        self._expected: dict[Any, None] = {}
        self._found: dict[Any, Any] = {}
        self._works: list[Work[Any, Any]] = []
        self.topics = Leaders(machine.cluster)  # keeps the metadata of topics until the call ends
        machine.hold(self.topics)

    def question(self, question: Question[K, V], place: Place[K], settled: Settled[K, V], within: float | None = None) -> Ask[K]:
        """A question of this call, which ends with it, or `within` so many seconds of its beginning: returns what asks it about keys."""
        seconds = self._seconds if within is None else within
        work = self.machine.work(question, place, settled, self._began + seconds, seconds)
        self._works.append(work)
        return partial(self.machine.add, work)

    def begin(self, keys: Iterable[Any], ask: Ask[Any]) -> Callable[[], None]:
        """Ask the first question; returns what ends the call if nobody waits any more."""
        self.expect(keys)
        ask(list(self._expected))
        return self.started()

    def started(self) -> Callable[[], None]:
        """All first questions are asked; returns what ends the call if nobody waits any more."""
        self._check()
        return self._stop

    def expect(self, keys: Iterable[Any]) -> None:
        """Wait for the outcomes of these, too."""
        self._expected.update(dict.fromkeys(keys))

    def settle(self, key: Any, outcome: Any) -> None:
        """The outcome of a key. The first one counts."""
        if key not in self._found:
            self._found[key] = outcome
            self._check()

    def _stop(self) -> None:
        self.machine.stop(*self._works)
        self.machine.release(self.topics)

    def _check(self) -> None:
        if len(self._found) == len(self._expected):
            self.machine.release(self.topics)
            self._done({key: self._found[key] for key in self._expected})
