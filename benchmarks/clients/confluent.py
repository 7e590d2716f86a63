"""Runs the cases with confluent-kafka, tuned as well as we know how: a benchmark won against defaults proves nothing.

`produce` has its cheapest form, with topic and value; `poll` waits while the queue is full. `consume(1000)` has queue settings that keep
the client from stalling in its own backoff.
"""

from __future__ import annotations

from typing import Any

import confluent_kafka as ck

from benchmarks.clients.load import WARM_UP, Tally, drain, in_threads, pairs, values
from benchmarks.meter import Meter, Spec

FLUSH = 120.0


def producer(spec: Spec) -> ck.Producer:
    settings = {"bootstrap.servers": spec.bootstrap, "enable.idempotence": True, "acks": "all", "linger.ms": 5, "compression.type": "none"}
    client = ck.Producer({**settings, **spec.options})
    client.list_topics(spec.topic, timeout=30)
    send(client, spec.topic, WARM_UP)
    finish(client)
    return client


def send(client: ck.Producer, topic: str, count: int, **more: Any) -> None:
    produce, poll = client.produce, client.poll
    for value in values(count):
        while True:
            try:
                produce(topic, value, **more)
                break
            except BufferError:
                poll(0.01)


def send_keyed(client: ck.Producer, topic: str, count: int) -> None:
    produce, poll = client.produce, client.poll
    for value, key in pairs(count):
        while True:
            try:
                produce(topic, value, key)
                break
            except BufferError:
                poll(0.01)


def finish(client: ck.Producer) -> None:
    left = client.flush(FLUSH)
    assert left == 0, f"{left} records were not delivered"


def produce(spec: Spec, meter: Meter) -> None:
    client = producer(spec)
    meter.start()
    send(client, spec.topic, spec.records)
    finish(client)
    meter.stop(spec.records)


def produce_callback(spec: Spec, meter: Meter) -> None:
    client, tally = producer(spec), Tally()

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            tally.good += 1
        else:
            tally.failed.append(str(error))

    meter.start()
    send(client, spec.topic, spec.records, on_delivery=delivered)
    finish(client)
    meter.stop(spec.records)
    tally.check(spec.records)


def produce_keyed(spec: Spec, meter: Meter) -> None:
    client = producer(spec)
    meter.start()
    send_keyed(client, spec.topic, spec.records)
    finish(client)
    meter.stop(spec.records)


def produce_threads(spec: Spec, meter: Meter) -> None:
    client = producer(spec)
    meter.start()
    in_threads(lambda share: send(client, spec.topic, share), spec.records, meter)
    finish(client)
    meter.stop(spec.records)


def consume(spec: Spec, meter: Meter) -> None:
    settings = {"queued.min.messages": 1_000_000, "fetch.queue.backoff.ms": 10, "fetch.wait.max.ms": 50, "enable.auto.commit": False}
    client = ck.Consumer({"bootstrap.servers": spec.bootstrap, "group.id": "bench", **settings, **spec.options})
    client.assign([ck.TopicPartition(spec.topic, int(partition), 0) for partition in spec.ends])

    def batch(limit: int) -> tuple[int, int]:
        size = offsets = 0
        messages: list[Any] = client.consume(limit, timeout=1.0)
        for message in messages:
            size += len(message.value())
            offsets += message.offset()
        return len(messages), offsets

    drain(batch, meter, spec.records, spec.offset_sum)
    client.close()


CASES = {
    "produce": produce,
    "produce_callback": produce_callback,
    "produce_keyed": produce_keyed,
    "produce_threads": produce_threads,
    "consume": consume,
}
