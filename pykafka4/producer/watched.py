"""Collects the figures of a producer for its status page."""

from __future__ import annotations

import attrs

from pykafka4.pages.watched import Figures, Kind
from pykafka4.producer.session import ProducerSession

__all__ = ["WatchedProducer"]


@attrs.frozen
class WatchedProducer:
    """See pages.watched.Watched."""

    client_id: str
    _session: ProducerSession
    kind: Kind = Kind.PRODUCER

    def figures(self) -> Figures:
        status = self._session.status()
        return Figures(status, status["producer"])
