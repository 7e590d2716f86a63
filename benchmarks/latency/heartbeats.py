"""Heartbeats, as the model broker receives them. Rule: a heartbeat that never comes is late, too."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from benchmarks.latency.load import clock
from pykafka4.testing import ModelServer
from pykafka4.testing.model import ModelCluster

__all__ = ["Beats", "lateness"]


class Beats:
    """When heartbeats arrived, whoever sent them."""

    def __init__(self, server: ModelServer) -> None:
        self.arrived: list[float] = []

        def watch(cluster: ModelCluster) -> None:
            cluster.on_request = self._saw

        server.do(watch)

    def _saw(self, request: str) -> None:
        if ": Heartbeat " in request:
            self.arrived.append(clock())


def lateness(arrived: Sequence[float], began: float, ended: float, interval: float) -> list[float]:
    """Milliseconds by which each heartbeat in this time came later after the one before it than the interval; an early one is not late.

    Without one before them, and at the end, they are counted from the ends of this time.
    """
    inside = [moment for moment in arrived if began <= moment <= ended]
    gaps = [after - before for before, after in itertools.pairwise([began, *inside])]
    if not inside:
        return [1e3 * (ended - began - interval)] if ended - began > interval else []
    if arrived[0] < began:
        gaps[0] = inside[0] - max(moment for moment in arrived if moment < began)
    if ended - inside[-1] > interval:
        gaps.append(ended - inside[-1])
    return [round(1e3 * max(0.0, gap - interval), 4) for gap in gaps]
