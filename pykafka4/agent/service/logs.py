"""Writes log lines to standard error, for people or for the journal. Invariant: a thread that logs a line does not wait for
standard error, unless a line cannot be formatted.

If nobody reads standard error (a full pipe, a stopped terminal), log lines are lost, and the process ends a few seconds late. The thread
writes to the file descriptor directly, because an interpreter that exits waits for the locks of `sys.stderr` and of handlers.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
from collections.abc import Mapping
from threading import Thread
from typing import Final

__all__ = ["Logs"]

MOST_WAITING: Final = 10_000  # lines; later ones are dropped and counted
CLOSE_S: Final = 2.0  # most seconds that `close` waits, once for room in the queue and once for the thread
STDERR: Final = 2
PRIORITIES: Final = ((logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))  # syslog's numbers: the journal reads `<3>` before a line


class _Journal(logging.Formatter):
    """Formats lines with their priority, and without the time, which the journal adds."""

    def format(self, record: logging.LogRecord) -> str:
        priority = next((each for level, each in PRIORITIES if record.levelno >= level), 7)
        return "\n".join(f"<{priority}>{line}" for line in super().format(record).splitlines())


class _Lines(logging.Handler):
    """Passes lines to the writing thread; drops lines while too many wait."""

    def __init__(self, lines: queue.Queue[str | None]) -> None:
        super().__init__()
        self._lines, self.dropped = lines, 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.put_nowait(self.format(record) + "\n")
        except queue.Full:
            self.dropped += 1
        except Exception:
            self.handleError(record)


class Logs:
    """The root logger's handler, and the thread that writes its lines."""

    def __init__(self, level: str, environment: Mapping[str, str] = os.environ) -> None:
        self._lines: queue.Queue[str | None] = queue.Queue(MOST_WAITING)
        self._handler = _Lines(self._lines)
        journal = _is_journal(environment.get("JOURNAL_STREAM", ""))
        self._handler.setFormatter(_Journal("%(message)s") if journal else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        self._thread = Thread(target=self._write, name="pykafka4-agent-log", daemon=True)
        self._thread.start()
        root = logging.getLogger()
        root.addHandler(self._handler)
        self._before = {logger: logger.level for logger in (root, logging.getLogger("pykafka4"))}
        root.setLevel(logging.WARNING)
        self.set_level(level)

    def set_level(self, level: str) -> None:
        logging.getLogger("pykafka4").setLevel(level)

    def close(self) -> None:
        """Restore the loggers, and write the waiting lines, for at most twice CLOSE_S."""
        for logger, level in self._before.items():
            logger.setLevel(level)
        logging.getLogger().removeHandler(self._handler)
        with contextlib.suppress(queue.Full):
            self._lines.put(None, timeout=CLOSE_S)
        self._thread.join(CLOSE_S)

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            _write_to_stderr(line)
        if self._handler.dropped:  # not through the queue, which no thread reads any more
            text = f"lines of the log that were dropped, because standard error was too slow: {self._handler.dropped}"
            record = logging.makeLogRecord({"name": "pykafka4.agent", "levelno": logging.WARNING, "levelname": "WARNING", "msg": text})
            _write_to_stderr(self._handler.format(record) + "\n")


def _write_to_stderr(line: str) -> None:
    data = line.encode(errors="backslashreplace")
    with contextlib.suppress(OSError):  # a closed pipe: nobody reads the log
        while data:
            data = data[os.write(STDERR, data) :]


def _is_journal(variable: str) -> bool:
    """Whether standard error is the stream that systemd named in JOURNAL_STREAM; a shell may have redirected standard error since."""
    try:
        there = os.fstat(STDERR)
    except OSError:
        return False
    return variable == f"{there.st_dev}:{there.st_ino}"
