"""Owns one loop, to which producers, consumers and admin clients attach, and closes all of them together. Invariant: the last user of a
private runtime closes the runtime.

A producer, consumer or admin client without a client creates a private runtime. The loop thread holds no reference to the `Runtime`, so if
an open runtime is garbage-collected, the loop ends, and the finalizer of a `Client`'s runtime warns.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from pykafka4.client.status import client_status
from pykafka4.core import ANY
from pykafka4.core.engine import Engine
from pykafka4.core.metadata.cluster import MetadataChange, Waiter
from pykafka4.core.metadata.events import BrokerAdded, BrokerRemoved, OffsetsLost
from pykafka4.core.metadata.recovery import PartitionOffline, PartitionOnline
from pykafka4.core.network.answered import Answered
from pykafka4.errors import ClosedError, ConfigError, KafkaError, KafkaTimeoutError, with_article
from pykafka4.logs import get_log
from pykafka4.net import logs, system, threads
from pykafka4.net.handoff.waiting import Promise
from pykafka4.net.handoff.workers import Callbacks, Feed
from pykafka4.net.living import Living
from pykafka4.net.loop import CALLER_GONE, Loop
from pykafka4.options.config import ClientConfig

if TYPE_CHECKING:
    from pykafka4.client.calls import Calls
    from pykafka4.core.sasl.mechanism import Mechanism

__all__ = ["Listener", "Runtime", "RuntimeUser", "warn_unclosed"]

log = get_log("pykafka4.client")

EXIT_S: Final = 5.0  # seconds for all clients of the process together, when the interpreter exits
ANSWERED: Final[dict[str, Answered]] = {}  # by security protocol; shared by all clients of the process

Listener = Callable[[object], Any]


class RuntimeUser(Protocol):
    """A producer, consumer or admin client. `kind` is its name on the page of the client."""

    kind: ClassVar[str]

    def close(self, timeout: float | None = None) -> Any:
        """Close the user, then call `runtime.detach(self)`. `Runtime.close` calls this for users that are still attached."""

    def drain(self, timeout: float) -> Any:
        """At interpreter exit, finish as much work as possible in `timeout` seconds, and warn about unfinished work."""


class ServedPage(Protocol):
    """A status page that a server shows."""

    def close(self) -> None:
        """May be called again."""


class EventFeeds:
    """Passes the machines' events to listeners. Separate from `Runtime`, which the loop must not keep alive."""

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks
        self._feeds: dict[Feed, None] = {}

    def add(self, listener: Listener) -> Callable[[], None]:
        """Add a listener, and return a function that removes it. Adding and removing are atomic, because the loop may emit meanwhile.

        A removed listener still gets the queued events.
        """
        feed = Feed(self._callbacks, listener)
        self._feeds[feed] = None
        return lambda: self._feeds.pop(feed, None)

    def emit(self, event: object) -> None:
        """Called on the loop thread; never waits for a listener."""
        for feed in list(self._feeds):
            if isinstance(event, (PartitionOffline, PartitionOnline)):
                feed.alternate(event.tp, event)
            elif isinstance(event, (BrokerAdded, BrokerRemoved)):
                feed.alternate(event.node, event)
            elif isinstance(event, OffsetsLost):
                feed.latest((OffsetsLost, event.tp), event)
            else:
                feed.latest(type(event), event)


