"""Opens and closes the connections of one client, and passes requests to them. Invariant: while the loop runs, each submitted request gets
exactly one outcome, whatever happens to connections, and never inside `submit`.

A broker responds to the requests of one connection in order, and holds some responses back: to a Fetch until there is data, to a JoinGroup
until all members have joined. Requests that must not wait for these use another lane, a separate connection to the same broker:
`new_lane()` returns its number, `via(lane, node)` the node for it. A request for ANY goes to a connected broker. If all connected brokers
have left a request unanswered for long (`acks=all` with a frozen replica), the client connects to another broker, or opens a spare
connection on a lane that no machine uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import attrs

from pykafka4.core import ANY, CONTROLLER, INFINITY, Close, Connect, Failed, Job, Request
from pykafka4.core.backoff import Backoff
from pykafka4.core.network.alarms import Alarms
from pykafka4.core.network.answered import Answered
from pykafka4.core.network.chooser import BrokerChooser, RequestsForAny, least_failed
from pykafka4.core.network.connection import Answer, Connection, ConnectionState
from pykafka4.core.network.endpoint import LANE, Endpoint, LinkStatus, broker_of, via
from pykafka4.core.network.jobs import Jobs, Task
from pykafka4.core.network.journal import Journal
from pykafka4.core.network.refusals import Refusals
from pykafka4.core.network.secret_filter import SecretFilter
from pykafka4.core.network.traffic import BrokerTraffic
from pykafka4.core.network.troubles import REPEAT_S, Troubles
from pykafka4.errors import ConnectionLost, HostNotAllowed, KafkaError
from pykafka4.options.config import ClientConfig
from pykafka4.records import Written
from pykafka4.wire.buffers import Buffer

if TYPE_CHECKING:
    from pykafka4.core.sasl.mechanism import Mechanism

__all__ = ["LinkStatus", "Network", "NetworkEffects", "via"]

SPARE_IDLE_S = 30.0  # seconds until an unused spare connection is closed, if connections_max_idle_ms is not shorter
LEFT = "left the cluster, or its lane was dropped"
READY, CLOSED = ConnectionState.READY, ConnectionState.CLOSED


@attrs.frozen(eq=False)
class NetworkEffects:
    connect: tuple[Connect, ...] = ()
    close: tuple[Close, ...] = ()
    write: tuple[tuple[int, list[Buffer]], ...] = ()  # (link, buffers)
    wake_at: float = INFINITY
    jobs: tuple[Job, ...] = ()  # steps of authentication


class Network:
    """All connections of one client. Machines request connections (`want`), the engine submits requests, and the loop reports events."""

    def __init__(self, config: ClientConfig, random: Random, prepare: Callable[[str], Mechanism] | None = None) -> None:
        """`prepare(host name of a broker)` makes the SASL mechanism of a connection, and may block; None: no SASL."""
        self.changes = 0  # incremented when a node becomes READY, stops being READY, or its pause ends (`_muted`)
        self.controller: int | None = None  # set by the cluster
        self.on_lost: list[Callable[[float, int], None]] = []  # called with (now, broker) after a connection or an attempt has failed
        self._config, self._random, self._prepare = config, random, prepare
        self.secret_filter = SecretFilter(config)
        self.answered = Answered()  # the runtime replaces it with the object that all clients with this security protocol share
        self.troubles = Troubles(config.client_id, config.request_timeout_ms / 1000)
        self.traffic: dict[int, BrokerTraffic] = {}  # by broker; brokers that left the cluster stay, as counters only grow
        self._jobs = Jobs(self)
        self._max_idle = config.connections_max_idle_ms / 1000
        self._endpoints: dict[int, Endpoint] = {}
        self._links: dict[int, Endpoint] = {}
        self._ready: dict[int, Connection] = {}
        self._muted: dict[int, float] = {}  # READY nodes that throttle the client, or authenticate it again -> end of this pause in writes
        self._last_link = self._last_lane = 0
        self._lanes: set[int] = set()
        self._spare = self.new_lane()  # for requests to ANY while all other connections are stalled
        self._any = BrokerChooser(self._endpoints, self._ready, self._spare, self)
        self._journal = Journal(config.client_id, self)
        self.refusals = Refusals(self._endpoints, self._ready)
        self._dirty: dict[int, Endpoint] = {}
        self._answers: list[Answer] = []
        self._for_any = RequestsForAny(self._any, self, self._answers)
        self._connect: list[Connect] = []
        self._close: list[Close] = []
        self._alarms, self._wake_at = Alarms(), INFINITY
        self._nothing = NetworkEffects()
        self._configured = [self._add(-number, host, port) for number, (host, port) in enumerate(config.bootstrap_servers, 1)]

    # -- for machines

    @property
    def up(self) -> bool:
        """Whether any broker is connected."""
        return bool(self._ready)

    def ready(self, node: int) -> bool:
        """Whether a request to `node` would be written in this turn. A request with batches must not wait, because batches
        may be freed before a later turn."""
        return node in self._ready and node not in self._muted

    def want(self, node: int) -> None:
        """Connect to `node` (or ANY) as soon as its backoff has ended. The wish ends when the node is connected or leaves the cluster."""
        if node == ANY:
            if self._for_any.want():
                self._wake_at = -INFINITY
        elif node not in self._ready and (endpoint := self.endpoint(node)) is not None and not endpoint.wanted:
            endpoint.wanted = True
            self._dirty[node] = endpoint

    def avoid(self, now: float, node: int) -> None:
        """Make requests for ANY prefer other brokers for a while, because `node` did not respond, or its response was outdated
        or useless.

        If all connected brokers are avoided, the client connects to another. Until then, requests still go to an avoided broker.
        """
        endpoint = self.endpoint(node)
        if endpoint is None or endpoint.avoided_at == now:
            return
        endpoint.avoided_at = now
        known = [n for n in self._ready if n < LANE]
        if known and all(self._any.avoided_at(now, n) > -INFINITY for n in known) and not self._any.connecting():
            other = least_failed(self._any.unconnected(now))
            if other is not None:
                self.want(other.node)

    def in_flight(self, node: int) -> int:
        """Return the number of requests without an outcome, including those that wait for a connection."""
        endpoint = self._endpoints.get(node)
        return 0 if endpoint is None else endpoint.in_flight

    def version(self, node: int, api_key: int) -> int | None:
        """Return the highest version that both sides support; None if there is no such version, or `node` is not READY."""
        connection = self._ready.get(node)
        return None if connection is None else connection.version(api_key)

    def offering(self, api_key: int) -> int | None:
        """Return a connected broker that offers the API, or None. The client need not have imported the API's messages."""
        return next((broker_of(node) for node, connection in self._ready.items() if node >= 0 and api_key in connection.offered), None)

    def feature(self, name: str) -> int | None:
        """Return the finalized level of a cluster feature, 0 if it is not finalized; None while no broker is READY."""
        newest = max(self._ready.values(), key=lambda connection: connection.features_epoch, default=None)
        return None if newest is None else newest.features.get(name, 0)

    def link(self, node: int) -> int | None:
        """Return the unique number of the connection to `node`; None while `node` is not READY."""
        connection = self._ready.get(node)
        return None if connection is None else connection.link

    def submit(self, now: float, request: Request) -> None:
        """Send `request` to its node. While the node is not READY, the request waits, and fails as NO with the next failed attempt to
        connect or at its deadline. A request for ANY waits through failed attempts until its deadline.
        """
        request.asked_at = now
        node = request.node
        if node == CONTROLLER:
            node = ANY if self.controller is None or self.controller not in self._endpoints else self.controller
        if node == ANY:
            if not self._for_any.submit(now, request):
                self._wake_at = -INFINITY
            return
        endpoint = self.endpoint(node)
        if endpoint is None or endpoint.leaving:
            reason = ConnectionLost(f"broker {broker_of(node)} is not (or no longer) in the cluster")
            self._answers.append((request, Failed(reason, Written.NO)))
            return
        self.hand_over(now, endpoint, request)

    def new_lane(self) -> int:
        self._last_lane += 1
        self._lanes.add(self._last_lane)
        return self._last_lane

    def drop_lane(self, lane: int) -> None:
        """Close each READY connection of `lane` as soon as no request is in flight on it, and any other connection at once."""
        self._lanes.discard(lane)
        for node, endpoint in self._endpoints.items():
            if node >= LANE and node // LANE == lane:
                self._retire(endpoint)

    def why_unreachable(self) -> str:
        """Return `no broker reachable: 127.0.0.1:9092 connection refused; …`; empty while a broker is connected. For any thread."""
        if self._ready:
            return ""
        known = list(self._endpoints.values())
        latest = {e.address: e.why for e in sorted(known, key=lambda e: e.failed_at) if e.error is not None}
        addresses = dict.fromkeys(e.address for e in known if e.address in latest or not latest)
        return f"no broker reachable: {'; '.join(latest.get(a, f'{a} has not responded yet') for a in addresses)}"

    def why_down(self, node: int) -> str:
        """Return why the last connection or attempt failed (`127.0.0.1:9092 connection refused`); empty while the node is connected, and
        before the first failure."""
        endpoint = self._endpoints.get(node)
        return "" if endpoint is None else endpoint.why

    def down_since(self, node: int) -> float | None:
        """Return the start of the first failed attempt since the last connection to `node`; None if no attempt has failed."""
        endpoint = self._endpoints.get(node)
        return None if endpoint is None else endpoint.down_since

    def throttled_until(self, node: int) -> float:
        """Return the time until which the broker throttles this client; a time in the past if it does not."""
        connection = self._ready.get(node)
        return -INFINITY if connection is None else connection.muted_until

    def status(self, now: float) -> tuple[LinkStatus, ...]:
        """Return the connections to brokers and lanes. A bootstrap address is left out if a broker has it, or if brokers are known and the
        address has neither a connection nor an error."""
        brokers = {e.address for e in self._endpoints.values() if e.node >= 0}
        return tuple(
            e.status(now)
            for e in self._endpoints.values()
            if e.node >= 0 or not brokers or (e.address not in brokers and (e.connection is not None or e.error is not None))
        )

    # -- for the cluster

    def set_addresses(self, now: float, addresses: Mapping[int, tuple[str, int]]) -> None:
        """Set the brokers' addresses. Close connections to a moved broker at once, and retire the endpoints of brokers that left
        (`_retire`)."""
        for endpoint in [e for e in self._endpoints.values() if e.node >= 0]:
            address = addresses.get(broker_of(endpoint.node))
            if address is None:
                self._retire(endpoint)
            elif address != (endpoint.host, endpoint.port):
                self._move(now, endpoint, *address)
            elif endpoint.leaving:
                self._revive(endpoint)
        for node, (host, port) in addresses.items():
            self._add(node, host, port)

    def reachable(self, now: float) -> bool:
        return self._any.best(now) is not None

    # -- for the transport

    def connected(self, now: float, link: int) -> None:
        endpoint = self._links.get(link)
        if endpoint is not None and endpoint.connection is not None:
            endpoint.connection.connected(now)
            self._dirty[endpoint.node] = endpoint

    def receive(self, now: float, link: int, frame: Buffer) -> None:
        """Handle a complete frame. The caller must not use the buffer any more."""
        endpoint = self._links.get(link)
        if endpoint is None or endpoint.connection is None:
            return
        connection = endpoint.connection
        before = connection.state
        connection.receive(now, frame)
        self._follow(now, endpoint, connection, before)

    def _follow(self, now: float, endpoint: Endpoint, connection: Connection, before: ConnectionState) -> None:
        if connection.jobs:
            self._jobs.take(endpoint, connection)
            self._dirty[endpoint.node] = endpoint
        if connection.state is not before:
            self._state_changed(endpoint, connection)
        if connection.state is CLOSED:  # before `_answer`: its handlers may submit requests, and must not find this node READY
            self._ended(now, endpoint, connection)
            self._answer(now, self._answers)
            return
        if connection.answers and (endpoint.backoff.attempts or not self.refusals.has_answered(endpoint.node)):
            self.refusals.answered(endpoint)
            endpoint.backoff.reset()  # not earlier: a broker that sends only undecodable responses also becomes READY
            endpoint.undecodable = False
        if connection.muted_until > now or connection.is_engaged or endpoint.node in self._muted:
            self._mute(now, endpoint.node, connection)
            self._dirty[endpoint.node] = endpoint  # its alarm depends on the deadline of an exchange, and then on the next exchange
        if connection.state is not READY or connection.has_output or endpoint.leaving or endpoint.node < 0:
            self._dirty[endpoint.node] = endpoint
        elif not connection.in_flight:
            # Idle from now on, so the alarm must be for `max_idle`. While requests are in flight the alarm is early enough: a response
            # moves deadlines to a later time only.
            self._set_alarm(endpoint, endpoint.due())
        if self._for_any.waiting:
            self._wake_at = -INFINITY  # after this response the connection may no longer be stalled, and may serve the waiting requests
        self._answer(now, connection.answers)

    def lost(self, now: float, link: int, reason: KafkaError) -> None:
        """End the connection `link`, whose socket was closed or could not be opened."""
        endpoint = self._links.pop(link, None)
        if endpoint is not None and endpoint.connection is not None:
            endpoint.connection.lost(now, reason)
            self._ended(now, endpoint, endpoint.connection)
            self._answer(now, self._answers)

    def awaits_write(self, link: int) -> bool:
        """Whether `written` must be called: a request of `link` is complete as soon as the socket has its bytes."""
        connection = self._connection(link)
        return connection is not None and connection.has_silent

    def written(self, now: float, link: int) -> bool:
        """Complete the requests of `link` that get no response, now that its socket has all bytes. Return whether there were any."""
        connection = self._connection(link)
        if connection is None:
            return False
        connection.written_to(now)
        return self._answer(now, connection.answers) > 0

    def close_stale(self, now: float) -> None:
        """Close the connections that no request may use any more. The engine calls this before it polls machines.

        A process may have been frozen since the last turn: then firewalls may have forgotten idle connections, and a request on one of them
        would wait for its full timeout. `poll` also closes such connections, but after the machines have submitted their requests.
        """
        if now >= self._wake_at:
            for node, connection in list(self._ready.items()):
                self._close_unused(now, self._endpoints[node], connection)

    def poll(self, now: float) -> NetworkEffects:
        """Do the work that is due. If requests or pauses have ended, machines may have requests to send: then `wake_at` is `now`."""
        if now < self._wake_at and not self._dirty and not self._answers:
            return self._idle()
        unmuted = self._unmute(now) if self._muted else False
        touched = self._take_dirty(now)
        writes = [write for endpoint in touched if (write := self._step(now, endpoint)) is not None]
        any_due = self._for_any.serve(now) if self._for_any.waiting else INFINITY
        if any_due == -INFINITY:  # requests were handed to a connection: write them in this turn
            again = list(self._dirty.values())
            self._dirty.clear()
            writes += [write for endpoint in again if (write := self._step(now, endpoint)) is not None]
            touched += again
            any_due = INFINITY
        for endpoint in touched:
            self._set_alarm(endpoint, endpoint.due())
        self._wake_at = min(self._wake_at, max(any_due, now), self._alarms.next(), *self._muted.values())
        connect, self._connect = tuple(self._connect), []
        close, self._close = tuple(self._close), []
        jobs = self._jobs.start()
        answered = self._answer(now, self._answers)
        return NetworkEffects(connect, close, tuple(writes), now if answered or unmuted or self._dirty else self._wake_at, jobs)

    def _mute(self, now: float, node: int, connection: Connection) -> None:
        if node in self._ready:
            self._muted[node] = INFINITY if connection.is_engaged else max(connection.muted_until, now)
            self._wake_at = min(self._wake_at, self._muted[node])

    def _unmute(self, now: float) -> bool:
        """End the pauses that are due. Return whether one has ended: machines were polled before its end, and must be polled again."""
        over = [node for node, until in self._muted.items() if until <= now]
        for node in over:
            del self._muted[node]
        self.changes += len(over)
        return bool(over)

    def _idle(self) -> NetworkEffects:
        """Called thousands of times per second, so the object is reused."""
        if self._nothing.wake_at != self._wake_at:
            self._nothing = NetworkEffects(wake_at=self._wake_at)
        return self._nothing

    # -- endpoints

    def _add(self, node: int, host: str, port: int) -> Endpoint:
        endpoint = self._endpoints.get(node)
        if endpoint is None:
            endpoint = self._endpoints[node] = Endpoint(
                node,
                host,
                port,
                Backoff.reconnect(self._config, self._random),
                Backoff.setup(self._config, self._random),
                self._random.random(),
                min(SPARE_IDLE_S, self._max_idle) if node >= LANE and node // LANE == self._spare else self._max_idle,
            )
        return endpoint

    def endpoint(self, node: int) -> Endpoint | None:
        endpoint = self._endpoints.get(node)
        if endpoint is None and node >= LANE and (plain := self._endpoints.get(broker_of(node))) is not None:
            endpoint = self._add(node, plain.host, plain.port)
        return endpoint

    def _connection(self, link: int) -> Connection | None:
        endpoint = self._links.get(link)
        return None if endpoint is None else endpoint.connection

    def _retire(self, endpoint: Endpoint) -> None:
        """Accept no more requests for `endpoint`, and remove the endpoint when it is not READY or no request is in flight to it."""
        endpoint.leaving, endpoint.wanted = True, False
        reason = ConnectionLost(f"broker {broker_of(endpoint.node)} ({endpoint.address}) {LEFT}")
        self._answers += [(request, Failed(reason, Written.NO)) for request in endpoint.waiting]
        endpoint.waiting.clear()
        self._unready(endpoint)
        self._dirty[endpoint.node] = endpoint

    def _is_dropped(self, endpoint: Endpoint) -> bool:
        return endpoint.node >= LANE and endpoint.node // LANE not in self._lanes

    def _revive(self, endpoint: Endpoint) -> None:
        """Use a leaving endpoint again, because its broker is back in the cluster."""
        if self._is_dropped(endpoint):
            return
        endpoint.leaving = False
        if endpoint.connection is not None and endpoint.connection.state is READY:
            self._ready[endpoint.node] = endpoint.connection
            self.changes += 1

    def _move(self, now: float, endpoint: Endpoint, host: str, port: int) -> None:
        self._journal.moved(endpoint, host, port)
        connection = endpoint.connection
        reason = ConnectionLost(f"{endpoint.address}: broker {broker_of(endpoint.node)} moved to {host}:{port}")
        endpoint.host, endpoint.port, endpoint.leaving = host, port, self._is_dropped(endpoint)
        if connection is not None:
            connection.poison(reason)
            self._ended(now, endpoint, connection)
            endpoint.wanted = not endpoint.leaving
        endpoint.not_before, endpoint.failures = now, 0
        endpoint.backoff.reset()
        self._dirty[endpoint.node] = endpoint

    def hand_over(self, now: float, endpoint: Endpoint, request: Request) -> None:
        request.taker = self._dirty[endpoint.node] = endpoint
        if endpoint.connection is None:
            endpoint.waiting.append(request)
        else:
            endpoint.connection.submit(now, request)

    # -- one endpoint's turn

    def _take_dirty(self, now: float) -> list[Endpoint]:
        if now >= self._wake_at:
            self._wake_at = INFINITY
            for endpoint in self._alarms.take(now):
                self._dirty[endpoint.node] = endpoint
        touched = list(self._dirty.values())
        self._dirty.clear()
        return touched

    def _set_alarm(self, endpoint: Endpoint, when: float) -> None:
        if when < endpoint.alarm:
            self._alarms.set(endpoint, when)
            self._wake_at = min(self._wake_at, when)

    def _step(self, now: float, endpoint: Endpoint) -> tuple[int, list[Buffer]] | None:
        if endpoint.connection is None:
            self._step_unconnected(now, endpoint)
            return None
        connection = endpoint.connection
        connection.poll(now)
        if connection.jobs:
            self._jobs.take(endpoint, connection)
        if connection.state is CLOSED:
            self._ended(now, endpoint, connection)
            return None
        if self._close_unused(now, endpoint, connection):
            return None
        buffers = connection.outgoing(now) if connection.has_output else []
        self._answers += connection.answers
        connection.answers.clear()
        return (connection.link, buffers) if buffers else None

    def _step_unconnected(self, now: float, endpoint: Endpoint) -> None:
        if endpoint.leaving:
            self._endpoints.pop(endpoint.node, None)
            endpoint.alarm = INFINITY  # otherwise the old alarm would make this endpoint dirty again, perhaps instead of its successor
            return
        late = [request for request in endpoint.waiting if request.deadline <= now]
        if late:
            endpoint.waiting = [request for request in endpoint.waiting if request.deadline > now]
            reason = ConnectionLost(str(endpoint.error or f"{endpoint.address}: connection timed out"))
            self._answers += [(request, Failed(reason, Written.NO)) for request in late]
        if (endpoint.wanted or endpoint.waiting) and now >= endpoint.not_before:
            self.open(now, endpoint)

    def open(self, now: float, endpoint: Endpoint) -> None:
        """Connect to an endpoint; the attempt fails at once if `allowed_hosts` does not allow the host."""
        self._last_link += 1
        link = self._last_link
        prepare = None if self._prepare is None else partial(self._prepare, endpoint.host)
        broker, deadline, advice = broker_of(endpoint.node), now + endpoint.setup.next(), endpoint.advice(self._config.bootstrap_servers)
        common = prepare, self.secret_filter, self.answered, advice, self._traffic_with(broker)
        connection = Connection(broker, link, self._config, deadline, endpoint.address, *common)
        endpoint.connection, endpoint.dialled_at = connection, now
        for request in endpoint.waiting:
            connection.submit(now, request)
        endpoint.waiting.clear()
        if not self._config.allows(endpoint.host):
            connection.poison(HostNotAllowed(f"{endpoint.address}: not in allowed_hosts, though broker {connection.node} advertises it"))
            self._ended(now, endpoint, connection)
            return
        self._links[link] = endpoint
        self._connect.append(Connect(link, endpoint.host, endpoint.port))
        self._set_alarm(endpoint, connection.wake_at)

    def authenticated(self, now: float, task: Task, result: Any) -> None:
        endpoint, connection = task.endpoint, task.connection
        if self._jobs.waits:
            self._wake_at = -INFINITY
        if endpoint.connection is connection:
            before = connection.state
            connection.authenticated(now, task.exchange, result)
            self._dirty[endpoint.node] = endpoint
            self._follow(now, endpoint, connection, before)

    def _close_unused(self, now: float, endpoint: Endpoint, connection: Connection) -> bool:
        reason = self._unused(now, endpoint, connection)
        if reason is None:
            return False
        connection.poison(ConnectionLost(f"{endpoint.address}: {reason}"))
        endpoint.wanted = False
        self._part(endpoint, connection)
        return True

    def _unused(self, now: float, endpoint: Endpoint, connection: Connection) -> str | None:
        if connection.state is not READY:
            return LEFT if endpoint.leaving else None
        if connection.in_flight:
            return None
        if endpoint.leaving:
            return LEFT
        if now >= connection.idle_since + endpoint.max_idle:
            return f"unused for {endpoint.max_idle:g} s"
        if now >= connection.authenticated_until:
            return "its authentication has expired"
        if endpoint.node < 0 and any(0 <= node < LANE for node in self._ready):
            return "replaced by connections to the cluster's own addresses"
        return None

    def _state_changed(self, endpoint: Endpoint, connection: Connection) -> None:
        if connection.state is not READY:
            return
        self._journal.connected(endpoint)
        self._traffic_with(broker_of(endpoint.node)).opened += 1
        self.troubles.over(self)
        endpoint.failures, endpoint.error, endpoint.wanted, endpoint.down_since = 0, None, False, None
        endpoint.setup.reset()
        if not endpoint.leaving:
            self._ready[endpoint.node] = connection
            self.changes += 1
        self._dirty[endpoint.node] = endpoint
        if 0 <= endpoint.node < LANE:  # the client no longer needs its bootstrap connections: `_step` closes them
            self._dirty.update((e.node, e) for e in self._configured if e.connection is not None)

    def _ended(self, now: float, endpoint: Endpoint, connection: Connection) -> None:
        """Drop a connection that has failed, and set the backoff before the next attempt."""
        reason = connection.reason
        assert reason is not None
        was_ready = endpoint.node in self._ready
        self._part(endpoint, connection)
        self._journal.ended(endpoint, reason, was_ready)
        endpoint.error, endpoint.failed_at = reason, now
        if endpoint.down_since is None and not was_ready:  # after the loss of an idle connection, hours may pass until the next attempt
            endpoint.down_since = endpoint.dialled_at
        endpoint.failures += not was_ready
        traffic = self._traffic_with(broker_of(endpoint.node))
        traffic.lost += was_ready
        traffic.failed += not was_ready
        endpoint.not_before = now + endpoint.backoff.next()
        self.refusals.ended(now, endpoint)
        if not self._ready:
            self.troubles.note(now, self, ConnectionLost(self.why_unreachable()), REPEAT_S)  # the journal has logged the first failure
        for listener in self.on_lost:
            listener(now, broker_of(endpoint.node))

    def _traffic_with(self, broker: int) -> BrokerTraffic:
        return self.traffic.get(broker) or self.traffic.setdefault(broker, BrokerTraffic())

    def is_connected(self, broker: int) -> bool:
        return broker in self._ready or any(via(lane, broker) in self._ready for lane in self._lanes)

    def _part(self, endpoint: Endpoint, connection: Connection) -> None:
        """Drop a CLOSED connection, and collect the outcomes of its requests for `_answer`."""
        if self._links.pop(connection.link, None) is not None:
            self._close.append(Close(connection.link, str(connection.reason)))
        self._answers += connection.answers
        connection.answers.clear()
        endpoint.connection = None
        self._unready(endpoint)
        self._dirty[endpoint.node] = endpoint

    def _unready(self, endpoint: Endpoint) -> None:
        self._muted.pop(endpoint.node, None)
        if self._ready.pop(endpoint.node, None) is not None:
            self.changes += 1

    # -- outcomes

    def _answer(self, now: float, answers: list[Answer]) -> int:
        """Pass `answers` to the handlers of their requests; return the number of answers. Requests from handlers wait for the next poll."""
        given = 0
        while answers:
            batch = answers[:]
            answers.clear()
            given += len(batch)
            for request, outcome in batch:
                if request.owner is None:
                    request.on_reply(now, outcome)
                else:
                    request.owner.pass_on(now, request, outcome)
        return given
