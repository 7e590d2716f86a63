"""Sticky assignment of members with different subscriptions. Rule: a partition moves only to a member with at least two partitions fewer.

1. Each member keeps what it owned, if it is still subscribed to it (with racks: if it has a replica in its own).
2. Each partition that is left goes to the member with the fewest, of those that are subscribed to it (with racks: first in the same rack).
3. Partitions are moved, one by one, as long as that improves the balance. If a partition of a topic was moved from A to B, and one of that
   topic is to be moved from B to A, that same partition goes back.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from pykafka4.assignors.interface import GroupMember, Topics
from pykafka4.assignors.java import PartitionSet, utf16
from pykafka4.assignors.racks import Racks
from pykafka4.records import TopicPartition

__all__ = ["General"]


class Order:
    """Members by their number of partitions, then by member id."""

    __slots__ = ("_keys", "_names")

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._names = {name: utf16(name) for name in counts}
        self._keys = sorted((count, self._names[name], name) for name, count in counts.items())

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Number of partitions and member id, the fewest first. Not to be continued after a change."""
        return ((count, name) for count, _, name in self._keys)

    @property
    def fewest(self) -> int:
        """The lowest number of partitions."""
        return self._keys[0][0]

    @property
    def most(self) -> int:
        """The highest."""
        return self._keys[-1][0]

    def count(self, name: str, count: int, change: int) -> None:
        """`name` had `count` partitions, and now has `change` more."""
        self.drop(name, count)
        insort(self._keys, (count + change, self._names[name], name))

    def drop(self, name: str, count: int) -> None:
        """Remove `name`, which has `count` partitions."""
        del self._keys[bisect_left(self._keys, (count, self._names[name], name))]


