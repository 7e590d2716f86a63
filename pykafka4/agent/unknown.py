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


class UnknownTopics(ProducerHooks):
    """A hook of the producer, whose callback executor adds and removes topics; the router calls `denies` on the agent's loop."""

    def __init__(self, reason: Reason = Reason.BAD_TOPIC, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is monotonic, in seconds."""
        self.reason, self._clock = reason, clock
        self._until: dict[str, float] = {}  # topic -> the time from which a message is passed to the producer again

    def __len__(self) -> int:
        return len(self._until)

    def on_ack(self, outcome: BatchOutcome) -> None:
        if outcome.error is None:
            self._until.pop(outcome.topic, None)
        elif outcome.partition is None and str(outcome.error.code) in CODES:
            if len(self._until) >= MOST_TOPICS:
                self._until.clear()
            self._until[outcome.topic] = self._clock() + PAUSE_S

    def denies(self, topic: str) -> bool:
        """Whether to discard a message of `topic`. If not, and the topic was unknown, the producer asks the brokers again."""
        until = self._until.get(topic)
        if until is None:
            return False
        now = self._clock()
        if now < until:
            return True
        self._until[topic] = now + PAUSE_S
        return False
