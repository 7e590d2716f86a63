"""Pushes the metrics of one producer or consumer. Invariant: at most one request is in flight, and only to a broker that offers KIP-714.

The machine requests a broker's list of wanted metrics, then pushes these metrics at the broker's interval, to the same broker while it is
connected. The first interval is multiplied by 0.5 to 1.5, so that clients that start together do not push together. Source: KIP-714,
`ClientTelemetryReporter`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from random import Random
from typing import Any, Final, Protocol
from uuid import UUID

import attrs

from pykafka4.core import INFINITY, NOTHING, Effects, Failed, Outcome, Request, Transitions
from pykafka4.core.network.network import Network
from pykafka4.core.outbox import Outbox
from pykafka4.errors.codes import error_code
from pykafka4.logs import get_log
from pykafka4.options.config import ClientConfig
from pykafka4.wire.records.compression import compress

__all__ = ["MetricsSubscription", "PushedFigures", "Telemetry", "TelemetryState"]

log = get_log("pykafka4.telemetry")

GET_SUBSCRIPTIONS: Final = 71  # the API key as a number: the message is imported only when a broker offers it
RETRY_S: Final = 300.0  # until the next request for subscriptions, after a failed one; Java's default
LEAST_S: Final = 0.1  # the shortest interval between pushes
NO_INSTANCE: Final = UUID(int=0)  # the id with which a client asks the broker to assign one


class TelemetryState(Enum):
    WAITING = "waiting"
    ASKING = "asking"
    PUSHING = "pushing"
    ENDED = "ended"


S = TelemetryState
TABLE = Transitions[S](
    "metrics push",
    {
        S.WAITING: {S.ASKING, S.PUSHING, S.ENDED},
        S.ASKING: {S.WAITING, S.ENDED},
        S.PUSHING: {S.WAITING, S.ENDED},
        S.ENDED: set(),
    },
    {
        S.WAITING: "until the next request is due, or until a broker that accepts metrics is connected",
        S.ASKING: "GetTelemetrySubscriptions is in flight",
        S.PUSHING: "PushTelemetry is in flight",
        S.ENDED: "nothing is sent any more: the client was closed, or brokers have refused for good",
    },
)


class PushReaction(Enum):
    ASK = "ask at once for the metrics that are wanted"
    NEXT = "continue at the next interval"
    STOP = "push no more"


REACTIONS: Final = {  # for other errors: NEXT
    "UNKNOWN_SUBSCRIPTION_ID": PushReaction.ASK,
    "UNSUPPORTED_COMPRESSION_TYPE": PushReaction.ASK,
    "TELEMETRY_TOO_LARGE": PushReaction.NEXT,
    "THROTTLING_QUOTA_EXCEEDED": PushReaction.NEXT,
    "INVALID_REQUEST": PushReaction.STOP,
    "INVALID_RECORD": PushReaction.STOP,
    "UNSUPPORTED_VERSION": PushReaction.STOP,
}


@attrs.frozen
class MetricsSubscription:
    """The metrics that the cluster wants, by `prefixes` of names ("" and "*": all). `delta`: sums count since the last push."""

    instance: UUID
    id: int
    prefixes: tuple[str, ...]
    delta: bool
    interval_s: float
    max_bytes: int
    codec: int

    def wants(self, name: str) -> bool:
        return any(prefix == "*" or name.startswith(prefix) for prefix in self.prefixes)


class PushedFigures(Protocol):
    def encode(self, subscription: MetricsSubscription) -> bytes:
        """The wanted metrics as OpenTelemetry's `MetricsData`; empty if there are none. For the loop thread."""


@attrs.define(eq=False)
class _Asked(Request):
    machine: Telemetry = attrs.field(kw_only=True)

    def on_reply(self, now: float, outcome: Outcome) -> None:
        self.machine.subscribed(now, outcome)


@attrs.define(eq=False)
class _Pushed(Request):
    machine: Telemetry = attrs.field(kw_only=True)

    def on_reply(self, now: float, outcome: Outcome) -> None:
        self.machine.pushed(now, outcome)


