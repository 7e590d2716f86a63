"""Dropped records, in plain Python. Rule: a record that is dropped by a policy is counted and reported, and nothing of it is kept.

The counterpart of `_drop.pxi`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from pykafka4.wire.records._plain_account import Account
from pykafka4.wire.records._plain_arguments import UNDECIDED, Item
from pykafka4.wire.records._plain_batch import FAILED, Batch
from pykafka4.wire.records._plain_topic import Callback, Handle, Topic
from pykafka4.wire.records.common import drops_of, fresh

__all__ = ["Dropping"]


@attrs.define(eq=False)
class Dropped:
    """The records of one partition that were dropped for one reason; they share a batch without records."""

    batch: Batch
    records: int = 0
    first_ms: int = 0
    last_ms: int = 0

    @property
    def place(self) -> tuple[str, int, str]:
        """(Topic, partition or -1, reason.)"""
        return self.batch.topic, self.batch.partition, self.batch._code


class Dropping(Account[Batch]):
    """The account with the records that were dropped."""

    _call_dropped: Callable[[Callback, Any], object] | None = None

    def __init__(self, *how: Any) -> None:
        """`how` are the arguments of `Account`."""
        super().__init__(*how)
        self._drops: dict[str, dict[str, dict[int, Dropped]]] = {}  # topic: reason: partition or -1
        self._fresh_drops: list[Dropped] = []  # those with records that `take_dropped` has not returned

    def _drop(self, t: Topic[Batch], r: Item, code: str, cause: BaseException | None, callback: Callback | None, delivery: Handle) -> None:
        """Drop `r`, for the reason `code`. It counts as dropped also if `call_dropped` raises, which may have its callback by then."""
        partition = r.decided if t.direct and 0 <= r.decided < t.count else UNDECIDED
        known = drops_of(self._drops, t.name, code, self._hooks.client_id, cause)
        found = known.get(partition) or known.setdefault(partition, Dropped(self._dropped_batch(t, partition, code, cause)))
        with self._lock():
            self._check_open()
            delivery._place = found.batch, 0
            if not found.records:
                self._fresh_drops.append(found)
            found.first_ms = min(found.first_ms, r.timestamp) if found.records else r.timestamp
            found.last_ms = max(found.last_ms, r.timestamp) if found.records else r.timestamp
            found.records += 1
            self.dropped += 1
        if callback is not None and self._call_dropped is not None:
            self._call_dropped(callback, delivery)  # last, as it may read the counters

    def _dropped_batch(self, t: Topic[Batch], partition: int, code: str, cause: BaseException | None) -> Batch:
        batch = Batch(self, t, partition, 0.0)
        batch.state, batch._code, batch._cause, batch._settled, batch._dropped = FAILED, code, fresh(cause), True, True
        return batch

    def take_dropped(self) -> list[Any]:
        """The records dropped since the last call, as a flat list: see `dropped_rows`."""
        out: list[Any] = []
        with self._lock():
            taken, self._fresh_drops = self._fresh_drops, []
            for found in taken:
                out += (*found.place, found.records, found.first_ms, found.last_ms)
                found.records = 0
        return out
