"""Measures a group of 100 members over 1,000 partitions on three real brokers, with this client and with confluent-kafka.

All members start together. The figures: the time and the CPU time until the group has settled, and the CPU time of idle members.
`python -m benchmarks.groups` runs both clients in turns, for each protocol, prints medians and ratios, and writes build/groups.json. A
group settles with its last rebalance callback, after which every member has its equal share, each partition has one owner, and nothing
changes for `--quiet` seconds. CPU time counts for all processes of the members, from the start of the members on.
"""

from __future__ import annotations

import argparse
import bisect
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.bars import CLIENTS, Table
from benchmarks.bench import conditions
from integration.local.cluster import LocalCluster

SCRIPT = Path(__file__).with_name("members.py")
OUT = Path(__file__).resolve().parents[2] / "build" / "groups.json"
PROTOCOLS = ("range", "cooperative-sticky", "consumer")
LONGEST_S = 120.0  # seconds; a group that has not settled after this time counts with it
# Kafka's defaults: the brokers of tests have shorter times.
DEFAULTS = {"group.consumer.heartbeat.interval.ms": "5000", "group.consumer.session.timeout.ms": "45000"}
LOOK_S = 0.5  # seconds between two queries of the members
HALF, SAME = 0.5, 1.0  # bars, as multiples of confluent-kafka's figure
# Members use byte code, as with an installed package, even where the environment of this checkout forbids writing it.
ENVIRONMENT = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(OUT.parent / "bytecode")}
State = dict[str, Any]


class Group:
    counter = itertools.count(1)

    def __init__(self, client: str, protocol: str, bootstrap: str, topics: list[str], members: int, processes: int) -> None:
        self.members = members
        name = f"bench-{os.getpid()}-{next(self.counter)}-{client}-{protocol}"
        command = [sys.executable, str(SCRIPT), client, protocol, name, bootstrap]
        counts = [len(range(number, members, processes)) for number in range(processes)]
        self.processes = [
            subprocess.Popen(
                [*command, str(count), *topics], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=ENVIRONMENT
            )
            for count in counts
        ]
        for process in self.processes:
            assert self._read(process) == "ready\n"
        self.began = time.monotonic()
        self._say("go")

    def states(self) -> list[State]:
        self._say("state")
        states: list[State] = [json.loads(self._read(process)) for process in self.processes]
        if errors := [error for state in states for error in state["errors"]]:
            raise SystemExit(f"{len(errors)} members ended; the first with {errors[0]}")
        return states

    def end(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait(LONGEST_S)
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                stream.close()

    def _say(self, line: str) -> None:
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write(f"{line}\n")

    def _read(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit("members ended early; their output is above")
        return line


def is_shared(states: list[State], members: int, partitions: int) -> bool:
    """Each member has its equal share, and each partition one owner."""
    shares = [share for state in states for share in state["owned"]]
    owned = {tuple(tp) for share in shares for tp in share}
    equal = {partitions // members, -(-partitions // members)}
    return len(owned) == sum(map(len, shares)) == partitions and {len(share) for share in shares} <= equal


def cpu_at(state: State, moment: float) -> float:
    """CPU seconds from the start of a process's members until `moment`."""
    samples = state["samples"]
    at = bisect.bisect_left(samples, moment, key=lambda sample: sample[0])
    return float(samples[min(at, len(samples) - 1)][1] - samples[0][1])


def settle(group: Group, members: int, partitions: int, quiet: float) -> tuple[float, list[State], str | None]:
    """Return the moment at which the group settled, the states `quiet` seconds later, and a doubt about them, if any."""
    while time.monotonic() < group.began + LONGEST_S + quiet:
        time.sleep(LOOK_S)
        states = group.states()
        changed = max(state["changed"] for state in states)
        if is_shared(states, members, partitions) and time.monotonic() > changed + quiet:
            return changed, states, None
    owned = [len(share) for state in states for share in state["owned"]]
    doubt = f"not settled after {LONGEST_S:g} s, with {sum(owned)} partitions owned by {sum(map(bool, owned))} members"
    return group.began + LONGEST_S, states, doubt


def idle(group: Group, seconds: float) -> float:
    before = group.states()
    time.sleep(seconds)
    after = group.states()
    used = sum(late["cpu"] - early["cpu"] for early, late in zip(before, after, strict=True))
    return float(used / (after[0]["at"] - before[0]["at"]))


def measure(table: Table, cluster: LocalCluster, client: str, protocol: str, topics: list[str], arguments: argparse.Namespace) -> None:
    group = Group(client, protocol, cluster.bootstrap, topics, arguments.members, arguments.processes)
    try:
        settled, states, doubt = settle(group, arguments.members, arguments.topics * arguments.partitions, arguments.quiet)
        used = sum(cpu_at(state, settled) for state in states)
        table.note(f"{protocol}: settled after, seconds", client, settled - group.began, times=HALF, doubt=doubt)
        table.note(f"{protocol}: CPU seconds until then", client, used, times=SAME, doubt=doubt)
        table.note(f"{protocol}: rebalance callbacks", client, sum(state["rebalances"] for state in states))
        table.note(f"{protocol}: idle, share of a core", client, idle(group, arguments.seconds), times=SAME, doubt=doubt)
    finally:
        group.end()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--topics", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=100, help="of each topic")
    parser.add_argument("--quiet", type=float, default=10.0, help="seconds without a change after which a group counts as settled")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each idle measurement")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds that brokers wait for more members of a new group (Kafka: 3)")
    parser.add_argument("--protocol", choices=PROTOCOLS, action="append", help="default: all")
    parser.add_argument("--client", choices=CLIENTS, action="append", help="default: both")
    arguments = parser.parse_args()
    table, told = Table(), conditions()
    print(", ".join(f"{name} {value}" for name, value in told.items()), flush=True)
    topics = [f"bench-group-{number}" for number in range(arguments.topics)]
    delay = {"group.initial.rebalance.delay.ms": f"{arguments.delay * 1000:.0f}"}
    with LocalCluster(properties=DEFAULTS | delay) as cluster:
        for topic in topics:
            cluster.create_topic(topic, arguments.partitions, 1)
        for number, protocol in itertools.product(range(arguments.rounds), arguments.protocol or PROTOCOLS):
            clients = arguments.client or CLIENTS
            for client in clients if number % 2 else reversed(clients):
                measure(table, cluster, client, protocol, topics, arguments)
            table.show()
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"conditions": {**told, "load at the end": os.getloadavg()}, "rows": table.as_json()}, indent=1))
    print(OUT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
