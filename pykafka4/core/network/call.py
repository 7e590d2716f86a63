"""Call. Rule: one request at a time, repeated until its outcome ends the call; the same broker gets no second one without a back-off.

A request that any broker can answer is sent to another broker as well after OTHER_BROKER_S without a response. The first response that
ends the call counts, however late it is: otherwise a slow broker's response would never count while others refuse at once. After that,
responses to earlier requests are ignored. The slow request keeps its full timeout: an earlier timeout would close a connection that other
requests use.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol, TypeAlias

import attrs

from pykafka4.core import ANY, INFINITY, Failed, Outcome, Reply, Request
from pykafka4.core.backoff import Backoff
from pykafka4.core.network.endpoint import broker_of
from pykafka4.core.network.network import Network
from pykafka4.core.network.troubles import Troubles
from pykafka4.core.outbox import Outbox
from pykafka4.errors import BrokerError, KafkaError, KafkaTimeoutError
from pykafka4.wire.buffers import Buffer

__all__ = ["OTHER_BROKER_S", "AnyBroker", "Call", "Next", "Target", "Verdict", "unanswered"]

OTHER_BROKER_S = 3.0  # without a response, until another broker is asked as well


class Next(Enum):
    """What a call does after a request that has not ended it."""

    RETRY = "send it again after a back-off"
    ELSEWHERE = "send it to another broker; again after a back-off if there is no other"
    GIVE_UP = "tell the owner of the call"


Verdict: TypeAlias = tuple[Next, KafkaError] | None  # what an outcome means, and why; None: the call is over


def unanswered(failed: Failed) -> Verdict:
    """The usual verdict on a request without a response."""
    return Next.ELSEWHERE if failed.passing else Next.GIVE_UP, failed.reason


class Target(Protocol):
    """The broker that requests go to. It may be another one for each request."""

    @property
    def address(self) -> int | None:
        """The node to send to; None while the broker is unknown."""

    @property
    def last_error(self) -> KafkaError | None:
        """Why the broker is unknown."""

    @property
    def troubles(self) -> Troubles:
        """Where errors that are retried are reported."""

    def want(self) -> None:
        """Find the broker: a request waits for it."""

    def lost(self, now: float, node: int, reason: KafkaError) -> None:
        """Broker `node` did not respond, or is not the right one."""


@attrs.frozen
class AnyBroker:
    """The target of requests that any broker can answer."""

    network: Network
    address: int = ANY
    last_error: KafkaError | None = None

    @property
    def troubles(self) -> Troubles:
        """Those of the client."""
        return self.network.troubles

    def want(self) -> None:
        """Nothing to do: the network connects to a broker when there is a request."""

    def lost(self, now: float, node: int, reason: KafkaError) -> None:
        """Send requests to other brokers first, if it is known which broker this was."""
        if node != ANY:
            self.network.avoid(now, node)


@attrs.define(eq=False)
class CallRequest(Request):
    """One request of a call."""

    call: Call = attrs.field(kw_only=True)
    number: int = attrs.field(kw_only=True)

    def on_reply(self, now: float, outcome: Outcome) -> None:
        """See `Request`."""
        self.call.request_ended(now, self, outcome)


@attrs.define(eq=False)
class Call:
    """Requests of one kind to one target. `poll` sends them; to cancel the call, stop polling.

    `message()` returns the message to send, `answered(now, outcome)` what its outcome means. `gave_up(now, error)` is called when a retry
    cannot help; the request is repeated nevertheless if `poll` is called again.
    """

    _target: Target
    _backoff: Backoff
    _timeout: float
    _message: Callable[[], Any]
    _answered: Callable[[float, Outcome], Verdict]
    _gave_up: Callable[[float, KafkaError], None]
    max_version: int | None = None  # `message` may set it for the message that it returns
    _fit: Callable[[Any, int], None] | None = None
    _decode: Callable[[int, Buffer], Any] | None = None
    _first: int = 0  # number of the first request since the call last ended
    _current: int = 0  # numbers of the requests that are waited for: from `_current` to `_latest`
    _latest: int = 0
    _repeat_at: float = INFINITY  # when to send the request in flight to another broker as well
    _not_before: float = 0.0
    in_flight: bool = False
    last_error: KafkaError | None = None  # why the last request failed

    def poll(self, now: float, outbox: Outbox) -> float:
        """Send the request if it is due; returns when to be polled again."""
        node = self._target.address
        if node is None:
            self._target.want()
            return INFINITY
        due = self._repeat_at if self.in_flight else self._not_before
        if now < due:
            return due
        self._latest += 1
        if not self.in_flight:
            self._current, self.in_flight = self._latest, True
        self._repeat_at = now + OTHER_BROKER_S if node == ANY else INFINITY
        message = self._message()  # which may set `max_version`
        deadline = now + self._timeout
        outbox.send(CallRequest(node, message, deadline, self.max_version, self._fit, self._decode, call=self, number=self._latest))
        return self._repeat_at

    def rest(self, now: float, reason: KafkaError) -> None:
        """Let the next request wait for a back-off, because of `reason`."""
        self.last_error, self._not_before = reason, now + self._backoff.next()
        if isinstance(reason, BrokerError):  # lost connections have an owner: the network
            self._target.troubles.note(now, self, reason)

    def start_over(self) -> None:
        """The next request has another purpose: it does not wait for the back-off of the last one."""
        self.last_error, self._not_before = None, 0.0

    def reset(self) -> None:
        """The target works: the next back-off is the shortest again."""
        self.last_error = None
        self._target.troubles.over(self)
        self._backoff.reset()

    def timed_out(self, what: str) -> KafkaTimeoutError:
        """The error for a caller whose deadline is over. `what` says what has timed out."""
        return KafkaTimeoutError(f"{what} (last error: {self.last_error or self._target.last_error or 'none'})")

    def request_ended(self, now: float, request: CallRequest, outcome: Outcome) -> None:
        """A request of this call has its outcome."""
        number, node = request.number, request.node
        current = self.in_flight and number >= self._current
        if number < self._first or (isinstance(outcome, Failed) and not (current and number == self._latest)):
            return
        if current:
            self.in_flight = False
        verdict = self._answered(now, outcome)
        if verdict is None:
            self._end()
            return
        if not current:
            return
        then, self.last_error = verdict
        if then is Next.ELSEWHERE:
            self._target.lost(now, outcome.node if isinstance(outcome, Reply) else broker_of(node), self.last_error)
        if self._target.address == node:
            self.rest(now, self.last_error)
        if then is Next.GIVE_UP:
            self._end()
            self._gave_up(now, self.last_error)

    def _end(self) -> None:
        """The call is over: responses to its other requests are ignored."""
        self._first, self.in_flight = self._latest + 1, False
        self._target.troubles.over(self)
