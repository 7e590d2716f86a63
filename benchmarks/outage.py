"""Measures the cost of a client while thousands of partitions have no leader and the rest of the cluster is healthy.

`python -m benchmarks.outage` runs a model cluster of four brokers in this process. The fourth leads all partitions of some topics and is
stopped: each partition then has a record that waits in a producer, or is assigned to a consumer. The client has its own process. The
figures are the CPU time of its loop thread as a share of a core, and the number of connections that it opened; the bars are in BARS.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

from benchmarks.meter import loop_cpu
from pykafka4 import Consumer, Producer, TopicPartition
from pykafka4.net.dialling import Dialler
from pykafka4.testing import ModelServer

CASES = ((1, 3000), (300, 10), (3000, 1))  # (topics, partitions of each)
ROLES = ("producer", "consumer")
BARS = {"share of a core": 0.02, "connections a second": 1.0}
LOST = 4  # the broker that leads the partitions and is stopped
PATIENCE_MS = 3_600_000  # milliseconds: nothing fails during a run
START_S = 120.0


def names(topics: int) -> list[str]:
    return [f"outage-{number}" for number in range(topics)]


class Work:
    def __init__(self, role: str, bootstrap: str, topics: int, partitions: int) -> None:
        self.attempts = 0
        self.count_attempts()
        self.tps = [TopicPartition(name, partition) for name in names(topics) for partition in range(partitions)]
        self.producer: Producer | None = None
        self.consumer: Consumer | None = None
        if role == "producer":
            self.producer = Producer(bootstrap_servers=bootstrap, delivery_timeout_ms=PATIENCE_MS, unknown_topic_timeout_ms=PATIENCE_MS)
            self.send()
            self.producer.flush(START_S)
        else:
            self.consumer = Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
            self.consumer.assign(self.tps)
            left = len(self.tps)
            deadline = time.monotonic() + START_S
            while left and time.monotonic() < deadline:
                left -= len(self.consumer.poll(timeout=1.0))
            assert not left, f"{left} records did not come"

    def send(self) -> None:
        if self.producer is not None:
            for tp in self.tps:
                self.producer.send(tp.topic, b"x", partition=tp.partition)

    def spend(self, seconds: float) -> tuple[float, float]:
        """Return the loop's share of a core, and the connections that the client tried to open a second."""
        began, used, attempts = time.monotonic(), loop_cpu(), self.attempts
        while (left := began + seconds - time.monotonic()) > 0:
            if self.consumer is not None:
                self.consumer.poll(timeout=min(left, 1.0))
            else:
                time.sleep(min(left, 1.0))
        passed = time.monotonic() - began
        return (loop_cpu() - used) / passed, (self.attempts - attempts) / passed

    def count_attempts(self) -> None:
        """Count every connection that the transport is told to open."""
        dial = Dialler.dial

        def counted(dialler: Dialler, link: int, host: str, port: int) -> None:
            self.attempts += 1
            dial(dialler, link, host, port)

        Dialler.dial = counted  # type: ignore[method-assign, assignment]


def work(role: str, bootstrap: str, topics: int, partitions: int) -> None:
    """A line of standard input is a number of seconds to measure, "send", or "wait" for the sent records."""
    client = Work(role, bootstrap, topics, partitions)
    print("ready", flush=True)
    for line in sys.stdin:
        if line.startswith("send"):
            client.send()
            print("sent", flush=True)
        elif line.startswith("wait"):
            began = time.monotonic()
            if client.producer is not None:
                client.producer.flush(START_S)
            print(time.monotonic() - began, flush=True)
        else:
            print(*client.spend(float(line)), flush=True)


def measure(role: str, topics: int, partitions: int, seconds: float, settle: float) -> dict[str, float]:
    """Also measures the seconds until waiting records are sent once the broker is back."""
    with ModelServer(brokers=LOST) as server:
        for name in names(topics):
            server.create_topic(name, partitions, leaders=[LOST] * partitions, replicas=1)
            for partition in range(partitions) if role == "consumer" else ():
                server.produce(name, b"x", partition=partition)
        command = [sys.executable, "-m", "benchmarks.outage", "--client", role, server.bootstrap_servers, str(topics), str(partitions)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as client:
            assert client.stdin is not None
            assert client.stdout is not None
            stdin, stdout = client.stdin, client.stdout

            def ask(order: str) -> str:
                stdin.write(order + "\n")
                return stdout.readline().strip()

            try:
                assert stdout.readline() == "ready\n", "the client did not start; its output is above"
                server.do(lambda cluster: cluster.stop_broker(LOST))
                ask("send")
                ask(str(settle))
                share, attempts = map(float, ask(str(seconds)).split())
                server.do(lambda cluster: cluster.start_broker(LOST))
                back = float(ask("wait"))
            finally:
                client.kill()
    return {"share of a core": share, "connections a second": attempts, "seconds until all is sent": back}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--settle", type=float, default=15.0)
    parser.add_argument("--client", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--case", nargs=3, metavar=("ROLE", "TOPICS", "PARTITIONS"), help="only this one")
    arguments = parser.parse_args()
    if arguments.client:
        role, bootstrap, topics, partitions = arguments.client
        work(role, bootstrap, int(topics), int(partitions))
        return 0
    cases = [(role, *case) for case in CASES for role in ROLES]
    if arguments.case:
        cases = [(arguments.case[0], int(arguments.case[1]), int(arguments.case[2]))]
    missed = False
    for role, topics, partitions in cases:
        figures = measure(role, topics, partitions, arguments.seconds, arguments.settle)
        over = [name for name, bar in BARS.items() if figures[name] > bar]
        missed = missed or bool(over)
        print(f"{role}, {topics} topics of {partitions}:", json.dumps(figures), f"MISSED: {', '.join(over)}" if over else "met", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
