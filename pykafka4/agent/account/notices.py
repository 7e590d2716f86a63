"""Writes log lines about discards: for each reason at most one line in 30 s, and one more when the agent ends. Invariant: each
discard is counted in the next line for its reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from pykafka4.agent.message import Reason
from pykafka4.logs import get_log

__all__ = ["Notice", "Notices"]

log = get_log("pykafka4.agent")

PACE_S: Final = 30.0
NAME: Final = 249  # characters of a topic in a line: as many as a legal topic may have; a client may send 32 KiB
ERROR: Final = 1_000  # characters of an error in a line

_TEXTS: Final = {
    Reason.MALFORMED: "datagrams or frames that are not messages: {}, from {}",
    Reason.API_KEY: "messages of an unknown kind (API key): {}, from {}",
    Reason.VERSION: "messages of an unknown version: {}, from {}",
    Reason.UNCLEAN_UNIX: "unfinished messages at the end of connections: {}, from {}",
    Reason.UNCLEAN_TCP: "unfinished messages at the end of connections: {}, from {}",
}


class Notice(NamedTuple):
    """A log line. `since_s` is the number of seconds that the line covers, None in a reason's first line."""

    reason: Reason
    messages: int
    last: str
    error: str
    since_s: float | None


class Notices:
    """The discards that are in no line yet. The caller holds the ledger's lock, except for `write`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._written: dict[Reason, float] = {}  # the time of each reason's last line
        self._counts: dict[Reason, int] = {}  # discards since the last line
        self._last: dict[Reason, tuple[str, str]] = {}  # the last discard's topic or input, and the producer's error

    def note(self, reason: Reason, count: int, last: str, error: str = "") -> Notice | None:
        """Count discards. Returns a log line, if one is due. `last` is the topic or input."""
        counts = self._counts
        counts[reason] = counts.get(reason, 0) + count
        self._last[reason] = last, error
        return self._take(reason, self._clock())

    def _take(self, reason: Reason, now: float) -> Notice | None:
        written = self._written.get(reason)
        if written is not None and now < written + PACE_S:
            return None
        self._written[reason] = now
        return Notice(reason, self._counts.pop(reason), *self._last.pop(reason), None if written is None else now - written)

    def due(self) -> list[Notice]:
        now = self._clock()
        found = [self._take(reason, now) for reason in list(self._counts)]
        return [notice for notice in found if notice is not None]

    def rest(self) -> list[Notice]:
        """Return lines for all discards that are in no line yet, even if not due."""
        now = self._clock()
        found = [Notice(reason, count, *self._last[reason], now - self._written[reason]) for reason, count in self._counts.items()]
        self._counts.clear()
        return found

    def write(self, notice: Notice | None) -> None:
        if notice is None:
            return
        reason, count, last, error, since_s = notice
        text = _TEXTS.get(reason)
        # Without `ascii`, a line break in a topic would let a client write its own lines into the log. The name is cut before and after
        # `ascii`, because the escapes of 249 characters may have 2,490. The other two characters are quotes.
        what = f"messages: {count}, the last of topic {ascii(last[:NAME])[: NAME + 2]}" if text is None else text.format(count, last)
        when = "" if since_s is None else f"in the last {since_s:.0f} s: "
        why = f": {ascii(error)[1:-1][:ERROR]}" if error else ""
        log.warning("agent: discarded (%s): %s%s%s", reason, when, what, why)
