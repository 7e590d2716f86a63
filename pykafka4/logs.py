"""Loggers of this package. Rule: no logging code of the application (handler, filter, record factory) runs on the loop thread.

Each message begins with the client's id: `log.info("%s: …", config.client_id, …)`. The few that concern the whole process are listed in
`tests/source/test_log_lines.py`, which checks every call. Before there is a client, `config` and `wire.records.hot` use `logging` directly.

A logging handler may block (a pipe, a slow disk), and one that produces to Kafka may wait for the loop itself. So `divert` is called first:
`net.logs` installs it, and hands what the loop thread logs to a separate thread. On other threads a record is handled at once, as usual.
Level checks take no lock; those of `logging` wait while another thread configures it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["Entry", "Log", "get_log", "set_divert"]


class Entry(NamedTuple):
    """A log call, before it becomes a LogRecord."""

    logger: logging.Logger
    level: int
    message: str
    args: tuple[object, ...]
    error: BaseException | None
    path: str
    line: int
    function: str

    def record(self) -> logging.LogRecord:
        """The LogRecord; its factory may be the application's."""
        error = self.error
        exc_info = None if error is None else (type(error), error, error.__traceback__)
        return self.logger.makeRecord(self.logger.name, self.level, self.path, self.line, self.message, self.args, exc_info, self.function)


Divert = Callable[[Entry], bool]
_divert: list[Divert] = []  # at most one


def set_divert(divert: Divert) -> None:
    """Call `divert(entry)` first; it returns True if it has taken the entry."""
    _divert[:] = [divert]


class Log:
    """The logger methods that this package uses."""

    __slots__ = ("_logger",)

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def info(self, message: str, *args: object) -> None:
        """Normal changes: a broker connected, a group has a new generation."""
        self._log(logging.INFO, message, args, None)

    def warning(self, message: str, *args: object) -> None:
        """Something to look at."""
        self._log(logging.WARNING, message, args, None)

    def exception(self, message: str, *args: object) -> None:
        """An error, with the traceback of the current exception."""
        self._log(logging.ERROR, message, args, sys.exc_info()[1])

    def critical(self, message: str, *args: object, exc_info: BaseException | None = None) -> None:
        """Something has ended."""
        self._log(logging.CRITICAL, message, args, exc_info)

    def _log(self, level: int, message: str, args: tuple[object, ...], error: BaseException | None) -> None:
        logger = self._logger
        if logger.disabled or level <= logger.manager.disable or level < logger.getEffectiveLevel():
            return
        frame = sys._getframe(2)
        code = frame.f_code
        entry = Entry(logger, level, message, args, error, code.co_filename, frame.f_lineno, code.co_name)
        if not any(divert(entry) for divert in _divert):
            logger.handle(entry.record())


def get_log(name: str) -> Log:
    """The log of `name`; handlers and levels are those of `logging.getLogger(name)`."""
    return Log(logging.getLogger(name))
