"""Keeps chunks, and the markers between them, until `poll` takes them. Invariant: `poll` takes the items of a claim in order of arrival.

The application's thread uses the buffer; other threads read only `consumed`. A step that Ctrl-C ends in the middle may leave a buffer in
disorder; `keep` makes a new one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from pykafka4.core.subscription import Claim
from pykafka4.wire.records.hot import Chunk

__all__ = ["FetchBuffer"]


class FetchBuffer:
    """The items of each claim, and a queue of the claims that may be read. Paused claims, for example, are not in the queue."""

    __slots__ = ("_items", "_queue", "consumed")

    def __init__(self) -> None:
        self.consumed = 0  # bytes read or dropped since the beginning
        self._queue: OrderedDict[Claim, None] = OrderedDict()
        # Claims without items are absent. Usually a claim has one item, and a short list takes less memory than a deque.
        self._items: dict[Claim, list[Any]] = {}

    @property
    def first(self) -> Any:
        """The next item for `poll`, or None."""
        for claim in self._queue:
            return self._items[claim][0]
        return None

    def first_of(self, claim: Claim) -> Any:
        items = self._items.get(claim)
        return items[0] if items else None

    def append(self, claim: Claim, item: Any, *, aside: bool) -> None:
        """`aside` keeps the claim out of the queue, for example because the partition is paused."""
        self._items.setdefault(claim, []).append(item)
        if aside:
            _own(item)
        else:
            self._queue[claim] = None

    def pop(self, claim: Claim) -> None:
        """Remove the oldest item of `claim`. A queued claim with more items moves to the end of the queue: backlogs are read in turn."""
        items = self._items[claim]
        self.let_go(claim, items.pop(0))
        if not items:
            del self._items[claim]
            self._queue.pop(claim, None)
        elif claim in self._queue:
            self._queue.move_to_end(claim)

    def block(self, claim: Claim, item: Any) -> None:
        """Stop reading `claim`: replace its items with `item`, the reason."""
        claim.stuck = True
        items = self._items[claim]
        # One store, so that Ctrl-C finds the old items or the reason: `recover` keeps the items of a claim that has not begun, and does not
        # fetch them again, so an error that is lost here would never be raised.
        self._items[claim] = [item]
        for old in items:
            self.let_go(claim, old)
        self._queue[claim] = None
        self._queue.move_to_end(claim)

    def drop(self, claims: Iterable[Claim]) -> None:
        for claim in claims:
            for item in self._items.pop(claim, ()):
                self.let_go(claim, item)
            self._queue.pop(claim, None)

    def let_go(self, claim: Claim, item: Any) -> None:
        """Count the bytes of an item that was read or dropped, even of an item that arrived for an ended claim."""
        if item.__class__ is Chunk:
            claim.consumed += item.size
            self.consumed += item.size

    def keep(self, claims: Iterable[Claim], arrived: int, arriving: Any) -> FetchBuffer:
        """A new buffer with only the items of these claims, all set aside. The other bytes of `arrived` count as read or dropped.

        `arriving` is left out, because it arrives once more: `drain` may have been interrupted after it added the item to the buffer, and
        before it removed the item from `arrivals` and added its bytes to `arrived`.
        """
        kept = FetchBuffer()
        found = {claim: [item for item in self._items[claim] if item is not arriving] for claim in claims}
        kept._items = {claim: items for claim, items in found.items() if items}  # an interrupted `pop` leaves an empty list
        kept.consumed = arrived - sum(item.size for items in kept._items.values() for item in items if item.__class__ is Chunk)
        return kept

    @property
    def claims(self) -> list[Claim]:
        return list(self._items)

    # ---------------------------------------------------------------- paused partitions

    def set_aside(self, claims: Iterable[Claim]) -> None:
        for claim in claims:
            self._queue.pop(claim, None)
            for item in self._items.get(claim, ()):
                _own(item)

    def bring_back(self, claims: Iterable[Claim]) -> None:
        for claim in claims:
            if claim in self._items:
                self._queue[claim] = None

    def only_aside(self) -> list[Claim]:
        """The claims set aside that have data, if no claim in the queue can be read; otherwise an empty list."""
        if not all(claim.stuck for claim in self._queue):
            return []
        found = [(claim, items) for claim, items in self._items.items() if claim not in self._queue]
        return [claim for claim, items in found if any(item.__class__ is Chunk for item in items)]


def _own(item: Any) -> None:
    """Give a chunk that is set aside its own bytes: a view would keep the complete response in memory, uncounted."""
    if item.__class__ is Chunk:
        item.copy_bytes()
