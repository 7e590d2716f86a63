"""How other threads reach the loop: by posting calls (`Inbox`) and by waking it (`Wakeup`). Rule: neither takes a lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from pykafka4.native import socketpair

__all__ = ["Inbox", "Wakes", "Wakeup"]


class Inbox:
    """Calls that other threads have posted to the loop thread, in order."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: deque[Callable[[float], object]] = deque()

    def __bool__(self) -> bool:
        return bool(self._calls)

    def post(self, fn: Callable[[float], object]) -> None:
        """Add `fn`; a deque's append is atomic, so there is no lock."""
        self._calls.append(fn)

    def run(self, now: float) -> None:
        """Run the calls posted so far; those added meanwhile wait for the next turn, so that they cannot keep the loop here."""
        for _ in range(len(self._calls)):
            self._calls.popleft()(now)


class Wakes(Protocol):
    """What ends the wait of a loop early: `Wakeup`, or the compiled one of the pump."""

    asleep: bool
    news: bool

    def wake(self) -> None:
        """There is work. For any thread."""


class Wakeup:
    """Wakes the loop from another thread, with one byte however many threads call.

    `news` says that there is work. The loop clears it, works, sets `asleep`, checks `news` once more and only then sleeps.
    So a `wake` after that check finds `asleep` set and writes the byte; an earlier one has set `news`, which the check finds.
    """

    __slots__ = ("_reader", "_writer", "asleep", "news")

    def __init__(self) -> None:
        self._reader, self._writer = socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self.asleep = False
        self.news = False

    def fileno(self) -> int:
        """The descriptor to select on."""
        return self._reader.fileno()

    def wake(self) -> None:
        """There is work."""
        self.news = True
        if self.asleep:
            try:
                self.asleep = False
                self._writer.send(b"\0")
            except OSError:  # full: the loop wakes up anyway; closed: there is no loop
                return
            except BaseException:  # Ctrl-C, perhaps before the byte was sent: the next `wake` sends one
                self.asleep = True
                raise

    def clear(self) -> None:
        """Read and discard the bytes."""
        try:
            while len(self._reader.recv(4096)) == 4096:
                pass
        except OSError:
            return

    def close(self) -> None:
        """Close both ends, without waking the loop."""
        self._reader.close()
        self._writer.close()
