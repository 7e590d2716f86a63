"""Finds loops that hang: a turn that goes on and on. Rule: a look costs the loop nothing, and each hang is told once, and its end.

A turn takes milliseconds. One that takes seconds waits for something that it must not wait for, or computes without end, and all of the
client waits with it: heartbeats, and the calls of other threads. The stack says where.
"""

from __future__ import annotations

import sys
import traceback
from typing import Final, Protocol

import attrs

from pykafka4.logs import get_log

__all__ = ["LOOKS", "LOOK_S", "HangWatch", "Turning"]

LOOK_S: Final = 2.0  # seconds between two looks
LOOKS: Final = 3  # in a row that find the same turn; one could be right after the machine was suspended

log = get_log("pykafka4.loop")


class Turning(Protocol):
    """A loop."""

    client_id: str
    turns: int  # changes before and after each sleep

    @property
    def sleeps(self) -> bool:
        """Whether it waits for events, as it may for ever."""


@attrs.define(eq=False)
class Watched:
    """A loop, and what the last looks found."""

    loop: Turning
    turn: int = -1
    since: float = 0.0  # of the first look that found `turn`
    looks: int = 0

    @property
    def hangs(self) -> bool:
        """Whether its hang was told."""
        return self.looks >= LOOKS


class HangWatch:
    """All loops of the process. `look` is called on one thread, the others on those of the loops."""

    __slots__ = ("_watched",)

    def __init__(self) -> None:
        self._watched: dict[int, Watched] = {}  # by the ident of the loop's thread

    def begin(self, ident: int, loop: Turning) -> None:
        """Look at `loop` from now on."""
        self._watched[ident] = Watched(loop)

    def end(self, ident: int) -> None:
        """The loop has ended."""
        self._watched.pop(ident, None)

    def look(self, now: float) -> None:
        """Log each loop that has been in the same turn for LOOKS looks, and each that goes on."""
        for ident, watched in tuple(self._watched.items()):
            loop = watched.loop
            if watched.turn == loop.turns and not loop.sleeps:
                watched.looks += 1
                if watched.looks == LOOKS:
                    _tell(ident, loop.client_id, now - watched.since)
                continue
            if watched.hangs:
                log.warning("%s: the loop goes on, after %.0f s in one turn", loop.client_id, now - watched.since)
            watched.turn, watched.since, watched.looks = loop.turns, now, 1


def _tell(ident: int, client_id: str, seconds: float) -> None:
    frame = sys._current_frames().get(ident)
    stack = "".join(traceback.format_stack(frame)) if frame is not None else "it is not known where"
    log.warning(
        "%s: the loop hangs, in one turn for at least %.0f s; this client stands still until the loop returns from:\n%s",
        client_id,
        seconds,
        stack.rstrip(),
    )
