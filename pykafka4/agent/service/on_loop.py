"""Runs functions on the agent's loop for other threads, and returns their results."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from threading import get_ident
from typing import TypeVar

__all__ = ["LoopCalls"]

T = TypeVar("T")
ANSWER_S = 10.0  # seconds; then the pages report a timeout


class LoopCalls:
    """Runs functions on `loop`, whose thread must create this object."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._thread = loop, get_ident()

    def __call__(self, look: Callable[[], T], /) -> T:
        """Return the result of `look`. After the loop is closed, `look` runs on the caller's thread.

        Raises TimeoutError after ANSWER_S, or the exception of `look`.
        """
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
        except RuntimeError:  # the loop is closed
            return look()
        return answer.result(ANSWER_S)
