"""Writes lines about discarded messages, and about bytes that are not a message, to a file, the discard log.

Invariant: a full or broken disk delays only the end of the agent; entries that cannot be written are left out and counted.

Entries pass through a bounded queue to the thread that writes them. The agent's log reports the start and end of each series of failures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from threading import Condition, Thread
from typing import Final

from pykafka4.agent.account.log_entries import DiscardLine, format_entry
from pykafka4.agent.account.log_file import LogFile
from pykafka4.agent.message import Message, Reason, Refused
from pykafka4.agent.settings.values import DiscardLogSettings
from pykafka4.logs import get_log

__all__ = ["DiscardLog"]

log = get_log("pykafka4.agent")

# The most bytes of queued entries, limited because bursts of discards come when memory is short. `_put` has an exception for one entry.
MOST_WAITING: Final = 4 * 1024 * 1024
# Entries that are written together: after each portion, its room in the queue is free for new entries.
PORTION: Final = 1_000
CLOSE_S: Final = 5.0  # seconds for the last entries when the agent ends: a disk that hangs must not keep the agent from ending
INFOS_WITH_DETAIL: Final = (Reason.API_KEY, Reason.VERSION)


class DiscardLog:
    """The queue of entries and the thread that writes them. Any thread may call the methods."""

    def __init__(self, settings: DiscardLogSettings, wall_clock: Callable[[], float] = time.time) -> None:
        """`wall_clock` is in seconds since the epoch. Opens no file."""
        self._path, self._most, self._wall_clock = settings.path, settings.max_prefix_size, wall_clock
        self._file = LogFile(settings.path, settings.max_file_size, settings.max_archive_size, wall_clock)
        self._changed = Condition()
        self._waiting: list[DiscardLine] = []
        self._waiting_bytes = 0
        self._unwritten = 0  # entries in `_waiting`, and those that the thread is writing
        self._closing = self._given_up = False
        self._written = self._left_out = 0
        self._left_out_before: int | None = None  # `_left_out` at the start of the current series of failures
        self._thread = Thread(target=self._run, name="pykafka4-discard-log", daemon=True)

    def start(self) -> None:
        """Start the thread, which opens the file. After a failure, the thread tries again with the next entries."""
        self._thread.start()

    # ---- entries

    def refused(self, data: bytes, refused: Refused) -> None:
        info = f"{refused.reason}({refused.detail})" if refused.reason in INFOS_WITH_DETAIL else refused.reason.value
        now = self._now()
        self._put(DiscardLine(now, now, info, "", b"", bytes(data[: self._most])))

    def discarded(self, message: Message, reason: Reason) -> None:
        topic, value, key, _, timestamp_ms = message
        most = self._most
        self._put(DiscardLine(self._now(), timestamp_ms, reason.value, topic, (key or b"")[:most], (value or b"")[:most]))

    def _now(self) -> int:
        return int(self._wall_clock() * 1000)

    def _put(self, entry: DiscardLine) -> None:
        size = entry.size
        with self._changed:
            # `_waiting` may be empty while the thread writes the previous list, whose bytes still count. Then one entry may wait, however
            # large: otherwise an entry larger than the bound would always be left out.
            if self._closing or (self._waiting and self._waiting_bytes + size > MOST_WAITING):
                self._left_out += 1
                return
            self._waiting.append(entry)
            self._waiting_bytes += size
            self._unwritten += 1
            if len(self._waiting) == 1:  # the thread sleeps only while the list is empty
                self._changed.notify()

    # ---- figures

    def counters(self) -> Mapping[str, int]:
        with self._changed:
            return {"DiscardLogWritten": self._written, "DiscardLogLeftOut": self._left_out}

    # ---- the thread

    def _run(self) -> None:
        self._try_to_open()
        while True:
            with self._changed:
                while not self._waiting and not self._closing:
                    self._changed.wait()
                entries, self._waiting = self._waiting, []
                if not entries:
                    break
            for start in range(0, len(entries), PORTION):
                self._write(entries[start : start + PORTION])
        self._file.close()

    def _try_to_open(self) -> None:
        try:
            self._file.open()
        except OSError as error:
            self._fail(error, 0)

    def _write(self, entries: list[DiscardLine]) -> None:
        written, error = self._file.append([format_entry(entry) for entry in entries])
        with self._changed:
            if self._given_up:  # `close` has counted these entries
                return
            left_out = self._left_out
            self._unwritten -= len(entries)
            self._waiting_bytes -= sum(entry.size for entry in entries)
            self._written += written
            self._left_out += len(entries) - written
        if error is not None:
            self._fail(error, left_out)
        elif self._left_out_before is not None:
            log.warning("agent: discard log %s: written again; entries left out: %d", self._path, left_out - self._left_out_before)
            self._left_out_before = None

    def _fail(self, error: OSError, left_out: int) -> None:
        """Log the first failure of a series. `left_out` entries had been left out before."""
        if self._left_out_before is None:
            self._left_out_before = left_out
            log.warning("agent: discard log %s: %s; entries are left out until a write succeeds; the agent continues", self._path, error)

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Wait up to `timeout_s` for the queued entries, then log the number of left-out entries, if any. Later entries are left out.

        Entries that a hanging disk has not written by then count as left out.
        """
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.ident is not None:  # `join` raises for a thread that was never started
            self._thread.join(timeout_s)
        with self._changed:
            self._given_up = True
            self._left_out += self._unwritten
            self._unwritten = 0
            if self._left_out:
                log.warning("agent: discard log %s: entries left out since the start: %d", self._path, self._left_out)
