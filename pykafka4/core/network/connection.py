"""Carries out the handshake of one connection, then sends requests and matches responses to requests. Invariant: responses come in the
order of the requests; any other response, and any failure of the connection itself, ends the connection with all its requests.

A request whose bytes were handed out may have reached the broker: when the connection ends, such a request fails as MAYBE, a queued request
as NO. While messages of an authentication are exchanged, for the first time or again, the connection writes no other request.
The connection collects outcomes in `answers`. `Network` passes them on between its own steps, so `on_reply` may call `Network`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pykafka4.core import INFINITY, Failed, Outcome, Reply, Request, Transitions
from pykafka4.core.network.answered import Answered
from pykafka4.core.network.flight import Flight, of_others
from pykafka4.core.network.secret_filter import SecretFilter
from pykafka4.core.network.traffic import BrokerTraffic
from pykafka4.core.network.unsupported import no_version
from pykafka4.errors import (
    AuthenticationError,
    ConnectionLost,
    DecodeError,
    KafkaError,
    KafkaTimeoutError,
    broker_error,
    caused_by,
)
from pykafka4.errors.codes import BY_NAME
from pykafka4.options.config import ClientConfig
from pykafka4.records import Written
from pykafka4.wire.buffers import Buffer
from pykafka4.wire.protocol import frame as frames
from pykafka4.wire.protocol.messages_cluster import ApiVersionsRequest, ApiVersionsResponse
from pykafka4.wire.protocol.schema import REQUESTS

if TYPE_CHECKING:
    from pykafka4.core.network.authentication import Authentication
    from pykafka4.core.sasl.mechanism import Mechanism

__all__ = ["SOFTWARE_NAME", "SOFTWARE_VERSION", "Answer", "Connection", "ConnectionState", "usable"]

SOFTWARE_NAME, SOFTWARE_VERSION = "pykafka4", "0.1.0"
FIRST_ASKED_VERSION = 4  # version of the first ApiVersions request; after UNSUPPORTED_VERSION, a lower version follows
MAX_CORRELATION = 0x7FFF_FFFF
UNSUPPORTED = BY_NAME["UNSUPPORTED_VERSION"].code
LONGEST_MUTE_S = 300.0  # seconds; brokers usually throttle for a shorter time, and a corrupt response must not stop a connection for days
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
SASL: Final = {SASL_HANDSHAKE, SASL_AUTHENTICATE}
# The part of an authentication's lifetime after which the client authenticates again. With the next request after the lifetime,
# the broker closes a connection that was not authenticated again.
REAUTHENTICATION_SHARE: Final = 0.85
CREDENTIALS_SHARE: Final = 0.75  # the part of the remaining setup time that the credentials may take; the broker gets the other part
# Shortest time from one authentication to the next, in seconds. Kafka refuses a second authentication within this time, and a
# broker that grants a shorter lifetime must not keep this client busy.
SOONEST_S: Final = 1.0
Answer: TypeAlias = tuple[Request, Outcome]


class HandshakeRequest(Request):
    """A request of the handshake or of an authentication; the connection reads the response itself."""

    __slots__ = ()


class ConnectionState(Enum):
    CONNECTING = "connecting"
    NEGOTIATING = "negotiating"
    AUTHENTICATING = "authenticating"
    READY = "ready"
    CLOSED = "closed"


S = ConnectionState
TABLE = Transitions[S](
    "connection",
    {
        S.CONNECTING: {S.NEGOTIATING, S.CLOSED},
        S.NEGOTIATING: {S.AUTHENTICATING, S.CLOSED},
        S.AUTHENTICATING: {S.READY, S.CLOSED},
        S.READY: {S.CLOSED},
        S.CLOSED: set(),
    },
    {
        S.CONNECTING: "the socket is connecting",
        S.NEGOTIATING: "ApiVersions is in flight",
        S.AUTHENTICATING: "the client authenticates itself with SASL; left at once without SASL",
        S.READY: "requests are sent",
        S.CLOSED: "closed, with the reason; reconnecting makes a new connection",
    },
)


def usable(theirs: tuple[int, int], api_key: int) -> tuple[int, int] | None:
    """Return the lowest and highest version that both sides support; None if there is no such version.

    The client's minimum also applies: some brokers list Produce versions 0 to 2, but reject them.
    """
    ours = REQUESTS[api_key].versions if api_key in REQUESTS else None
    if ours is None:
        return None
    low, high = max(ours.lo, theirs[0]), min(ours.hi, theirs[1])
    return (low, high) if low <= high else None


class Connection:
    """One connection to a broker, without its socket. `Network` drives it.

    Before `wake_at`, `poll` does nothing.
    """

    __slots__ = (
        "_advice",
        "_answered",
        "_asked_version",
        "_authenticate_at",
        "_authentication",
        "_client_id",
        "_config",
        "_correlation",
        "_credentials_deadline",
        "_flying",
        "_own",
        "_prepare",
        "_proven",
        "_queued",
        "_secret_filter",
        "_setup_deadline",
        "_silent",
        "_traffic",
        "address",
        "answers",
        "authenticated_until",
        "features",
        "features_epoch",
        "idle_since",
        "jobs",
        "link",
        "muted_until",
        "node",
        "offered",
        "reason",
        "state",
        "wake_at",
    )

    def __init__(
        self,
        node: int,
        link: int,
        config: ClientConfig,
        setup_deadline: float,
        address: str = "broker",
        prepare: Callable[[], Mechanism] | None = None,
        secret_filter: SecretFilter | None = None,
        answered: Answered | None = None,
        advice: str = "",
        traffic: BrokerTraffic | None = None,
    ) -> None:
        """`setup_deadline` is the time by which the connection must be READY.

        `prepare` makes a SASL mechanism with the current credentials, and may block; None: the client does not authenticate. `advice`
        is appended to errors of an address that has never answered, once brokers have answered at other addresses.
        """
        self._secret_filter, self._answered = secret_filter or SecretFilter(config), Answered() if answered is None else answered
        self._advice = advice
        self._traffic = traffic or BrokerTraffic()
        self.node, self.link, self.address = node, link, address
        self.state = S.CONNECTING
        self.reason: KafkaError | None = None  # the reason why the connection is CLOSED
        self.answers: list[Answer] = []
        self.idle_since = setup_deadline
        self.muted_until = 0.0
        self.wake_at = setup_deadline
        self.offered: Mapping[int, tuple[int, int]] = {}
        self.features: Mapping[str, int] = {}  # finalized features of the cluster -> their levels
        self.features_epoch = -1  # grows with each change of the features
        self._config, self._client_id = config, config.client_id
        self._setup_deadline = setup_deadline
        self._credentials_deadline = setup_deadline  # the time by which `prepare` must have returned
        self._prepare = prepare
        self._authentication: Authentication | None = None  # the exchange under way
        self._proven = False  # whether the broker has answered a request that is not part of the handshake
        self._authenticate_at = INFINITY  # the time at which the client authenticates again
        self.authenticated_until = INFINITY  # from this time on, `Network` closes the connection if no request is in flight
        self.jobs: list[Callable[[], Any]] = []  # steps of the exchange that may block; their results go to `authenticated`
        self._queued: deque[Request] = deque()
        self._flying: deque[Flight] = deque()  # handed out; the responses come in this order
        self._silent: deque[Flight] = deque()  # handed out; no response will come
        self._own: list[Buffer] = []  # bytes of handshake requests, which are written before other requests
        self._asked_version = FIRST_ASKED_VERSION
        self._correlation = 0

    # -- for the network

    @property
    def in_flight(self) -> int:
        """The number of requests without an outcome, including queued requests."""
        return len(self._queued) + len(self._flying) + len(self._silent)

    @property
    def has_silent(self) -> bool:
        return bool(self._silent)

    @property
    def silent_since(self) -> float:
        """The time at which the oldest request in flight was written; INFINITY: no response is awaited."""
        return self._flying[0].written_at if self._flying else INFINITY

    @property
    def has_output(self) -> bool:
        """Whether bytes, or requests of a READY connection, wait to be written, even while the broker throttles the client."""
        return bool(self._own or (self._queued and self.state is S.READY))

    def submit(self, now: float, request: Request) -> None:
        """Queue `request` until the connection is READY and may write requests. On a CLOSED connection, the request fails as NO."""
        if self.state is S.CLOSED:
            assert self.reason is not None
            self.answers.append((request, Failed(self.reason, Written.NO)))
            return
        self._queued.append(request)
        self.wake_at = min(self.wake_at, request.deadline)

    def version(self, api_key: int, highest: int | None = None) -> int | None:
        theirs = self.offered.get(api_key)
        both = None if theirs is None else usable(theirs, api_key)
        if both is None:
            return None
        version = both[1] if highest is None else min(both[1], highest)
        return version if version >= both[0] else None

    # -- events

    def connected(self, now: float) -> None:
        self.state = TABLE.move(self.state, S.NEGOTIATING)
        self._negotiate(now, FIRST_ASKED_VERSION)

    def receive(self, now: float, frame: Buffer) -> None:
        """Handle a complete frame, without its size."""
        if self.state is S.CLOSED:
            return
        try:
            self._take_reply(now, frame)
        except DecodeError as error:
            self.poison(self._advised(self._undecodable(error)))

    def written_to(self, now: float) -> None:
        """Complete the requests that get no response, now that the socket has accepted all bytes handed out so far."""
        while self._silent:
            flight = self._silent.popleft()
            self.answers.append((flight.request, Reply(None, flight.version, self.node)))
            self._mark_idle(now)

    def lost(self, now: float, reason: KafkaError) -> None:
        """End the connection, whose socket was closed or could not be opened. The error may be a guess at the cause."""
        exchange = self._authentication
        if exchange is not None and exchange.is_talking and reason.__cause__ is None and not isinstance(reason, AuthenticationError):
            self.poison(exchange.cut_off(reason))
            return
        guess = None
        if not self._proven and type(reason) is ConnectionLost and reason.__cause__ is None:
            guess = self._guess_cause(reason)
        reason = self._advised(reason)
        self.poison(guess or reason, reason)

    def _advised(self, reason: KafkaError) -> KafkaError:
        """Return `reason`, with the advice if brokers have answered at other addresses, but none at this one."""
        known = self._answered.negotiated
        is_new = bool(known) and self.address not in known and self.state in (S.CONNECTING, S.NEGOTIATING)
        if not self._advice or not is_new or type(reason) is not ConnectionLost:
            return reason
        advised = ConnectionLost(f"{reason}; {self._advice}")
        advised.__cause__ = reason.__cause__
        return advised

    def _guess_cause(self, reason: KafkaError) -> KafkaError | None:
        """Guess the `security_protocol` of a listener that closed the connection instead of answering; None if there is no guess."""
        if self.state is S.NEGOTIATING and not self._config.encrypts and self.address not in self._answered.negotiated:
            why = "its listener may demand TLS: set security_protocol to SSL or SASL_SSL"
        elif self.state is S.READY and self._flying and not self._config.authenticates and self.address not in self._answered.served:
            why = f"its listener may demand SASL: set security_protocol to {'SASL_SSL' if self._config.encrypts else 'SASL_PLAINTEXT'}"
        else:
            return None
        guess = AuthenticationError(f"{reason}, instead of answering; {why}")
        guess.certain, guess.guessed_cause = False, why
        return guess

    def poison(self, reason: KafkaError, fact: KafkaError | None = None) -> None:
        """End the connection for `reason`, which may be a guess. The requests fail with `fact`, if given, otherwise with `reason`.

        One lost connection must not fail a record as not authenticated: `Refusals` believes a guess only after several attempts.
        """
        if self.state is S.CLOSED:
            return
        self.state, self.reason = TABLE.move(self.state, S.CLOSED), reason
        handed_out = [flight.request for flight in (*self._flying, *self._silent)]
        self._traffic.not_answered(handed_out)
        queued = list(self._queued)
        for pile in (self._flying, self._silent, self._queued):
            pile.clear()
        self._own.clear()
        self.jobs.clear()
        self._authentication = None
        handed_out = [request for request in handed_out if not isinstance(request, HandshakeRequest)]
        outcome = reason if fact is None else fact
        reasons = chain([outcome], repeat(of_others(outcome)))
        self.answers += [(request, Failed(why, Written.MAYBE)) for request, why in zip(handed_out, reasons)]
        self.answers += [(request, Failed(of_others(outcome), Written.NO)) for request in queued]
        self.wake_at = INFINITY

    def poll(self, now: float) -> None:
        if now < self.wake_at or self.state is S.CLOSED:
            return
        if now >= self._deadline:
            self.poison(self._advised(self._waited_for()))
            return
        if now >= self._authenticate_at:
            self._authenticate(now)
        self._drop_late_unwritten(now)
        self._drop_late_written(now)
        self._set_alarm()

    def outgoing(self, now: float) -> list[Buffer]:
        """Return the bytes to write now. From now on, the requests in these bytes count as written."""
        buffers, self._own = self._own, []
        if self.state is S.READY and now >= self.muted_until and not self.is_engaged:
            while self._queued:
                buffers += self._encode(now, self._queued.popleft())
        elif self.state is S.READY and self._queued and not self.is_engaged:
            self.wake_at = min(self.wake_at, self.muted_until)
        return buffers

    # -- the handshake

    def _negotiate(self, now: float, version: int) -> None:
        self._asked_version = version
        message = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
        request = HandshakeRequest(self.node, message, self._setup_deadline)
        try:
            self._own += self._launch(now, request, version)
        except Exception as error:  # for instance, for a client_id that is too long; the error must end only this connection
            reason = ConnectionLost(f"{self.address}: ApiVersions v{version} cannot be encoded: {type(error).__name__}: {error}")
            reason.__cause__ = error
            self.poison(reason)

    def _take_versions(self, now: float, message: ApiVersionsResponse) -> None:
        if message.error_code == UNSUPPORTED and self._asked_version > 0:
            self._negotiate(now, self._lower(message))
            return
        if message.error_code:
            self.poison(broker_error(message.error_code, f"{self.address}: ApiVersions"))
            return
        self._answered.negotiated.add(self.address)
        self.offered = {api.api_key: (api.min_version, api.max_version) for api in message.api_keys}
        self.features = {feature.name: feature.max_version_level for feature in message.finalized_features}
        self.features_epoch = message.finalized_features_epoch
        self.state = TABLE.move(self.state, S.AUTHENTICATING)
        if self._prepare is None:
            self._be_ready(now)
        else:
            self._authenticate(now)

    def _be_ready(self, now: float) -> None:
        self.state = TABLE.move(self.state, S.READY)
        self._set_alarm()
        self._mark_idle(now)

    def _lower(self, message: ApiVersionsResponse) -> int:
        """Return the version for the next attempt, always below the last one, so that the attempts end."""
        offered = [api.max_version for api in message.api_keys if api.api_key == ApiVersionsRequest.api_key]
        return max(0, min(offered[0], self._asked_version - 1)) if offered else 0

    def _waited_for(self) -> KafkaError:
        if self.state is S.CONNECTING:
            proxy = self._config.proxy_url
            through = "" if proxy is None else f" through the proxy {proxy.address}"
            what = "no TLS connection" if self._config.encrypts else "no response"
            return ConnectionLost(f"{self.address}: {what} within the setup timeout{through}")
        if self._authentication is not None:
            return self._authentication.timed_out()
        return ConnectionLost(f"{self.address}: connected, but no ApiVersions response within the setup timeout{self._doubt()}")

    # -- authentication

    @property
    def exchange(self) -> object:
        """The SASL exchange under way, as an identity for its jobs, or None."""
        return self._authentication

    @property
    def is_engaged(self) -> bool:
        """Whether messages of an authentication are being exchanged: then no other request may be written."""
        return self._authentication is not None and self._authentication.is_talking

    @property
    def _deadline(self) -> float:
        """The time at which setup or authentication times out; INFINITY if neither is timed.

        An exchange of messages is not timed while earlier requests are in flight: the broker answers those first.
        """
        if self._authentication is not None and not self.is_engaged:
            return self._credentials_deadline
        is_timed = self.state is not S.READY or (self._authentication is not None and not self._is_behind())
        return self._setup_deadline if is_timed else INFINITY

    def _is_behind(self) -> bool:
        return bool(self._flying) and self._flying[0].request.message.api_key not in SASL

    def authenticated(self, now: float, exchange: object, result: Any) -> None:
        if exchange is self._authentication and self.state is not S.CLOSED:
            self._advance(now, result)

    def _authenticate(self, now: float) -> None:
        """Begin an authentication. Until its first message is written, a READY connection still writes requests."""
        from pykafka4.core.network.authentication import Authentication  # imported here: few clients use SASL

        assert self._prepare is not None
        self._authentication = Authentication(self._config.sasl_mechanism or "", self.address, self._prepare, self._secret_filter)
        self._authenticate_at = INFINITY
        if self.state is S.READY:
            self._restart_setup(now)
        self._credentials_deadline = now + CREDENTIALS_SHARE * (self._setup_deadline - now)
        self.jobs.append(self._authentication.begin)
        self._set_alarm()

    def _restart_setup(self, now: float) -> None:
        self._setup_deadline = now + self._config.socket_connection_setup_timeout_ms / 1000
        self.wake_at = min(self.wake_at, self._setup_deadline)

    def _advance(self, now: float, result: Any) -> None:
        assert self._authentication is not None
        try:
            step = self._authentication.step(result)
        except AuthenticationError as error:
            self.poison(error.with_traceback(None))  # the error is kept, and the frames of its traceback hold credentials
            return
        if step is None:
            self._end_authentication(now)
        elif callable(step):
            self.jobs.append(step)
        else:
            self._say(now, step)

    def _say(self, now: float, message: Any) -> None:
        """Send a message of the exchange ahead of all queued requests."""
        request = HandshakeRequest(self.node, message, INFINITY)  # the setup deadline applies to the whole exchange
        version = self.version(message.api_key)
        if version is None or (message.api_key == SASL_HANDSHAKE and version < 1):
            self.poison(AuthenticationError(f"{self.address}: the broker is older than Kafka 1.0, and cannot authenticate this client"))
            return
        self._own += self._launch(now, request, version)

    def _end_authentication(self, now: float) -> None:
        assert self._authentication is not None
        lifetime, self._authentication = self._authentication.lifetime, None
        self._authenticate_at = now + max(lifetime * REAUTHENTICATION_SHARE, SOONEST_S) if lifetime > 0 else INFINITY
        self.authenticated_until = now + max(lifetime, 2 * SOONEST_S) if lifetime > 0 else INFINITY
        if self.state is S.AUTHENTICATING:
            self._be_ready(now)
        self._set_alarm()

    # -- requests and responses

    def _encode(self, now: float, request: Request) -> list[Buffer]:
        message = request.message
        version = self.version(message.api_key, request.max_version)
        if version is None:
            self.answers.append((request, Failed(no_version(request, self.node, self.offered), Written.NO)))
            return []
        try:
            if request.fit is not None:
                request.fit(message, version)
            return self._launch(now, request, version)
        except KafkaError as error:
            self.answers.append((request, Failed(error, Written.NO)))
        except Exception as error:
            reason = KafkaError(f"{type(message).__name__} v{version} cannot be encoded: {type(error).__name__}: {error}")
            reason.__cause__ = error
            self.answers.append((request, Failed(reason, Written.NO)))
        return []

    def _launch(self, now: float, request: Request, version: int) -> list[Buffer]:
        buffers = frames.encode_request(request.message, version, self._correlation, self._client_id)
        self._traffic.sent(buffers[0])
        flight = Flight(request, version, self._correlation, now)
        self._correlation = (self._correlation + 1) & MAX_CORRELATION
        (self._flying if request.expects_reply else self._silent).append(flight)
        # Views keep the bytes valid. Otherwise: a batch gets its outcome (a timeout, say) and frees its buffer, then the transport writes
        # the freed bytes.
        return [buffer if isinstance(buffer, bytes) else memoryview(buffer) for buffer in buffers]

    def _take_reply(self, now: float, frame: Buffer) -> None:
        if not self._flying:
            raise DecodeError("an unexpected response")
        flight = self._flying[0]
        if (correlation_id := frames.correlation_of(frame)) != flight.correlation_id:
            raise DecodeError(f"a response with correlation id {correlation_id}, expected {flight.correlation_id}")
        message = self._decode(flight, frame)
        self._flying.popleft()
        self._traffic.answered(flight.request.message.api_key, now - flight.written_at, len(frame))
        if not flight.was_nearly_late(now):
            for later in self._flying:
                later.restart_time(now)
        self._mute(now, message, flight)
        if self.state is S.NEGOTIATING:
            self._take_versions(now, message)
            return
        if flight.request.message.api_key in SASL:
            self._advance(now, message)
            return
        if self.is_engaged:
            self._restart_setup(now)
        self.answers.append((flight.request, Reply(message, flight.version, self.node)))
        if not self._proven:
            self._proven = True
            self._answered.served.add(self.address)
        if not self._flying:
            self._mark_idle(now)

    def _decode(self, flight: Flight, frame: Buffer) -> Any:
        """Decode a response. Treat an undecodable ApiVersions response above version 0 as UNSUPPORTED_VERSION: version 0 follows."""
        if flight.request.decode is not None:
            return flight.request.decode(flight.version, frame)
        try:
            return frames.decode_response(type(flight.request.message), flight.version, frame, self._secret_filter.filter)[1]
        except DecodeError:
            if self.state is S.NEGOTIATING and self._asked_version > 0:
                return ApiVersionsResponse(error_code=UNSUPPORTED, api_keys=[])
            raise

    def _mute(self, now: float, message: Any, flight: Flight) -> None:
        throttle = getattr(message, "throttle_time_ms", 0)
        if throttle > 0:
            self._traffic.throttled_s += throttle / 1000
        if throttle > 0 and flight.is_muting:
            self.muted_until = max(self.muted_until, now + min(throttle / 1000, LONGEST_MUTE_S))

    # -- errors and deadlines

    def _undecodable(self, error: DecodeError) -> ConnectionLost:
        """Return a ConnectionLost: as after a lost connection, the client does not know whether the broker carried the request out."""
        request = f" to {type(self._flying[0].request.message).__name__}" if self._flying else ""
        hint = self._doubt() if self.state is S.NEGOTIATING else ""
        return caused_by(ConnectionLost(f"{self.address}: cannot decode the response{request}: {error}{hint}"), error)

    def _doubt(self) -> str:
        return "" if self.address in self._answered.negotiated else "; is it a Kafka broker?"

    def _drop_late_unwritten(self, now: float) -> None:
        late = [request for request in self._queued if request.deadline <= now]
        if late:
            self._queued = deque(request for request in self._queued if request.deadline > now)
            self.answers += [(request, Failed(_too_late(request, "not sent"), Written.NO)) for request in late]

    def _drop_late_written(self, now: float) -> None:
        """End the connection if a request in flight is too late: its response could still arrive, and would match no request."""
        late = [flight.request for flight in (*self._flying, *self._silent) if flight.deadline <= now]
        if not late or self.state is not S.READY:
            return
        self._flying = deque(flight for flight in self._flying if flight.deadline > now)
        self._silent = deque(flight for flight in self._silent if flight.deadline > now)
        self._traffic.not_answered(late)
        self.answers += [(request, Failed(_too_late(request, "no response"), Written.MAYBE)) for request in late]
        self.poison(ConnectionLost(f"{self.address}: connection closed, no response to {_name(late[0])} within its timeout"))

    def _set_alarm(self) -> None:
        if self.state is S.CLOSED:
            return
        times = [request.deadline for request in self._queued]
        times += [flight.deadline for flight in (*self._flying, *self._silent)]
        times += [self._deadline, self._authenticate_at]
        self.wake_at = min(times, default=INFINITY)

    def _mark_idle(self, now: float) -> None:
        self.idle_since = now


def _name(request: Request) -> str:
    return type(request.message).__name__


def _too_late(request: Request, what: str) -> KafkaTimeoutError:
    return KafkaTimeoutError(f"{_name(request)}: {what} within its timeout (usually request_timeout_ms)")
