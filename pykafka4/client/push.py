"""Pushes metrics of a producer or consumer to brokers (KIP-714). Invariant: a push delays no start, and a close by at most PATIENCE_S."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final

from pykafka4.core.telemetry.machine import MetricsSubscription, Telemetry
from pykafka4.net import logs

if TYPE_CHECKING:
    from pykafka4.client.runtime import Runtime
    from pykafka4.metrics.pushed import PushedFigures

__all__ = ["MetricsPush", "Pushing"]

PATIENCE_S: Final = 0.1  # longest wait for the response to the last push


class Pushing(Enum):
    """The kinds of clients that push metrics."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    SHARE = "share consumer"


class LazyFigures:
    """A `core.telemetry.machine.PushedFigures`. Few brokers ask for metrics, so `encode` imports the modules that it needs."""

    def __init__(self, kind: Pushing, session: object, labels: Callable[[], Mapping[str, str | None]]) -> None:
        self._kind, self._session, self._labels = kind, session, labels
        self._pushed: PushedFigures | None = None

    def encode(self, subscription: MetricsSubscription) -> bytes:
        if self._pushed is None:
            from pykafka4.metrics.pushed import figures_of

            self._pushed = figures_of(self._kind.name, self._session, self._resource)
        return self._pushed.encode(subscription)

    def _resource(self) -> dict[str, str]:
        return {name: value for name, value in self._labels().items() if value}


class MetricsPush:
    """The push of the metrics of one producer or consumer, with its own machine."""

    def __init__(self, runtime: Runtime, kind: Pushing, session: object, labels: Callable[[], Mapping[str, str | None]]) -> None:
        """`session` is the implementation behind the handle. Call this on the loop thread."""
        engine = runtime.engine
        self._runtime = runtime
        self.machine = Telemetry(runtime.config, engine.network, engine.random, LazyFigures(kind, session, labels))
        engine.add(self.machine, "push of metrics")

    def end(self) -> None:
        """Push once more if brokers ask for metrics, and wait up to PATIENCE_S for the response.

        Do nothing on a loop thread, which must not wait, or after the end of the loop.
        """
        loop, machine = self._runtime.loop, self.machine
        if machine.wanted and loop.alive and not logs.current().on_loop():
            promise = loop.promise(machine)
            loop.call(lambda now: machine.end(now, lambda: promise.set_result(None)), machine)
            promise.wait(PATIENCE_S)  # the result does not matter: the close continues even without a response
