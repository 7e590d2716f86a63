"""Back-off. Rule: every retry in the client waits on one of these; nothing retries on a fixed clock or at once twice."""

from __future__ import annotations

from random import Random

from pykafka4.config import ClientConfig

__all__ = ["Backoff"]

JITTER = 0.2  # Java's: enough to spread a thousand clients that lost the same broker
MOST_DOUBLINGS = 30  # 2.0 ** more would overflow after a long outage


class Backoff:
    """Pauses that double from `first` to `longest` seconds, each 20 % longer or shorter at random."""

    __slots__ = ("_first", "_longest", "_random", "attempts")

    def __init__(self, first: float, longest: float, random: Random) -> None:
        self._first, self._longest, self._random = first, max(first, longest), random
        self.attempts = 0

    @classmethod
    def retry(cls, config: ClientConfig, random: Random) -> Backoff:
        """For requests: `retry_backoff_ms` to `retry_backoff_max_ms`."""
        return cls(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000, random)

    @classmethod
    def reconnect(cls, config: ClientConfig, random: Random) -> Backoff:
        """For connections: `reconnect_backoff_ms` to `reconnect_backoff_max_ms`."""
        return cls(config.reconnect_backoff_ms / 1000, config.reconnect_backoff_max_ms / 1000, random)

    @classmethod
    def setup(cls, config: ClientConfig, random: Random) -> Backoff:
        """How long an attempt to connect may take: `socket_connection_setup_timeout_ms` to its max."""
        return cls(config.socket_connection_setup_timeout_ms / 1000, config.socket_connection_setup_timeout_max_ms / 1000, random)

    def next(self) -> float:
        """The next pause in seconds; never longer than `longest` by more than the jitter."""
        plain = min(self._first * 2.0 ** min(self.attempts, MOST_DOUBLINGS), self._longest)
        self.attempts += 1
        return plain * self._random.uniform(1 - JITTER, 1 + JITTER)

    def reset(self) -> None:
        """It worked: begin again with the first pause."""
        self.attempts = 0
