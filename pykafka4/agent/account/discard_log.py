"""The discard log: a file with a line for each discarded message. Invariant: a full or broken disk delays nobody; entries are left out.

Entries go through a bounded queue to a thread of the log's own, which writes them. Entries that found no room, or that the disk refused,
are counted; the first failure of a series is in the agent's log, and so is its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from threading import Condition, Thread
from typing import Final

from pykafka4.agent.account.log_entries import Entry, format_entry
from pykafka4.agent.account.log_file import LogFile
from pykafka4.agent.message import Message, Reason, Refused
from pykafka4.agent.settings.values import DiscardLogSettings
from pykafka4.logs import get_log

__all__ = ["DiscardLog"]

log = get_log("pykafka4.agent")

MOST_WAITING: Final = 4 * 1024 * 1024  # bytes of entries that wait for the thread
PORTION: Final = 1_000  # entries that are formatted and written together
CLOSE_S: Final = 5.0  # for the rest of the entries at the end
INFOS_WITH_DETAIL: Final = (Reason.API_KEY, Reason.VERSION)


class DiscardLog:
    """The log. Its methods may be called from any thread."""

    def __init__(self, settings: DiscardLogSettings, wall_clock: Callable[[], float] = time.time) -> None:
        """`wall_clock` is in seconds since the epoch. Nothing is opened before `start`."""
        self._path, self._most, self._wall_clock = settings.path, settings.max_prefix_size, wall_clock
        self._file = LogFile(settings.path, settings.max_file_size, settings.max_archive_size, wall_clock)
        self._changed = Condition()
        self._waiting: list[Entry] = []
        self._waiting_bytes = 0
        self._closing = False
        self._written = self._left_out = 0
        self._left_out_before: int | None = None  # entries that were left out before the series of failures that goes on
        self._thread = Thread(target=self._run, name="pykafka4-discard-log", daemon=True)

    def start(self) -> None:
        """Open the file, in the thread: a failure is in the agent's log."""
        self._thread.start()

    # ---- entries

    def refused(self, data: bytes, refused: Refused) -> None:
        """An entry for bytes that are no message."""
        info = f"{refused.reason}({refused.detail})" if refused.reason in INFOS_WITH_DETAIL else refused.reason.value
        now = self._now()
        self._put(Entry(now, now, info, "", b"", bytes(data[: self._most])))

    def discarded(self, message: Message, reason: Reason) -> None:
        """An entry for a message."""
        topic, value, key, _, timestamp_ms = message
        most = self._most
        self._put(Entry(self._now(), timestamp_ms, reason.value, topic, (key or b"")[:most], (value or b"")[:most]))

    def _now(self) -> int:
        return int(self._wall_clock() * 1000)

    def _put(self, entry: Entry) -> None:
        size = entry.size
        with self._changed:
            if self._closing or (self._waiting and self._waiting_bytes + size > MOST_WAITING):
                self._left_out += 1
                return
            self._waiting.append(entry)
            self._waiting_bytes += size
            if len(self._waiting) == 1:
                self._changed.notify()

    # ---- figures

    def counters(self) -> Mapping[str, int]:
        """Entries that were written, and that were left out."""
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

    def _write(self, entries: list[Entry]) -> None:
        written, error = self._file.append([format_entry(entry) for entry in entries])
        with self._changed:
            left_out = self._left_out
            self._waiting_bytes -= sum(entry.size for entry in entries)
            self._written += written
            self._left_out += len(entries) - written
        if error is not None:
            self._fail(error, left_out)
        elif self._left_out_before is not None:
            log.warning("agent: discard log %s: written again; %d entries were left out", self._path, left_out - self._left_out_before)
            self._left_out_before = None

    def _fail(self, error: OSError, left_out: int) -> None:
        """Name the first failure of a series. `left_out` entries had been left out before."""
        if self._left_out_before is None:
            self._left_out_before = left_out
            log.warning("agent: discard log %s: %s; entries are left out until it can be written; the agent goes on", self._path, error)

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Write what waits, for at most `timeout_s`. Entries after that are left out."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        with self._changed:
            if self._left_out:
                log.warning("agent: discard log %s: %d entries were left out since the start", self._path, self._left_out)
