"""SASL harness. A scripted mechanism, and the broker's side of one connection that authenticates itself with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from pykafka4.core import Connect, Job
from pykafka4.core.network.connection import Connection, ConnectionState
from pykafka4.core.network.network import Network, NetworkEffects
from pykafka4.core.sasl.mechanism import failed
from pykafka4.errors import AuthenticationError, ConnectionLost
from pykafka4.errors.peer_text import filtered
from pykafka4.options.config import ClientConfig
from pykafka4.wire.protocol.messages_sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.core.network.network_harness import HOSTS
from tests.core.scripted_brokers import Answers, config, frame, metadata, read, request, versions

SECRET = "hidden-word"
LOST = ConnectionLost("b1:9092: reset by peer")
SETUP_S = 10.0  # seconds of socket_connection_setup_timeout_ms
OFFERED = ["OAUTHBEARER", "PLAIN", "SCRAM-SHA-512"]


def sasl_config(**options: Any) -> ClientConfig:
    given = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "me", "sasl_password": SECRET}
    return config(**given, socket_connection_setup_timeout_ms=SETUP_S * 1000, **options)


class Puppet:
    """A mechanism whose next step the broker's message names."""

    name = "PLAIN"
    username = "me"

    def first(self) -> bytes:
        return SECRET.encode()

    def slow(self, challenge: bytes) -> bool:
        return challenge.startswith(b"slow")

    def next(self, challenge: bytes) -> bytes | None:
        if challenge.endswith(b"bad"):
            raise failed("the broker is odd")
        if challenge.endswith(b"bug"):
            raise ZeroDivisionError(SECRET)
        return b"more" if challenge else None

    def refused(self, message: str | None) -> AuthenticationError:
        return failed(f"the broker refused the credentials: '{filtered(message or '', [SECRET])}'")

    def secrets(self) -> tuple[str, ...]:
        return (SECRET,)


def accepted(lifetime: float = 0.0, challenge: bytes = b"") -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(auth_bytes=challenge, session_lifetime_ms=int(lifetime * 1000))


def refusal(code: int = 58, message: str | None = "wrong password") -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=code, error_message=message)


def shaken(code: int = 0, mechanisms: list[str] = OFFERED) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=code, mechanisms=mechanisms)


class Broker:
    """One connection, and what is at its other end."""

    def __init__(self, prepare: Callable[[], Any] = Puppet, limits: dict[str, Any] | None = None, **options: Any) -> None:
        self.connection = Connection(1, 7, sasl_config(**options), SETUP_S, "b1:9092", prepare)
        self.limits = limits or {}
        self.unanswered: list[tuple[Any, Any]] = []

    @property
    def state(self) -> ConnectionState:
        return self.connection.state

    @property
    def reason(self) -> str:
        return str(self.connection.reason)

    def written(self, now: float = 0.0) -> list[Any]:
        """The requests that are written now."""
        found = read(self.connection.outgoing(now))
        self.unanswered += found
        return [message for _, message in found]

    def kinds(self, now: float = 0.0) -> list[str]:
        return [type(message).__name__.removesuffix("Request") for message in self.written(now)]

    def answer(self, response: Any, now: float = 0.0) -> None:
        """Answer the oldest request."""
        (header, _), *self.unanswered = self.unanswered
        self.connection.receive(now, frame(response, header.version, header.correlation_id))

    def do(self, now: float = 0.0) -> Any:
        """Run the only job and report its result."""
        (run,) = self.connection.jobs
        self.connection.jobs.clear()
        try:
            result = run()
        except BaseException as error:
            result = error
        self.connection.authenticated(now, self.connection.exchange, result)
        return result

    def submit(self, now: float = 0.0, **options: Any) -> Answers:
        asked, answers = request(**options)
        asked.asked_at = now
        self.connection.submit(now, asked)
        return answers

    def settle(self, now: float = 0.0) -> None:
        """Give the answers, as Network does."""
        answers, self.connection.answers = self.connection.answers, []
        for asked, outcome in answers:
            asked.on_reply(now, outcome)

    def tell(self, now: float = 0.0) -> None:
        """Answer an ordinary request."""
        self.answer(metadata({}), now)

    # -- stages

    def negotiated(self, now: float = 0.0) -> Broker:
        self.connection.connected(now)
        self.written(now)
        self.answer(versions(**self.limits), now)
        return self

    def talking(self, now: float = 0.0) -> Broker:
        """SaslHandshake is written."""
        self.negotiated(now).do(now)
        assert self.kinds(now) == ["SaslHandshake"]
        return self

    def proving(self, now: float = 0.0) -> Broker:
        """The first SaslAuthenticate is written."""
        self.talking(now).answer(shaken(), now)
        assert self.kinds(now) == ["SaslAuthenticate"]
        return self

    def ready(self, now: float = 0.0, lifetime: float = 0.0) -> Broker:
        self.proving(now).answer(accepted(lifetime), now)
        assert self.state is ConnectionState.READY
        return self

    def again(self, now: float) -> Broker:
        """It has to authenticate itself again, and does: SaslHandshake is written."""
        self.connection.poll(now)
        self.do(now)
        return self


