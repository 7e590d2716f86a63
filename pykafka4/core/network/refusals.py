"""Tells the machines which brokers refuse this client, so that waiting requests and records fail soon. Invariant: a refusal is reported
only for brokers that never accepted this client; a broker that has accepted the client before may accept it again.

An application with the wrong password must not wait for a delivery timeout to get an error. But while the passwords or certificates of a
running client are being replaced, brokers refuse the client for a while, and no record may be lost. So a refusal by one broker is reported
only if that broker has never answered a request of this client, and a refusal by the whole cluster only if no broker has. Credentials and
the client's certificate are the same for all brokers: once a broker has accepted them, their refusal by another broker is not reported.

A refusal may be only a guess: the broker closes every connection instead of answering, as if the listener demanded TLS or SASL, but perhaps
the network does not work yet. A guess is believed only if for several seconds nothing else happened in the whole cluster, and every attempt
led to the same guess, because a client uses the same protocol for all brokers. So a guess about the listener is wrong once any broker has
answered, and the next attempt comes after the usual backoff. The source of the credentials, such as the application's callable, is the same
for all brokers: if every failed authentication in these seconds was a failure of this source, its error is reported, even if some brokers
could not be reached at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from pykafka4.core import ANY, INFINITY
from pykafka4.core.network.endpoint import LANE, Endpoint, broker_of
from pykafka4.errors import AuthenticationError

__all__ = ["DOUBT_S", "FIRST_PAUSE_S", "LONGEST_PAUSE_S", "Refusals", "Refused"]

Refused: TypeAlias = Callable[[float, int, AuthenticationError], None]
LEAST_GUESSES: Final = 3  # attempts in a row at each broker until a guess is believed: a broker that shuts down also closes connections
DOUBT_S: Final = 5.0  # seconds for which these attempts have to continue
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 5.0  # seconds from a refusal to the next attempt: many attempts may lock an account


class Refusals:
    __slots__ = ("_accepted", "_endpoints", "_ready", "_without_credentials", "listeners")

    def __init__(self, endpoints: Mapping[int, Endpoint], ready: Mapping[int, Any]) -> None:
        self.listeners: dict[Refused, None] = {}  # called with (now, broker, error); broker ANY stands for the whole cluster
        self._endpoints, self._ready = endpoints, ready
        self._accepted: set[int] = set()  # brokers that have answered a request after the handshake
        self._without_credentials = INFINITY  # the start of the first of consecutive attempts that got no credentials; INFINITY: none

    def has_answered(self, node: int) -> bool:
        return broker_of(node) in self._accepted

    def answered(self, endpoint: Endpoint) -> None:
        """Count the broker as one that has answered a request after the handshake.

        Only such an answer proves that the broker accepts the client: a listener that demands SASL also completes the handshake
        of a client without SASL.
        """
        self._accepted.add(broker_of(endpoint.node))
        endpoint.refusals = 0

    def ended(self, now: float, endpoint: Endpoint) -> None:
        if isinstance(endpoint.error, AuthenticationError) and not (endpoint.error.guessed_cause and self._accepted):
            self._without_credentials = min(self._without_credentials, endpoint.dialled_at) if endpoint.error.is_local else INFINITY
            if endpoint.guessed_cause != endpoint.error.guessed_cause:
                endpoint.refusals, endpoint.guessed_cause = 0, endpoint.error.guessed_cause
            endpoint.refused_since = endpoint.refused_since if endpoint.refusals else now
            endpoint.refusals += 1
            endpoint.not_before = max(endpoint.not_before, now + min(FIRST_PAUSE_S * 2 ** min(endpoint.refusals - 1, 10), LONGEST_PAUSE_S))
        else:
            endpoint.refusals = 0
        broker, error = broker_of(endpoint.node), endpoint.error
        if broker >= 0 and isinstance(error, AuthenticationError) and self._counts(broker, error):
            self._tell(now, broker, error)
        if not self._accepted and not self._ready and (refusal := self._of_all(now)) is not None:
            self._tell(now, ANY, refusal)

    def _counts(self, broker: int, error: AuthenticationError) -> bool:
        """Whether a refusal by this broker fails the requests and records that wait for it."""
        was_accepted = bool(self._accepted) if error.is_of_client else broker in self._accepted
        return error.certain and not error.is_local and not was_accepted

    def _of_all(self, now: float) -> AuthenticationError | None:
        """Return the error with which the whole cluster refuses this client, or None.

        The cluster refuses the client if for DOUBT_S the client got no credentials for any failed authentication, or if all
        addresses have failed: one of them with a certain refusal, or all with the same guess for long enough.
        """
        endpoints = [e for e in self._endpoints.values() if e.node < LANE]
        errors = [e.error for e in endpoints if isinstance(e.error, AuthenticationError)]
        if now >= self._without_credentials + DOUBT_S:
            return next((error for error in errors if error.is_local), None)
        if any(e.error is None for e in endpoints):
            return None
        if (certain := next((error for error in errors if error.certain), None)) is not None:
            return certain
        alike = len({e.guessed_cause for e in endpoints}) == 1
        return errors[0] if alike and all(e.refusals >= LEAST_GUESSES and now >= e.refused_since + DOUBT_S for e in endpoints) else None

    def _tell(self, now: float, broker: int, error: AuthenticationError) -> None:
        for listener in list(self.listeners):
            listener(now, broker, error)
