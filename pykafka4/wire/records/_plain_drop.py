"""Dropped records, in plain Python. Rule: a record that is dropped by a policy is counted and reported, and nothing of it is kept.

The counterpart of `_drop.pxi`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from pykafka4.wire.records._plain_account import Account
from pykafka4.wire.records._plain_arguments import Item
from pykafka4.wire.records._plain_batch import FAILED, Batch
from pykafka4.wire.records._plain_topic import Callback, Handle, Topic
from pykafka4.wire.records.common import fresh, warn_dropped

__all__ = ["Dropping"]


@attrs.define(eq=False)
class Dropped:
    """The records of one partition that were dropped for one reason; they share a batch without records."""

    batch: Batch
    records: int = 0
    first_ms: int = 0
    last_ms: int = 0


class Dropping(Account[Batch]):
    """The account with the records that were dropped."""

    _call_dropped: Callable[[Callback, Any], object] | None = None

    def __init__(self, *how: Any) -> None:
        """`how` are the arguments of `Account`."""
        super().__init__(*how)
        self._dropped: dict[tuple[str, int, str], Dropped] = {}  # by topic, partition or -1, reason

    def _drop(self, t: Topic[Batch], r: Item, code: str, cause: BaseException | None, callback: Callback | None, delivery: Handle) -> None:
        """Drop `r`, for the reason `code`. Raises what `call_dropped` raises; then it does not count."""
        key = t.name, -1 if r.free or not t.direct else r.partition, code
        found = self._dropped.get(key) or self._first_dropped(t, key, cause)
        with self._lock():
            self._check_open()
            delivery._place = found.batch, 0
            found.first_ms = min(found.first_ms, r.timestamp) if found.records else r.timestamp
            found.last_ms = max(found.last_ms, r.timestamp) if found.records else r.timestamp
            self._count_dropped(found, 1)
        if callback is not None and self._call_dropped is not None:
            try:
                self._call_dropped(callback, delivery)  # last, as it may read the counters
            except BaseException:
                with self._lock():
                    self._count_dropped(found, -1)
                del delivery._place  # it has no outcome: it was refused
                raise

    def _count_dropped(self, found: Dropped, records: int) -> None:
        found.records += records
        self.dropped += records

    def _first_dropped(self, t: Topic[Batch], key: tuple[str, int, str], cause: BaseException | None) -> Dropped:
        batch = Batch(self, t, key[1], 0.0)
        batch.state, batch._code, batch._cause, batch._settled, batch._dropped = FAILED, key[2], fresh(cause), True, True
        warn_dropped(self._hooks.client_id, self._dropped, key, cause)
        return self._dropped.setdefault(key, Dropped(batch))

    def take_dropped(self) -> list[tuple[str, int, str, int, int, int]]:
        """(topic, partition or -1, reason, how many, lowest and highest timestamp) of the records dropped since the last call."""
        with self._lock():
            out = [(*key, found.records, found.first_ms, found.last_ms) for key, found in self._dropped.items() if found.records]
            for found in self._dropped.values():
                found.records = 0
            return out
