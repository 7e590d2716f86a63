"""Outlets: whatever comes out of the client. Rule: it is turned into text at once, as tools for logs and errors do.

Locals of frames count for the frames of this package and of what it calls: Sentry and `TracebackException(capture_locals=True)` show them.
Those of the application's own frames, here of tests, are its own.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import logging
import pickle
import sys
import threading
import traceback
import types
import warnings
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from tests.secrets.planted import Planted

__all__ = ["Outlets", "watching"]

PACKAGE = "pykafka4"
CONTAINERS = (dict, list, tuple, set, frozenset, deque, types.MappingProxyType, types.CellType, types.MethodType, functools.partial)


class Outlets(logging.Handler):
    """What has come out so far, and where."""

    def __init__(self, planted: Planted) -> None:
        super().__init__(level=1)
        self.planted = planted
        self.texts: list[tuple[str, str]] = []

    def add(self, where: str, text: object) -> None:
        self.texts.append((where, str(text)))

    def leaks(self) -> list[str]:
        """Where a secret came out, and which."""
        return sorted({f"{', '.join(sorted(found))}: {where}" for where, text in self.texts if (found := self.planted.found(text))})

    # -- logs

    def emit(self, record: logging.LogRecord) -> None:
        where = f"log {record.name}, {record.filename}:{record.lineno}"
        self.add(where, record.getMessage())
        self.add(where, repr({name: value for name, value in vars(record).items() if name != "exc_info"}))
        for value in (*(record.args if isinstance(record.args, tuple) else ()), record.exc_info and record.exc_info[1]):
            if isinstance(value, BaseException):
                self.error(where, value)

    # -- errors

    def error(self, where: str, error: BaseException) -> None:
        """With its chain, its notes, its attributes, and the locals of its frames."""
        seen: list[BaseException] = []
        waiting: deque[Any] = deque([error])
        while waiting:
            found = waiting.popleft()
            if not isinstance(found, BaseException) or any(found is other for other in seen):
                continue
            seen.append(found)
            place = f"{where}: {type(found).__name__}" + ("" if found is error else f" behind {type(error).__name__}")
            for text in (str(found), repr(found), repr(found.args), repr(vars(found)), *traceback.format_exception_only(found)):
                self.add(place, text)
            self.locals(place, found.__traceback__)
            self.pickled(place, found)
            waiting += [found.__cause__, found.__context__, *vars(found).values(), *found.args]

    def locals(self, where: str, trace: types.TracebackType | None) -> None:
        is_ours = False
        for frame, line in traceback.walk_tb(trace):
            is_ours = is_ours or str(frame.f_globals.get("__name__")).partition(".")[0] == PACKAGE
            for name, value in frame.f_locals.items() if is_ours else ():
                self.add(f"{where}: local {name} of {frame.f_code.co_qualname}, line {line}", shown(value))

    # -- objects

    def objects(self, where: str, *roots: object) -> int:
        """Everything of this package that can be reached: how it shows itself, its pickle and its copy. Returns how many there are."""
        seen: dict[int, object] = {}
        waiting: deque[object] = deque(roots)
        count = 0
        while waiting:
            found = waiting.popleft()
            if id(found) in seen:
                continue
            seen[id(found)] = found
            mine = is_ours(found)
            if mine:
                count += 1
                place = f"{where}: a {type(found).__qualname__}"
                self.add(f"{place}: repr", shown(found))
                self.add(f"{place}: str", shown(found, str))
                self.pickled(place, found)
                with contextlib.suppress(Exception):
                    self.add(f"{place}: copy", shown(copy.copy(found)))
            if mine or isinstance(found, CONTAINERS):
                waiting += gc.get_referents(found)
            elif isinstance(found, types.FunctionType):
                waiting += [found.__closure__, found.__defaults__, found.__kwdefaults__]
            elif isinstance(found, weakref.ref):
                waiting.append(found())
        return count

    def pickled(self, where: str, value: object) -> None:
        try:
            data = pickle.dumps(value)
        except Exception as error:  # what cannot be pickled says why, without the secret
            self.add(f"{where}: refused pickle", error)
        else:
            self.add(f"{where}: pickle", data.decode("latin-1"))

    def threads(self) -> None:
        for thread in threading.enumerate():
            self.add("name of a thread", thread.name)


def is_ours(value: object) -> bool:
    kind = type(value)
    return kind.__module__.partition(".")[0] == PACKAGE and not isinstance(value, type)


def shown(value: object, show: Any = repr) -> str:
    try:
        return str(show(value))
    except Exception as error:
        return repr(error)


@contextlib.contextmanager
def watching(planted: Planted, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Outlets]:
    """All outlets are watched; at the end none has shown a secret."""
    outlets, root = Outlets(planted), logging.getLogger()
    for name in ("", PACKAGE):
        monkeypatch.setattr(logging.getLogger(name), "level", 1)
    monkeypatch.setattr(sys, "unraisablehook", lambda it: outlets.error("unraisable", it.exc_value))
    monkeypatch.setattr(threading, "excepthook", lambda it: outlets.error("thread", it.exc_value))
    logging.Logger.manager._clear_cache()  # type: ignore[attr-defined]
    root.addHandler(outlets)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield outlets
        for warning in warned:
            outlets.add("warning", f"{warning.message} {warning.message!r} {warning.source!r}")
    finally:
        root.removeHandler(outlets)
        logging.Logger.manager._clear_cache()  # type: ignore[attr-defined]
    out, err = capfd.readouterr()
    outlets.add("stdout", out)
    outlets.add("stderr", err)
    outlets.threads()
    if leaks := outlets.leaks():
        pytest.fail("secrets came out:\n" + "\n".join(leaks), pytrace=False)
