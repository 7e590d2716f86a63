"""Compares costs that do not grow with records, with confluent-kafka on a real cluster.

They are the first record of a fresh process, of 2,000 assigned partitions and of 1,000 subscribed topics, and the cost of many idle
partitions and members. `python -m benchmarks.first` runs both clients in turns, each in its own process, and prints medians and their
ratio: the first record may come no later than confluent-kafka's, and idling may cost no more. "Idle" is the CPU time of the whole process
as a share of a core, with one poll a second.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.bars import CLIENTS, PEER, Table
from integration.cluster import Cluster
from integration.local.cluster import LocalCluster
from integration.waiting import Deadline
from pykafka4 import Producer
from pykafka4.wire.protocol.messages_admin import CreateTopicsRequest

SCRIPT = Path(__file__).with_name("first_client.py")
FEW, MANY, TOPICS = "bench-few", "bench-many", "bench-topic"
LONGEST_S = 180.0
AT_ONCE = 250  # topics in one request
NO_LATER = 1.0  # maximum ratio to confluent-kafka's time or cost
# Clients use byte code, as with an installed package, even where the environment of this checkout forbids writing it.
ENVIRONMENT = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(SCRIPT.parent.parent / "build" / "bytecode")}


class Run:
    def __init__(self, client: str, case: str, bootstrap: str, topic: str, count: int) -> None:
        self.began = time.time()
        command = [sys.executable, str(SCRIPT), client, case, bootstrap, topic, str(count)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=ENVIRONMENT)

    def event(self) -> dict[str, Any]:
        """`at` is in seconds since the process was started."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a client ended early; its output is above")
        event: dict[str, Any] = json.loads(line)
        event["at"] -= self.began
        return event

    def idle(self, seconds: float) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seconds}\n")
        before, after = self.event(), self.event()
        return float((after["cpu"] - before["cpu"]) / (after["at"] - before["at"]))

    def end(self) -> None:
        self.process.kill()
        self.process.wait(LONGEST_S)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


def fresh(table: Table, bootstrap: str, rounds: int) -> None:
    for client, case in itertools.product(CLIENTS, ("produce", "consume")):  # fills the byte code and the system's caches
        run = Run(client, case, bootstrap, FEW, 1)
        run.event()
        run.end()
    for number in range(rounds):
        for client in CLIENTS if number % 2 else reversed(CLIENTS):
            for case, what in (("produce", "first acknowledgement"), ("consume", "first record")):
                run = Run(client, case, bootstrap, FEW, 1)
                event = run.event()
                run.end()
                table.note(f"{what}: seconds", client, event["at"], times=NO_LATER)
                table.note(f"{what}: CPU seconds", client, event["cpu"])


def assigned(table: Table, bootstrap: str, partitions: int, rounds: int, seconds: float) -> None:
    for number in range(rounds):
        for client in CLIENTS if number % 2 else reversed(CLIENTS):
            run = Run(client, "consume", bootstrap, MANY, partitions)
            first, last = run.event(), run.event()
            table.note(f"{partitions} partitions: first record, seconds", client, first["at"], times=NO_LATER)
            table.note(f"{partitions} partitions: all records, seconds", client, last["at"])
            table.note(f"{partitions} partitions: all records, CPU seconds", client, last["cpu"])
            run.idle(3.0)
            table.note(f"{partitions} partitions: idle, share of a core", client, run.idle(seconds), times=NO_LATER)
            run.end()


def create(cluster: Cluster, topics: int) -> None:
    names = [f"{TOPICS}-{number}" for number in range(topics)]

    def judge(response: Any, again: bool) -> None:
        assert all(row.error_code in ((0, 36) if again else (0,)) for row in response.topics), response.topics[0]

    for at in range(0, topics, AT_ONCE):
        rows = [CreateTopicsRequest.Topic(name=name, num_partitions=1, replication_factor=1) for name in names[at : at + AT_ONCE]]
        cluster.admin.order(CreateTopicsRequest(topics=rows, timeout_ms=30_000), judge, LONGEST_S)
    for name in names:
        cluster.wait_led(name, 1, Deadline(LONGEST_S))


def subscribed(table: Table, bootstrap: str, topics: int, rounds: int) -> None:
    """The client is alone in a new group, with one record in each topic. The time includes the join."""
    run = Run(PEER, "subscribe", bootstrap, f"{TOPICS}-{{}}", topics)  # with the first group, brokers create the topic of offsets
    run.event()
    run.end()
    for number in range(rounds):
        for client in CLIENTS if number % 2 else reversed(CLIENTS):
            run = Run(client, "subscribe", bootstrap, f"{TOPICS}-{{}}", topics)
            first, last = run.event(), run.event()
            table.note(f"{topics} topics subscribed: first record, seconds", client, first["at"], times=NO_LATER)
            table.note(f"{topics} topics subscribed: all records, seconds", client, last["at"])
            table.note(f"{topics} topics subscribed: all records, CPU seconds", client, last["cpu"])
            run.end()


def members(table: Table, bootstrap: str, count: int, rounds: int, seconds: float, settle: float) -> None:
    for number in range(rounds):
        for client in CLIENTS if number % 2 else reversed(CLIENTS):
            run = Run(client, "members", bootstrap, FEW, count)
            run.event()
            run.idle(settle)
            table.note(f"{count} members: idle, share of a core", client, run.idle(seconds), times=NO_LATER)
            run.end()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="of fresh processes; the others run a third as often")
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each idle measurement")
    parser.add_argument("--settle", type=float, default=25.0, help="until members have joined")
    arguments = parser.parse_args()
    table, fewer = Table(), max(1, arguments.rounds // 3)
    with LocalCluster() as cluster:
        cluster.create_topic(FEW, 6, 3)
        cluster.create_topic(MANY, arguments.partitions, 1)
        create(cluster, arguments.topics)
        with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            producer.send(FEW, b"x", partition=0)
            for number in range(arguments.partitions):
                producer.send(MANY, b"x", partition=number)
            for number in range(arguments.topics):
                producer.send(f"{TOPICS}-{number}", b"x", partition=0)
        fresh(table, cluster.bootstrap, arguments.rounds)
        table.show()
        assigned(table, cluster.bootstrap, arguments.partitions, fewer, arguments.seconds)
        table.show()
        subscribed(table, cluster.bootstrap, arguments.topics, fewer)
        table.show()
        members(table, cluster.bootstrap, arguments.members, fewer, arguments.seconds, arguments.settle)
    table.show()
    return 0


if __name__ == "__main__":
    sys.exit(main())
