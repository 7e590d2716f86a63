"""Marks the steps of a reader. Invariant: `changing` stays set after a step that Ctrl-C has left in the middle."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

__all__ = ["step"]

Step = TypeVar("Step", bound=Callable[..., Any])


class StepOwner(Protocol):
    """An object with steps, such as a `Reader`."""

    changing: bool


def step(method: Step) -> Step:
    """`changing` is set until the step returns. After an exception, which only a signal handler can raise, `changing` stays set."""

    @wraps(method)
    def run(self: StepOwner, *args: Any) -> Any:
        before, self.changing = self.changing, True  # steps call steps: the inner one must not clear the mark of the outer one
        result = method(self, *args)
        self.changing = before
        return result

    return cast(Step, run)
