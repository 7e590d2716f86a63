"""Functions that both cores call. Rule: not called per record, so there is no compiled version."""

from __future__ import annotations

import copy
import re
from typing import Final

from pykafka4.errors import KafkaError

__all__ = ["fresh", "holds_pointers"]

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
