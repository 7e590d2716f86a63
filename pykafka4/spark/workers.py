"""Keeps the producers and clients of a Python worker for its next tasks. Invariant: a producer serves one task at a time, and returns to
the pool only if the task has delivered all its records; tasks share the clients, and leave no work in them.

This is a separate module because Spark ships functions by value. A producer in a notebook's globals would be created again for each task; a
producer in an importable module lives as long as the Python worker. A worker may be forked, may be stopped after about a minute without
work, and may end without notice (SIGKILL, `os._exit`). So no work may be left here when a task has returned.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from pykafka4.errors import ConfigError, KafkaError
from pykafka4.errors.frames import empty_frames, guarded
from pykafka4.options.config import ClientConfig, ProducerConfig

if TYPE_CHECKING:
    from pykafka4.client.client import Client
    from pykafka4.core.producer.outcomes.ledger import ProducerStats
    from pykafka4.producer import Producer

__all__ = ["Pool", "check_travelling", "client_for", "close", "discard", "pool", "with_linger", "worker_stats"]

GONE = {"closed", "crashed", "unresponsive"}  # states of a client that serves no further task
# The default linger of a task's producer. Python can yield rows so slowly that a linger of 5 ms leaves batches a quarter full; the last
# rows are sent when the task ends.
LINGER_MS = 100.0
LIMIT = 8  # the largest number of idle producers, and of clients, in a pool: each has a thread and connections
CHECK_S = 1.0  # seconds for a flush without records, which raises at once if the loop has crashed or a fatal error has ended the producer


@attrs.define(eq=False)
class Pool:
    """The producers and clients of this process."""

    idle: dict[ProducerConfig, Producer] = attrs.Factory(dict)
    leased: list[Producer] = attrs.Factory(list)
    clients: dict[ClientConfig, Client] = attrs.Factory(dict)  # in the order of their last use

    @contextlib.contextmanager
    def lease(self, options: Mapping[str, Any]) -> Iterator[Producer]:
        """A producer for one task, from the pool or new. It returns to the pool only if the block ends without an error."""
        try:
            from pykafka4.producer import Producer  # here: each commit on the driver has its own process, which needs no producer

            options = with_linger(options)
            config = ProducerConfig.parse(options)
            producer = self.take(config)
            if producer is None:
                producer = Producer(**options)
                self.leased.append(producer)
            spare_modules()
        except Exception as error:
            empty_frames(error)
            raise
        finally:
            del options  # an error of the task has this frame in its traceback, and the options have secrets
        try:
            yield producer
        except BaseException:
            self.leased.remove(producer)
            discard(producer)
            raise
        self.leased.remove(producer)
        self.keep(config, producer)

    def take(self, config: ProducerConfig) -> Producer | None:
        """The idle producer with this configuration; None if there is none, or if it has failed while idle.

        The producer enters `leased` before the check, whose flush can take a while on a busy machine: `worker_stats` must not miss the
        producer's numbers meanwhile.
        """
        producer = self.idle.pop(config, None) if _can_be_hashed(config) else None
        if producer is None:
            return None
        self.leased.append(producer)
        if is_usable(producer):
            return producer
        self.leased.remove(producer)
        discard(producer)
        return None

    def keep(self, config: ProducerConfig, producer: Producer) -> None:
        """Add `producer` to the idle producers, or close it if its configuration cannot be a key. Also close an idle producer with the same
        configuration (two tasks ran in threads), and above `LIMIT` the producer that has been idle longest.
        """
        if not _can_be_hashed(config):
            discard(producer)
            return
        surplus = [self.idle.pop(config)] if config in self.idle else []
        surplus += [self.idle.pop(next(iter(self.idle)))] if len(self.idle) >= LIMIT else []
        self.idle[config] = producer
        for other in surplus:
            discard(other)

    def client(self, options: Mapping[str, Any]) -> Client:
        """The client with these options; a new one if there is none, or if it was closed, has crashed or hangs.

        Closes the least recently used client if there are more than `LIMIT`.
        """
        config = ClientConfig.parse(options)
        found = self.clients.pop(config, None)
        if found is None or found.status()["state"] in GONE:
            from pykafka4.client.client import Client  # here, as for Producer

            found = Client(**options)
            spare_modules()
        self.clients[config] = found
        if len(self.clients) > LIMIT:
            self.clients.pop(next(iter(self.clients))).close()
        return found

    def close(self) -> None:
        while self.idle:
            discard(self.idle.popitem()[1])
        while self.clients:
            self.clients.popitem()[1].close()


def with_linger(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add a `linger_ms` for tasks, unless there is one: many small batches cost brokers more time than a few full ones."""
    if "linger_ms" in options:
        return options
    return {**options, "linger_ms": min(LINGER_MS, ProducerConfig.parse(options).delivery_timeout_ms / 10)}


