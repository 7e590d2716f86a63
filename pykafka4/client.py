"""Client. Rule: owns one loop; producers and consumers attach to it, and the last user of a private one closes it.

The loop's thread knows nothing of the `Client` object: one that is forgotten while open is collected, says so in a ResourceWarning, and
its loop ends.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import warnings
import weakref
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Executor
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, Protocol, Unpack

from pykafka4.config import ClientConfig
from pykafka4.core.engine import Engine
from pykafka4.core.metadata.cluster import BrokerAdded, BrokerRemoved, Change, MetadataChanged, Waiter
from pykafka4.core.metadata.recovery import PartitionOffline, PartitionOnline
from pykafka4.errors import ClosedError, ConfigError, ForkedClientError, KafkaError, KafkaTimeoutError, broker_error, shown
from pykafka4.logs import get_log
from pykafka4.misuse import check_timeout, check_topic, hint, refuse_pickling
from pykafka4.net import logs, system
from pykafka4.net.handoff.waiting import Promise
from pykafka4.net.handoff.workers import Callbacks, Feed
from pykafka4.net.loop import NOBODY_WAITS, Loop
from pykafka4.options import ClientOptions
from pykafka4.peers import CLIENT_METHODS

__all__ = ["BrokerAdded", "BrokerRemoved", "Client", "MetadataChanged", "PartitionOffline", "PartitionOnline", "User", "warn_unclosed"]

log = get_log("pykafka4.client")
EXIT_SECONDS = 5.0
STATUS_SECONDS = 5.0
Listener = Callable[[object], Any]


class User(Protocol):
    """A producer or consumer that uses a client."""

    def close(self, timeout: float | None = None) -> Any:
        """`client.close` closes those still attached first. Ends with `client.detach(self)`."""

    def drain(self, timeout: float) -> Any:
        """The interpreter exits: finish what can be finished in `timeout` seconds, warn about the rest."""


class _Events:
    """What the machines emit, for those who listen. Apart from `Client`, so that the loop does not keep the client alive."""

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks
        self._feeds: dict[Feed, None] = {}

    def add(self, listener: Listener) -> Callable[[], None]:
        """What it returns ends it. One step each, so that the loop may emit meanwhile; events already queued are still heard."""
        feed = Feed(self._callbacks, listener)
        self._feeds[feed] = None
        return lambda: self._feeds.pop(feed, None)

    def emit(self, event: object) -> None:
        """Loop thread; never blocks on a listener."""
        for feed in list(self._feeds):
            if isinstance(event, (PartitionOffline, PartitionOnline)):
                feed.alternate(event.tp, event)
            elif isinstance(event, (BrokerAdded, BrokerRemoved)):
                feed.alternate(event.node, event)
            else:
                feed.latest(type(event), event)


class Client:
    """One loop thread, its connections and its picture of the cluster, shared by any number of producers and consumers.

    `Client(bootstrap_servers="host:9092", **options)`: options are those of `ClientConfig` (docs/options.md). `callback_executor` is a
    `concurrent.futures.Executor` for delivery callbacks and events; by default they run one after the other on a thread of the client.
    All methods may be called from any thread. Made in one process, it cannot be used in a forked child, nor pickled.
    """

    _finalizer: weakref.finalize[Any, Client]

    def __init__(self, *wrong: Never, callback_executor: Executor | None = None, **options: Unpack[ClientOptions]) -> None:
        """ConfigError names a wrong option. Brokers are looked for in the background; none need be there yet."""
        if wrong:
            raise ConfigError(f"{shown(wrong[0])}: options are keywords: Client(bootstrap_servers=…)")
        self._open(ClientConfig.parse(options), callback_executor)
        self._private = False
        self._finalizer = weakref.finalize(self, _forgotten, self.loop)
        self._finalizer.atexit = False
        self.loop.start()  # last: whatever ends this constructor before, Ctrl-C included, leaves no thread behind

    @classmethod
    def private(cls, config: ClientConfig, callback_executor: Executor | None = None) -> Client:
        """A client that closes when its last user detaches."""
        client = cls.__new__(cls)
        client._open(config, callback_executor)
        client._private = True
        client._finalizer = weakref.finalize(client, client.loop.stop)
        client._finalizer.atexit = False
        client.loop.start()
        return client

    def _open(self, config: ClientConfig, executor: Executor | None) -> None:
        if executor is not None and not isinstance(executor, Executor):
            raise ConfigError(f"callback_executor={executor!r}: must be a concurrent.futures.Executor, or None for a thread of the client")
        self.config = config
        self.callbacks = Callbacks(executor)
        self._events = _Events(self.callbacks)
        self.engine = Engine(config, Random(), self._events.emit)  # loop thread only
        self.loop = Loop(self.engine, self.callbacks)
        self._users: dict[int, User] = {}  # by id: coming and going are one step each under the interpreter's lock
        _CLIENTS.add(self)
        _watch_exit_of_child()

    # -- for applications

    def events(self, listener: Listener) -> Callable[[], None]:
        """Have `listener(event)` called on the callback executor: PartitionOffline(tp, reason), PartitionOnline(tp), BrokerAdded and
        BrokerRemoved(node, host, port), MetadataChanged(version).

        A slow listener misses intermediate states, never the present one: what comes and goes while it is busy cancels itself out.
        Returns a function that ends it: `stop = client.events(listener)`, later `stop()`. TypeError for what cannot be called.
        """
        if not callable(listener):
            raise TypeError(f"listener must be callable, not {listener!r}")
        self.check()
        return self._events.add(listener)

    def refresh_metadata(self, topics: Collection[str] | None = None, timeout: float | None = None) -> None:
        """Ask a broker for the cluster's present state: of `topics` (an empty list: of the brokers), or of all that is in use (None).

        `timeout` in seconds, default `request_timeout_ms`. KafkaTimeoutError says which addresses were tried, and why in vain.
        """
        names, limit = None if topics is None else _names(topics), self._seconds(timeout)
        promise: Promise[None] = self.loop.promise()
        cluster, waiters = self.engine.cluster, list[Waiter]()

        def ask(now: float) -> Promise[None]:
            waiters.append(cluster.refreshed(now, names, lambda error: _finish(promise, error)))
            return promise

        def stop(now: float) -> None:
            for waiter in waiters:
                cluster.give_up(waiter)

        try:
            self.loop.ask(ask, limit, "refreshing metadata")
        finally:
            promise.set_exception(NOBODY_WAITS)
            self.loop.call(stop)

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """The partitions of `topic`; asks the cluster if they are not known, and waits for a topic that does not exist to appear.

        `timeout` in seconds, default `request_timeout_ms`. Raises KafkaTimeoutError, BrokerError (AuthorizationError, …).
        """
        return self.partitions_of(check_topic(topic), self._seconds(timeout))

    def partitions_of(self, topic: str, timeout: float, create: bool = False) -> list[int]:
        """As `partitions_for`; with `create` brokers may create the topic (allow_auto_create_topics)."""
        wait: Promise[list[int]] = self.loop.promise()
        cluster = self.engine.cluster

        def look(change: Change | None = None) -> None:
            error = cluster.topic_error(topic)
            if cluster.partitions(topic):
                wait.set_result(list(range(cluster.partitions(topic))))
            elif error is not None and not error.retriable:
                wait.set_exception(broker_error(error.code, f"topic {topic}"))

        def ask(now: float) -> Promise[list[int]]:
            cluster.want(topic, look, create)
            cluster.on_change.append(look)
            look()
            return wait

        def stop(now: float) -> None:
            if look in cluster.on_change:
                cluster.on_change.remove(look)
            cluster.forget(topic, look)

        try:
            return self.loop.ask(ask, timeout, f"looking up topic {topic}")
        except KafkaTimeoutError as error:
            raise KafkaTimeoutError(f"{error}{self._missing(topic)}") from None
        finally:
            wait.set_exception(NOBODY_WAITS)
            self.loop.call(stop)

    def status(self) -> dict[str, Any]:
        """Why is nothing flowing: `state` (connected, connecting, unreachable, unresponsive, crashed, closed, forked), `reason`, `brokers`,
        `offline` partitions, `topics` in trouble. Times are seconds ago. Works on a closed or crashed client, too.

        "unresponsive": the client's thread did not answer within 5 s. "forked": the client was made in another process.
        """
        try:
            return self.loop.ask(self._status, STATUS_SECONDS, "the client's status")
        except KafkaError as error:
            return {
                **self.why_unknown(error),
                "cluster_id": None,
                "controller": None,
                "brokers": [],
                "offline": {},
                "topics": {},
            }

    def close(self, timeout: float | None = None) -> None:
        """Close the producers and consumers that use this client, then the loop and its connections, within `timeout` seconds.

        None: as long as those take. Closing twice, or from a callback, is allowed.
        """
        limit = check_timeout(timeout)
        deadline = None if limit is None else system.monotonic() + limit

        def close(user: User) -> None:
            user.close(_left(deadline))

        self._finalizer.detach()
        with contextlib.ExitStack() as ends:  # whatever a user's close raises, a listener's error or Ctrl-C: the others and the thread go
            ends.callback(lambda: self.loop.close(_left(deadline)))
            ends.callback(self._users.clear)
            for user in () if self.loop.forked else reversed(list(self._users.values())):
                ends.callback(close, user)

    def __enter__(self) -> Client:
        self.check()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        servers = ",".join(f"{host}:{port}" for host, port in self.config.bootstrap_servers)
        return f"<Client {self.config.client_id!r} of {servers}>"

    if not TYPE_CHECKING:  # a type checker would accept every name

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(hint("Client", name, CLIENT_METHODS, dir(type(self))))

    def __reduce__(self) -> Any:
        return refuse_pickling("Client")

    # -- for producers and consumers

    def check(self) -> None:
        """Raise ForkedClientError, ClosedError or the loop's crash."""
        self.loop.check()

    def why_unknown(self, error: KafkaError) -> dict[str, Any]:
        """What `status` says where the loop answered a question with `error`."""
        if isinstance(error, ForkedClientError):
            state = "forked"
        elif isinstance(error, KafkaTimeoutError):
            state = "unresponsive"
        else:
            state = "closed" if isinstance(error, ClosedError) else "crashed"
        return {"state": state, "reason": str(error)}

    def attach(self, user: User) -> None:
        """`user` works with this client until it detaches."""
        self.check()
        self._users[id(user)] = user

    def detach(self, user: User) -> None:
        """`user` is done. The last one of a private client closes it."""
        self._users.pop(id(user), None)
        if self._private and not self._users:
            self.close()

    # -- inside

    def _seconds(self, timeout: float | None) -> float:
        limit = check_timeout(timeout)
        return self.config.request_timeout_ms / 1000 if limit is None else limit

    def _missing(self, topic: str) -> str:
        error = self.engine.cluster.topic_error(topic)
        return "" if error is None else f"; the brokers say {error.name}"

    def _status(self, now: float) -> dict[str, Any]:
        engine = self.engine
        why = engine.network.why_unreachable()
        links = engine.network.status()
        return {
            "state": "connected" if not why else "unreachable" if any(link.error for link in links) else "connecting",
            "reason": why or None,
            "cluster_id": engine.cluster.cluster_id,
            "controller": engine.cluster.controller,
            "brokers": [
                {
                    "node": link.node,
                    "address": f"{link.host}:{link.port}",
                    "state": link.state,
                    "in_flight": link.in_flight,
                    "error": link.error,
                }
                for link in links
            ],
            "offline": {str(tp): {"since": now - o.since, "reason": str(o.reason)} for tp, o in engine.recovery.offline.items()},
            "topics": engine.cluster.troubles(),
        }

    def _drain(self, deadline: float) -> None:
        if self.loop.alive:
            for user in list(self._users.values()):
                try:
                    user.drain(max(0.0, deadline - system.monotonic()))
                except Exception:
                    log.exception("%s could not be drained at exit", type(user).__name__)
            self._finalizer.detach()
            self.loop.close(max(0.0, deadline - system.monotonic()))


