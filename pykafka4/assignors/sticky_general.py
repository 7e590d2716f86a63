"""Assigns partitions to members with different subscriptions. Invariant: partitions move only while a member has at least two partitions
more than another member that could get one of them.

1. Each member keeps the partitions that it owned and whose topics it is still subscribed to (with racks: only those with a replica in its
   rack).
2. Each partition that is left goes to the subscribed member with the fewest partitions (with racks: first to members in its
   racks or without a rack).
3. Partitions move one by one, as long as a move improves the balance. If a partition of a topic has moved from A to B, and another
   partition of the same topic should move from B to A, the first partition moves back instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappush, heapreplace

from pykafka4.assignors.interface import GroupMember, Topics
from pykafka4.assignors.java import PartitionSet, utf16
from pykafka4.assignors.racks import Racks
from pykafka4.records import TopicPartition

__all__ = ["GeneralAssignment"]


class TakerHeap:
    """The members that may get a partition, in a heap ordered by number of partitions and member id.

    The heap may have outdated entries. `first` replaces an entry whose count is not the member's current one; `lowered` adds an entry for a
    member that has lost a partition. So a partition that a member gains costs nothing until `first` is called.
    """

    __slots__ = ("_counts", "_heap")

    def __init__(self, counts: Mapping[str, int], ranks: Mapping[str, int], names: Iterable[str]) -> None:
        """`counts` has the current number of partitions of each member, and changes; `ranks` has the order of member ids."""
        self._counts = counts
        self._heap = [(counts[name], ranks[name], name) for name in names]
        heapify(self._heap)

    def first(self) -> str | None:
        """The member with the fewest partitions, the first by member id if there are several; None if the heap is empty."""
        heap, counts = self._heap, self._counts
        while heap:
            count, rank, name = heap[0]
            if count == counts[name]:
                return name
            heapreplace(heap, (counts[name], rank, name))
        return None

    def lowered(self, name: str, rank: int) -> None:
        heappush(self._heap, (self._counts[name], rank, name))


class GeneralAssignment:
    """Makes one assignment. `owned` has the members, in Java's order, with the partitions that they owned; `former` has earlier owners."""

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
        self._spread: dict[str, Counter[str]] = {topic: Counter() for topic in topics}  # by topic: number of partitions of each member
        # As in Java: partitions with the fewest possible owners first.
        in_order = sorted(topics, key=lambda topic: (len(self._takers[topic]), topic))
        self._every = [each.tp for topic in in_order for each in topics[topic]]
        self._sizes = {name: sum(len(topics[topic]) for topic in wanted) for name, wanted in self._subscribed.items()}
        self._counts = dict.fromkeys(self._subscribed, 0)
        self._must_revoke = self._keep(owned)
        self._ranks = {name: rank for rank, name in enumerate(sorted(self._subscribed, key=utf16))}
        self._heaps: dict[str, TakerHeap] = {}  # by topic; topics with the same members share one
        self._heaps_of: dict[str, list[TakerHeap]] = {name: [] for name in self._subscribed}
        self._share_heaps()
        # By heap and set of racks: the members with a rack in the set, or without a rack.
        self._near: dict[tuple[TakerHeap, frozenset[str]], TakerHeap] = {}
        self._moves = Movements()
        self._movable = [topic for topic, takers in self._takers.items() if len(takers) > 1]
        self._uneven: str | None = None  # a topic with a partition that can move, found by the last check

    def _share_heaps(self) -> None:
        shared: dict[tuple[str, ...], TakerHeap] = {}
        for topic, names in self._takers.items():
            heap = shared.get(key := tuple(names))
            if heap is None:
                heap = shared[key] = TakerHeap(self._counts, self._ranks, names)
                for name in names:
                    self._heaps_of[name].append(heap)
            self._heaps[topic] = heap

    def build(self) -> dict[str, list[TopicPartition]]:
        had_any = bool(self._owner)
        rest = [tp for tp in self._every if tp not in self._owner]
        left = [tp for tp in rest if not (self._racks.members and self._place(tp, self._takers_near(tp)))]
        for tp in left:
            self._place(tp, self._heaps[tp.topic])
        movable = set(self._movable)
        taking_part = [name for name in self._result if self._takes_part(name, movable)]
        before = {name: dict(self._result[name]) for name in taking_part}
        if not self._must_revoke:  # first move only partitions that no member owned, so that fewer owned ones move
            self._balance([tp for tp in rest if tp.topic in movable])
        moved = self._balance([tp for tp in self._every if tp.topic in movable])
        # If the moves have not improved the balance as a whole, they are undone, so that owned partitions stay.
        if had_any and moved and _imbalance(self._result[name] for name in taking_part) >= _imbalance(before.values()):
            self._result |= before
        return {name: list(tps) for name, tps in self._result.items()}

    def _keep(self, owned: Mapping[str, Collection[TopicPartition]]) -> bool:
        """Carry out step 1; return whether a member cannot keep one of its partitions."""
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
        self._counts[name] += 1
        self._spread[tp.topic][name] += 1

    def _place(self, tp: TopicPartition, takers: TakerHeap) -> bool:
        """Carry out step 2 for one partition; return False if no member can get it."""
        name = takers.first()
        if name is not None:
            self._put(tp, name)
        return name is not None

    def _takers_near(self, tp: TopicPartition) -> TakerHeap:
        """The subscribed members with a rack of `tp`, or without a rack."""
        key = self._heaps[tp.topic], self._racks.partitions[tp]
        found = self._near.get(key)
        if found is None:
            near = (name for name in self._takers[tp.topic] if not self._racks.differ(name, tp))
            found = self._near[key] = TakerHeap(self._counts, self._ranks, near)
        return found

    def _takes_part(self, name: str, movable: Collection[str]) -> bool:
        """Whether the member may lose or get partitions when the assignment is balanced."""
        mine = self._result[name]
        return len(mine) < self._sizes[name] or any(tp.topic in movable for tp in mine)

    # ---- step 3

    def _balance(self, tps: Sequence[TopicPartition]) -> bool:
        """Move partitions of `tps` until no move improves the balance; return whether a partition was moved."""
        moved, again = False, True
        while again and not self._is_balanced():
            again = False
            for tp in tps:
                taker = self._better_owner(tp)
                if taker is not None:
                    self._move(self._moves.instead_of(tp, self._owner[tp], taker), taker)
                    moved = again = True
                    if self._is_balanced():
                        break
        return moved

    def _better_owner(self, tp: TopicPartition) -> str | None:
        """The member to which `tp` should move, preferably a former owner; None if no move improves the balance."""
        counts, former = self._counts, self._former.get(tp)
        count = counts[self._owner[tp]]
        if former is not None and tp.topic in self._subscribed[former] and count > counts[former] + 1:
            return former
        name = self._heaps[tp.topic].first()
        return name if name is not None and count > counts[name] + 1 else None

    def _move(self, tp: TopicPartition, taker: str) -> None:
        owner = self._owner[tp]
        self._moves.add(tp, owner, taker)
        del self._result[owner][tp]
        self._counts[owner] -= 1
        self._spread[tp.topic][owner] -= 1
        for heap in self._heaps_of[owner]:
            heap.lowered(owner, self._ranks[owner])
        self._put(tp, taker)

    def _is_balanced(self) -> bool:
        """Whether no member can get a partition from a member with at least two more partitions."""
        if self._uneven is None or not self._is_uneven(self._uneven):
            self._uneven = next(filter(self._is_uneven, self._movable), None)
        return self._uneven is None

    def _is_uneven(self, topic: str) -> bool:
        name, counts = self._heaps[topic].first(), self._counts
        return name is not None and any(number and counts[owner] > counts[name] + 1 for owner, number in self._spread[topic].items())


class Movements:
    """The partitions that were moved, by the pair of members (origin, current owner)."""

    __slots__ = ("_by_topic", "_pairs")

    def __init__(self) -> None:
        self._pairs: dict[TopicPartition, tuple[str, str]] = {}
        self._by_topic: dict[str, dict[tuple[str, str], PartitionSet]] = {}

    def add(self, tp: TopicPartition, owner: str, taker: str) -> None:
        """Record the move of `tp` from `owner` to `taker`.

        If `tp` has moved before, its first owner stays the origin. A partition that is back at its origin is no longer recorded.
        """
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
        """A partition of the same topic that has moved from `taker` to the origin of `tp`, otherwise `tp`.

        If `tp` has not moved yet, its origin is `owner`.
        """
        source, _ = self._pairs.get(tp, (owner, taker))
        moved_back = self._by_topic.get(tp.topic, {}).get((taker, source))
        return tp if moved_back is None else moved_back.first()


def _imbalance(shares: Iterable[Collection[TopicPartition]]) -> int:
    """The sum, over all pairs of members, of the difference between their numbers of partitions."""
    counts = sorted(map(len, shares))
    return sum(count * (2 * place - len(counts) + 1) for place, count in enumerate(counts))
