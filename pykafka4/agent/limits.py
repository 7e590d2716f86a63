"""Applies rate limits of topics to messages as they arrive. Invariant: memory is bounded, however many topics clients name."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, Final, Self

from pykafka4.agent.settings.values import TopicsSettings
from pykafka4.errors import BufferFull
from pykafka4.misuse import LONGEST_TOPIC
from pykafka4.options.policies import rates_of
from pykafka4.producer.rates import RateLimits, TopicRateLimit

__all__ = ["ArrivalLimits", "rate_limits"]

MOST_TOPICS: Final = 10_000  # the most recently used topics are kept; a forgotten topic begins a new interval


class ArrivalLimits:
    """The rate limits of topics. The agent's loop calls all methods.

    The producer's option `rate_limits` would count a message at its `send`, perhaps long after its arrival.
    """

    def __init__(self, limits: Mapping[str, tuple[int, float] | None], clock: Callable[[], float] = time.monotonic) -> None:
        """`limits` are as in the producer's option `rate_limits`; `clock` is monotonic, in seconds."""
        self._rates = RateLimits(rates_of(limits), lambda: 0.0, clock, nullcontext(), self._never_wait)
        self._admissions: OrderedDict[str, TopicRateLimit | None] = OrderedDict()

    @classmethod
    def of(cls, topics: TopicsSettings) -> Self | None:
        limits = rate_limits(topics)
        return cls(limits) if limits else None

    def admits(self, topic: str) -> bool:
        """Count a message of `topic`; return whether the message is within the limit."""
        try:
            admission = self._admissions[topic]
            self._admissions.move_to_end(topic)
        except KeyError:
            admission = self._meet(topic)
        return admission is None or not isinstance(admission(), BufferFull)

    def _meet(self, topic: str) -> TopicRateLimit | None:
        if len(topic) > LONGEST_TOPIC:  # its messages are refused later, and its name may take much memory
            return None
        if len(self._admissions) >= MOST_TOPICS:
            oldest, _ = self._admissions.popitem(last=False)
            self._rates.windows.pop(oldest, None)
        found = self._admissions[topic] = self._rates.admission(topic, drop=True)
        return found

    @staticmethod
    def _never_wait(seconds: float) -> None:
        raise AssertionError("a message never waits for its limit")


def rate_limits(topics: TopicsSettings) -> dict[str, tuple[int, float] | None]:
    """Return the limits as in the producer's option, in the order of `topics.named`, because the first matching pattern applies."""
    limits: dict[str, Any] = {name: each.rate_limit or topics.default.rate_limit for name, each in topics.named.items()}
    limits.setdefault("*", topics.default.rate_limit)
    if not any(limits.values()):
        return {}
    return {name: None if each is None else (each.max_count, each.interval_ms) for name, each in limits.items()}