class General:
    """One assignment. `owned` are the members, in Java's order, and what they owned; `former` owned it in an earlier generation."""

    def __init__(
        self,
        members: Sequence[GroupMember],
        topics: Topics,
        racks: Racks,
        owned: Mapping[str, Collection[TopicPartition]],
        former: Mapping[TopicPartition, str],
    ) -> None:
        self._racks, self._former = racks, former
        self._subscribed = {member.member_id: member.topics & topics.keys() for member in members}
        self._takers: dict[str, list[str]] = {topic: [] for topic in topics}  # the members that are subscribed to each topic
        for name, wanted in self._subscribed.items():
            for topic in wanted:
                self._takers[topic].append(name)
        self._result: dict[str, dict[TopicPartition, None]] = {name: {} for name in self._subscribed}
        self._owner: dict[TopicPartition, str] = {}
        self._spread: dict[str, Counter[str]] = {topic: Counter() for topic in topics}  # of each topic, how many partitions a member has
        in_order = sorted(topics, key=lambda topic: (len(self._takers[topic]), topic))
        self._every = [each.tp for topic in in_order for each in topics[topic]]
        self._sizes = {name: sum(len(topics[topic]) for topic in wanted) for name, wanted in self._subscribed.items()}
        self._must_revoke = self._keep(owned)
        self._order = Order({name: len(tps) for name, tps in self._result.items()})
        self._moves = Movements()
        self._balanced: bool | None = None  # None: to be computed

    def build(self) -> dict[str, list[TopicPartition]]:
        """The assignment."""
        had_any = self._order.most > 0
        rest = [tp for tp in self._every if tp not in self._owner]
        left = [tp for tp in rest if not (self._racks.members and self._place(tp, by_racks=True))]
        for tp in left:
            self._place(tp, by_racks=False)
        movable = {topic for topic, takers in self._takers.items() if len(takers) > 1}
        taking_part = [name for name in self._result if self._takes_part(name, movable)]
        for name in self._result.keys() - set(taking_part):
            self._order.drop(name, len(self._result[name]))
        before = {name: dict(self._result[name]) for name in taking_part}
        if not self._must_revoke:
            self._balance([tp for tp in rest if tp.topic in movable])
        moved = self._balance([tp for tp in self._every if tp.topic in movable])
        if had_any and moved and _imbalance(self._result[name] for name in taking_part) >= _imbalance(before.values()):
            self._result |= before
        return {name: list(tps) for name, tps in self._result.items()}

    def _keep(self, owned: Mapping[str, Collection[TopicPartition]]) -> bool:
        """Step 1. Returns whether any member has to lose a partition that it cannot keep."""
        must_revoke = False
        for name, tps in owned.items():
            for tp in tps:
                if tp.topic in self._subscribed[name] and not self._racks.differ(name, tp):
                    self._put(tp, name)
                else:
                    must_revoke = True
        return must_revoke

    def _put(self, tp: TopicPartition, name: str) -> None:
        self._result[name][tp] = None
        self._owner[tp] = name
        self._spread[tp.topic][name] += 1

    def _place(self, tp: TopicPartition, *, by_racks: bool) -> bool:
        """Step 2 of a partition; false if there is no member for it."""
        for count, name in self._order:
            if tp.topic in self._subscribed[name] and not (by_racks and self._racks.differ(name, tp)):
                self._order.count(name, count, 1)
                self._put(tp, name)
                return True
        return False

    def _takes_part(self, name: str, movable: Collection[str]) -> bool:
        """Whether the member may lose or get partitions when the assignment is balanced."""
        mine = self._result[name]
        return len(mine) < self._sizes[name] or any(tp.topic in movable for tp in mine)

    # ---- step 3

    def _balance(self, tps: Sequence[TopicPartition]) -> bool:
        """Move some of `tps` until that improves nothing any more; returns whether any was moved."""
        moved, again = False, True
        while again:
            again = False
            for tp in tps:
                if self._is_balanced():
                    break
                taker = self._better_owner(tp)
                if taker is not None:
                    self._move(self._moves.instead_of(tp, self._owner[tp], taker), taker)
                    moved = again = True
        return moved

    def _better_owner(self, tp: TopicPartition) -> str | None:
        """The member to which `tp` is to be moved."""
        count, former = len(self._result[self._owner[tp]]), self._former.get(tp)
        if former is not None and tp.topic in self._subscribed[former] and count > len(self._result[former]) + 1:
            return former
        fewest, name = next((fewest, name) for fewest, name in self._order if tp.topic in self._subscribed[name])
        return name if count > fewest + 1 else None

    def _move(self, tp: TopicPartition, taker: str) -> None:
        owner = self._owner[tp]
        self._moves.add(tp, owner, taker)
        self._order.count(owner, len(self._result[owner]), -1)
        self._order.count(taker, len(self._result[taker]), 1)
        del self._result[owner][tp]
        self._spread[tp.topic][owner] -= 1
        self._put(tp, taker)
        self._balanced = None

    def _is_balanced(self) -> bool:
        """Whether no member could get a partition from one that has at least two more."""
        if self._balanced is None:
            self._balanced = not any(self._could_get_more(name, count) for count, name in self._order if count + 1 < self._order.most)
        return self._balanced

    def _could_get_more(self, name: str, count: int) -> bool:
        if count == self._sizes[name]:
            return False
        result = self._result
        return any(
            number and len(result[owner]) > count + 1 for topic in self._subscribed[name] for owner, number in self._spread[topic].items()
        )


class Movements:
    """The partitions that were moved, and between which members."""

    __slots__ = ("_by_topic", "_pairs")

    def __init__(self) -> None:
        self._pairs: dict[TopicPartition, tuple[str, str]] = {}
        self._by_topic: dict[str, dict[tuple[str, str], PartitionSet]] = {}

    def add(self, tp: TopicPartition, owner: str, taker: str) -> None:
        """`tp` is moved from `owner` to `taker`; what it was before counts as its origin."""
        pair = self._pairs.pop(tp, None)
        topic = self._by_topic.setdefault(tp.topic, {})
        if pair is not None:
            topic[pair].remove(tp)
            if not topic[pair]:
                del topic[pair]
            owner = pair[0]
        if owner != taker:
            self._pairs[tp] = owner, taker
            topic.setdefault((owner, taker), PartitionSet()).add(tp)

    def instead_of(self, tp: TopicPartition, owner: str, taker: str) -> TopicPartition:
        """The partition to move from `owner` to `taker`: one of the same topic that was moved the other way, if there is one."""
        source, _ = self._pairs.get(tp, (owner, taker))
        moved_back = self._by_topic.get(tp.topic, {}).get((taker, source))
        return tp if moved_back is None else moved_back.first()


def _imbalance(shares: Iterable[Collection[TopicPartition]]) -> int:
    """The sum, over all pairs of members, of the difference of their numbers of partitions."""
    counts = sorted(map(len, shares))
    return sum(count * (2 * place - len(counts) + 1) for place, count in enumerate(counts))
