"""Counts the connections, requests and bytes of each broker. Invariant: counters only grow; a request costs one call at each end."""

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
    """The traffic with one broker so far. `durations` has by request name the seconds from writing to the response.

    `unanswered` counts by name the requests that were written and had no response: a time-out, or a lost connection.
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
    """The counters of one broker, whatever the connection. Loop thread only."""

    __slots__ = ("_durations", "_unanswered", "failed", "lost", "opened", "received_bytes", "sent_bytes", "throttled_s")

    def __init__(self) -> None:
        self.opened = self.failed = self.lost = 0  # connections: ready, attempts that failed, ready ones that were lost
        self.sent_bytes = self.received_bytes = 0
        self.throttled_s = 0.0  # as the responses said
        self._durations: dict[int, BucketCounts] = {}  # by API key
        self._unanswered: dict[int, int] = {}

    def sent(self, head: Readable) -> None:
        """A request that begins with `head`, and so with its size, is about to be written."""
        self.sent_bytes += SIZE.size + SIZE.unpack_from(head)[0]

    def answered(self, api_key: int, seconds: float, size: int) -> None:
        """A response of `size` bytes arrived `seconds` after its request was written."""
        self.received_bytes += size
        durations = self._durations.get(api_key)
        if durations is None:
            durations = self._durations[api_key] = BucketCounts()
        durations.add(seconds)

    def not_answered(self, requests: Iterable[Request]) -> None:
        """These requests were written, and have no response."""
        for request in requests:
            key = request.message.api_key
            self._unanswered[key] = self._unanswered.get(key, 0) + 1

    def snapshot(self) -> Traffic:
        """The counters of this moment."""
        return Traffic(
            self.opened,
            self.failed,
            self.lost,
            self.sent_bytes,
            self.received_bytes,
            self.throttled_s,
            {_name(key): durations.snapshot() for key, durations in self._durations.items()},
            {_name(key): count for key, count in self._unanswered.items()},
        )


def _name(api_key: int) -> str:
    return REQUESTS[api_key].__name__.removesuffix("Request")
