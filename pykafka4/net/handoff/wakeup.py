"""How other threads reach the loop: calls for it (`Inbox`), and the end of its sleep (`Wakeup`). Neither takes a lock."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable

__all__ = ["Inbox", "Wakeup"]


class Inbox:
    """What other threads want run on the loop thread, in order."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: deque[Callable[[float], object]] = deque()

    def __bool__(self) -> bool:
        return bool(self._calls)

    def post(self, fn: Callable[[float], object]) -> None:
        """Add `fn`; a deque's append is atomic, so there is no lock."""
        self._calls.append(fn)

    def run(self, now: float) -> None:
        """Call what was there at the beginning; what is added meanwhile waits for the next turn, so that the loop gets on."""
        for _ in range(len(self._calls)):
            self._calls.popleft()(now)


class Wakeup:
    """Ends the loop's sleep from another thread, with one byte however many ask.

    `news` says that somebody has work; the loop clears it, works, raises `asleep`, looks at `news` once more and only then sleeps.
    So a `wake` after that look finds `asleep` raised and writes the byte, one before it leaves `news` for the look to find.
    """

    __slots__ = ("_reader", "_writer", "asleep", "news")

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self.asleep = False
        self.news = False

    def fileno(self) -> int:
        """The end to select on."""
        return self._reader.fileno()

    def wake(self) -> None:
        """There is work."""
        self.news = True
        if self.asleep:
            try:
                self.asleep = False
                self._writer.send(b"\0")
            except OSError:  # full: it wakes up anyway; closed: nobody sleeps there
                return
            except BaseException:  # Ctrl-C, perhaps before the byte was sent: the next to wake sends one
                self.asleep = True
                raise

    def clear(self) -> None:
        """Take the bytes out."""
        try:
            while len(self._reader.recv(4096)) == 4096:
                pass
        except OSError:
            return

    def close(self) -> None:
        """Close both ends, without a word to the other side."""
        self._reader.close()
        self._writer.close()
