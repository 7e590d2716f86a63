"""Runs one client in its own process, for `benchmarks.first`: `first_client.py CLIENT CASE BOOTSTRAP TOPIC COUNT`. COUNT is the number of
partitions, topics or members.

The module imports only the client and a few standard modules, because the imports are measured, too. Each event is a line of JSON: seconds
since the epoch, and the CPU seconds so far. The idle cases then read lines with numbers of seconds to be idle.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

WAIT_S = 60.0
Poll = Callable[[float], int]  # waits up to that number of seconds; returns the number of records


def report(**more: Any) -> None:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"at": time.time(), "cpu": usage.ru_utime + usage.ru_stime, **more}), flush=True)


def produce(client: str, bootstrap: str, topic: str) -> None:
    if client == "pykafka4":
        from pykafka4 import Producer

        Producer(bootstrap_servers=bootstrap).send(topic, b"x", partition=0).result(WAIT_S)
        return
    import confluent_kafka as ck

    producer = ck.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all", "linger.ms": 0})
    producer.produce(topic, b"x", partition=0)
    assert producer.flush(WAIT_S) == 0


def assigned(client: str, bootstrap: str, topic: str, partitions: int) -> Poll:
    if client == "pykafka4":
        from pykafka4 import Consumer, TopicPartition

        consumer = Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
        return lambda seconds: len(consumer.poll(seconds))
    import confluent_kafka as ck

    other = ck.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "nobody", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    other.assign([ck.TopicPartition(topic, number, ck.OFFSET_BEGINNING) for number in range(partitions)])
    return lambda seconds: int(other.poll(seconds) is not None)


def subscribed(client: str, bootstrap: str, topic: str, topics: int) -> Poll:
    """The consumer is alone in its group. The topics are named by `topic` with a number in it."""
    names, group = [topic.format(number) for number in range(topics)], f"{client}-{os.getpid()}"
    if client == "pykafka4":
        from pykafka4 import Consumer

        consumer = Consumer(bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest")
        consumer.subscribe(names)
        return lambda seconds: len(consumer.poll(seconds))
    import confluent_kafka as ck

    settings = {"bootstrap.servers": bootstrap, "group.id": group, "partition.assignment.strategy": "range"}
    other = ck.Consumer({**settings, "auto.offset.reset": "earliest"})
    other.subscribe(names)
    return lambda seconds: int(other.poll(seconds) is not None)


def members(client: str, bootstrap: str, topic: str, count: int) -> Poll:
    clients: list[Any]
    if client == "pykafka4":
        from pykafka4 import Consumer

        clients = [Consumer(bootstrap_servers=bootstrap, group_id=f"{topic}-{client}") for _ in range(count)]
    else:
        import confluent_kafka as ck

        settings = {"bootstrap.servers": bootstrap, "group.id": f"{topic}-{client}", "partition.assignment.strategy": "range"}
        clients = [ck.Consumer(settings) for _ in range(count)]
    for each in clients:
        each.subscribe([topic])

    def poll(seconds: float) -> int:
        began = time.monotonic()
        for each in clients:
            each.poll(0.0)
        time.sleep(max(0.0, min(seconds, 1.0) - (time.monotonic() - began)))
        return 0

    return poll


def idle(poll: Poll) -> None:
    """Each line of standard input is a number of seconds; report before and after."""
    for line in sys.stdin:
        report()
        end = time.monotonic() + float(line)
        while (left := end - time.monotonic()) > 0:
            poll(min(left, 1.0))
        report()


def main() -> None:
    client, case, bootstrap, topic, count = sys.argv[1:6]
    if case == "produce":
        produce(client, bootstrap, topic)
        report()
        return
    if case == "members":
        poll = members(client, bootstrap, topic, int(count))
        report()
        idle(poll)
        return
    poll = (subscribed if case == "subscribe" else assigned)(client, bootstrap, topic, int(count))
    left, deadline = int(count), time.monotonic() + WAIT_S
    first = True
    while left > 0 and time.monotonic() < deadline:
        came = poll(0.1)
        left -= came
        if came and first:
            first = False
            report()
    assert left <= 0, f"{left} records did not come"
    report()
    idle(poll)


if __name__ == "__main__":
    main()
