"""Runs code that waits, on threads and in tasks. The code is written only once, as generators.

On a thread, `at_once` runs such a generator (`Steps`) to its end: its waits block, and never yield. In asyncio the generator runs as part
of a task. It is not a coroutine, because Ctrl-C between the call and the first step would leave a coroutine that was never awaited,
about which Python warns.
"""

from __future__ import annotations

from collections.abc import Generator
from inspect import isawaitable
from typing import Any, TypeAlias, TypeVar

__all__ = ["Steps", "at_once", "awaited"]

T = TypeVar("T")
Steps: TypeAlias = Generator[Any, None, T]


def at_once(steps: Steps[T]) -> T:
    try:
        next(steps)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("a thread's wait has yielded")


def awaited(result: Any) -> Steps[Any]:
    """The outcome of a call that blocks on a thread, but returns an awaitable in a task; `result` is the return value."""
    return (yield from result.__await__()) if isawaitable(result) else result
