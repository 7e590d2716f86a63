"""What both cores call. Rule: it is not per record, so the compiled core has no version of its own."""

from __future__ import annotations

import copy
import re
from typing import Final

from pykafka4.errors import KafkaError

__all__ = ["fresh", "holds_pointers"]

_POINTERS: Final = frozenset("OP&X")  # objects, pointers, typed ones, functions
_FIELD_NAMES: Final = re.compile(":[^:]*:")


def fresh(error: BaseException | None) -> BaseException | None:
    """A copy of `error` without its traceback, to keep, or to raise again and again; `error` itself where it cannot be copied.

    A traceback leads to frames, these to handles and batches, and these to the error: a cycle that would keep the records' memory.
    """
    if error is None:
        return None
    try:
        return error.again() if isinstance(error, KafkaError) else copy.copy(error)
    except Exception:  # an exception of the application's whose constructor wants other arguments
        return error


def holds_pointers(form: str) -> bool:
    """Whether a buffer of that format (as the struct module, numpy and ctypes write it) holds addresses, of Python objects or others."""
    return not _POINTERS.isdisjoint(form if len(form) == 1 else _FIELD_NAMES.sub("", form))
