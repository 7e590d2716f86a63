"""Calls functions on the agent's loop, from other threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from threading import get_ident
from typing import TypeVar

__all__ = ["LoopCalls"]

T = TypeVar("T")
ANSWER_S = 10.0


class LoopCalls:
    """Calls on the loop that runs where this is created."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._thread = loop, get_ident()

    def __call__(self, look: Callable[[], T], /) -> T:
        """The result of `look`, called on the loop; here, if this is the loop's thread or the loop has ended. Raises TimeoutError."""
        if get_ident() == self._thread:
            return look()
        answer: Future[T] = Future()

        def answer_with() -> None:
            try:
                answer.set_result(look())
            except BaseException as error:
                answer.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(answer_with)
        except RuntimeError:  # closed: nothing else calls on it
            return look()
        return answer.result(ANSWER_S)
