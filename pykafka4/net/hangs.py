"""Finds loops that hang in one turn, and logs their stacks. Invariant: a look changes nothing in the loop; the log has one warning for
each hang that is found, and one more if a later look finds that the loop continues.

A turn normally takes milliseconds. A turn that takes seconds usually waits where it must not, or computes without end, and the client waits
with it: heartbeats stop, and so do the calls of other threads.
"""

from __future__ import annotations

import sys
import traceback
from typing import Final, Protocol

import attrs

from pykafka4.logs import get_log

__all__ = ["LOOKS_UNTIL_HANG", "LOOK_S", "HangWatch", "WatchedLoop"]

LOOK_S: Final = 2.0  # seconds between two looks
LOOKS_UNTIL_HANG: Final = 3  # looks in a row that find the same turn; a single look could come right after a suspension of the machine

log = get_log("pykafka4.loop")


class WatchedLoop(Protocol):
    """A loop, as this module sees it."""

    client_id: str
    turns: int  # the loop changes it before and after each sleep

    @property
    def sleeps(self) -> bool:
        """Whether the loop waits for events, which may take any time."""


@attrs.define(eq=False)
class LoopFindings:
    loop: WatchedLoop
    turn: int = -1
    since: float = 0.0  # the time of the first look in `looks`
    looks: int = 0  # the number of looks in a row that found `turn`; 1 after a look at a sleeping loop

    @property
    def hangs(self) -> bool:
        """Whether the log has a warning about this hang."""
        return self.looks >= LOOKS_UNTIL_HANG


class HangWatch:
    """All loops of the process. One thread calls `look`; each loop's thread calls `begin` and `end`."""

    __slots__ = ("_watched",)

    def __init__(self) -> None:
        self._watched: dict[int, LoopFindings] = {}  # by the ident of the loop's thread

    def begin(self, ident: int, loop: WatchedLoop) -> None:
        self._watched[ident] = LoopFindings(loop)

    def end(self, ident: int) -> None:
        self._watched.pop(ident, None)

    def look(self, now: float) -> None:
        """Log each loop that begins to hang, or continues after it has hung."""
        for ident, watched in tuple(self._watched.items()):
            loop = watched.loop
            if watched.turn == loop.turns and not loop.sleeps:
                watched.looks += 1
                if watched.looks == LOOKS_UNTIL_HANG:
                    _tell(ident, loop.client_id, now - watched.since)
                continue
            if watched.hangs:
                log.warning("%s: the loop continues, after %.0f s in one turn", loop.client_id, now - watched.since)
            watched.turn, watched.since, watched.looks = loop.turns, now, 1


def _tell(ident: int, client_id: str, seconds: float) -> None:
    frame = sys._current_frames().get(ident)
    stack = "".join(traceback.format_stack(frame)) if frame is not None else "(its stack is unknown)"
    log.warning(
        "%s: the loop hangs, in one turn for at least %.0f s; this client stands still until the loop returns from:\n%s",
        client_id,
        seconds,
        stack.rstrip(),
    )
