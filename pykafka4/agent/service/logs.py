"""Logs to standard error, for people or for the journal. Invariant: no thread waits for standard error, apart from the one that writes."""

from __future__ import annotations

import logging
import os
import queue
import sys
from collections.abc import Mapping
from logging.handlers import QueueHandler, QueueListener
from typing import Final

__all__ = ["Logs"]

MOST_WAITING: Final = 10_000
PRIORITIES: Final = ((logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))  # of syslog, as the journal reads them from `<3>`


class _Journal(logging.Formatter):
    """Lines with their priority; the journal has the time."""

    def format(self, record: logging.LogRecord) -> str:
        """See logging.Formatter."""
        priority = next((each for level, each in PRIORITIES if record.levelno >= level), 7)
        return "\n".join(f"<{priority}>{line}" for line in super().format(record).splitlines())


class _Dropping(QueueHandler):
    """Drops lines while too many wait."""

    dropped = 0

    def enqueue(self, record: logging.LogRecord) -> None:
        """See QueueHandler."""
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1


class Logs:
    """The handler of all loggers of the process, from its creation to `close`."""

    def __init__(self, level: str, environment: Mapping[str, str] = os.environ) -> None:
        stream = logging.StreamHandler(sys.stderr)
        journal = _is_journal(environment.get("JOURNAL_STREAM", ""))
        stream.setFormatter(_Journal("%(message)s") if journal else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        waiting: queue.Queue[logging.LogRecord] = queue.Queue(MOST_WAITING)
        self._handler, self._listener = _Dropping(waiting), QueueListener(waiting, stream)
        self._listener.start()
        root = logging.getLogger()
        root.addHandler(self._handler)
        root.setLevel(logging.WARNING)
        self.set_level(level)

    def set_level(self, level: str) -> None:
        """The least severe lines of the agent and of its producer."""
        logging.getLogger("pykafka4").setLevel(level)

    def close(self) -> None:
        """Write what waits."""
        if self._handler.dropped:
            logging.getLogger("pykafka4.agent").warning(
                "%d lines of the log were dropped: standard error was too slow", self._handler.dropped
            )
        logging.getLogger().removeHandler(self._handler)
        self._listener.stop()


def _is_journal(variable: str) -> bool:
    """Whether standard error is the stream that systemd means: it is not if a shell has redirected it."""
    try:
        there = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):
        return False
    return variable == f"{there.st_dev}:{there.st_ino}"
