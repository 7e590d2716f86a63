"""The machine contract. Rule: input arrives as method calls on the loop thread, output leaves only as Effects; `now` is an argument.

Nothing in `core` touches sockets, threads or clocks, so the same machines run under the real loop (`net.loop`) and under the
simulation (`tests/simulation`), where every schedule can be replayed from its seed.

What is in here; each line imports only from lines below it (`make contracts`):

    engine            polls all machines of one client
    producer/         the producer's machine: sends sealed batches until they are acknowledged
    consumer/         the consumer's machine: positions, fetched data, what waits for `poll`
    group/            membership of a consumer group, its coordinator, commits
    subscription      the partitions that are read, and what `consumer` and `group` tell the application about them
    metadata/         brokers, topics, leaders; partitions that are offline
    network/          connections, and which of them a request goes to
    backoff, timers   pauses between tries; what is due when
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import attrs

from pykafka4.error_table import Written
from pykafka4.errors import ConnectionLost, KafkaError, KafkaTimeoutError

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
    "Reply",
    "Request",
    "Transitions",
]

INFINITY: Final = float("inf")

# A node is a broker id (0 and up), or one of these. Bootstrap addresses are nodes too: -1, -2, … in the order given.
ANY: Final = -1_000_001  # whichever broker is connected and least busy
CONTROLLER: Final = -1_000_002  # the controller that the last metadata named


@attrs.frozen(eq=False)
class Reply:
    """A broker's answer: the decoded message, the version it was spoken in, the node that gave it."""

    message: Any
    version: int
    node: int


@attrs.frozen(eq=False)
class Failed:
    """No answer. `written` is NO only when not one byte of the request can have reached the broker."""

    reason: KafkaError
    written: Written

    @property
    def passing(self) -> bool:
        """Whether another try can help: a lost connection or a time-out, not a broker that is too old."""
        return isinstance(self.reason, (ConnectionLost, KafkaTimeoutError))


Outcome: TypeAlias = Reply | Failed


@attrs.define(eq=False)
class Request:
    """Something to ask a broker; `on_reply` is called exactly once, on the loop thread, never from inside `submit`.

    The engine replaces `on_reply` when it takes the request, so that an exception in it ends only the machine that asked.

    `deadline` is a monotonic time: a request that is not written by then fails. Once it is written, the broker has as long to answer as
    there was when the network took the request, however long that waited for a connection; then its connection fails with it. Brokers take
    the requests of a connection one at a time: every answer begins the time of those written behind it anew.
    `max_version` caps the negotiated version (a name-based request stays below topic ids). `fit(message, version)` takes out
    what that version cannot carry: it is called when the message is encoded, as no version is known before there is a connection.
    A request without a reply (Produce with acks=0) gets `Reply(None, …)` when its last byte was handed to the socket.
    """

    node: int
    message: Any
    deadline: float
    on_reply: Callable[[float, Outcome], None]
    max_version: int | None = None
    fit: Callable[[Any, int], None] | None = None
    expects_reply: bool = True
    asked_at: float | None = None  # when the network took it


@attrs.frozen(eq=False)
class Job:
    """Work that may block (a slow codec): `run` on the helper executor, then `then(now, result or exception)` on the loop thread."""

    run: Callable[[], Any]
    then: Callable[[float, Any], None]


@attrs.frozen
class Connect:
    """Open connection number `link` to host:port, over whichever of its addresses answers."""

    link: int
    host: str
    port: int


@attrs.frozen
class Close:
    """Close connection number `link`; it is not heard of again."""

    link: int
    reason: str


@attrs.frozen(eq=False)
class Effects:
    """What a machine wants done."""

    requests: tuple[Request, ...] = ()
    deliver: tuple[Callable[[], None], ...] = ()  # run on the application's executor, in order
    jobs: tuple[Job, ...] = ()
    wake_at: float = INFINITY  # poll me again by then


NOTHING: Final = Effects()


class Machine(Protocol):
    """Everything that runs on the loop. `poll` costs O(ready), never O(partitions)."""

    def poll(self, now: float) -> Effects:
        """Do what is due at `now`; say what to do and when to be asked again."""

    def crash(self, reason: KafkaError) -> tuple[Callable[[], None], ...]:
        """The loop, or this machine alone, is going down: fail every waiter with `reason`; return the callbacks to deliver."""


S = TypeVar("S", bound=Enum)


class Transitions(Generic[S]):
    """A state machine's table: `{state: {states that may follow}}`. An illegal move raises, it never returns quietly.

    `meanings`: what each state means, for `docs/states.md`, which shows the tables of `core`.
    """

    __slots__ = ("meanings", "name", "table")

    def __init__(self, name: str, table: Mapping[S, frozenset[S] | set[S]], meanings: Mapping[S, str] | None = None) -> None:
        self.name = name
        self.table = table
        self.meanings = meanings or {}

    def move(self, current: S, to: S) -> S:
        """`to`, if it may follow `current`; RuntimeError naming both otherwise."""
        if to not in self.table.get(current, frozenset()):
            raise RuntimeError(f"{self.name}: {to.name} cannot follow {current.name}")
        return to
