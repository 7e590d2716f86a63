"""Declares the contract between machines and the loop: requests, replies, effects, and the tables of state transitions.

Rule: a machine gets its input as method calls on the loop thread, gets the time as the argument `now`, and returns requests and jobs as
`Effects`. Nothing in `core` uses sockets, threads or clocks (the time of day comes from a callable), so the same machines run under the
real loop (`net.loop`) and in the simulation (`tests/simulation`), which can replay every schedule from its seed.

Modules; each line imports only from lines below it:
    engine        `Engine`: the turn, which polls all machines of one client
    producer/     the producer's machine: queues of sealed batches, Produce requests, outcomes
    consumer/     the consumer's machine: positions, Fetch requests, chunks and events for `poll`
    admin/        the machine of an admin client: requests about many keys to the brokers that can answer them
    telemetry/    the push of client metrics to brokers that subscribe to them
    share/        the machine of a share consumer: membership, share sessions with brokers
    group/        membership of a consumer group, its coordinator, commits
    subscription  claims and positions of partitions, and the events that the loop passes to the reader
    metadata/     brokers, topics, leaders, coordinators; offline partitions
    network/      connections, and the choice of a connection for each request
    sasl/         SASL mechanisms, with which connections authenticate
    backoff       pauses between attempts, and timeouts of attempts to connect
    histogram     counts of values by size
    timers        calls and the times at which they are due
    outbox        requests and jobs of a machine, for its next turn
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import attrs

from pykafka4.errors import ConnectionLost, KafkaError, KafkaTimeoutError
from pykafka4.records import Written

__all__ = [
    "ANY",
    "CONTROLLER",
    "INFINITY",
    "Close",
    "Connect",
    "Effects",
    "Failed",
    "Job",
    "Machine",
    "Outcome",
    "Owner",
    "Reply",
    "Request",
    "RequestTarget",
    "Threads",
    "Transitions",
]

INFINITY: Final = float("inf")

# A node is a broker id (0 and up), a broker over a lane (`network.endpoint.via`), a bootstrap address (-1, -2, … in the order of
# `bootstrap_servers`), or one of the two numbers below, which no list of bootstrap addresses reaches.
ANY: Final = -1_000_001  # any broker, if possible a connected one with few requests in flight
CONTROLLER: Final = -1_000_002  # the controller according to the metadata; any broker while the controller is unknown


@attrs.frozen(eq=False)
class Reply:
    """A broker's response."""

    message: Any
    version: int
    node: int


@attrs.frozen(eq=False)
class Failed:
    """The outcome of a request without a readable response. `written` is NO only if no byte of the request can have reached the broker."""

    reason: KafkaError
    written: Written

    @property
    def passing(self) -> bool:
        """Whether a retry can help: it can after a timeout or a lost or refused connection, but not with a broker that is too old."""
        return isinstance(self.reason, (ConnectionLost, KafkaTimeoutError))


Outcome: TypeAlias = Reply | Failed


class Owner(Protocol):
    """The machine that sent a request, as the network sees it."""

    def pass_on(self, now: float, request: Request, outcome: Outcome) -> None:
        """Call `request.on_reply`, unless the machine has failed. An exception in `on_reply` stops only this machine."""


class RequestTarget(Protocol):
    """The broker that a request goes to."""

    @property
    def title(self) -> str:
        """`broker 2`, or the address while the broker's id is unknown."""


