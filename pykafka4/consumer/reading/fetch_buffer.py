"""Fetch buffer. Rule: items are taken in order of arrival, and the items of one claim are found without looking at others.

Chunks, and markers between them, that wait for `poll`. Only the thread that polls uses it.

Ctrl-C can arrive after every call and in every pass of a loop. Therefore each step can be repeated, and an interrupted step leaves the
oldest items of a claim in the queue: no item is taken before an older one of the same partition.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from pykafka4.core.subscription import Claim
from pykafka4.wire.records.hot import Chunk

__all__ = ["FetchBuffer"]


class FetchBuffer:
    """All items by claim, and a queue of those that may be taken: items of paused partitions are set aside."""

    __slots__ = ("_items", "_queue", "_with_chunks_aside", "consumed")

    def __init__(self) -> None:
        self.consumed = 0  # bytes read or dropped since the beginning
        self._queue: OrderedDict[Any, None] = OrderedDict()
        # Of each claim, in order of arrival; claims without items are absent. Mostly there is one item, for which a list is the smallest.
        self._items: dict[Claim, list[Any]] = {}
        self._with_chunks_aside: dict[Claim, None] = {}

    @property
    def first(self) -> Any:
        """The item to take next; None if the queue is empty."""
        return next(iter(self._queue), None)

    def first_of(self, claim: Claim) -> Any:
        """The oldest item of `claim`, or None."""
        items = self._items.get(claim)
        return items[0] if items else None

    def append(self, claim: Claim, item: Any, *, aside: bool) -> None:
        """Add an item; `aside` if its partition is paused."""
        items = self._items.get(claim)
        if items is None:
            self._items[claim] = [item]
        elif items[-1] is not item:
            items.append(item)
        if aside:
            self._keep_aside(claim, item)
        else:
            self._queue[item] = None

    def pop(self, claim: Claim, item: Any) -> None:
        """Remove the first item of the queue; it was consumed."""
        size = item.size if item.__class__ is Chunk else 0
        items = self._items[claim]
        last = len(items) == 1
        del self._queue[item]  # from here to the end no signal handler runs
        claim.consumed += size
        self.consumed += size
        if last:
            del self._items[claim]
        else:
            del items[0]

    def stick(self, claim: Claim, item: Any) -> None:
        """What is first of `claim` cannot be read: put `item`, which says so, at the end of the queue, and drop all others to make room.

        The first item stays in the queue until `item` is there: if this is interrupted, it is looked at once more.
        """
        claim.stuck = True
        items, size = self._items[claim], 0
        first = items[0]
        for old in reversed(items):
            if old is not first:
                self._queue.pop(old, None)
            if old.__class__ is Chunk:
                size += old.size
        del self._queue[first]  # from here to the end no signal handler runs
        self._queue[item] = None
        self._items[claim] = [item]
        claim.consumed += size
        self.consumed += size

    def let_go(self, claim: Claim, size: int) -> None:
        """Count bytes that arrived for a claim that has ended."""
        claim.consumed += size
        self.consumed += size

    def drop(self, claims: Iterable[Claim]) -> None:
        """Drop the items of these claims unread, newest first."""
        for claim in claims:
            items = self._items.get(claim)
            if items is None:
                continue
            size = 0
            for item in reversed(items):
                self._queue.pop(item, None)
                if item.__class__ is Chunk:
                    size += item.size
            self._with_chunks_aside.pop(claim, None)  # the last call: no signal handler runs between what follows
            claim.consumed += size
            self.consumed += size
            del self._items[claim]

    # ---------------------------------------------------------------- paused partitions

    def set_aside(self, claims: Iterable[Claim]) -> None:
        """Take the items of these claims out of the queue, newest first."""
        for claim in claims:
            for item in reversed(self._items.get(claim, ())):
                self._keep_aside(claim, item)
                self._queue.pop(item, None)

    def bring_back(self, claims: Iterable[Claim]) -> None:
        """Put the items of these claims at the end of the queue."""
        for claim in claims:
            for item in self._items.get(claim, ()):
                self._queue[item] = None
            self._with_chunks_aside.pop(claim, None)

    def only_aside(self) -> dict[Claim, Chunk]:
        """If nothing in the queue can be read: the paused claims that have data, with the oldest chunk of each. Otherwise nothing."""
        found: dict[Claim, Chunk] = {}
        for claim in self._with_chunks_aside if all(_claim_of(item).stuck for item in self._queue) else ():
            for item in self._items.get(claim, ()):
                if item.__class__ is Chunk:
                    found.setdefault(claim, item)
        return found

    def _keep_aside(self, claim: Claim, item: Any) -> None:
        """Set an item aside. It may stay for long: a copy of its own does not keep the whole response in memory, uncounted."""
        if item.__class__ is Chunk:
            item.own()
            self._with_chunks_aside[claim] = None


def _claim_of(item: Any) -> Claim:
    claim: Claim = item.serial if item.__class__ is Chunk else item.claim
    return claim