def spare_modules() -> None:
    """Exempt the loaded modules of a Python worker from garbage collection, once.

    A worker collects garbage after each task. With pykafka4 and pyarrow loaded this can take 40 ms, ten times as long as the task of a
    small micro-batch.
    """
    from pyspark import TaskContext  # here: options can be checked without PySpark

    if TaskContext.get() is not None and not gc.get_freeze_count():
        gc.freeze()


def _can_be_hashed(config: ProducerConfig) -> bool:
    """With an unhashable hook or callable, a producer serves one task only."""
    try:
        hash(config)
    except TypeError:
        return False
    return True


def is_usable(producer: Producer) -> bool:
    try:
        producer.flush(CHECK_S)
    except KafkaError:
        return False
    return True


def discard(producer: Producer) -> None:
    """Close the producer at once. Undelivered rows of a failed task are dropped: if Spark repeats the task, it sends them again.

    An error of the close, such as a loop that does not respond, must not hide the error of the task, nor fail a task that has ended.
    """
    with contextlib.suppress(KafkaError):
        producer.close(timeout=0)


def check_travelling(options: Mapping[str, Any]) -> None:
    """Raise ConfigError for wrong producer options, and for a transactional_id, an ssl_context and "drop", which tasks cannot use."""
    parsed = ProducerConfig.parse(options)
    if parsed.transactional_id is not None:
        raise ConfigError(
            "transactional_id: all tasks would share it and fence one another; for transactions write with format('pykafka4') and "
            "option delivery=exactly_once, which gives each task an id of its own"
        )
    if parsed.ssl_context is not None:
        raise ConfigError(
            "an ssl_context cannot be sent to executors: pass certificates as text, with ssl_ca_pem, ssl_cert_pem, ssl_key_pem"
        )
    for name in ("on_full", "on_rate_limit"):
        if getattr(parsed, name) == "drop":
            raise ConfigError(f"{name}='drop': a task reports its rows as written, so none may be dropped; leave the option out")


_pools: dict[int, Pool] = {}  # by process id: a forked process neither uses nor changes the inherited pool


def pool() -> Pool:
    return _pools.setdefault(os.getpid(), Pool())


@guarded
def client_for(options: Mapping[str, Any]) -> Client:
    """The client of this process with these options of `ClientConfig`. Do not close it: later tasks also use it."""
    return pool().client(options)


def worker_stats() -> list[ProducerStats]:
    """The stats of this Python worker's producers. Call it inside a task.

    The result has the stats of the producers of at-least-once delivery that serve a task, or wait for the next one. It lacks closed
    producers, as after a failed task, and the producers of `delivery=exactly_once`, each of which serves one task.
    """
    mine = pool()
    return [producer.stats() for producer in (*mine.leased, *mine.idle.values())]


@atexit.register
def close() -> None:
    """Close the clients and idle producers of this process. Spark's workers usually end without this call, with no records to lose."""
    pool().close()