def _names(topics: object) -> list[str]:
    """A list of legal topic names; ConfigError or TypeError naming what is wrong."""
    if isinstance(topics, (str, bytes)) or not isinstance(topics, Iterable):
        raise ConfigError(f"topics={topics!r}: must be a list of names")
    return [check_topic(topic) for topic in topics]


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - system.monotonic())


def _finish(promise: Promise[None], error: KafkaError | None) -> None:
    if error is None:
        promise.set_result(None)
    else:
        promise.set_exception(error)


def _forgotten(loop: Loop) -> None:
    """The collector took an open client. Nothing may block here."""
    if loop.alive:
        warn_unclosed("Client")
    loop.stop()


def warn_unclosed(what: str) -> None:
    """Warn of a handle that was collected while open, on another thread: the collector may run on the loop, and what shows warnings is the
    application's."""
    logs.current().aside(lambda: warnings.warn(f"a {what} was not closed; use `with`, or close()", ResourceWarning, stacklevel=3))


_CLIENTS: weakref.WeakSet[Client] = weakref.WeakSet()


@atexit.register
def _drain_all() -> None:
    deadline = system.monotonic() + EXIT_SECONDS
    for client in list(_CLIENTS):
        client._drain(deadline)


_watched: set[int] = set()  # processes


def _watch_exit_of_child() -> None:
    """A child of `multiprocessing` leaves through `os._exit`, which skips `atexit`; multiprocessing's own finalizers run before."""
    util, process = sys.modules.get("multiprocessing.util"), sys.modules.get("multiprocessing.process")
    if util is None or process is None or process.parent_process() is None or os.getpid() in _watched:
        return
    _watched.add(os.getpid())
    util.Finalize(None, _drain_all, exitpriority=0)
