"""Remembers topics that brokers report as unknown or invalid. New messages of such a topic are discarded at once, except for one
message every `PAUSE_S` seconds: for this message, the producer requests the topic's metadata again.

Otherwise a program with a misspelt topic would fill the pool and the disk with messages that wait for the same answer.
Invariant: `denies` returns True only within `PAUSE_S` seconds of the topic's last error, or of its last message that was not denied.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from pykafka4.agent.message import Reason
from pykafka4.hooks import BatchOutcome, ProducerHooks

__all__ = ["PAUSE_S", "UnknownTopics"]

PAUSE_S: Final = 10.0
MOST_TOPICS: Final = 10_000
CODES: Final = ("UNKNOWN_TOPIC_OR_PARTITION", "INVALID_TOPIC_EXCEPTION")


class _Pause:
    """The pause of a topic. `until` is the time from which a message is passed to the producer again.

    `denies` changes a pause, and adds none to the dict. Otherwise: `denies` finds the pause, `on_ack` removes the pause on another thread,
    `denies` adds the pause again, and messages of a known topic are discarded.
    """

    __slots__ = ("until",)

    def __init__(self, until: float) -> None:
        self.until = until


class UnknownTopics(ProducerHooks):
    """A hook of the producer, whose callback executor adds and removes topics; the router calls `denies` on the agent's loop."""

    def __init__(self, reason: Reason = Reason.BAD_TOPIC, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is monotonic, in seconds."""
        self.reason, self._clock = reason, clock
        self._pauses: dict[str, _Pause] = {}

    def __len__(self) -> int:
        return len(self._pauses)

    def on_ack(self, outcome: BatchOutcome) -> None:
        if outcome.error is None:
            self._pauses.pop(outcome.topic, None)
        elif outcome.partition is None and str(outcome.error.code) in CODES:
            if len(self._pauses) >= MOST_TOPICS:
                self._pauses.clear()
            self._pauses[outcome.topic] = _Pause(self._clock() + PAUSE_S)

    def denies(self, topic: str) -> bool:
        """Whether to discard a message of `topic`. If not, and the topic was unknown, the producer asks the brokers again."""
        pause = self._pauses.get(topic)
        if pause is None:
            return False
        now = self._clock()
        if now < pause.until:
            return True
        pause.until = now + PAUSE_S
        return False