class Cluster:
    """A network whose connections authenticate themselves: the test opens, answers and cuts them, and runs their jobs."""

    def __init__(self, prepare: Callable[[], Any] = Puppet, for_host: Callable[[str], Any] = str, **options: Any) -> None:
        self.network = Network(sasl_config(**options), Random(1), lambda host: (for_host(host), prepare())[1])
        self.told: list[tuple[float, int, AuthenticationError]] = []
        self.network.refusals.listeners[lambda now, broker, error: self.told.append((now, broker, error))] = None
        self.effects = NetworkEffects()
        self.connects: list[Connect] = []
        self.jobs: list[Job] = []
        self.unanswered: list[tuple[int, Any, Any]] = []

    def placed(self) -> Cluster:
        self.network.set_addresses(0.0, HOSTS)
        return self

    def poll(self, now: float) -> NetworkEffects:
        self.effects = self.network.poll(now)
        self.connects += self.effects.connect
        self.jobs += self.effects.jobs
        self.unanswered += [(link, header, message) for link, buffers in self.effects.write for header, message in read(buffers)]
        return self.effects

    def submit(self, node: int, now: float = 0.0, **options: Any) -> Answers:
        asked, answers = request(node, **options)
        self.network.submit(now, asked)
        return answers

    def do(self, now: float, link: int | None = None) -> None:
        """Run the oldest job (of `link`)."""
        job = next(job for job in self.jobs if link in (None, job.run.__self__.connection.link))  # type: ignore[attr-defined]
        self.jobs.remove(job)
        job.then(now, job.run())

    def answer(self, now: float, link: int, response: Any) -> None:
        (_, header, _), *_ = [u for u in self.unanswered if u[0] == link]
        self.unanswered = [u for u in self.unanswered if u[1] is not header]
        self.network.receive(now, link, frame(response, header.version, header.correlation_id))
        self.poll(now)

    def kinds(self, link: int) -> list[str]:
        """What was written to `link` and is not answered."""
        return [type(message).__name__.removesuffix("Request") for at, _, message in self.unanswered if at == link]

    def attempt(self, now: float, node: int) -> int:
        """Connect to `node` up to where the credentials are asked for."""
        self.network.want(node)
        self.poll(now)
        connection = self.network._endpoints[node].connection
        assert connection is not None, "a backoff is not over"
        return self.negotiate(now, connection.link)

    def negotiate(self, now: float, link: int) -> int:
        self.network.connected(now, link)
        self.poll(now)
        self.answer(now, link, versions())
        return link

    def begin(self, now: float, link: int) -> int:
        """With its credentials, up to SaslAuthenticate."""
        self.do(now, link)
        self.poll(now)
        self.answer(now, link, shaken())
        return link

    def open(self, now: float, node: int, lifetime: float = 0.0) -> int:
        link = self.begin(now, self.attempt(now, node))
        self.answer(now, link, accepted(lifetime))
        return link

    def refuse(self, now: float, node: int, response: Any = None) -> None:
        """An attempt at `node` that the broker refuses."""
        self.answer(now, self.begin(now, self.attempt(now, node)), response or refusal())

    def cut(self, now: float, node: int) -> None:
        """An attempt at `node` that the broker ends without a word."""
        self.network.lost(now, self.begin(now, self.attempt(now, node)), ConnectionLost("reset"))
        self.poll(now)

    def next_attempt(self, now: float) -> float:
        """When it connects again."""
        before = len(self.connects)
        while len(self.connects) == before:
            now = max(now, self.effects.wake_at)
            assert now < 1e6, "it never does"
            self.poll(now)
        return now


__all__ = [
    "Cluster",
    "OFFERED",
    "SECRET",
    "SETUP_S",
    "Broker",
    "Puppet",
    "SaslAuthenticateRequest",
    "SaslHandshakeRequest",
    "accepted",
    "refusal",
    "sasl_config",
    "shaken",
]


def chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def failure(broker: Broker) -> AuthenticationError:
    """The error that closed the connection; it shows and keeps no secret."""
    assert broker.state is ConnectionState.CLOSED
    error = broker.connection.reason
    assert isinstance(error, AuthenticationError)
    assert str(error).startswith("b1:9092: SASL PLAIN: ")
    assert SECRET not in str(error)
    assert not any(link.__traceback__ for link in chain(error)), "its frames hold credentials"
    return error
