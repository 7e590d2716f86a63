"""Collects the outcomes of items of input. Invariant: an item is kept until it has an outcome; each failure is counted once, and the first
failures are reported with line numbers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat

from pykafka4.cli.records.inputs import Block
from pykafka4.wire.records.hot import Delivery

__all__ = ["MOST_FAILURES", "Outcomes"]

MOST_FAILURES = 1_000  # after this many failures the command stops: all later records would probably also fail


class Outcomes:
    def __init__(self, tell: Callable[[str], object], most_told: int = 20) -> None:
        """`tell` gets a text for each of the first `most_told` failures, and one more text if there are more failures."""
        self.sent = self.failed = self.lost = 0  # accepted records; records without success; accepted records without success
        self._tell, self._most_told = tell, most_told
        self._waiting: deque[tuple[Block, int, Sequence[Delivery]]] = deque()

    def add(self, block: Block, index: int, deliveries: Sequence[Delivery]) -> None:
        """Keep the deliveries of accepted items: the items of `block` from `index` on."""
        if deliveries:
            self.sent += len(deliveries)
            self._waiting.append((block, index, deliveries))

    def fail(self, block: Block, index: int, error: object) -> None:
        self.failed += 1
        if self.failed <= self._most_told:
            self._tell(f"{block.name_of(index)}: {error}")
        elif self.failed == self._most_told + 1:
            self._tell(f"more lines failed; only the first {self._most_told} are shown")

    def settle(self) -> None:
        waiting = self._waiting
        # The last delivery is usually the last to be done. So the check begins there, and ends at once for most blocks that are not done.
        while waiting and all(map(Delivery.done, reversed(waiting[0][2]))):
            block, index, deliveries = waiting.popleft()
            errors = [*map(Delivery.exception, deliveries, repeat(0))]
            if errors.count(None) == len(errors):
                continue
            for number, error in enumerate(errors, index):
                if error is not None:
                    self.lost += 1
                    self.fail(block, number, error)

    @property
    def open(self) -> int:
        return sum(len(deliveries) for _, _, deliveries in self._waiting)
