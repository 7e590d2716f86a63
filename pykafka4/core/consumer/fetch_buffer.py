"""Fetch buffer. Rule: items are taken in order of arrival, and those of one claim are found without a look at any other.

What waits for `poll`: chunks, and markers among them. Only the thread that polls comes here.

Ctrl-C can arrive after every call and at every turn of a loop. So each step can be done again, and what an interrupted one leaves of a
claim in the line is always its beginning: no item is taken before an older one of the same partition.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from pykafka4.core.subscription import Claim
from pykafka4.wire.records.hot import Chunk

__all__ = ["FetchBuffer"]


class FetchBuffer:
    """Everything that waits, by claim; and a line of what may be taken: that of paused partitions is kept out of it."""

    __slots__ = ("_items", "_line", "_with_chunks_aside", "consumed")

    def __init__(self) -> None:
        self.consumed = 0  # bytes read or dropped since the beginning
        self._line: OrderedDict[Any, None] = OrderedDict()
        # Of each claim, in order of arrival; one without items has no entry. Mostly there is one item, for which a list is the smallest.
        self._items: dict[Claim, list[Any]] = {}
        self._with_chunks_aside: dict[Claim, None] = {}

    @property
    def first(self) -> Any:
        """What is taken next, None if nothing waits in the line."""
        return next(iter(self._line), None)

    def first_of(self, claim: Claim) -> Any:
        """What comes first of `claim`, None if nothing of it waits."""
        items = self._items.get(claim)
        return items[0] if items else None

    def append(self, claim: Claim, item: Any, *, aside: bool) -> None:
        """`item` has arrived; `aside` says that the partition is paused."""
        items = self._items.get(claim)
        if items is None:
            self._items[claim] = [item]
        elif items[-1] is not item:
            items.append(item)
        if aside:
            self._keep_aside(claim, item)
        else:
            self._line[item] = None

    def pop(self, claim: Claim, item: Any) -> None:
        """The first of the line is done with."""
        size = item.size if item.__class__ is Chunk else 0
        items = self._items[claim]
        last = len(items) == 1
        del self._line[item]  # from here to the end no signal handler runs
        claim.consumed += size
        self.consumed += size
        if last:
            del self._items[claim]
        else:
            del items[0]

    def let_go(self, claim: Claim, size: int) -> None:
        """So many bytes came for a claim that had ended."""
        claim.consumed += size
        self.consumed += size

    def drop(self, claims: Iterable[Claim]) -> None:
        """What waits of these goes unread, the last first."""
        for claim in claims:
            items = self._items.get(claim)
            if items is None:
                continue
            size = 0
            for item in reversed(items):
                self._line.pop(item, None)
                if item.__class__ is Chunk:
                    size += item.size
            self._with_chunks_aside.pop(claim, None)  # the last call: no signal handler runs between what follows
            claim.consumed += size
            self.consumed += size
            del self._items[claim]

    # ---------------------------------------------------------------- paused partitions

    def set_aside(self, claims: Iterable[Claim]) -> None:
        """Keep these out of the line, the last item first."""
        for claim in claims:
            for item in reversed(self._items.get(claim, ())):
                self._keep_aside(claim, item)
                self._line.pop(item, None)

    def bring_back(self, claims: Iterable[Claim]) -> None:
        """Put these into the line, at its end."""
        for claim in claims:
            for item in self._items.get(claim, ()):
                self._line[item] = None
            self._with_chunks_aside.pop(claim, None)

    def only_aside(self) -> dict[Claim, Chunk]:
        """When nothing may be taken: the paused claims with data, and the first chunk of each."""
        found: dict[Claim, Chunk] = {}
        for claim in () if self._line else self._with_chunks_aside:
            for item in self._items.get(claim, ()):
                if item.__class__ is Chunk:
                    found.setdefault(claim, item)
        return found

    def _keep_aside(self, claim: Claim, item: Any) -> None:
        """Nobody knows for how long: a small chunk must not hold on to the large response it came in, which nobody counts."""
        if item.__class__ is Chunk:
            item.own()
            self._with_chunks_aside[claim] = None
