"""Log lines about discards: of each reason at most one in 30 s. Invariant: the numbers in the lines add up to all discards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from pykafka4.agent.message import Reason
from pykafka4.logs import get_log

__all__ = ["Notice", "Notices"]

log = get_log("pykafka4.agent")

PACE_S: Final = 30.0
NAME: Final = 249  # characters that are shown of a topic
ERROR: Final = 1_000  # and of an error

_TEXTS: Final = {
    Reason.MALFORMED: "datagrams or frames that are no message, from {}",
    Reason.API_KEY: "messages of an unknown kind (API key), from {}",
    Reason.VERSION: "messages of an unknown version, from {}",
    Reason.UNCLEAN_UNIX: "unfinished messages at the end of connections, from {}",
    Reason.UNCLEAN_TCP: "unfinished messages at the end of connections, from {}",
}


class Notice(NamedTuple):
    """A log line. `since_s` is the time that it covers; None: it is the first of its reason."""

    reason: Reason
    messages: int
    last: str
    error: str
    since_s: float | None


class Notices:
    """The discards of which no line was written yet. No lock; `write` may be called outside the ledger's."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._written: dict[Reason, float] = {}  # when the last line of each reason was written
        self._counts: dict[Reason, int] = {}  # discards since
        self._last: dict[Reason, tuple[str, str]] = {}  # topic or input of the last one, and the error of the brokers

    def note(self, reason: Reason, count: int, last: str, error: str = "") -> Notice | None:
        """Count discards; returns the line that is due, if one is. `last` is the topic or the input, `error` that of the brokers."""
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
        """The lines that are due although nothing was discarded since."""
        now = self._clock()
        found = [self._take(reason, now) for reason in list(self._counts)]
        return [notice for notice in found if notice is not None]

    def rest(self) -> list[Notice]:
        """The lines of everything that was noted, at the end."""
        now = self._clock()
        found = [Notice(reason, count, *self._last[reason], now - self._written[reason]) for reason, count in self._counts.items()]
        self._counts.clear()
        return found

    def write(self, notice: Notice | None) -> None:
        """Write a line. Names are quoted: a client may have put a line break there."""
        if notice is None:
            return
        reason, count, last, error, since_s = notice
        text = _TEXTS.get(reason)
        what = f"messages, the last of topic {ascii(last[:NAME])[:NAME]}" if text is None else text.format(last)
        when = "" if since_s is None else f"in the last {since_s:.0f} s: "
        why = f": {ascii(error)[1:-1][:ERROR]}" if error else ""
        log.warning("agent: discarded (%s): %s%d %s%s", reason, when, count, what, why)
