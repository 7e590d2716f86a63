"""Empties the frames of errors. Invariant: after `empty_frames` an error still shows where it was raised, but keeps no local variable of
this package's ended frames.

Tools that report errors show the local variables of each frame, and the frames of this package hold options, the contents of key files, and
messages to brokers. So the frames are emptied before a `guarded` function raises an error, and before a crash is logged.
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
    """Delete the local variables in the ended frames of this package and in frames that they called, also of causes and contexts."""
    seen: list[BaseException] = []  # an application's exception may be its own cause
    waiting = [error]
    while waiting:
        found = waiting.pop()
        if not any(found is other for other in seen):
            seen.append(found)
            waiting += [other for other in (found.__cause__, found.__context__) if other is not None]
            _empty(found.__traceback__)


def _empty(trace: TracebackType | None) -> None:
    is_ours = False  # frames above the first of this package belong to the application, which may still use their variables
    for frame, _ in traceback.walk_tb(trace):
        is_ours = is_ours or str(frame.f_globals.get("__name__")).partition(".")[0] == PACKAGE
        if is_ours:
            with contextlib.suppress(RuntimeError):  # a frame that has not ended cannot be cleared
                frame.clear()


def guarded(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a public function: its errors keep no argument and no local variable of this package."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            del args, kwargs  # `empty_frames` cannot clear this frame, which has not ended
            empty_frames(error)
            raise

    return call


def place_of(error: BaseException) -> str:
    """` (file, line 3, in name)`: the place of the raise, instead of a message that may hold a secret. Empty if the place is unknown."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return f" ({code.co_filename}, line {trace.tb_lineno}, in {code.co_name})"