class Runtime:
    """A client's loop with its users, events and stateless calls, for application threads."""

    _finalizer: weakref.finalize[Any, Runtime]

    def __init__(self, config: ClientConfig, executor: Executor | None) -> None:
        """Use `shared` or `private`, which also start the loop."""
        if executor is not None and not isinstance(executor, Executor):
            raise ConfigError(f"callback_executor={executor!r}: must be a concurrent.futures.Executor, or None for the client's own thread")
        if (library := threads.greenlets()) and executor is not None:
            raise ConfigError(f"callback_executor: {library} would run callbacks on greenlets; leave it out for the client's own thread")
        self.config = config
        self.callbacks = Callbacks(executor, config.client_id)
        self.events = EventFeeds(self.callbacks)
        self.engine = Engine(config, Random(), self.events, _prepare(config))  # loop thread only, except for methods "for any thread"
        self.engine.network.answered = ANSWERED.setdefault(config.security_protocol, Answered())
        self.loop = Loop(self.engine, self.callbacks)
        self._calls: dict[str, Calls] = {}  # empty or one item
        self._private = False
        self._users: dict[int, RuntimeUser] = {}  # by id: attaching and detaching are atomic under the GIL
        self._pages: dict[ServedPage, object] = {}  # page -> the producer or consumer that it shows; None: the client
        _RUNTIMES.add(self)
        _watch_exit_of_child()

    @classmethod
    def shared(cls, config: ClientConfig, executor: Executor | None) -> Runtime:
        """A runtime that lives until it is closed or garbage-collected."""
        runtime = cls(config, executor)
        runtime._finalizer = weakref.finalize(runtime, _forgotten, runtime.loop)  # not the runtime: a finalizer keeps its arguments alive
        runtime._finalizer.atexit = False  # at exit `_drain_all` ends the loop
        runtime.loop.start()  # last, so that no thread is left behind if an earlier step fails, or Ctrl-C interrupts it
        return runtime

    @classmethod
    def private(cls, config: ClientConfig, executor: Executor | None = None) -> Runtime:
        """A runtime that closes itself when its last user detaches."""
        runtime = cls(config, executor)
        runtime._private = True
        runtime._finalizer = weakref.finalize(runtime, runtime.loop.stop)
        runtime._finalizer.atexit = False
        runtime.loop.start()
        return runtime

    @property
    def calls(self) -> Calls:
        """The first use imports the messages of the calls, which takes time."""
        from pykafka4.client.calls import Calls

        return self._calls.get("") or self._calls.setdefault("", Calls(self.loop, self.engine, self.callbacks))

    # -- users

    def check(self) -> None:
        self.loop.check()

    def attach(self, user: RuntimeUser) -> None:
        self.check()
        self._users[id(user)] = user

    def detach(self, user: RuntimeUser, timeout: float | None = None) -> None:
        """Remove a user. If it was the last user of a private runtime, close the runtime, within `timeout` seconds."""
        self._users.pop(id(user), None)
        self._close_pages(user)
        if self._private and not self._users:
            self.close(timeout)

    @property
    def users(self) -> list[RuntimeUser]:
        return list(self._users.values())

    def keep_page(self, page: ServedPage, user: object = None) -> None:
        self._pages[page] = user

    def _close_pages(self, user: object = None) -> None:
        for page, owner in list(self._pages.items()):
            if user is None or owner is user:
                self._pages.pop(page, None)
                page.close()

    def close(self, timeout: float | None = None) -> None:
        if self._users and logs.current().on_loop():  # in a destructor on a loop thread, which must not wait for the closing of users
            # Not on the callback thread, because a producer that is closed there does not wait until its records are delivered.
            system.Thread(target=self.close, args=(timeout,), name="pykafka4-close", daemon=True).start()
            return
        deadline = None if timeout is None else system.monotonic() + timeout

        def close(user: RuntimeUser) -> None:
            user.close(_left(deadline))

        self._finalizer.detach()
        # The stack runs in reverse: users, pages, loop. After an exception (of a listener, or Ctrl-C) it still runs its remaining entries.
        with contextlib.ExitStack() as ends:
            ends.callback(lambda: self.loop.close(_left(deadline)))
            ends.callback(self._users.clear)
            ends.callback(self._close_pages)
            for user in () if self.loop.forked else reversed(list(self._users.values())):
                ends.callback(close, user)

    # -- questions

    def refresh_metadata(self, topics: Collection[str] | None, timeout: float, ending: Promise[None] | None = None) -> None:
        """Refresh the metadata. If another thread fails the promise `ending`, raise its error at once."""
        promise: Promise[None] = self.loop.promise() if ending is None else ending
        cluster, waiters = self.engine.cluster, list[Waiter]()

        def ask(now: float) -> Promise[None]:
            waiters.append(cluster.refreshed(now, topics, lambda error: _finish(promise, error)))
            return promise

        def stop(now: float) -> None:
            for waiter in waiters:
                cluster.cancel_wait(waiter)

        try:
            self.loop.ask(ask, timeout, "refreshing metadata")
        except KafkaTimeoutError as error:
            if (silent := cluster.silent) is None:
                raise
            raise KafkaTimeoutError(f"{error}; {silent} has not answered Metadata") from None
        finally:
            promise.set_exception(CALLER_GONE)
            self.loop.call(stop)

    def partitions_of(self, topic: str, timeout: float, create: bool = False) -> list[int]:
        """With `create`, brokers may create the topic (allow_auto_create_topics)."""
        _, ask, stop = self.lookup(topic, create)
        try:
            return self.loop.ask(ask, timeout, f"looking up topic {topic}")
        except KafkaTimeoutError as error:
            raise self.not_found(topic, error) from None
        finally:
            self.loop.call(stop)

    def not_found(self, topic: str, error: KafkaTimeoutError) -> KafkaTimeoutError:
        return KafkaTimeoutError(f"{error}{self._missing(topic)}")

    def lookup(self, topic: str, create: bool) -> tuple[Promise[list[int]], Callable[[float], Promise[list[int]]], Callable[[float], None]]:
        """The promise of a topic's partitions, with two functions for the loop: one begins the lookup, the other ends it.

        The caller must have the loop run the second function in any case.
        """
        wait: Promise[list[int]] = self.loop.promise()
        cluster, refusals = self.engine.cluster, self.engine.network.refusals.listeners
        asked = 0

        def look(change: MetadataChange | None = None) -> None:
            if cluster.partitions(topic):
                wait.set_result(list(range(cluster.partitions(topic))))
            elif (refusal := cluster.refusal(topic, asked)) is not None:
                wait.set_exception(refusal)

        def refused(now: float, broker: int, error: KafkaError) -> None:
            if broker == ANY:
                wait.set_exception(error)

        def ask(now: float) -> Promise[list[int]]:
            nonlocal asked
            asked = cluster.asked  # older refusals are ignored, because the topic may be allowed by now
            refusals[refused] = None
            cluster.want(topic, look, create)
            cluster.on_change.append(look)
            look()  # the topic may be known already, and listeners learn only of later changes
            return wait

        def stop(now: float) -> None:
            if look in cluster.on_change:
                cluster.on_change.remove(look)
            cluster.forget(topic, look)
            refusals.pop(refused, None)
            wait.set_exception(CALLER_GONE)

        return wait, ask, stop

    def status(self) -> dict[str, Any]:
        return client_status(self.loop, self.engine)

    def _missing(self, topic: str) -> str:
        error = self.engine.cluster.topic_error(topic)
        return "" if error is None else f"; the brokers report {error.name}"

    def drain(self, deadline: float) -> None:
        """At interpreter exit, let the users finish their work until `deadline`, then end the loop."""
        if self.loop.alive:
            for user in list(self._users.values()):
                try:
                    user.drain(max(0.0, deadline - system.monotonic()))
                except Exception:
                    log.exception("%s: %s could not be drained at exit", self.config.client_id, type(user).__name__)
            self._close_pages()
            self._finalizer.detach()
            self.loop.close(max(0.0, deadline - system.monotonic()))

    def __repr__(self) -> str:
        """Name a `Client`, not a `Runtime`, because error messages show this text to applications."""
        servers = ",".join(f"{host}:{port}" for host, port in self.config.bootstrap_servers)
        return f"<Client {self.config.client_id!r} of {servers}>"


