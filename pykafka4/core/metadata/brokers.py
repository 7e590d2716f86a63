"""Declares `Broker`, and compares two lists of brokers. A broker with a new address counts as one removed and one added broker."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pykafka4.core.metadata.events import BrokerAdded, BrokerRemoved
from pykafka4.errors.peer_text import LONGEST_HOST, visible

__all__ = ["Broker", "changes_of"]


def _host(host: str) -> str:
    return visible(host, LONGEST_HOST)


def _rack(rack: str | None) -> str | None:
    return None if rack is None else visible(rack)


@attrs.frozen
class Broker:
    node: int
    host: str = attrs.field(converter=_host)
    port: int
    rack: str | None = attrs.field(converter=_rack, default=None)

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port


def changes_of(before: Mapping[int, Broker], after: Mapping[int, Broker]) -> list[BrokerAdded | BrokerRemoved]:
    """Return the events, removed brokers first."""

    def missing(those: Mapping[int, Broker], others: Mapping[int, Broker]) -> list[Broker]:
        return [b for b in those.values() if b.node not in others or others[b.node].address != b.address]

    removed = [BrokerRemoved(b.node, *b.address) for b in missing(before, after)]
    return [*removed, *(BrokerAdded(b.node, *b.address) for b in missing(after, before))]
