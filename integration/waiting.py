"""Waits for conditions. Invariant: every wait names its condition, has a deadline on the monotonic clock, and evaluates the condition again
after at most 0.25 s."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["Deadline", "WaitTimeout", "until"]

T = TypeVar("T")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.01, 0.25


class WaitTimeout(AssertionError):
    """Raised if the condition of a wait does not hold in time; an AssertionError, because a test that waits asserts the condition."""


class Deadline:
    """A moment on the monotonic clock; `left()` is never negative."""

    __slots__ = ("at",)

    def __init__(self, seconds: float) -> None:
        self.at = time.monotonic() + seconds

    def left(self) -> float:
        return max(0.0, self.at - time.monotonic())

    def passed(self) -> bool:
        return time.monotonic() >= self.at


def until(
    condition: Callable[[], T | None],
    timeout: float,
    what: str | Callable[[], str],
    *,
    forgive: tuple[type[BaseException], ...] = (),
) -> T:
    """Wait for the first truthy answer of `condition`, and return it. `what` is the end of the sentence "waited 5 s for …"; a callable is
    called when the sentence is needed.

    Exceptions of the classes in `forgive` count as "not yet"; the last one is the cause of the `WaitTimeout`.
    """
    deadline, pause = Deadline(timeout), FIRST_PAUSE_S
    last: BaseException | None = None
    while True:
        try:
            answer = condition()
            last = None
        except forgive as error:
            answer, last = None, error
        if answer:
            return answer
        if deadline.passed():
            because = f" ({type(last).__name__}: {last})" if last is not None else ""
            raise WaitTimeout(f"waited {timeout:g} s for {what() if callable(what) else what}{because}") from last
        time.sleep(min(pause, deadline.left()))
        pause = min(pause * 1.5, LONGEST_PAUSE_S)
