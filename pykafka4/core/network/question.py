"""Question. Rule: if a broker does not respond in time, another one is asked, too; the first response counts, later ones are ignored.

For requests that any broker can process, and that may be repeated. The first request keeps its full time-out: abandoning it would close a
connection that others use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykafka4.core import ANY, INFINITY, Failed, Outcome, Request

__all__ = ["PATIENCE", "Question"]

PATIENCE = 3.0  # seconds until another broker is asked


class Question:
    """A request to any broker, repeated with other brokers; `on_answer` is called once per question."""

    __slots__ = ("_first", "_latest", "_on_answer", "again_at")

    def __init__(self, on_answer: Callable[[float, Outcome], None]) -> None:
        self._on_answer = on_answer
        self._first = self._latest = 0  # numbers of the requests of the current question
        self.again_at = INFINITY  # when to ask another broker; INFINITY while no question is open

    @property
    def open(self) -> bool:
        """Whether a response is awaited."""
        return self.again_at < INFINITY

    def ask(self, now: float, message: Any, timeout: float, max_version: int | None = None) -> Request:
        """The request to send: of a new question, or a repetition of the open one."""
        self._latest += 1
        if not self.open:
            self._first = self._latest
        self.again_at = now + PATIENCE
        number = self._latest
        return Request(ANY, message, now + timeout, lambda at, outcome: self._ended(at, number, outcome), max_version)

    def _ended(self, now: float, number: int, outcome: Outcome) -> None:
        outdated = number < self._first or (number < self._latest and isinstance(outcome, Failed))
        if self.open and not outdated:
            self.again_at = INFINITY
            self._on_answer(now, outcome)
