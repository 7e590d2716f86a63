"""Calls every public method with hostile arguments, in a process of its own. Invariant: the call returns or raises something documented.

`python -m tests.net.hostile_calls SEED COUNT`: with types, subclasses, sizes and encodings that nobody expects, with objects that call
the client again. Afterwards, and now and then in between, records of others are delivered, the loop turns, and every record taken before
has its outcome. Prints `survived` as its last line.
"""

from __future__ import annotations

import contextlib
import enum
import faulthandler
import logging
import random
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pykafka4 import Client, Consumer, KafkaError, Producer, TopicPartition
from pykafka4.records import OffsetAndMetadata
from pykafka4.testing import ModelServer
from tests.inspection import inspect

SECONDS = 20.0
SHORT = 0.02


class Mine(Exception):
    """Raised by hostile objects: it may come out of a call as it is."""


DOCUMENTED = (KafkaError, TypeError, ValueError, BufferError, OverflowError, Mine)


class Name(str):
    """A str whose methods raise or lie."""

    def __str__(self) -> str:
        raise Mine("__str__")

    def __hash__(self) -> int:
        return super().__hash__()

    def encode(self, *how: Any) -> bytes:
        return b"lie"


class Topic(enum.StrEnum):
    T = "t"


class Old(str, enum.Enum):  # noqa: UP042  (other methods than a StrEnum)
    T = "t"


class Number(enum.IntEnum):
    ZERO = 0
    HUGE = 2**40


class Raising:
    """Raises whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise Mine(name)

    def _raise(self, *_: Any) -> Any:
        raise Mine("asked")

    __index__ = __len__ = __iter__ = __hash__ = __eq__ = __lt__ = __float__ = __bool__ = __buffer__ = __str__ = __call__ = _raise  # type: ignore[assignment]


class Again:
    """Calls the client in the middle of everything."""

    def __init__(self, world: World) -> None:
        self.world = world

    def _again(self) -> None:
        if self.world.depth < 3:
            self.world.depth += 1
            try:
                with contextlib.suppress(*DOCUMENTED):
                    self.world.random.choice(self.world.inner)()
            finally:
                self.world.depth -= 1

    def __index__(self) -> int:
        self._again()
        return 0

    def __float__(self) -> float:
        self._again()
        return 0.0

    def __len__(self) -> int:
        self._again()
        return 1

    def __hash__(self) -> int:
        self._again()
        return 1

    def __eq__(self, other: object) -> bool:
        self._again()
        return False

    def __iter__(self) -> Any:
        self._again()
        yield ("t", b"v")

    def __str__(self) -> str:
        self._again()
        return "t"

    def __repr__(self) -> str:
        self._again()
        return "<Again>"

    def __call__(self, *_: Any) -> None:
        self._again()

    def __del__(self) -> None:
        self._again()


class AgainName(str):
    """A topic's name that sends when it is hashed or compared."""

    world: Any = None

    def __hash__(self) -> int:
        if self.world is not None:
            Again(self.world)._again()
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        if self.world is not None:
            Again(self.world)._again()
        return str.__eq__(self, other)


