"""Marks the steps of a reader. Invariant: `changing` stays set after a step that Ctrl-C has left in the middle."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

from pykafka4.errors import KafkaError

__all__ = ["step"]

Step = TypeVar("Step", bound=Callable[..., Any])


class Steps(Protocol):
    """An object with steps."""

    changing: bool


def step(method: Step) -> Step:
    """A step: `changing` is set until it returns, or raises a KafkaError, which it expects. After any other exception it stays set."""

    @wraps(method)
    def run(self: Steps, *args: Any) -> Any:
        before, self.changing = self.changing, True
        try:
            result = method(self, *args)
        except KafkaError:
            self.changing = before
            raise
        self.changing = before
        return result

    return cast(Step, run)
