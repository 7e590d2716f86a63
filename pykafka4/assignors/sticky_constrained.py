"""Assigns partitions to members with equal subscriptions. Invariant: the members' numbers of partitions differ by at most one.

1. Each member keeps partitions that it owned (with racks: those with a replica in its rack), up to the number that it may have.
2. With racks: each partition that is left goes to a member in one of its racks, in turn, if such a member can get more partitions.
3. The remaining partitions go to members with too few partitions, in turn, then to members that can get one more.

Every member gets at least `_least` partitions. If the partitions cannot be divided evenly, `_with_more` members get one more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping

from pykafka4.assignors.interface import Topics
from pykafka4.assignors.java import utf16
from pykafka4.assignors.racks import Racks
from pykafka4.records import TopicPartition

__all__ = ["ConstrainedAssignment"]


class ConstrainedAssignment:
    """Makes one assignment. `owned` has the members, in Java's order, with their former partitions; no member keeps a `contested` one."""

    def __init__(
        self,
        topics: Topics,
        racks: Racks,
        owned: Mapping[str, Collection[TopicPartition]],
        contested: Collection[TopicPartition],
    ) -> None:
        self._topics, self._racks, self._owned, self._contested = topics, racks, owned, contested
        self._least, self._with_more = divmod(sum(map(len, topics.values())), len(owned))
        self._most = self._least + (self._with_more > 0)
        self._have_more = 0  # number of members that got one partition more than the least in step 1 or 2
        self._result: dict[str, list[TopicPartition]] = {name: [] for name in owned}
        self._below: list[str] = []  # members with fewer than the least number of partitions
        self._at_least: deque[str] = deque()  # members with exactly the least number, which may get one more
        self._revoked: dict[TopicPartition, str] = {}  # partitions that their owner does not keep in step 1, with the owner
        self.moving: dict[TopicPartition, str] = {}  # partitions that another member owned, with the member that gets them

    def build(self) -> dict[str, list[TopicPartition]]:
        for name, owned in self._owned.items():
            self._keep(name, owned)
        kept = {tp for tps in self._result.values() for tp in tps}
        rest = [each.tp for topic in sorted(self._topics, key=utf16) for each in self._topics[topic] if each.tp not in kept]
        self._below.sort(key=utf16)
        self._at_least = deque(sorted(self._at_least, key=utf16))
        rest = self._racks.by_takers(rest)
        if self._racks.members:
            rest = self._fill_by_racks(rest)
        self._fill(rest)
        return self._result

    def _keep(self, name: str, owned: Collection[TopicPartition]) -> None:
        """Carry out step 1 for one member."""
        for tp in owned:
            if self._racks.differ(name, tp):
                self._revoked[tp] = name
        fit = [tp for tp in owned if tp not in self._contested and not self._racks.differ(name, tp)]
        fit.sort(key=lambda tp: (tp.partition, tp.topic))
        if len(fit) < self._least:
            self._below.append(name)
        # The first `_with_more` members that own `_most` partitions or more keep one more than the least, so that fewer partitions move.
        elif len(fit) >= self._most and self._have_more < self._with_more:
            self._count_one_more()
            self._revoked.update(dict.fromkeys(fit[self._most :], name))
            del fit[self._most :]
        else:
            self._revoked.update(dict.fromkeys(fit[self._least :], name))
            del fit[self._least :]
            if self._have_more < self._with_more:
                self._at_least.append(name)
        self._result[name] = fit

    def _count_one_more(self) -> None:
        self._have_more += 1
        if self._have_more == self._with_more:  # no further member may have one more
            self._at_least.clear()

    def _fill_by_racks(self, rest: list[TopicPartition]) -> list[TopicPartition]:
        """Carry out step 2; return the rest."""
        left, turn = [], 0
        for tp in rest:
            place = self._racks.next_member(tp, self._below, turn)
            if place >= 0:
                name = self._below[place]
                turn = self._take_turn(name, place)
            elif (place := self._racks.next_member(tp, self._at_least, 0)) >= 0:
                name = self._at_least[place]
                if len(self._result[name]) + 1 == self._most:
                    del self._at_least[place]
                    self._count_one_more()
            else:
                left.append(tp)
                continue
            self._give(name, tp)
        return left

    def _take_turn(self, name: str, place: int) -> int:
        """Update the lists for the partition that `name` is about to get; return the index of the member whose turn is next."""
        count = len(self._result[name]) + 1
        if count >= self._least:
            del self._below[place]
            if count < self._most and self._have_more < self._with_more:
                self._at_least.append(name)
        else:
            place += 1
        return place % len(self._below) if self._below else 0

    def _fill(self, rest: list[TopicPartition]) -> None:
        """Carry out step 3."""
        turn = 0
        for tp in rest:
            if not self._below:
                self._give(self._at_least.popleft(), tp)
                continue
            turn = turn if turn < len(self._below) else 0
            name = self._below[turn]
            self._give(name, tp)
            if len(self._result[name]) == self._least:
                del self._below[turn]
                self._at_least.append(name)
            else:
                turn += 1

    def _give(self, name: str, tp: TopicPartition) -> None:
        self._result[name].append(tp)
        if self._revoked.get(tp, name) != name or tp in self._contested:
            self.moving[tp] = name
