"""Measures what a sick partition costs the others: no leader and a full queue, or a broker that answers 500 ms late.

`python -m benchmarks.isolation` sends at full speed to six partitions of a fake cluster (`sink.c`), which costs less than the client, so
that what is measured is the client. A round measures, for each policy of a full buffer, a calm run, the runs in which one partition is
sick, and another calm run; each in a fresh process, with a fresh sink. Counted is what the sink took in the other partitions. The bar: at
most 10 % less than in the same partitions without sickness, in the median over the rounds. The two calm runs of a round say how much is
noise.

`block` has a sending thread for each partition: the one of the sick partition waits. (One thread for all would have to wait with it.)
`raise` and `drop` have one thread for all partitions, which tries the sick one, too, as often as each other one. At full speed a refused
record must not take longer than one that is sent, which is less than what Python takes to raise an exception; so both are also measured at
half of full speed, as an application does something else, too.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import threading
import time
from typing import Any

import attrs

from benchmarks.bars import OURS, Table
from benchmarks.sink import PARTITIONS, Sink, leader
from pykafka4 import BufferFull, Producer

POLICIES = ("block", "raise", "drop")
CALM, OFFLINE, LATE = "calm", "one partition offline", "one broker 500 ms late"
LATE_MS = 500
TOPIC, LEADERLESS = "bench", "leaderless-bench"
SICK = 0  # the partition that is sick
LOST = 0.1  # most that the others may lose of their rate
VALUE = bytes(100)
START, FILL, SETTLE = 60.0, 30.0, 2.0  # seconds
PAUSE, BURST = 0.002, 0.2  # seconds between two bursts, and of the longest one


@attrs.frozen
class Run:
    """One process: what it sends to, and how."""

    policy: str
    trouble: str
    bootstrap: str
    rate: float = 0.0  # records a second; 0: as fast as possible

    def targets(self) -> list[tuple[str, int]]:
        """A partition without a leader takes the place of the one with that number."""
        sick = LEADERLESS if self.trouble == OFFLINE else TOPIC
        return [(sick if partition == SICK else TOPIC, partition) for partition in range(PARTITIONS)]

    def options(self) -> dict[str, Any]:
        """Nothing expires during a run."""
        waits = {"max_block_ms": 600_000} if self.policy == "block" else {}
        return {
            "bootstrap_servers": self.bootstrap,
            "on_full": self.policy,
            "delivery_timeout_ms": 600_000,
            **waits,
        }


def send_to(producer: Producer, targets: list[tuple[str, int]], rate: float = 0.0) -> None:
    """Send to all of them in turns, for ever; a full buffer is passed over."""
    send = producer.send
    if rate:
        pace(producer, targets, rate)
    for topic, partition in itertools.cycle(targets):
        try:
            send(topic, VALUE, partition=partition)
        except BufferFull:
            pass


def pace(producer: Producer, targets: list[tuple[str, int]], rate: float) -> None:
    """The same at `rate`, in bursts; what could not be sent in time is not made up for beyond a burst."""
    send, done, began = producer.send, 0.0, time.monotonic()
    while True:
        due = (time.monotonic() - began) * rate
        done = max(done, due - rate * BURST)
        while done < due:
            for topic, partition in targets:
                try:
                    send(topic, VALUE, partition=partition)
                except BufferFull:
                    pass
            done += len(targets)
        time.sleep(PAUSE)


def fill(producer: Producer, topic: str, partition: int) -> None:
    """Send to it until its queue takes no more."""
    before = -1
    deadline = time.monotonic() + FILL
    while time.monotonic() < deadline:
        stats = producer.stats()
        if stats.queued == before:
            return
        before = stats.queued
        time.sleep(0.3)
    raise AssertionError(f"{topic}-{partition} is not full after {FILL:g} s")


def client(run: Run) -> None:
    """The process: it writes "ready" when the sick partition is full, and sends until it is killed."""
    producer = Producer(**run.options())
    targets = run.targets()
    for topic, partition in targets:
        if topic == TOPIC:
            producer.send(topic, VALUE, partition=partition).result(START)
    if run.trouble == OFFLINE:
        threading.Thread(target=send_to, args=(producer, targets[SICK : SICK + 1]), daemon=True).start()
        fill(producer, *targets[SICK])
    groups = [[target] for target in targets] if run.policy == "block" else [targets]
    for group in groups:
        if not (run.policy == "block" and run.trouble == OFFLINE and group[0] == targets[SICK]):  # that thread waits already
            threading.Thread(target=send_to, args=(producer, group, run.rate), daemon=True).start()
    time.sleep(SETTLE)
    print("ready", flush=True)
    sys.stdin.readline()


def healthy(trouble: str) -> list[int]:
    """The partitions that are not sick: with a late broker, those of the others."""
    if trouble == OFFLINE:
        return [partition for partition in range(PARTITIONS) if partition != SICK]
    return [partition for partition in range(PARTITIONS) if leader(TOPIC, partition) != leader(TOPIC, SICK)]


def measure(policy: str, trouble: str, seconds: float, rate: float) -> dict[int, float]:
    """Records a second that the sink took in each partition."""
    late = (leader(TOPIC, SICK), LATE_MS) if trouble == LATE else (0, 0)
    with Sink(late=late) as sink:
        run = Run(policy, trouble, sink.bootstrap, rate)
        command = [sys.executable, "-m", "benchmarks.isolation", "--client", json.dumps(attrs.asdict(run))]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                if process.stdout.readline() != "ready\n":
                    raise RuntimeError("the client did not start; what it said is above")
                began, before = time.monotonic(), sink.ends(TOPIC)
                time.sleep(seconds)
                after, passed = sink.ends(TOPIC), time.monotonic() - began
            finally:
                process.kill()
    return {partition: (after[partition] - before[partition]) / passed for partition in after}


def compare(table: Table, policy: str, seconds: float, rate: float = 0.0) -> float:
    """One round of a policy. Returns how many records a second were sent in the calm run."""
    order = ((CALM, CALM), (OFFLINE, OFFLINE), (LATE, LATE), ("again", CALM))
    runs = {name: measure(policy, trouble, seconds, rate) for name, trouble in order}
    for trouble in (OFFLINE, LATE):
        rates = {name: sum(row[partition] for partition in healthy(trouble)) for name, row in runs.items()}
        usual = (rates[CALM] + rates["again"]) / 2
        share, noise = rates[trouble] / usual, abs(rates[CALM] - rates["again"]) / usual
        title = f"{policy}, {trouble}, {'half' if rate else 'full'} speed"
        # The table judges figures that should be small: what is lost.
        table.note(f"{title}: lost", OURS, 1 - share, most=LOST)
        table.note(f"{title}: two calm runs differ by", OURS, noise)
        print(f"{title}: {rates[trouble]:,.0f}/s in the others, {usual:,.0f}/s calm: {share:.2f}; noise {noise:.2f}", flush=True)
    return sum(runs[CALM].values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--policy", choices=POLICIES, action="append", help="only this one")
    parser.add_argument("--client", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.client:
        client(Run(**json.loads(arguments.client)))
        return 0
    table = Table()
    for _ in range(arguments.rounds):
        for policy in arguments.policy or POLICIES:
            full = compare(table, policy, arguments.seconds)
            if policy != "block":
                compare(table, policy, arguments.seconds, full / 2)
    table.show()
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
