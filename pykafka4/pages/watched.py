"""Declares the figures that a status page shows: the kinds of clients, their figures at a moment, and the protocol of their source."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, Protocol

import attrs

__all__ = ["ENDED", "SERIES", "Figures", "Kind", "Look", "Watched", "counts_of"]


class Kind(StrEnum):
    """The kind of the client to which a page belongs."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    SHARE_CONSUMER = "share consumer"
    CLIENT = "client"


ENDED: Final = frozenset({"closed", "forked"})  # states in which a page closes itself
SERIES: Final[Mapping[Kind, tuple[str, ...]]] = {  # the counts whose rates are drawn
    Kind.PRODUCER: ("accepted", "acknowledged"),
    Kind.CONSUMER: ("fetched_bytes", "read_bytes"),
    Kind.SHARE_CONSUMER: ("delivered", "acknowledged"),
    Kind.CLIENT: (),
}


@attrs.frozen
class Figures:
    """A client's `status()` and `stats()`. `stats` may be empty, as for a `Client`.

    `users` has the kind, group and client id of each producer, consumer, share consumer and admin client of a `Client`.
    """

    status: Mapping[str, Any]
    stats: Mapping[str, Any]
    users: tuple[Mapping[str, Any], ...] = ()


@attrs.frozen
class Look:
    """The figures at a moment. `at` is in seconds since the epoch."""

    at: float
    figures: Figures

    @property
    def status(self) -> Mapping[str, Any]:
        return self.figures.status


class Watched(Protocol):
    """The part of a producer, consumer, share consumer or client that its page reads."""

    @property
    def kind(self) -> Kind:
        """The kind, on which the columns, curves and headlines depend."""

    @property
    def client_id(self) -> str:
        """The name of the client on the page and in log lines."""

    def figures(self) -> Figures:
        """Return the figures. Waits for the client's thread, for several seconds if the thread is stuck; then it may raise KafkaError."""


def counts_of(kind: Kind, stats: Mapping[str, Any]) -> dict[str, int] | None:
    if not stats:
        return None
    if kind is Kind.PRODUCER:
        lost = sum(stats["failed"].values()) + sum(stats["dropped"].values())
        return {"accepted": stats["accepted"], "acknowledged": stats["acked"], "lost": lost}
    if kind is Kind.CONSUMER:
        return {"fetched_bytes": stats["fetched_bytes"], "read_bytes": stats["fetched_bytes"] - stats["buffered_bytes"]}
    return {"delivered": stats["delivered"], "acknowledged": stats["acknowledged"]}
