"""Functions that both cores call. Rule: not called per record, so there is no compiled version."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from pykafka4.errors import KafkaError
from pykafka4.logs import get_log

__all__ = ["Waker", "fresh", "holds_pointers", "wake_tasks"]

log = get_log("pykafka4")

_POINTERS: Final = frozenset("OP&X")  # objects, pointers, typed ones, functions
_FIELD_NAMES: Final = re.compile(":[^:]*:")


def fresh(error: BaseException | None) -> BaseException | None:
    """A copy of `error` without its traceback, to keep or to raise repeatedly; `error` itself if it cannot be copied.

    A traceback references frames, these handles and batches, and these the error: a cycle that would keep the records' memory.
    """
    if error is None:
        return None
    try:
        return error.again() if isinstance(error, KafkaError) else copy.copy(error)
    except Exception:  # an exception of the application whose constructor takes other arguments
        return error


def holds_pointers(form: str) -> bool:
    """Whether a buffer of that format (as in the struct module, numpy and ctypes) holds pointers, to Python objects or others."""
    return not _POINTERS.isdisjoint(form if len(form) == 1 else _FIELD_NAMES.sub("", form))


class Waker:
    """A callback of the client's own, which only wakes a task: it is called by the thread that sets the outcome, not on the executor."""

    __slots__ = ("_wake",)

    def __init__(self, wake: Callable[[], object]) -> None:
        """`wake()` never waits."""
        self._wake = wake

    def __call__(self, delivery: object) -> None:
        self._wake()


def wake_tasks(pairs: Iterable[tuple[Any, Any]], client_id: str) -> list[tuple[Any, Any]]:
    """Call the wakers among the (delivery, callback) pairs; returns the other pairs. For a batch that has its outcome."""
    others = []
    for pair in pairs:
        if type(pair[1]) is not Waker:
            others.append(pair)
            continue
        try:
            pair[1](pair[0])
        except Exception:  # one task that cannot be woken must not keep the others asleep
            log.exception("%s: a task that awaits a delivery could not be woken", client_id)
    return others
