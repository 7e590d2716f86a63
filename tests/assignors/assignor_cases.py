"""Groups for assignors, drawn from seeds: members that come and go over some rebalances, with equal and different subscriptions, racks,
static members, members of an older generation, conflicting claims and broken user data.

`python -m tests.assignors.assignor_cases` writes `vectors.json.xz`: groups, and what Java's assignors make of them, or None
where Java's result is invalid (`is_comparable`).
"""

from __future__ import annotations

import json
import lzma
import random
import struct
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pykafka4.assignors import GroupMember, PartitionInfo, StickyAssignor, sticky
from pykafka4.assignors.builtin import ASSIGNORS
from pykafka4.records import TopicPartition

VECTORS = Path(__file__).with_name("vectors.json.xz")
SEEDS = 1_000
RACKS = "abc"
NAMES = ("consumer-app-1-", "", "ö-", "\U0001f600", "�", "sarama-")
OWNED = {"sticky": sticky._sent_as_user_data, "cooperative-sticky": sticky._sent_as_owned}

Group = dict[str, Any]
Owners = list[list[int]]


def members_of(group: Group, assignor: str) -> tuple[GroupMember, ...]:
    """The members as their leader sees them, if they use this assignor."""
    names = [name for name, _ in group["topics"]]
    return tuple(
        GroupMember(
            each["id"],
            frozenset(names[place] for place in each["topics"]),
            each["instance"],
            tuple(TopicPartition(names[place], p) for place, numbers in each["owned"] for p in numbers) if "coop" in assignor else (),
            each["generation"],
            each["rack"],
            None if each.get(assignor) is None else bytes.fromhex(each[assignor]),
        )
        for each in group["members"]
    )


def topics_of(group: Group) -> dict[str, list[PartitionInfo]]:
    """The topics that exist and that a member is subscribed to."""
    wanted = {place for each in group["members"] for place in each["topics"]}
    return {
        name: [PartitionInfo(name, p, None, frozenset(letters)) for p, letters in enumerate(racks)]
        for place, (name, racks) in enumerate(group["topics"])
        if racks and place in wanted
    }


def owners(group: Group, assignor: str) -> Owners:
    """What our assignor makes of the group, in the form of Java's answer."""
    members = members_of(group, assignor)
    result = ASSIGNORS[assignor].assign(members, topics_of(group))
    found = {name: [-1] * len(racks) for name, racks in group["topics"]}
    for place, member in enumerate(members):
        for topic, partition in result[member.member_id]:
            assert found[topic][partition] == -1, "assigned twice"
            assert topic in member.topics, "not subscribed"
            found[topic][partition] = place
    return [found[name] for name, _ in group["topics"]]


def is_comparable(group: Group, assignor: str, answer: Any) -> bool:
    """Whether Java's answer is one to compare with.

    Java's sticky assignors give a partition back to the member that had it in an earlier generation even if that one is no longer
    subscribed to its topic: it never reads the partition. They raise an exception if that member takes no part in the balancing. If the
    partition moves on afterwards, the result is valid, and another one than ours.
    """
    if isinstance(answer, str):
        return False
    return answer == owners(group, assignor) or not gives_back_what_is_not_wanted(group, assignor)


def gives_back_what_is_not_wanted(group: Group, assignor: str) -> bool:
    """Whether a member of an older generation had a partition of a topic to which it is not subscribed any more."""
    members = members_of(group, assignor)
    said = {member.member_id: OWNED[assignor](member) for member in members} if assignor in OWNED else {}
    latest = max((-1 if each.generation is None else each.generation for each in said.values()), default=-1)
    return any(
        (-1 if (mine := said[member.member_id]).generation is None else mine.generation) < latest
        and any(tp.topic not in member.topics for tp in mine.partitions)
        for member in members
        if said
    )


