"""Counts the connections, requests and bytes of each broker. Invariant: counters only grow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from pykafka4.core import Request
from pykafka4.core.histogram import BucketCounts, Histogram
from pykafka4.wire.buffers import Readable
from pykafka4.wire.protocol.frame import SIZE
from pykafka4.wire.protocol.schema import REQUESTS

__all__ = ["BrokerTraffic", "Traffic"]


@attrs.frozen
class Traffic:
    """The traffic with one broker so far. `durations`: the seconds from the write of a request to its response, by request name.

    `unanswered`: the number of written requests without a response at the end of their connection, by request name.
    """

    opened: int
    failed: int
    lost: int
    sent_bytes: int
    received_bytes: int
    throttled_s: float
    durations: Mapping[str, Histogram]
    unanswered: Mapping[str, int]


class BrokerTraffic:
    """The counters of one broker, for all its connections. Loop thread only, except `snapshot`."""

    __slots__ = ("_durations", "_unanswered", "failed", "lost", "opened", "received_bytes", "sent_bytes", "throttled_s")

    def __init__(self) -> None:
        self.opened = self.failed = self.lost = 0  # connections that became READY; attempts that failed; READY connections that were lost
        self.sent_bytes = self.received_bytes = 0
        self.throttled_s = 0.0  # the sum of the throttle times in responses
        self._durations: dict[int, BucketCounts] = {}  # by API key
        self._unanswered: dict[int, int] = {}

    def sent(self, head: Readable) -> None:
        """`head` is the first buffer of a request, which begins with its size."""
        self.sent_bytes += SIZE.size + SIZE.unpack_from(head)[0]

    def answered(self, api_key: int, seconds: float, size: int) -> None:
        """`size` is the size of the response, without its size field."""
        self.received_bytes += SIZE.size + size
        durations = self._durations.get(api_key)
        if durations is None:
            durations = self._durations[api_key] = BucketCounts()
        durations.add(seconds)

    def not_answered(self, requests: Iterable[Request]) -> None:
        for request in requests:
            key = request.message.api_key
            self._unanswered[key] = self._unanswered.get(key, 0) + 1

    def snapshot(self) -> Traffic:
        """Return the counters. Each dict is copied before its items are read, because the loop may add an API meanwhile."""
        return Traffic(
            self.opened,
            self.failed,
            self.lost,
            self.sent_bytes,
            self.received_bytes,
            self.throttled_s,
            {_name(key): durations.snapshot() for key, durations in self._durations.copy().items()},
            {_name(key): count for key, count in self._unanswered.copy().items()},
        )


def _name(api_key: int) -> str:
    return REQUESTS[api_key].__name__.removesuffix("Request")
