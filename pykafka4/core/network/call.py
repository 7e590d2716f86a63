"""Repeats a request until an outcome ends the call. Invariant: if the last failure did not change the target's address, the next request
waits for a backoff, unless `start_over` drops the backoff.

A request that any broker can answer is sent again after OTHER_BROKER_S without a response, to another broker if one can be reached. A late
response to an earlier request can still end the call: otherwise, while other brokers refuse at once, the response of a slow broker would
always be ignored. After the end, responses to earlier requests are ignored. The slow request keeps its full timeout: an earlier timeout
would close a connection that other requests use.
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

OTHER_BROKER_S = 3.0  # seconds without a response, after which another broker gets the request as well


class Next(Enum):
    """The next step of a call after an error."""

    RETRY = "send the request again after a backoff"
    ELSEWHERE = "find another broker, and send the request there; after a backoff if the target stays the same"
    GIVE_UP = "report the error to the owner of the call"


Verdict: TypeAlias = tuple[Next, KafkaError] | None  # the next step after an outcome, and the reason; None: the call has ended


def unanswered(failed: Failed) -> Verdict:
    return Next.ELSEWHERE if failed.passing else Next.GIVE_UP, failed.reason


class Target(Protocol):
    """The broker to which requests go; each request may go to a different broker."""

    @property
    def address(self) -> int | None:
        """The node to send to; None while the broker is unknown."""

    @property
    def last_error(self) -> KafkaError | None:
        """The reason why the broker is unknown; None without an error."""

    @property
    def troubles(self) -> Troubles:
        """The client's record of errors that are retried."""

    def want(self) -> None:
        """Find the broker, because a request waits for it."""

    def lost(self, now: float, node: int, reason: KafkaError) -> None:
        """Drop or avoid broker `node`, which did not respond, or is not the right one."""


@attrs.frozen
class AnyBroker:
    """The target of requests that any broker can answer."""

    network: Network
    address: int = ANY
    last_error: KafkaError | None = None

    @property
    def troubles(self) -> Troubles:
        return self.network.troubles

    def want(self) -> None:
        """Do nothing: the network connects to a broker when there is a request."""

    def lost(self, now: float, node: int, reason: KafkaError) -> None:
        if node != ANY:
            self.network.avoid(now, node)


@attrs.define(eq=False)
class CallRequest(Request):
    call: Call = attrs.field(kw_only=True)
    number: int = attrs.field(kw_only=True)

    def on_reply(self, now: float, outcome: Outcome) -> None:
        self.call.request_ended(now, self, outcome)


@attrs.define(eq=False)
class Call:
    """A request to one target, and its repetitions. `poll` sends each when it is due. Without polls, no more are sent, but the call still
    handles the outcomes of requests in flight.

    `message()` returns the message to send, `answered(now, outcome)` the verdict on its outcome. When a retry cannot help, the call runs
    `gave_up(now, error)`; after that, another `poll` would send the request again.
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
    _current: int = 0  # the call waits for the requests with the numbers from `_current` to `_latest`
    _latest: int = 0
    _repeat_at: float = INFINITY  # the time to send the request in flight to another broker as well
    _not_before: float = 0.0
    in_flight: bool = False
    last_error: KafkaError | None = None  # the last failure; None after `reset` or `start_over`

    def poll(self, now: float, outbox: Outbox) -> float:
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
        message = self._message()  # before `CallRequest`, because the callable may set `max_version`
        deadline = now + self._timeout
        outbox.send(CallRequest(node, message, deadline, self.max_version, self._fit, self._decode, call=self, number=self._latest))
        return self._repeat_at

    def back_off(self, now: float, reason: KafkaError) -> None:
        self.last_error, self._not_before = reason, now + self._backoff.next()
        if isinstance(reason, BrokerError):  # the network notes lost connections
            self._target.troubles.note(now, self, reason)

    def start_over(self) -> None:
        """Drop the backoff, because the next request has another purpose."""
        self.last_error, self._not_before = None, 0.0

    def reset(self) -> None:
        """Return to the shortest backoff, because the target works."""
        self.last_error = None
        self._target.troubles.over(self)
        self._backoff.reset()

    def timed_out(self, what: str) -> KafkaTimeoutError:
        """`what` names the operation whose deadline has passed."""
        return KafkaTimeoutError(f"{what} (last error: {self.last_error or self._target.last_error or 'none'})")

    def request_ended(self, now: float, request: CallRequest, outcome: Outcome) -> None:
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
            self.back_off(now, self.last_error)
        if then is Next.GIVE_UP:
            self._end()
            self._gave_up(now, self.last_error)

    def _end(self) -> None:
        """End the call: from now on, ignore responses to the requests sent so far."""
        self._first, self.in_flight = self._latest + 1, False
        self._target.troubles.over(self)