class World(logging.Handler):
    def __init__(self, server: ModelServer, seed: int) -> None:
        super().__init__()
        self.random, self.depth = random.Random(seed), 0
        AgainName.world = self
        self.client = Client(bootstrap_servers=server.bootstrap_servers, retry_backoff_ms=1)
        self.producer = Producer(client=self.client, linger_ms=0, max_block_ms=200, buffer_memory=2**20)
        self.consumer = Consumer(client=self.client, group_id="g", auto_offset_reset="earliest", enable_auto_commit=False)
        self.sentinel = Producer(client=self.client, linger_ms=0)
        self.taken: list[Any] = []
        self.internal: list[str] = []  # errors of the client itself
        logging.getLogger("pykafka4").addHandler(self)
        self.inner: list[Callable[[], Any]] = [
            lambda: self.taken.append(self.producer.send("t", b"inner")),
            lambda: self.producer.flush(SHORT),
            lambda: self.producer.stats(),
            lambda: self.client.status(),
            lambda: self.consumer.poll(0),
            lambda: self.client.refresh_metadata(["t"], SHORT),
        ]
        self.calls: list[Callable[[], Any]] = [
            lambda: self.taken.append(self.producer.send(self.topic(), self.any(), **self.some(self.sends()))),
            lambda: self.taken.append(self.producer.send("t", self.any(), **self.some(self.sends()))),
            lambda: self.taken.append(self.producer.send("t", b"v", headers=self.headers(), timestamp_ms=self.number())),
            lambda: self.taken[-1:] and self.taken[-1].result(self.timeout()),
            lambda: self.taken[-1:] and self.taken[-1].exception(self.timeout()),
            lambda: self.taken[-1:] and self.taken[-1].add_done_callback(self.any()),
            lambda: self.producer.flush(self.timeout()),
            lambda: self.producer.partitions_for(self.topic(), self.timeout()),
            lambda: self.producer.raise_failures(self.any()),
            lambda: self.scope(),
            lambda: self.client.refresh_metadata(self.list_of(self.topic), self.timeout()),
            lambda: self.client.refresh_metadata(self.any(), self.timeout()),
            lambda: self.client.partitions_for(self.topic(), self.timeout()),
            lambda: self.client.events(self.any()),
            lambda: self.consumer.subscribe(self.list_of(self.topic)),
            lambda: self.consumer.subscribe(self.any(), self.any()),
            lambda: self.consumer.assign(self.list_of(self.partition)),
            lambda: self.consumer.assign(self.any()),
            lambda: self.consumer.poll(self.timeout(), self.number()),
            lambda: self.consumer.seek(self.partition(), self.number()),
            lambda: self.consumer.seek_to_beginning(self.list_of(self.partition)),
            lambda: self.consumer.seek_to_end(self.any(), self.timeout()),
            lambda: self.consumer.position(self.partition(), self.timeout()),
            lambda: self.consumer.lag(self.partition()),
            lambda: self.consumer.pause(self.list_of(self.partition)),
            lambda: self.consumer.resume(self.any()),
            lambda: self.consumer.commit(self.offsets(), self.timeout()),
            lambda: self.consumer.commit_async(self.offsets(), self.any()),
            lambda: self.consumer.committed(self.random.choice([self.partition, self.any])(), self.timeout()),
            lambda: self.consumer.unsubscribe(),
            lambda: self.made(Producer, {self.option(): self.any()}),
            lambda: self.made(Consumer, {self.option(): self.any()}),
            lambda: self.made(Client, {self.option(): self.any()}),
            lambda: Producer(client=self.any()),
            lambda: Consumer(client=self.any()),
        ]

    # -- hostile values

    def any(self) -> Any:
        pick = self.random.choice
        return pick(
            [
                None,
                True,
                0,
                -1,
                1,
                2**31,
                2**63,
                2**200,
                1.5,
                float("nan"),
                float("inf"),
                -0.0,
                1j,
                "",
                "t",
                "\udc80",
                "x" * 70_000,
                b"",
                b"v",
                b"\x00" * 5_000,
                bytearray(b"v"),
                memoryview(b"abcdef")[::2],
                memoryview(b"v"),
                [],
                [None],
                (),
                ("t",),
                ("t", 0),
                {},
                {"a": 1},
                set(),
                object(),
                type,
                Ellipsis,
                Name("t"),
                Topic.T,
                Old.T,
                Number.HUGE,
                Raising(),
                Again(self),
                AgainName("t"),
                lambda *_: None,
                range(3),
                iter(()),
                self.producer,
                Consumer,  # not the instance: iterating over it never ends
                TopicPartition("t", 0),
                OffsetAndMetadata(1),
                threading.Lock(),
                Mine("value"),
                "t\x00",
                "é" * 200,
                b"v" * 2_000_000,
            ]
        )

    def topic(self) -> Any:
        return self.random.choice(
            ["t", "t", Name("t"), Topic.T, Old.T, AgainName("t"), "", "a b", "\udc80", None, 5, b"t", "x" * 300, Raising(), self.any()]
        )

    def number(self) -> Any:
        return self.random.choice(
            [None, 0, 1, -1, True, Number.ZERO, Number.HUGE, 2**62, 2**64, 1.0, "1", Again(self), Raising(), self.any()]
        )

    def timeout(self) -> Any:
        return self.random.choice([SHORT, 0, 0.0, -1, True, float("nan"), "1", b"1", 1j, [], Raising(), Again(self), Number.ZERO, object()])

    def partition(self) -> Any:
        return self.random.choice(
            [
                ("t", 0),
                TopicPartition("t", 1),
                (self.topic(), self.number()),
                (AgainName("t"), 0),
                (Topic.T, Number.ZERO),
                ("t",),
                "t",
                self.any(),
            ]
        )

    def list_of(self, make: Callable[[], Any]) -> Any:
        items = [make() for _ in range(self.random.randrange(3))]
        return self.random.choice([items, tuple(items), iter(items), (item for item in items)])

    def headers(self) -> Any:
        return self.random.choice(
            [self.any(), [(self.any(), self.any())], {"h": self.any()}, [("h", self.any())] * 3, [self.any()], Again(self)]
        )

    def offsets(self) -> Any:
        place = self.random.choice([self.number, self.any, lambda: OffsetAndMetadata(self.any(), self.any(), self.any())])
        try:
            return self.random.choice([{self.partition(): place()}, {("t", 0): place()}, None, self.any()])
        except (TypeError, Mine):  # a key that cannot be hashed
            return {("t", 0): place()}

    def sends(self) -> dict[str, Any]:
        return {
            "key": self.any(),
            "headers": self.headers(),
            "partition": self.number(),
            "timestamp_ms": self.number(),
            "on_delivery": self.any(),
        }

    def some(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in arguments.items() if self.random.random() < 0.4}

    def option(self) -> str:
        return self.random.choice(
            ["client_id", "bootstrap_servers", "linger_ms", "group_id", "acks", "batch_size", "callback_executor", "nonsense"]
        )

    def made(self, kind: Any, options: dict[str, Any]) -> None:
        made = kind(**{"bootstrap_servers": "127.0.0.1:9", **options})
        made.close(0)

    def scope(self) -> None:
        with self.producer.delivery_scope(self.timeout()):
            self.taken.append(self.producer.send("t", b"scope"))

    # -- what must hold

    def emit(self, record: logging.LogRecord) -> None:
        if "internal error" in record.getMessage() or "crashed" in record.getMessage():
            self.internal.append(f"{record.getMessage()}: {record.exc_info and record.exc_info[1]!r}")

    def check(self) -> None:
        assert inspect(self.client).loop.alive, "the loop is dead"
        assert not self.internal, self.internal
        assert self.client.status()["state"] == "connected", self.client.status()
        assert self.sentinel.send("sentinel", b"v").result(SECONDS).topic == "sentinel"
        assert self.producer.send("t", b"v").result(SECONDS).topic == "t"


def run(seed: int, count: int) -> None:
    with ModelServer() as server:
        for name in ("t", "sentinel"):
            server.create_topic(name, 2)
        world = World(server, seed)
        for number in range(count):
            call = world.random.randrange(len(world.calls))
            try:
                world.calls[call]()
            except DOCUMENTED:
                pass
            except BaseException as error:
                raise AssertionError(f"seed {seed}, call {number} (kind {call}): {type(error).__name__}: {error}") from error
            if number % 100 == 99:
                world.check()
        world.check()
        world.producer.flush(SECONDS)
        assert all(delivery.done() for delivery in world.taken), "a record without an outcome"
        stats = world.producer.stats()
        assert stats.accepted == stats.acked + stats.lost, stats
        world.consumer.close(1)
        world.producer.close(SECONDS)
        world.sentinel.close(SECONDS)
        world.client.close(SECONDS)


if __name__ == "__main__":
    faulthandler.enable()
    faulthandler.dump_traceback_later(200, exit=True)
    warnings.simplefilter("ignore")
    with ThreadPoolExecutor(1):
        run(int(sys.argv[1]), int(sys.argv[2]))
    print("survived")