@attrs.define(eq=False)
class Request:
    """A request to a broker. Each kind of request is a subclass, whose `on_reply` calls the method that reads the response.

    The fields of a subclass hold the state that `on_reply` needs, so no closure is made for a response.

    `deadline` is a monotonic time in seconds: a request that is not written by that time fails. After the write the broker has `deadline -
    asked_at` seconds for its response, however long the request waited for a connection; then the network closes the connection. Brokers
    process the requests of a connection one at a time, so a response restarts the time of the requests after it, unless the response itself
    was nearly late (`network.flight`).

    `max_version` limits the negotiated version (a request with topic names stays below the versions with topic ids). `fit(message,
    version)` removes the fields that the version cannot carry, or raises the error with which the request fails. The network calls `fit`
    when it encodes the message, because it does not know the version earlier. A request that gets no response (Produce with acks=0)
    ends with `Reply(None, …)` after its last byte has been handed to the socket. For large responses, `decode(version, frame)` replaces
    the decoding on the loop: its result, such as a copy of `frame`, is the message of the `Reply`. The frame is valid only during the call.
    """

    node: int
    message: Any
    deadline: float
    max_version: int | None = None
    fit: Callable[[Any, int], None] | None = None
    decode: Callable[[int, Any], Any] | None = None
    expects_reply: bool = True
    asked_at: float | None = None  # when the network took the request; monotonic seconds
    taker: RequestTarget | None = None  # set by the network when it has chosen a connection
    owner: Owner | None = None  # set by the engine; None: an exception in `on_reply` stops the client

    def on_reply(self, now: float, outcome: Outcome) -> None:
        """Handle the outcome. Called once, on the loop thread, never from inside `submit`; not called after the machine that sent the
        request has failed, or the loop has ended."""
        raise NotImplementedError


class Threads(Enum):
    """Each kind of job that may block for long has its own threads, so that it delays no other kind."""

    HELPER = "threads for short work of the client: compression, decoding, large assignments"
    CREDENTIALS = "threads for credentials, which may wait for the application or for another server"
    ASSIGNORS = "threads for assignors of the application, which may hang"


@attrs.frozen(eq=False)
class Job:
    """Work that would delay the loop. A thread of `threads` calls `run()`, then the loop calls `then(now, result or exception)`, unless the
    machine has failed or the loop has ended."""

    run: Callable[[], Any]
    then: Callable[[float, Any], None]
    threads: Threads = Threads.HELPER


@attrs.frozen
class Connect:
    """Opens connection number `link` to host:port, at the first of the host's addresses that accepts the connection."""

    link: int
    host: str
    port: int


@attrs.frozen
class Close:
    """Closes connection number `link`; no event of this connection follows."""

    link: int
    reason: str


@attrs.frozen(eq=False)
class Effects:
    """The output of a machine."""

    requests: tuple[Request, ...] = ()
    deliver: tuple[Callable[[], None], ...] = ()  # passed to the callback executor in this order
    jobs: tuple[Job, ...] = ()
    wake_at: float = INFINITY  # poll the machine again at that time or earlier


NOTHING: Final = Effects()


class Machine(Protocol):
    """The logic of one user of the client (a producer or consumer, for example), or of a part that all users share.

    Because thousands of partitions may be idle, a poll visits only partitions that have work, except after rare events.
    """

    def poll(self, now: float) -> Effects:
        """Do the work that is due at `now` (monotonic seconds); return the output, and the time of the next poll."""

    def crash(self, reason: KafkaError) -> tuple[Callable[[], None], ...]:
        """Fail every waiter with `reason`, after a crash of the loop or of this machine; return the callbacks to deliver."""


S = TypeVar("S", bound=Enum)


class Transitions(Generic[S]):
    """The table of a state machine: `{state: {states that may follow}}`.

    `meanings` explains each state for `docs/states.md`, which shows the tables of `core`.
    """

    __slots__ = ("meanings", "name", "table")

    def __init__(self, name: str, table: Mapping[S, frozenset[S] | set[S]], meanings: Mapping[S, str] | None = None) -> None:
        self.name = name
        self.table = table
        self.meanings = meanings or {}

    def move(self, current: S, to: S) -> S:
        """Return `to` if it may follow `current`; otherwise raise RuntimeError."""
        if to not in self.table.get(current, frozenset()):
            raise RuntimeError(f"{self.name}: {to.name} cannot follow {current.name}")
        return to
