"""Measures records from end to end: one process writes records that carry the time of their send, another process reads them.

A record has arrived when the reader's loop over the records of a `poll` comes to it. Its latency includes the reader's work on the records
before it.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable
from typing import Any, Protocol

from benchmarks.latency import async_writers
from benchmarks.latency.load import WAIT_S, Load, Spec, Window, clock, compute
from benchmarks.latency.writers import open_writer
from benchmarks.meter import cpu
from benchmarks.sink import PARTITIONS

__all__ = ["ASYNC", "Reader", "Written", "open_reader", "read", "write", "write_async"]

STAMP = struct.Struct(">qd")  # the number of the record, below 0 in the warm-up; the time of its send
CONNECTING = 0.0  # the time in the record with which a writer connects: that record is all zeros, without a stamp
PADDING = bytes(100 - STAMP.size)
SETTLE_S = 1.0  # seconds: how long a reader reads an empty topic before anything is written
ASYNC = "aiokafka"  # the client that needs a running loop
Written = dict[str, Any]
Poll = Callable[[float], list[bytes]]  # waits up to that number of seconds for values


def stamp(number: int) -> bytes:
    return STAMP.pack(number, clock()) + PADDING


def numbers(load: Load) -> range:
    """The warm-up has numbers below 0."""
    return range(-round(load.warm_up * load.rate), round(load.seconds * load.rate))


class Arrivals:
    def __init__(self, load: Load) -> None:
        self.load, self.window, self.latencies = load, Window(), list[float]()
        self.left = set(numbers(load))

    def arrived(self, value: bytes) -> None:
        now = clock()
        number, sent = STAMP.unpack_from(value)
        if sent == CONNECTING:
            return
        if number not in self.left:
            raise RuntimeError(f"record {number} was read twice, or never written")
        self.left.remove(number)
        if number >= 0:
            if not self.latencies:
                self.window.start()
            self.latencies.append(round(1e3 * (now - sent), 4))
        compute(self.load.steps)

    def result(self) -> dict[str, Any]:
        self.window.stop(len(self.latencies))
        return self.window.result(self.latencies, 0)


class Reader(Protocol):
    """A consumer of all partitions of a topic, from the beginning."""

    def settle(self) -> None:
        """Connect; the topic is empty."""

    def read(self, arrivals: Arrivals) -> None:
        """Read until all records have arrived."""


class Blocking:
    def __init__(self, poll: Poll) -> None:
        self._poll = poll

    def settle(self) -> None:
        end = clock() + SETTLE_S
        while (left := end - clock()) > 0:
            if self._poll(left):
                raise RuntimeError("the topic is not empty")

    def read(self, arrivals: Arrivals) -> None:
        deadline = clock() + arrivals.load.warm_up + arrivals.load.seconds + WAIT_S
        while arrivals.left:
            for value in self._poll(1.0):
                arrivals.arrived(value)
            if clock() > deadline:
                raise TimeoutError(f"{len(arrivals.left)} records did not come")


def ours(spec: Spec) -> Reader:
    import pykafka4

    consumer = pykafka4.Consumer(bootstrap_servers=spec.bootstrap, auto_offset_reset="earliest")
    consumer.assign([pykafka4.TopicPartition(spec.topic, partition) for partition in range(PARTITIONS)])
    return Blocking(lambda seconds: [record.value or b"" for record in consumer.poll(seconds)])


def confluent(spec: Spec) -> Reader:
    """`poll` returns a record at once; `consume` would wait for the number of records in its argument."""
    import confluent_kafka as ck

    consumer = ck.Consumer({"bootstrap.servers": spec.bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([ck.TopicPartition(spec.topic, partition, ck.OFFSET_BEGINNING) for partition in range(PARTITIONS)])

    def poll(seconds: float) -> list[bytes]:
        message = consumer.poll(seconds)
        if message is None:
            return []
        if message.error():
            raise RuntimeError(str(message.error()))
        return [message.value() or b""]

    return Blocking(poll)


class Aiokafka:
    """aiokafka, whose loop runs while it settles and reads."""

    def __init__(self, spec: Spec) -> None:
        self._spec, self._loop = spec, asyncio.new_event_loop()

    def settle(self) -> None:
        self._loop.run_until_complete(self._settle())

    def read(self, arrivals: Arrivals) -> None:
        limit = arrivals.load.warm_up + arrivals.load.seconds + WAIT_S
        self._loop.run_until_complete(asyncio.wait_for(self._read(arrivals), limit))

    async def _settle(self) -> None:
        import aiokafka

        self._consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=self._spec.bootstrap, auto_offset_reset="earliest")
        await self._consumer.start()
        self._consumer.assign([aiokafka.TopicPartition(self._spec.topic, partition) for partition in range(PARTITIONS)])
        if await self._consumer.getmany(timeout_ms=round(SETTLE_S * 1e3)):
            raise RuntimeError("the topic is not empty")

    async def _read(self, arrivals: Arrivals) -> None:
        while arrivals.left:
            record = await self._consumer.getone()
            arrivals.arrived(record.value)


READERS: dict[str, Callable[[Spec], Reader]] = {"pykafka4": ours, "confluent": confluent, ASYNC: Aiokafka}


def open_reader(spec: Spec) -> Reader:
    """RuntimeError if the topic is not empty."""
    reader = READERS[spec.client](spec)
    reader.settle()
    return reader


def read(reader: Reader, load: Load) -> dict[str, Any]:
    """The CPU time counts from the first record after the warm-up."""
    arrivals = Arrivals(load)
    reader.read(arrivals)
    return arrivals.result()


def write(spec: Spec) -> Written:
    """`cpu` counts from the first record after the warm-up."""
    writer, used = open_writer(spec), 0.0
    pause, due = 1 / spec.load.rate, clock()
    for number in numbers(spec.load):
        if number == 0:
            used = cpu()
        time.sleep(max(0.0, due - clock()))
        writer.send(value=stamp(number))
        writer.serve()
        due += pause
    writer.finish()
    return {"cpu": cpu() - used, "sent": writer.sent}


async def write_async(spec: Spec) -> Written:
    writer, used = async_writers.async_writer(spec), 0.0
    await writer.open()
    pause, due = 1 / spec.load.rate, clock()
    for number in numbers(spec.load):
        if number == 0:
            used = cpu()
        await asyncio.sleep(max(0.0, due - clock()))
        await writer.send(value=stamp(number))
        due += pause
    await writer.close()
    return {"cpu": cpu() - used, "sent": writer.sent}
