"""Measures how late heartbeats arrive at the model broker. A heartbeat that never comes counts as late, too."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from benchmarks.latency.load import clock
from pykafka4.testing import ModelServer
from pykafka4.testing.model import ModelCluster

__all__ = ["Beats", "lateness"]


class Beats:
    def __init__(self, server: ModelServer) -> None:
        self.arrived: list[float] = []

        def watch(cluster: ModelCluster) -> None:
            cluster.on_request = self._saw

        server.do(watch)

    def _saw(self, request: str) -> None:
        if ": Heartbeat " in request:
            self.arrived.append(clock())


def lateness(arrived: Sequence[float], began: float, ended: float, interval: float) -> list[float]:
    """Return for each heartbeat from `began` to `ended` how many milliseconds more than `interval` passed since the one before, at least 0.

    Without a heartbeat before `began`, the first gap counts from `began`. The gap after the last heartbeat counts until `ended`, if it
    exceeds the interval.
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
