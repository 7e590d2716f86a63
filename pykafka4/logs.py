"""Passes the log calls of this package to `logging`. Invariant: no logging code of the application (handler, filter, record factory) runs
on the loop thread.

Each message begins with the client's id: `log.info("%s: …", config.client_id, …)`. `tests/source/test_log_lines.py` checks every call, and
lists the exceptions: messages about a process or a job. Code that never runs on a client's loop thread, such as the agent, may use
`logging` directly.

Besides its text, each record has fields, as attributes (like `extra=` of `logging`): the client's id, from the beginning of the message,
and the keyword arguments of the call: `log.info("%s: connected to %s", client_id, name, broker=1)`. `docs/guide/logging.md` lists all
fields.

A logging handler may block (a pipe, a slow disk), and a handler that produces to Kafka may wait for the loop itself. So a function `divert`
is called first: `net.logs` installs one that passes the entries of the loop thread to a separate thread. On other threads a record is
handled at once, as usual. Level checks take no lock; the checks of `logging` would wait while another thread configures logging.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

__all__ = ["Entry", "Log", "Subject", "get_log", "set_divert"]

OF_CLIENT: Final = "%s: "  # begins the message of each line about a client


class Subject(str):
    """The beginning of log lines, such as `pykafka4: group billing`, with the fields that it stands for."""

    __slots__ = ("fields",)
    fields: Mapping[str, object]

    @classmethod
    def of(cls, client_id: str, text: str, **fields: object) -> Subject:
        """`fields` come in addition to the client's id."""
        subject = cls(f"{client_id}: {text}")
        subject.fields = {"client_id": client_id, **fields}
        return subject

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


class Entry(NamedTuple):
    logger: logging.Logger
    level: int
    message: str
    args: tuple[object, ...]
    error: BaseException | None
    path: str
    line: int
    function: str
    fields: Mapping[str, object] = {}

    def record(self) -> logging.LogRecord:
        """Call the record factory, which may be code of the application."""
        error = self.error
        exc_info = None if error is None else (type(error), error, error.__traceback__)
        name, where = self.logger.name, (self.path, self.line)
        record = self.logger.makeRecord(name, self.level, *where, self.message, self.args, exc_info, self.function)
        record.__dict__.update(self.fields)  # not with `extra`, which raises if the application's factory has set one of them
        return record


Divert = Callable[[Entry], bool]
_divert: list[Divert] = []  # at most one


def set_divert(divert: Divert) -> None:
    """Call `divert(entry)` before an entry is handled; True means that `divert` handles the entry itself."""
    _divert[:] = [divert]


class Log:
    """The logger methods that this package uses. `fields` are for programs. A None field is left out; `tp` sets topic and partition."""

    __slots__ = ("_logger",)

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def info(self, message: str, *args: object, **fields: object) -> None:
        """Log a normal change: a broker is connected, a group has a new generation."""
        self._log(logging.INFO, message, args, None, fields)

    def warning(self, message: str, *args: object, **fields: object) -> None:
        """Log a fact that an operator should check."""
        self._log(logging.WARNING, message, args, None, fields)

    def exception(self, message: str, *args: object, **fields: object) -> None:
        self._log(logging.ERROR, message, args, sys.exc_info()[1], fields)

    def critical(self, message: str, *args: object, exc_info: BaseException | None = None, **fields: object) -> None:
        """Log the end of a client, or of a part of it, after an internal error."""
        self._log(logging.CRITICAL, message, args, exc_info, fields)

    def _log(self, level: int, message: str, args: tuple[object, ...], error: BaseException | None, fields: dict[str, Any]) -> None:
        logger = self._logger
        if logger.disabled or level <= logger.manager.disable or level < logger.getEffectiveLevel():
            return
        frame = sys._getframe(2)  # the caller of `info`, `warning`, `exception` or `critical`: the record's place in the code
        code = frame.f_code
        entry = Entry(logger, level, message, args, error, code.co_filename, frame.f_lineno, code.co_name, _fields(message, args, fields))
        if not any(divert(entry) for divert in _divert):
            logger.handle(entry.record())


def _fields(message: str, args: tuple[object, ...], given: dict[str, Any]) -> dict[str, object]:
    found: dict[str, object] = {}
    if args and message.startswith(OF_CLIENT):
        first = args[0]
        found = {**first.fields} if isinstance(first, Subject) else {"client_id": first}
    if (tp := given.pop("tp", None)) is not None:
        found["topic"], found["partition"] = tp
    found.update(given)
    return {name: value for name, value in found.items() if value is not None}


def get_log(name: str) -> Log:
    """Return the log of `name`, with the handlers and levels of `logging.getLogger(name)`."""
    return Log(logging.getLogger(name))
