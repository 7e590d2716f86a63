"""Kills, freezes, adds and removes members of one group, one every few seconds: a rebalance storm.

Invariant: the random choices follow from the seed (the members that are alive then do not), and no member is frozen after the storm. The
judgement comes afterwards, from the members' journals and the coordinator's log.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence

import attrs

from integration.waiting import until
from integration.workload.members import Member, Members

__all__ = ["SCENARIOS", "Place", "Scenario", "Storm"]

PAUSE_S = (2.0, 6.0)  # seconds between two actions
FROZEN_S = (1.0, 12.0)  # shorter and longer than the session
BACK_S = (0.0, 3.0)  # seconds until a member that has ended joins again
ADDED = 0.25  # share of the actions in which a spare member joins, while there is one
EASY_S = 2.0  # seconds before the first action
START_S = 300.0  # seconds for the start of the first members; a JVM may need a minute on a busy machine
STEP_S = 0.05


@attrs.frozen
class Place:
    """When the member of a place has ended, another one takes the place. A spare place is taken only now and then."""

    kind: str = "ours"
    instance: str | None = None
    spare: bool = False


@attrs.frozen
class Scenario:
    """With several `protocols`, new members change to the next one during the storm: a rolling migration."""

    name: str
    places: Sequence[Place]
    protocols: Sequence[str] = ("classic",)
    strategy: str = "range"
    packages: Sequence[str] = ()
    protocol_seconds: float = 60.0


OURS = (Place(), Place(), Place(spare=True))
SCENARIOS: Mapping[str, Scenario] = {
    row.name: row
    for row in (
        Scenario("range", [*OURS, Place("confluent"), Place("aiokafka")], packages=("confluent_kafka", "aiokafka")),
        Scenario(
            "cooperative",
            [*OURS, Place("confluent"), Place("kafka-python")],
            strategy="cooperative-sticky",
            packages=("confluent_kafka", "kafka.coordinator.assignors.cooperative_sticky"),
        ),
        Scenario("consumer", [*OURS, Place("confluent"), Place("java")], protocols=("consumer",), packages=("confluent_kafka",)),
        Scenario(
            "static",
            [*(Place("ours", name) for name in "abc"), Place(spare=True), Place("confluent", "d"), Place("kafka-python", "e")],
            packages=("confluent_kafka", "kafka"),
        ),
        Scenario("static-consumer", [*(Place("ours", name) for name in "abc"), Place("confluent", "d")], protocols=("consumer",)),
        Scenario(
            "migration",
            [*OURS, Place(), Place("confluent")],
            protocols=("classic", "consumer"),
            packages=("confluent_kafka",),
        ),
    )
}


class Storm:
    def __init__(self, scenario: Scenario, members: Members, seed: str) -> None:
        self.scenario, self.members, self.random = scenario, members, random.Random(seed)
        self.taken: dict[int, Member] = {}
        self.due: list[tuple[float, int, str]] = []
        self.story: list[str] = []
        self.began = time.monotonic()

    def run(self, seconds: float) -> None:
        """Act until `seconds` after the start of the first members; then thaw every frozen member."""
        for number, place in enumerate(self.scenario.places):
            if not place.spare:
                self.mend(number, "join")
        until(lambda: all(len(member.lines()) > 1 for member in self.taken.values()), START_S, lambda: f"members: {self.members.state()}")
        self.began = time.monotonic()
        following = self.began + EASY_S
        while (now := time.monotonic()) < self.began + seconds:
            for row in sorted(row for row in self.due if row[0] <= now):
                self.due.remove(row)
                self.mend(row[1], row[2])
            if now >= following:
                following = now + self.random.uniform(*PAUSE_S)
                self.strike(now)
            time.sleep(STEP_S)
        for member in self.taken.values():
            member.thaw()

    @property
    def protocol(self) -> str:
        rows = self.scenario.protocols
        return rows[int((time.monotonic() - self.began) / self.scenario.protocol_seconds) % len(rows)]

    def mend(self, place: int, what: str) -> None:
        if what == "thaw":
            self.taken[place].thaw()
        elif not (place in self.taken and self.taken[place].alive):
            row = self.scenario.places[place]
            self.taken[place] = self.members.join(row.kind, row.instance, protocol=self.protocol)

    def strike(self, now: float) -> None:
        """Kill, freeze or end one member, or let a spare one join."""
        spare = [n for n, place in enumerate(self.scenario.places) if place.spare and not (n in self.taken and self.taken[n].alive)]
        ready = [n for n, member in self.taken.items() if member.alive and not member.frozen]
        what = self.random.choice(("kill", "freeze", "leave"))
        if spare and self.random.random() < ADDED:
            self.mend(self.random.choice(spare), "join")
            self.tell(now, f"add {self.members.all[-1].name}")
            return
        if len(ready) < 2:
            return
        place = self.random.choice(ready)
        member = self.taken[place]
        self.tell(now, f"{what} {member.name}")
        if what == "freeze":
            member.freeze()
            self.due.append((now + self.random.uniform(*FROZEN_S), place, "thaw"))
            return
        (member.kill if what == "kill" else member.ask)()
        if not self.scenario.places[place].spare:
            self.due.append((now + self.random.uniform(*BACK_S), place, "join"))

    def tell(self, now: float, what: str) -> None:
        self.story.append(f"{now - self.began:.1f} s: {what}")
