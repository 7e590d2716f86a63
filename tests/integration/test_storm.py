"""A rebalance storm: members of three client libraries are killed, frozen and asked to leave; each that is asked to end does so soon."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from integration.cluster import Cluster
from integration.faults.chaos_plan import seed_of
from integration.workload.load import PARTITIONS, Load, judge
from integration.workload.members import Member, Members, committed
from pykafka4 import Producer

pytestmark = [pytest.mark.cluster, pytest.mark.chaos, pytest.mark.timeout(1800)]

SECONDS = float(os.environ.get("STORM_SECONDS", "60"))
SEED = seed_of(os.environ.get("CHAOS_SEED"))
RATE = 300
PAUSE = (2.0, 6.0)  # seconds between two actions
FROZEN = (1.0, 12.0)  # shorter and longer than the session
BACK = (0.0, 3.0)  # seconds until one who ended joins again
SLOWEST = 30.0  # seconds from being asked until it has ended
ALL_READ = 120.0
SLOTS = [("ours", "a"), ("ours", "b"), ("ours", "c"), ("ours", None), ("confluent", "d"), ("kafka-python", "e")]  # kind, static member


class Storm:
    """What happens to the members; a slot is a member's place, which is taken again when it ended."""

    def __init__(self, members: Members, seed: int) -> None:
        self.members, self.random = members, random.Random(seed)
        self.slots: dict[int, Member] = {}
        self.due: list[tuple[float, int, str]] = [(0.0, slot, "join") for slot in range(len(SLOTS))]
        self.story: list[str] = []

    def run(self, seconds: float) -> None:
        """Until the time is over; every frozen member goes on afterwards."""
        end = time.monotonic() + seconds
        following = time.monotonic() + 5.0
        while time.monotonic() < end:
            now = time.monotonic()
            for row in sorted(row for row in self.due if row[0] <= now):
                self.due.remove(row)
                self.mend(row[1], row[2])
            if now >= following:
                following = now + self.random.uniform(*PAUSE)
                self.strike()
            time.sleep(0.05)
        for member in self.slots.values():
            member.thaw()

    def mend(self, slot: int, what: str) -> None:
        if what == "thaw":
            self.slots[slot].thaw()
        else:
            self.slots[slot] = self.members.join(*SLOTS[slot])

    def strike(self) -> None:
        """Something happens to one member."""
        ready = [slot for slot, member in self.slots.items() if member.alive and not member.frozen]
        if len(ready) < 2:
            return
        slot = self.random.choice(ready)
        what = self.random.choice(("kill", "freeze", "leave"))
        self.story.append(f"{what} {self.slots[slot].name}")
        if what == "freeze":
            self.slots[slot].freeze()
            self.due.append((time.monotonic() + self.random.uniform(*FROZEN), slot, "thaw"))
            return
        (self.slots[slot].kill if what == "kill" else self.slots[slot].ask)()
        self.due.append((time.monotonic() + self.random.uniform(*BACK), slot, "join"))


def test_members_end_soon_when_asked_in_a_rebalance_storm(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    for package in ("confluent_kafka", "kafka"):
        pytest.importorskip(package, reason=f"{package} is not installed; pip install -e '.[test]'")
    cluster.create_topic(topic, PARTITIONS)
    print(f"\nstorm: CHAOS_SEED={SEED}, journals in {tmp_path}")
    ending = False
    with Producer(**cluster.client) as producer, Members(cluster.client, topic, topic, tmp_path) as members:
        load = Load(producer, topic, RATE, lambda _: ending)
        load.start()
        storm = Storm(members, SEED)
        storm.run(SECONDS)
        ending = True
        load.join(30)
        producer.flush(60)
        members.join("ours")  # a member that was not in the storm
        ends = {partition: end for partition, (_, end) in cluster.offsets(topic).items()}
        try:
            members.wait_read(ends, ALL_READ)
        finally:
            members.end_all()
        took = {m.name: m.took() for m in members.all if m.asked is not None}
        ours = {name: seconds for name, seconds in took.items() if name.startswith("ours")}
        late = {name: seconds for name, seconds in ours.items() if seconds is None or seconds > SLOWEST}
        quick = [seconds for seconds in ours.values() if seconds is not None]
        others = [seconds for name, seconds in took.items() if name not in ours and seconds is not None]
        print(
            f"storm: {len(storm.story)} strikes, {len(members.all)} members; {len(ours)} of ours were asked to end, "
            f"{sorted(quick)[len(quick) // 2]:.2f} s in the middle, {max(quick):.2f} s at worst, {sum(s > 5 for s in quick)} over 5 s; "
            f"others: {len(others)}, {max(others, default=0):.2f} s at worst; {members.repeated():,} records read more than once"
        )
        assert not late, f"{late}; {storm.story}"
        assert not judge(cluster, topic, load).complaints()
        assert members.complaints(cluster.log(topic)) == []
        stored = committed(cluster, topic, topic, PARTITIONS)
        assert all(0 <= stored[p] <= end for p, end in ends.items()), (stored, ends)
