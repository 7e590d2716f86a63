"""Pool. Rule: a producer belongs to one task at a time, and only a task that delivered everything gives it back.

A module of its own, because Spark ships functions by value: a producer kept in a notebook's globals is made anew for every
task, one kept in an importable module lives as long as the Python worker. A worker is forked, ends without notice (SIGKILL,
`os._exit`) and is reaped after about a minute without work, so nothing here may be left to do when a task has returned.
"""

from __future__ import annotations

import atexit
import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from pykafka4.config import ProducerConfig
from pykafka4.errors import KafkaError
from pykafka4.producer import Producer

__all__ = ["Pool", "close", "pool"]

LIMIT = 8  # idle producers kept: each has a thread and its connections
CRASH = 1.0  # seconds a flush of nothing may take; it raises at once when the producer's loop has crashed or a fatal error has ended it


@attrs.define(eq=False)
class Pool:
    """The producers of this process, by configuration."""

    idle: dict[ProducerConfig, Producer] = attrs.Factory(dict)
    leased: list[Producer] = attrs.Factory(list)

    @contextlib.contextmanager
    def lease(self, options: Mapping[str, Any]) -> Iterator[Producer]:
        """A producer for one task, the worker's own or a new one. It goes back only when the block ends without an error."""
        config = ProducerConfig.parse(options)
        producer = self.take(config) or Producer(**options)
        self.leased.append(producer)
        try:
            yield producer
        except BaseException:
            self.leased.remove(producer)
            discard(producer)
            raise
        self.leased.remove(producer)
        self.keep(config, producer)

    def take(self, config: ProducerConfig) -> Producer | None:
        """The idle producer with this configuration, unless it broke while it lay here."""
        producer = self.idle.pop(config, None)
        if producer is None or fit(producer):
            return producer
        discard(producer)
        return None

    def keep(self, config: ProducerConfig, producer: Producer) -> None:
        """Take a producer back. Closes the one it replaces (two tasks at once, in threads) or the oldest when there are too many."""
        surplus = [self.idle.pop(config)] if config in self.idle else []
        surplus += [self.idle.pop(next(iter(self.idle)))] if len(self.idle) >= LIMIT else []
        self.idle[config] = producer
        for other in surplus:
            discard(other)

    def close(self) -> None:
        """Close what is idle."""
        while self.idle:
            discard(self.idle.popitem()[1])


def fit(producer: Producer) -> bool:
    """Whether it can still deliver: neither closed, fenced nor crashed."""
    try:
        producer.flush(CRASH)
    except KafkaError:
        return False
    return True


def discard(producer: Producer) -> None:
    """Close it at once. What a failed task leaves undelivered is dropped: the task's next attempt sends it again."""
    producer.close(timeout=0)


_pools: dict[int, Pool] = {}  # by process: what a fork inherited is never used, and never touched


def pool() -> Pool:
    """This process's pool."""
    return _pools.setdefault(os.getpid(), Pool())


@atexit.register
def close() -> None:
    """Close what is idle in this process. Spark's workers end without it: they have nothing to deliver between tasks."""
    pool().close()