def _prepare(config: ClientConfig) -> Callable[[str], Mechanism] | None:
    """The function that makes a SASL mechanism for a broker's host name; None without SASL."""
    if not config.authenticates:
        return None
    from pykafka4.net.credentials import Credentials  # imported here: few clients use SASL

    return Credentials(config).mechanism


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - system.monotonic())


def _finish(promise: Promise[None], error: KafkaError | None) -> None:
    if error is None:
        promise.set_result(None)
    else:
        promise.set_exception(error)


def _forgotten(loop: Loop) -> None:
    """Stop the loop without blocking, because a finalizer calls this."""
    if loop.alive:
        warn_unclosed("Client")
    loop.stop()


def warn_unclosed(what: str) -> None:
    """If the garbage collector runs on a loop thread, another thread issues the warning, which can run code of the application."""
    text = f"{with_article(what)} was not closed; use `with` or call close()"
    logs.current().aside(lambda: warnings.warn(text, ResourceWarning, stacklevel=3))


_RUNTIMES: Living[Runtime] = Living()


@atexit.register
def _drain_all(**signal: Any) -> None:
    deadline, threading.excepthook = system.monotonic() + EXIT_S, partial(_pass_unless_closed, threading.excepthook)
    for runtime in list(_RUNTIMES):
        runtime.drain(deadline)


def _pass_unless_closed(before: Callable[[threading.ExceptHookArgs], object], args: threading.ExceptHookArgs) -> None:
    """Show no ClosedError at exit, because daemon threads may still use closed clients."""
    if getattr(args.exc_value, "code", None) != ClosedError.code:
        before(args)


_watched: set[int] = set()  # process ids


def _watch_exit_of_child() -> None:
    """Have a child of multiprocessing, billiard or Celery drain its clients, even if it ends with `os._exit`, which skips `atexit`.

    Before `os._exit`, children of multiprocessing and billiard run finalizers, and a Celery worker that is replaced sends a signal.
    """
    if os.getpid() in _watched:
        return
    _watched.add(os.getpid())
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None and (util := sys.modules.get("multiprocessing.util")) is not None:
        util.Finalize(None, _drain_all, exitpriority=0)
    if (util := sys.modules.get("billiard.util")) is not None:
        util.Finalize(None, _drain_all, exitpriority=0)
    if (signals := sys.modules.get("celery.signals")) is not None:
        signals.worker_process_shutdown.connect(_drain_all, weak=False, dispatch_uid=__name__)
