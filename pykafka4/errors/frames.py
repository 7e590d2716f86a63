"""Frames. Rule: an error that is logged or leaves this package shows where it was raised, but keeps no local variable of that place.

Tools that report errors show the local variables of each frame. Those of this package hold options, the contents of key files, and messages
to brokers. So they are emptied; file, line and function stay.
"""

from __future__ import annotations

import contextlib
import functools
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Final, ParamSpec, TypeVar

__all__ = ["empty_frames", "guarded", "place_of"]

PACKAGE: Final = __name__.partition(".")[0]
P = ParamSpec("P")
T = TypeVar("T")


def empty_frames(error: BaseException) -> None:
    """Delete the local variables of this package's frames that have ended, and of what they called; also of causes and contexts."""
    seen: list[BaseException] = []
    waiting = [error]
    while waiting:
        found = waiting.pop()
        if not any(found is other for other in seen):
            seen.append(found)
            waiting += [other for other in (found.__cause__, found.__context__) if other is not None]
            _empty(found.__traceback__)


def _empty(trace: TracebackType | None) -> None:
    is_ours = False  # the frames before belong to the application, and so does what it handles
    for frame, _ in traceback.walk_tb(trace):
        is_ours = is_ours or str(frame.f_globals.get("__name__")).partition(".")[0] == PACKAGE
        if is_ours:
            with contextlib.suppress(RuntimeError):  # it has not ended
                frame.clear()


def guarded(function: Callable[P, T]) -> Callable[P, T]:
    """`function`, whose errors keep no argument and no local variable."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            del args, kwargs  # of this frame, which has not ended
            empty_frames(error)
            raise

    return call


def place_of(error: BaseException) -> str:
    """` (file, line 3, in name)`: where it was raised, for an error whose message may hold a secret. Empty if that is unknown."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return f" ({code.co_filename}, line {trace.tb_lineno}, in {code.co_name})"