class Telemetry:
    """Any thread may read `wanted`."""

    def __init__(self, config: ClientConfig, network: Network, random: Random, figures: PushedFigures) -> None:
        self.state = S.WAITING
        self.subscription: MetricsSubscription | None = None  # None: it has to be requested from a broker
        self._config, self._network, self._figures = config, network, figures
        self._instance = NO_INSTANCE
        self._first = random.uniform(0.5, 1.5)  # factor of the first interval
        self._due = -INFINITY
        self._node: int | None = None
        self._seen = -1  # the count of the network's changes at the last search for a broker
        self._packs = True  # False once brokers have refused a codec
        self._ended: Callable[[], None] | None = None  # called after the last push
        self._outbox = Outbox()

    @property
    def wanted(self) -> bool:
        """Whether the client may push once more when it is closed."""
        return self.state in (S.WAITING, S.PUSHING) and self.subscription is not None

    def poll(self, now: float) -> Effects:
        if self.state is S.WAITING and now >= self._due and self._find_broker():
            if self.subscription is None:
                self._ask(now)
            else:
                self._push(now, self.subscription, terminating=False)
        if self.state is S.WAITING and self._due > now:
            return self._outbox.effects(self._due)
        return self._outbox.effects(INFINITY) if self._outbox.requests else NOTHING

    def _find_broker(self) -> bool:
        """Return whether a broker that accepts metrics is connected. Repeat a failed search only after the connections have changed."""
        if self._node is not None and self._network.is_connected(self._node):
            return True
        if self._seen == self._network.changes:
            return False
        self._seen, self._node = self._network.changes, self._network.offering(GET_SUBSCRIPTIONS)
        return self._node is not None

    def _ask(self, now: float) -> None:
        from pykafka4.wire.protocol.messages_telemetry import GetTelemetrySubscriptionsRequest  # imported here: few brokers accept metrics

        assert self._node is not None
        self.state = TABLE.move(self.state, S.ASKING)
        message = GetTelemetrySubscriptionsRequest(client_instance_id=self._instance)
        self._outbox.send(_Asked(self._node, message, self._deadline(now), machine=self))

    def _push(self, now: float, subscription: MetricsSubscription, *, terminating: bool) -> None:
        """If there is no wanted metric, or the metrics are larger than brokers accept, only a terminating push is sent, without metrics."""
        from pykafka4.wire.protocol.messages_telemetry import PushTelemetryRequest

        assert self._node is not None
        metrics = self._figures.encode(subscription)
        if metrics and subscription.codec:
            metrics = compress(subscription.codec, metrics)
        if len(metrics) > subscription.max_bytes:
            log.info(
                "%s: %d bytes of metrics are more than brokers accept (%d)", self._config.client_id, len(metrics), subscription.max_bytes
            )
            metrics = b""
        if not metrics and not terminating:
            self._due = now + subscription.interval_s
            return
        self.state = TABLE.move(self.state, S.PUSHING)
        codec = subscription.codec if metrics else 0
        message = PushTelemetryRequest(
            client_instance_id=subscription.instance,
            subscription_id=subscription.id,
            terminating=terminating,
            compression_type=codec,
            metrics=metrics,
        )
        self._outbox.send(_Pushed(self._node, message, self._deadline(now), machine=self))

    def _deadline(self, now: float) -> float:
        return now + self._config.request_timeout_ms / 1000

    def subscribed(self, now: float, outcome: Outcome) -> None:
        if self.state is S.ENDED or self._failed(now, outcome, RETRY_S, "brokers did not say which metrics they want"):
            return
        assert not isinstance(outcome, Failed)
        found: Any = outcome.message
        self._instance = found.client_instance_id
        interval = max(LEAST_S, found.push_interval_ms / 1000)
        self.subscription = MetricsSubscription(
            found.client_instance_id,
            found.subscription_id,
            tuple(found.requested_metrics),
            found.delta_temporality,
            interval,
            found.telemetry_max_bytes,
            self._codec(found.accepted_compression_types),
        )
        self._due = now + interval * self._first
        self._first = 1.0
        if not found.requested_metrics:  # the cluster may want some later
            self.subscription = None

    def _codec(self, accepted: list[int]) -> int:
        return next((codec for codec in accepted if 0 <= codec <= 4), 0) if self._packs else 0

    def pushed(self, now: float, outcome: Outcome) -> None:
        """Schedule the next request. If the client is being closed, push for the last time, or call `ended` after the last push."""
        if self.state is S.ENDED or self.subscription is None:
            self._tell_end()
            return
        interval = self.subscription.interval_s
        if not self._failed(now, outcome, interval, "metrics were not pushed"):
            self._due = now + interval
        if self._ended is not None:
            self._finish(now)

    def _failed(self, now: float, outcome: Outcome, seconds: float, what: str) -> bool:
        """Return whether `outcome` is a failure, and set the state to WAITING, or to ENDED if brokers refuse for good.

        After a failure, log `what`; the next attempt comes after `seconds`, or at once.
        """
        if isinstance(outcome, Failed):
            name = str(outcome.reason)
            reaction = PushReaction.NEXT if outcome.passing else PushReaction.STOP
        elif (code := error_code(outcome.message.error_code)).code == 0:
            self.state = TABLE.move(self.state, S.WAITING)
            return False
        else:
            name = code.name
            reaction = REACTIONS.get(name, PushReaction.NEXT)
        log.info("%s: %s: %s", self._config.client_id, what, name)
        self.state = TABLE.move(self.state, S.ENDED if reaction is PushReaction.STOP else S.WAITING)
        self._due = now + seconds
        if reaction is PushReaction.ASK:
            self._packs = self._packs and name != "UNSUPPORTED_COMPRESSION_TYPE"
            if self.subscription is not None:  # only after a push: the request for subscriptions is not repeated at once
                self.subscription, self._due = None, now
        return True

    def end(self, now: float, ended: Callable[[], None]) -> None:
        """Push once more, after a push in flight, if brokers want metrics and one of them is connected.

        `ended` is called when the last push has an outcome, or at once if nothing is pushed.
        """
        self._ended = ended
        if self.state is not S.PUSHING:
            self._finish(now)

    def _finish(self, now: float) -> None:
        subscription = self.subscription
        pushes = self.state is S.WAITING and subscription is not None and self._find_broker()
        if pushes and subscription is not None:
            self._push(now, subscription, terminating=True)
        self.state = S.ENDED
        if not pushes:
            self._tell_end()

    def _tell_end(self) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended()

    def crash(self, reason: Any) -> tuple[Callable[[], None], ...]:
        """Complete a `close` that waits for the last push."""
        self._tell_end()
        return ()

    def dispose(self) -> None:
        self.state = S.ENDED
