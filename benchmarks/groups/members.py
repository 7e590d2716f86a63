"""Runs members of one group in their own process, for `benchmarks.groups`: `members.py CLIENT PROTOCOL GROUP BOOTSTRAP COUNT TOPIC …`.

Each member has a thread that polls, a second at a time. The script prints `ready` after its imports. Of the lines on its input, `go` starts
the members, and `state` prints a line of JSON: the partitions of each member, the time of their last change, and the CPU time used. A
thread samples the CPU time twenty times a second, because the moment at which the group settled is known only later.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

POLL_S = 1.0
SAMPLE = 0.05
Owned = set[tuple[str, int]]


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Member:
    def __init__(self) -> None:
        self.owned: Owned = set()
        self.changed, self.rebalances = 0.0, 0
        self.error = ""

    def gained(self, tps: Iterable[Any]) -> None:
        self.owned.update((tp.topic, tp.partition) for tp in tps)
        self.changed, self.rebalances = time.monotonic(), self.rebalances + 1

    def dropped(self, tps: Iterable[Any]) -> None:
        self.owned.difference_update((tp.topic, tp.partition) for tp in tps)
        self.changed = time.monotonic()

    # pykafka4 calls these three as its listener

    def on_partitions_assigned(self, partitions: list[Any]) -> None:
        self.gained(partitions)

    def on_partitions_revoked(self, partitions: list[Any]) -> None:
        self.dropped(partitions)

    def on_partitions_lost(self, partitions: list[Any]) -> None:
        self.dropped(partitions)


def ours(protocol: str, group: str, bootstrap: str, topics: list[str]) -> Callable[[Member], None]:
    from pykafka4 import Consumer

    settings: dict[str, Any] = {"bootstrap_servers": bootstrap, "group_id": group, "auto_offset_reset": "earliest"}
    settings |= {"group_protocol": "consumer"} if protocol == "consumer" else {"partition_assignment_strategy": [protocol]}

    def run(member: Member) -> None:
        consumer = Consumer(**settings)
        consumer.subscribe(topics, member)
        while True:
            consumer.poll(POLL_S)

    return run


def theirs(protocol: str, group: str, bootstrap: str, topics: list[str]) -> Callable[[Member], None]:
    import confluent_kafka as ck

    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    settings |= {"group.protocol": "consumer"} if protocol == "consumer" else {"partition.assignment.strategy": protocol}

    def run(member: Member) -> None:
        consumer = ck.Consumer(settings)
        consumer.subscribe(
            topics,
            on_assign=lambda _, tps: member.gained(tps),
            on_revoke=lambda _, tps: member.dropped(tps),
            on_lost=lambda _, tps: member.dropped(tps),
        )
        while True:
            consumer.poll(POLL_S)

    return run


def guarded(run: Callable[[Member], None], member: Member) -> None:
    try:
        run(member)
    except BaseException as error:  # the next `state` reports it
        member.error = repr(error)


def sample(samples: list[tuple[float, float]]) -> None:
    while True:
        samples.append((time.monotonic(), cpu()))
        time.sleep(SAMPLE)


def state(members: list[Member], samples: list[tuple[float, float]]) -> dict[str, Any]:
    return {
        "at": time.monotonic(),
        "cpu": cpu(),
        "owned": [sorted(member.owned) for member in members],
        "changed": max(member.changed for member in members),
        "rebalances": sum(member.rebalances for member in members),
        "errors": [member.error for member in members if member.error],
        "samples": samples,
    }


def main() -> None:
    client, protocol, group, bootstrap, count, *topics = sys.argv[1:]
    run = (ours if client == "pykafka4" else theirs)(protocol, group, bootstrap, topics)
    members, samples = [Member() for _ in range(int(count))], list[tuple[float, float]]()
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "go":
            threading.Thread(target=sample, args=(samples,), daemon=True).start()
            for member in members:
                threading.Thread(target=guarded, args=(run, member), daemon=True).start()
        else:
            print(json.dumps(state(members, samples)), flush=True)


if __name__ == "__main__":
    main()
