"""Collects the figures of a consumer or share consumer for its status page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import attrs

from pykafka4.client.runtime import Runtime
from pykafka4.consumer.session import ConsumerSession
from pykafka4.pages.watched import Figures, Kind

__all__ = ["WatchedConsumer", "WatchedShareConsumer"]


@attrs.frozen
class WatchedConsumer:
    """See pages.watched.Watched."""

    client_id: str
    _session: ConsumerSession
    kind: Kind = Kind.CONSUMER

    def figures(self) -> Figures:
        """Partitions with a known position have `position` and `lag` besides the figures of `status()`."""
        session = self._session
        member, standing = session.status(), session.reader.standing()
        rows = member.get("partitions", {})
        for tp, (position, end) in standing.items():
            if (row := rows.get(str(tp))) is not None:
                row["position"], row["lag"] = position, None if end < 0 else max(0, end - position)
        return Figures({**session.runtime.status(), "consumer": member}, session.stats())


class ShareConsumerCalls(Protocol):
    """The object behind the handle of a share consumer."""

    runtime: Runtime

    def status(self) -> dict[str, Any]:
        """The part `share_consumer` of ShareConsumer.status."""

    def stats(self) -> Mapping[str, int]:
        """See ShareConsumer.stats."""


@attrs.frozen
class WatchedShareConsumer:
    """See pages.watched.Watched."""

    client_id: str
    _session: ShareConsumerCalls
    kind: Kind = Kind.SHARE_CONSUMER

    def figures(self) -> Figures:
        session = self._session
        return Figures({**session.runtime.status(), "share_consumer": session.status()}, session.stats())
