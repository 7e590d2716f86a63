"""Computes pauses between attempts, and timeouts of attempts; both double up to a limit, and are partly random."""

from __future__ import annotations

from random import Random

from pykafka4.options.config import ClientConfig

__all__ = ["Backoff"]

JITTER = 0.2  # as in Java: enough to spread out a thousand clients that lost the same broker
MOST_DOUBLINGS = 30  # without a limit, 2.0 ** attempts would overflow after a long outage


class Backoff:
    """Pauses or timeouts that double from `first` to `longest` seconds, each randomly up to 20 % shorter or longer."""

    __slots__ = ("_first", "_longest", "_random", "attempts")

    def __init__(self, first: float, longest: float, random: Random) -> None:
        self._first, self._longest, self._random = first, max(first, longest), random
        self.attempts = 0

    @classmethod
    def retry(cls, config: ClientConfig, random: Random) -> Backoff:
        """The pauses between attempts of a request."""
        return cls(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000, random)

    @classmethod
    def reconnect(cls, config: ClientConfig, random: Random) -> Backoff:
        """The pauses between attempts to connect."""
        return cls(config.reconnect_backoff_ms / 1000, config.reconnect_backoff_max_ms / 1000, random)

    @classmethod
    def setup(cls, config: ClientConfig, random: Random) -> Backoff:
        """The timeouts of attempts to connect."""
        return cls(config.socket_connection_setup_timeout_ms / 1000, config.socket_connection_setup_timeout_max_ms / 1000, random)

    def next(self) -> float:
        """The next pause or timeout in seconds, at most `longest` plus the jitter."""
        plain = min(self._first * 2.0 ** min(self.attempts, MOST_DOUBLINGS), self._longest)
        self.attempts += 1
        return plain * self._random.uniform(1 - JITTER, 1 + JITTER)

    def reset(self) -> None:
        self.attempts = 0
