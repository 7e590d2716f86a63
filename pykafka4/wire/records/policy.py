"""Describes how batches of a topic are filled and compressed. The accumulator asks for a topic's policy when it meets the topic.

Both cores apply policies: limits of a batch in `is_reached` and `_plain_batch`, lingers in `LingerList` and `reference`, limits of combined
batches in `LingerList` and `_plain_account`. (`is_reached` and `LingerList` are in `_policy.pxi`.) A batch whose linger has ended is sealed
when `core.producer.sender` can send it, at the latest after a part of its delivery timeout (`OPEN_SHARE`).
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

__all__ = ["Admission", "Policy"]


@attrs.frozen(eq=False)
class Admission:
    """A record's permission to pass a rate limit.

    Until `deadline` the record may wait for room or for partitions. The accumulator calls `give_back` if the record is refused or dropped.
    """

    deadline: float
    give_back: Callable[[], object]


@attrs.frozen
class Policy:
    """The limits, the codec and the admission of records for the batches of a topic.

    `linger` is in seconds. A batch is sealed at `batch_bytes` (of keys and values, at least 1 for each record) or `batch_records` (0: off).
    With `combined`, the open batches of all topics with the same `linger`, `batch_bytes` and `batch_records` count as one batch: all of
    them are due together. A batch is compressed with `codec` at `level` (None: the codec's default) if its records have
    `compression_min_bytes` or more. It is sent compressed if it became smaller and at most `compression_max_ratio` of the bytes are left.
    No batch grows beyond `max_message_bytes` (0: no limit), and a record that would exceed it alone is refused. `admit(deadline)`, if set,
    is called for each record: it may wait until `deadline`, or raise. It returns an Admission, None for a record that nothing limits, or
    the error with which the record is dropped.
    """

    linger: float
    codec: int = 0
    level: int | None = None
    batch_bytes: int = 0
    batch_records: int = 0
    combined: bool = False
    compression_min_bytes: int = 0
    compression_max_ratio: float = 1.0
    max_message_bytes: int = 0
    admit: Callable[[float], Admission | Exception | None] | None = None

    @property
    def limited(self) -> bool:
        return self.batch_bytes > 0 or self.batch_records > 0
