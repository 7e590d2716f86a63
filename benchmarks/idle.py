"""Measures the cost of idle clients, with brokers and without, and over TLS compared with plaintext.

`python -m benchmarks.idle` measures the CPU time of one producer and one consumer in their own process: connected, a member of a group,
polling; then with every broker killed. The figure is a multiple of a reference: a thread that right afterwards wakes up WAKES times a
second for a little Python. On a shared machine the cost of a wake-up can double or triple within an hour. The bars are in BARS.
TLS and plaintext are measured in turns, each with its own process and cluster. TLS may cost as much as plaintext, plus NOISE for other work
of the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import select
import statistics
import subprocess
import sys
import time
from types import TracebackType
from typing import Any

from integration.cluster import Cluster
from integration.local.cluster import LocalCluster
from integration.security.settings import Security

BARS = {"connected": 1.6, "brokers down": 3.4}  # multiples of the reference
NOISE = 0.15
WAKES, WORK = 50, 300
TOPIC = "bench-idle"
START, SETTLE = 60.0, 3.0


class Idler:
    """The process first sends one record and reads it, so that everything is connected."""

    def __init__(self, options: dict[str, Any], topic: str) -> None:
        command = [sys.executable, "-m", "benchmarks.idle", "--idler", json.dumps(options), topic]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.answer()

    def __enter__(self) -> Idler:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait(10)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()

    def share(self, seconds: float) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seconds}\n")
        return float(self.answer())

    def answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the idle process ended; its output is above")
        return line


def measure(cluster: Cluster, topic: str, seconds: float, rounds: int = 1) -> dict[str, float]:
    """The brokers stay down.

    A share over its bar is measured up to `rounds` times, and the smallest counts. Other work of the machine only adds to a share, and a
    client that costs too much does so in every round.
    """
    with Idler(cluster.client, topic) as idler:
        connected = quietest(idler, seconds, BARS["connected"], rounds)
        for node in cluster.nodes:
            cluster.kill(node)
        return {"connected": connected, "brokers down": quietest(idler, seconds, BARS["brokers down"], rounds)}


def compare(seconds: float, rounds: int) -> tuple[float, float]:
    with LocalCluster(security=Security("SSL")) as secured, LocalCluster() as plain, contextlib.ExitStack() as stack:
        for cluster in (secured, plain):
            cluster.create_topic(TOPIC, 6, 3)
        idlers = [stack.enter_context(Idler(cluster.client, TOPIC)) for cluster in (secured, plain)]
        found = [[idler.share(seconds) for idler in idlers] for _ in range(rounds)]
    over_tls, over_plaintext = (statistics.median(shares) for shares in zip(*found, strict=True))
    return over_tls, over_plaintext


def quietest(idler: Idler, seconds: float, bar: float, rounds: int) -> float:
    """A share within `bar` ends the measurements."""
    least = idler.share(seconds)
    for _ in range(rounds - 1):
        if least <= bar:
            break
        least = min(least, idler.share(seconds))
    return least


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def reference(seconds: float) -> float:
    began, used = time.monotonic(), time.thread_time()
    while time.monotonic() < began + seconds:
        select.select([], [], [], 1 / WAKES)
        seen: dict[int, str] = {}
        for step in range(WORK):
            seen[step] = str(step)
    return (time.thread_time() - used) / (time.monotonic() - began)


def idle(options: dict[str, Any], topic: str) -> None:
    """Each line of standard input is a number of seconds; print the share."""
    from pykafka4 import Consumer, Producer

    producer = Producer(**options)
    producer.send(topic, b"hello").result(timeout=START)
    consumer = Consumer(**options, group_id=topic, auto_offset_reset="earliest")
    consumer.subscribe([topic])
    deadline = time.monotonic() + START
    while not consumer.poll(timeout=1.0):
        assert time.monotonic() < deadline, "the one record did not come back"

    def poll_for(seconds: float) -> float:
        began, used = time.monotonic(), cpu()
        while (left := began + seconds - time.monotonic()) > 0:
            consumer.poll(timeout=min(left, 1.0))
        return (cpu() - used) / (time.monotonic() - began)

    print("ready", flush=True)
    for line in sys.stdin:
        poll_for(SETTLE)
        share, compared = poll_for(float(line)), reference(float(line) / 4)
        print(share / compared, f"({share:.2%} of a core, the reference {compared:.2%})", file=sys.stderr)
        print(share / compared, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=5, help="of TLS and plaintext")
    parser.add_argument("--idler", nargs=2, metavar=("OPTIONS", "TOPIC"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.idler:
        idle(json.loads(arguments.idler[0]), arguments.idler[1])
        return 0
    secured, plain = compare(arguments.seconds, arguments.rounds)
    with LocalCluster() as cluster:
        cluster.create_topic(TOPIC, 6, 3)
        shares = measure(cluster, TOPIC, arguments.seconds)
    bars = {**BARS, "over TLS": plain * (1 + NOISE)}
    shares["over TLS"] = secured
    for name, share in shares.items():
        print(f"{name:14}{share:8.2f} times the reference; the bar is {bars[name]:.2f}: {'met' if share <= bars[name] else 'MISSED'}")
    return 0 if all(share <= bars[name] for name, share in shares.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
