"""Passes calls of other threads to the loop (`Inbox`), and ends the loop's sleep (`Wakeup`). Invariant: neither takes a lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from pykafka4.native import socketpair

__all__ = ["Inbox", "Wakes", "Wakeup"]


class Inbox:
    """Calls for the loop thread, in the order in which they were posted."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: deque[Callable[[float], object]] = deque()

    def __bool__(self) -> bool:
        return bool(self._calls)

    def post(self, fn: Callable[[float], object]) -> None:
        self._calls.append(fn)  # atomic

    def run(self, now: float) -> None:
        """Run the calls posted so far. Later calls wait for the next turn: otherwise they could keep the loop here."""
        for _ in range(len(self._calls)):
            self._calls.popleft()(now)


class Wakes(Protocol):
    """The object that ends the sleep of a loop early: `Wakeup`, or the compiled `Waker` of the pump."""

    asleep: bool
    news: bool

    def wake(self) -> None:
        """Tell the loop that there is work. For any thread."""


class Wakeup:
    """Wakes the loop from other threads, with one byte (a few after a race) however many threads call.

    `news` means that there is work. The loop clears `news`, works, sets `asleep`, reads `news`, and then sleeps. So the loop reads the
    `news` of a `wake` that comes between the clearing and this read, and stays awake; a `wake` after this read finds `asleep` set and
    writes the byte, unless another `wake` writes it.
    """

    __slots__ = ("_reader", "_writer", "asleep", "news")

    def __init__(self) -> None:
        self._reader, self._writer = socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self.asleep = False
        self.news = False

    def fileno(self) -> int:
        return self._reader.fileno()

    def wake(self) -> None:
        self.news = True  # before `asleep` is read; the loop writes and reads the two in the opposite order
        if self.asleep:
            try:
                self.asleep = False
                self._writer.send(b"\0")
            except OSError:  # the buffer is full: the loop wakes up anyway; or the socket is closed: there is no loop
                return
            except BaseException:  # Ctrl-C, perhaps before the byte was sent: the next `wake` sends a byte
                self.asleep = True
                raise

    def clear(self) -> None:
        try:
            while len(self._reader.recv(4096)) == 4096:
                pass
        except OSError:
            return

    def close(self) -> None:
        """Close both ends, without waking the loop."""
        self._reader.close()
        self._writer.close()