class Draw:
    """The rebalances of one group."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.equal = self.random.random() < 0.5
        self.racked = self.random.choice([0.0, 0.0, 0.5, 1.0])
        self.honest = self.random.random() < 0.6  # members claim only what they were assigned
        self.generation = self.random.randrange(1, 50)
        self.topics = [[self.name(place), self.partitions()] for place in range(self.random.choice([1, 2, 3, 8, 30]))]
        self.members = [self.member() for _ in range(self.random.choice([1, 2, 3, 5, 10, 40]))]

    def name(self, place: int) -> str:
        return self.random.choice(["t", "topic-", "A.b_", "z"]) + str(place)

    def partitions(self) -> list[str]:
        count = self.random.choice([0, 1, 2, 3, 6, 7, 12, self.random.randrange(30)])
        if self.random.random() >= self.racked:
            return [""] * count if self.random.random() < 0.5 else [RACKS] * count
        return ["".join(sorted(self.random.sample(RACKS, self.random.randrange(4)))) for _ in range(count)]

    def subscription(self) -> list[int]:
        every = range(len(self.topics))
        if self.equal:
            return list(every)
        return sorted(self.random.sample(every, self.random.randrange(1, len(every) + 1)))

    def member(self) -> Group:
        static = self.random.random() < 0.2
        return {
            "id": self.random.choice(NAMES) + str(uuid.UUID(int=self.random.getrandbits(128)))[: self.random.choice([3, 4, 4, 5])],
            "instance": f"i{self.random.randrange(1 << 30)}" if static else None,
            "topics": self.subscription(),
            "rack": self.random.choice(RACKS + "x") if self.random.random() < self.racked else None,
            "owned": [],
            "generation": -1,
            "sticky": None,
            "cooperative-sticky": struct.pack(">i", -1).hex() if self.random.random() < 0.8 else None,
        }

    def groups(self) -> Iterator[Group]:
        """The group before each rebalance."""
        for _ in range(self.random.choice([1, 2, 4])):
            group = json.loads(json.dumps({"topics": self.topics, "members": self.members}))
            group["members"] = list({each["id"]: each for each in group["members"]}.values())
            yield group
            self.go_on(group)

    def go_on(self, group: Group) -> None:
        """Everybody takes what it is assigned; then the group changes."""
        dice = self.random
        self.generation += 1
        shares = owners(group, dice.choice(sorted(OWNED)))
        self.members = json.loads(json.dumps(group["members"]))
        for place, member in enumerate(self.members):
            if dice.random() < 0.15:  # it has missed that
                continue
            mine = [[topic, [p for p, owner in enumerate(each) if owner == place]] for topic, each in enumerate(shares)]
            self.claim(member, [[topic, numbers] for topic, numbers in mine if numbers])
        dice.shuffle(self.members)
        if dice.random() < 0.5:
            del self.members[: dice.randrange(1 + len(self.members) // 2)]
        self.members += [self.member() for _ in range(dice.choice([0, 0, 1, 3]) or (not self.members))]
        if dice.random() < 0.3:
            self.topics.append([self.name(len(self.topics)), self.partitions()])
        if dice.random() < 0.3:
            self.topics[dice.randrange(len(self.topics))][1] += self.partitions()
        for member in self.members:
            if self.equal or dice.random() < 0.3:
                member["topics"] = self.subscription()

    def claim(self, member: Group, mine: list[Any]) -> None:
        """What the member says next time."""
        dice, generation = self.random, self.generation
        if not self.honest and dice.random() < 0.5:
            mine = [[t, sorted(dice.sample(range(len(racks)), dice.randrange(1 + len(racks))))] for t, (_, racks) in enumerate(self.topics)]
            mine = [[topic, numbers] for topic, numbers in mine if numbers and dice.random() < 0.5]
        if not self.honest:
            generation -= dice.choice([0, 0, 1, 2])
        tps = [TopicPartition(self.topics[topic][0], p) for topic, numbers in mine for p in numbers]
        data = StickyAssignor().user_data(frozenset(), tps, generation) or b""
        member["owned"] = mine
        member["generation"] = generation if self.honest or dice.random() < 0.7 else -1
        member["sticky"] = data.hex()
        member["cooperative-sticky"] = struct.pack(">i", generation).hex()
        if not self.honest:
            member["sticky"] = dice.choice([data.hex(), data.hex(), data[:-4].hex(), data[:-5].hex(), "", None])
            member["cooperative-sticky"] = dice.choice([member["cooperative-sticky"], "00", None])


def groups(seeds: Iterable[int]) -> list[Group]:
    """All groups of these seeds."""
    return [group for seed in seeds for group in Draw(seed).groups()]


def vectors() -> list[Sequence[Any]]:
    """(group, answer of Java), as stored."""
    return [json.loads(line) for line in lzma.decompress(VECTORS.read_bytes()).decode().splitlines()]


def main() -> None:
    from integration.java.assignors import java_assign

    drawn = groups(range(SEEDS))
    lines = []
    for group, answer in zip(drawn, java_assign(drawn), strict=True):
        del answer["nanos"]
        answer = {name: found if is_comparable(group, name, found) else None for name, found in answer.items()}
        lines.append(json.dumps([group, answer], separators=(",", ":"), ensure_ascii=False))
    VECTORS.write_bytes(lzma.compress("\n".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{len(lines):,} groups, {VECTORS.stat().st_size:,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
