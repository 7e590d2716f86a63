"""Assigns partitions to members of the consumer protocol. Invariant: a partition goes to at most one subscriber of its topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias
from uuid import UUID

__all__ = ["DEFAULT", "REMOTE_ASSIGNORS", "Part", "Shares", "by_topic"]

Part: TypeAlias = tuple[UUID, int]  # topic id, partition
Shares: TypeAlias = dict[str, set[Part]]  # member id: its partitions
Subscribers: TypeAlias = Mapping[UUID, Sequence[str]]  # topic id: ids of the members that are subscribed to it

DEFAULT: Final = "uniform"


def by_topic(parts: Iterable[Part]) -> dict[UUID, list[int]]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, number in sorted(parts):
        topics.setdefault(topic_id, []).append(number)
    return topics


def uniform(subscribers: Subscribers, sizes: Mapping[UUID, int], before: Shares) -> Shares:
    """Members get about the same number of partitions, as far as their subscriptions allow, and tend to keep their own."""
    members = sorted({member for those in subscribers.values() for member in those})
    shares: Shares = {member: set() for member in members}
    parts = [(topic, number) for topic in sorted(subscribers) for number in range(sizes[topic]) if subscribers[topic]]
    most = -(-len(parts) // max(len(members), 1))
    owners = {part: member for member, owned in before.items() for part in owned}
    open_ones = []
    for part in parts:
        owner = owners.get(part, "")
        if owner in subscribers[part[0]] and len(shares[owner]) < most:
            shares[owner].add(part)
        else:
            open_ones.append(part)
    for part in open_ones:
        member = min(subscribers[part[0]], key=lambda member: (len(shares[member]), member))
        shares[member].add(part)
    _level(shares, subscribers)
    return shares


def _level(shares: Shares, subscribers: Subscribers) -> None:
    """Move single partitions until no member has at least two more than another member that could get one of them."""
    while True:
        for member in sorted(shares, key=lambda member: (-len(shares[member]), member)):
            moves = (
                (part, other)
                for part in sorted(shares[member])
                for other in subscribers[part[0]]
                if len(shares[other]) + 1 < len(shares[member])
            )
            move = next(moves, None)
            if move is not None:
                shares[member].discard(move[0])
                shares[move[1]].add(move[0])
                break
        else:
            return


def range_(subscribers: Subscribers, sizes: Mapping[UUID, int], before: Shares) -> Shares:
    shares: Shares = {member: set() for those in subscribers.values() for member in those}
    for topic, those in subscribers.items():
        members, start = sorted(those), 0
        for number, member in enumerate(members):
            count = sizes[topic] // len(members) + (number < sizes[topic] % len(members))
            shares[member].update((topic, partition) for partition in range(start, start + count))
            start += count
    return shares


REMOTE_ASSIGNORS: Final[Mapping[str, Callable[[Subscribers, Mapping[UUID, int], Shares], Shares]]] = {"uniform": uniform, "range": range_}
