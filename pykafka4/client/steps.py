"""Code that waits, written once for threads and tasks, as generators.

A function that returns `Steps` is run to its end: on a thread by `at_once`, where its waits block and never yield; in asyncio as part of a
task. Generators and not coroutines: Ctrl-C between the call and the first step leaves nothing behind that has to be awaited.
"""

from __future__ import annotations

from collections.abc import Generator
from inspect import isawaitable
from typing import Any, TypeAlias, TypeVar

__all__ = ["Steps", "at_once", "awaited"]

T = TypeVar("T")
Steps: TypeAlias = Generator[Any, None, T]


def at_once(steps: Steps[T]) -> T:
    """Run steps whose waits block the thread."""
    try:
        next(steps)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("a thread's wait has yielded")


def awaited(result: Any) -> Steps[Any]:
    """The outcome of a call that blocks on a thread, and returns an awaitable in a task."""
    return (yield from result.__await__()) if isawaitable(result) else result
