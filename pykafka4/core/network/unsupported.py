"""Makes the error for a request that a broker does not support, with the reason and the way out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pykafka4.core import Request
from pykafka4.errors import UnsupportedVersion

__all__ = ["no_version"]

PRODUCE, FETCH, INIT_PRODUCER_ID = 0, 1, 22  # as numbers: an import of the messages would declare a producer's messages in every consumer
WRITES: Final = {PRODUCE, INIT_PRODUCER_ID}
BEFORE_0_11: Final = 3  # the highest Fetch version of brokers that have only the old record formats
READ_ONLY: Final = "from brokers older than Kafka 0.11, as this one is, pykafka4 can only consume: upgrade the broker to produce"
Offered = Mapping[int, tuple[int, int]]


def no_version(request: Request, node: int, offered: Offered) -> UnsupportedVersion:
    """`offered` has the broker's lowest and highest version by API key."""
    message = request.message
    theirs = offered.get(message.api_key)
    support = "does not support it" if theirs is None else f"supports versions {theirs[0]} to {theirs[1]}"
    limit = "" if request.max_version is None else f" (here at most {request.max_version})"
    way_out = _way_out(message, theirs, offered)
    return UnsupportedVersion(
        f"{type(message).__name__}: broker {node} {support}, this client supports {message.versions}{limit}{way_out and f'; {way_out}'}"
    )


def _way_out(message: Any, theirs: tuple[int, int] | None, offered: Offered) -> str:
    if message.api_key in WRITES and offered.get(FETCH, (0, 0))[1] <= BEFORE_0_11:
        return READ_ONLY
    if theirs is None or theirs[1] < message.versions.lo:
        return f"it needs Kafka {message.since} or newer: upgrade the broker"
    return "upgrade pykafka4" if theirs[0] > message.versions.hi else ""
