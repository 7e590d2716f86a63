"""Counts messages and discards as they happen.

Called on the agent's loop and, for failed batches, on the callback executor: a lock is held for each change.
"""

from __future__ import annotations

from collections import Counter
from threading import Lock

from pykafka4.agent.message import Message, Reason, Refused, Source

__all__ = ["Ledger"]


class Ledger:
    """The counts since the start."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.counters: Counter[str] = Counter()  # by Dory's names
        self.discards: Counter[tuple[str, Reason]] = Counter()

    def received(self, count: int, source: Source) -> None:
        """Messages were read from an input."""
        with self._lock:
            self.counters[f"{source.value}_forwarded"] += count

    def refused(self, data: bytes, refused: Refused, source: Source) -> None:
        """Bytes were no message."""
        with self._lock:
            self.counters[f"refused_{refused.reason}"] += 1

    def discarded(self, message: Message, reason: Reason) -> None:
        """A message that was read got no further than the agent."""
        with self._lock:
            self.discards[message[0], reason] += 1
