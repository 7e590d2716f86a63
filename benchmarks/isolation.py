"""Measures the loss of healthy partitions through a sick one: it has no leader and a full queue, or its broker answers 500 ms late.

`python -m benchmarks.isolation` sends to the six partitions of a topic of a fake cluster (`sink.c`), which costs less CPU than the client.
A round has each case in each trouble between two calm runs, at full speed and then at half speed, each in a fresh process and sink.
The records that the sink has taken count. The difference of the two calm runs is the noise.

The cases are usual in applications. Under `block` each partition has a thread, because a single thread would wait for the sick partition.
Under `raise` and `drop` one thread sends to the partitions in turns, and nothing else fills the sick one's queue. In further cases one
thread names no partition: all its records count, wherever they go.

The bar: in the median over the rounds, the other partitions lose at most 10 % of their rate. The bar is judged at half speed, where each
thread has its own pace, so that no partition gains from time that another one does not use. At full speed no time is free: a refused record
takes time from the other partitions, and a waiting thread gives them time. These rows are only reported, as is the loss per second of the
client's CPU, which other work of the machine hardly affects.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from benchmarks.bars import OURS, Table
from benchmarks.sink import PARTITIONS, Sink, leader
from pykafka4 import BufferFull, Producer

CALM, OFFLINE, LATE = "calm", "one partition offline", "one broker 500 ms late"
LATE_MS = 500
TOPIC = "bench"
SICK = 0  # the partition that is sick
LOST = 0.1  # maximum loss of the other partitions, as a share of their rate
HALF = 0.5  # share of full speed at which the bar is judged
VALUE = bytes(100)
START, FULL, SETTLE = 60.0, 60.0, 2.0  # seconds
UNCHANGED_S = 0.3  # seconds without another record, after which a queue counts as full
PAUSE, BURST = 0.002, 0.2  # seconds between two bursts, and seconds of records in the longest burst

Partition = int | None  # None: the producer chooses


@attrs.frozen
class Case:
    """`named`: the application names the partition of each record."""

    policy: str
    named: bool = True

    @property
    def title(self) -> str:
        return self.policy if self.named else f"{self.policy}, unkeyed"

    @property
    def threads(self) -> list[list[Partition]]:
        if not self.named:
            return [[None] * PARTITIONS]
        return [[partition] for partition in range(PARTITIONS)] if self.policy == "block" else [list(range(PARTITIONS))]

    def counted(self, trouble: str) -> list[int]:
        """With a late broker, the partitions of other brokers count."""
        if not self.named:
            return list(range(PARTITIONS))
        if trouble == OFFLINE:
            return [partition for partition in range(PARTITIONS) if partition != SICK]
        return [partition for partition in range(PARTITIONS) if leader(TOPIC, partition) != leader(TOPIC, SICK)]


CASES = (Case("block"), Case("raise"), Case("drop"), Case("block", named=False), Case("raise", named=False))


@attrs.frozen
class Run:
    case: Case
    trouble: str
    bootstrap: str
    rate: float = 0.0  # records a second; 0: as fast as possible

    def options(self) -> dict[str, Any]:
        """Options with which nothing expires during a run."""
        waits = {"max_block_ms": 600_000} if self.case.policy == "block" else {}
        return {"bootstrap_servers": self.bootstrap, "on_full": self.case.policy, "delivery_timeout_ms": 600_000, **waits}


def send_to(producer: Producer, partitions: Sequence[Partition], rate: float) -> None:
    send = producer.send
    if rate:
        pace(producer, partitions, rate)
    for partition in itertools.cycle(partitions):
        try:
            send(TOPIC, VALUE, partition=partition)
        except BufferFull:
            pass


def pace(producer: Producer, partitions: Sequence[Partition], rate: float) -> None:
    """Send in bursts. After a delay at most one burst of late records is sent."""
    send, done, began = producer.send, 0.0, time.monotonic()
    while True:
        due = (time.monotonic() - began) * rate
        done = max(done, due - rate * BURST)
        while done < due:
            for partition in partitions:
                try:
                    send(TOPIC, VALUE, partition=partition)
                except BufferFull:
                    pass
            done += len(partitions)
        time.sleep(PAUSE)


def queued(producer: Producer) -> int:
    row = producer.status()["partitions"].get(f"{TOPIC}-{SICK}")
    return 0 if row is None else int(row["queued"])


def wait_full(producer: Producer) -> None:
    before, deadline = 0, time.monotonic() + FULL
    while time.monotonic() < deadline:
        time.sleep(UNCHANGED_S)
        now = queued(producer)
        if now and now == before:
            return
        before = now
    raise AssertionError(f"{TOPIC}-{SICK} is not full after {FULL:g} s")


def fill(producer: Producer) -> None:
    """Fill the queue of the sick partition, for cases in which no thread names it; under `block` the last `send` waits for room."""
    before = -1
    while queued(producer) != before:
        before = queued(producer)
        for _ in range(10_000):
            try:
                producer.send(TOPIC, VALUE, partition=SICK)
            except BufferFull:
                return


def begin(producer: Producer, run: Run) -> None:
    for partition in range(PARTITIONS):
        if run.trouble != OFFLINE or partition != SICK:
            producer.send(TOPIC, VALUE, partition=partition).result(START)
    if run.trouble == OFFLINE and not run.case.named:
        threading.Thread(target=fill, args=(producer,), daemon=True).start()
        wait_full(producer)
    threads = run.case.threads
    for partitions in threads:
        threading.Thread(target=send_to, args=(producer, partitions, run.rate / len(threads)), daemon=True).start()
    if run.trouble == OFFLINE:
        wait_full(producer)
    time.sleep(SETTLE)


def client(run: Run) -> None:
    """Print "ready" when the measurement may begin; send until the process is killed."""
    begin(Producer(**run.options()), run)
    print("ready", flush=True)
    sys.stdin.readline()


@attrs.frozen
class Took:
    """Records that the sink has taken, and CPU seconds of the client, both a second."""

    rates: dict[int, float]
    cpu: float

    def rate_of(self, partitions: Sequence[int]) -> float:
        return sum(self.rates[partition] for partition in partitions)

    def per_cpu(self, partitions: Sequence[int]) -> float:
        return self.rate_of(partitions) / self.cpu


def cpu_of(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(case: Case, trouble: str, seconds: float, rate: float) -> Took:
    late = (leader(TOPIC, SICK), LATE_MS) if trouble == LATE else (0, 0)
    with Sink(late=late, offline=SICK if trouble == OFFLINE else -1) as sink:
        told = json.dumps(attrs.asdict(Run(case, trouble, sink.bootstrap, rate)))
        command = [sys.executable, "-m", "benchmarks.isolation", "--client", told]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                if process.stdout.readline() != "ready\n":
                    raise RuntimeError("the client did not start; its output is above")
                began, used, before = time.monotonic(), cpu_of(process.pid), sink.ends(TOPIC)
                time.sleep(seconds)
                after, used, passed = sink.ends(TOPIC), cpu_of(process.pid) - used, time.monotonic() - began
            finally:
                process.kill()
    return Took({partition: (after[partition] - before[partition]) / passed for partition in after}, used / passed)


def compare(table: Table, case: Case, seconds: float, rate: float = 0.0) -> float:
    calm, offline, again, late, last = (measure(case, trouble, seconds, rate) for trouble in (CALM, OFFLINE, CALM, LATE, CALM))
    for trouble, run, beside in ((OFFLINE, offline, (calm, again)), (LATE, late, (again, last))):
        partitions = case.counted(trouble)
        rates = [took.rate_of(partitions) for took in beside]
        usual, usual_cpu = statistics.mean(rates), statistics.mean(took.per_cpu(partitions) for took in beside)
        share, noise = run.rate_of(partitions) / usual, abs(rates[0] - rates[1]) / usual
        share_cpu = run.per_cpu(partitions) / usual_cpu
        title = f"{case.title}, {trouble}, {'half' if rate else 'full'} speed"
        # The table judges figures that should be small: so the loss.
        table.note(f"{title}: lost", OURS, 1 - share, most=LOST if rate else None)
        table.note(f"{title}: lost per CPU", OURS, 1 - share_cpu)
        table.note(f"{title}: noise", OURS, noise)
        told = f"{run.rate_of(partitions):,.0f}/s that count, {usual:,.0f}/s calm: {share:.2f}, per CPU {share_cpu:.2f}; noise {noise:.2f}"
        print(f"{title}: {told}", flush=True)
    return statistics.mean(sum(took.rates.values()) for took in (calm, again, last))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--case", default="", help="part of a case's title")
    parser.add_argument("--client", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.client:
        told = json.loads(arguments.client)
        client(Run(**told | {"case": Case(**told["case"])}))
        return 0
    table = Table()
    for _ in range(arguments.rounds):
        for case in CASES:
            if arguments.case in case.title:
                full = compare(table, case, arguments.seconds)
                compare(table, case, arguments.seconds, full * HALF)
    table.show()
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
