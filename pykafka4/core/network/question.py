"""Question. Rule: who does not answer in time is not the only one asked any more; the first answer counts, later ones are not heard.

For questions that any broker can answer, as often as one likes. The request itself keeps its full time: giving it up would close a
connection that others use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykafka4.core import ANY, INFINITY, Failed, Outcome, Request

__all__ = ["PATIENCE", "Question"]

PATIENCE = 3.0  # seconds


class Question:
    """Something to ask any broker; `on_answer` hears once per question what became of it."""

    __slots__ = ("_first", "_latest", "_on_answer", "again_at")

    def __init__(self, on_answer: Callable[[float, Outcome], None]) -> None:
        self._on_answer = on_answer
        self._first = self._latest = 0  # numbers of the requests that ask the present question
        self.again_at = INFINITY  # when to ask another broker; INFINITY while nothing is asked

    @property
    def open(self) -> bool:
        """Whether an answer is awaited."""
        return self.again_at < INFINITY

    def ask(self, now: float, message: Any, timeout: float, max_version: int | None = None) -> Request:
        """The request to send: a new question, or the one that is open once more."""
        self._latest += 1
        if not self.open:
            self._first = self._latest
        self.again_at = now + PATIENCE
        number = self._latest
        return Request(ANY, message, now + timeout, lambda at, outcome: self._heard(at, number, outcome), max_version)

    def _heard(self, now: float, number: int, outcome: Outcome) -> None:
        outdated = number < self._first or (number < self._latest and isinstance(outcome, Failed))
        if self.open and not outdated:
            self.again_at = INFINITY
            self._on_answer(now, outcome)
