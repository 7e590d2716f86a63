"""Policy. Rule: what holds for a topic's batches is decided once, when the accumulator first meets the topic."""

from __future__ import annotations

from collections.abc import Callable

import attrs

__all__ = ["Place", "Policy"]


@attrs.frozen(eq=False)
class Place:
    """That a record may pass a rate limit. It may wait for other things until `deadline`; one that is not sent after all gives it back."""

    deadline: float
    give_back: Callable[[], object]


@attrs.frozen
class Policy:
    """How the batches of a topic are filled and compressed, and which records it takes.

    `linger` is in seconds. A batch with `batch_bytes` (of keys and values, at least 1 each record) or `batch_records` is sealed (0: off).
    With `combined` these three hold for the open batches of all topics with the same three together: all of them are due at once.
    A batch is compressed with `codec` at `level` (None: the codec's default) if its records have `compression_min_bytes` or more, and sent
    like that if at most `compression_max_ratio` of the bytes are left. A record whose batch would have more than `max_message_bytes`
    (0: no such limit) is refused, and no batch grows beyond that. `admit(deadline)` is called for each record, if it is set: it may wait,
    until `deadline`, or raise. It returns a Place, None for a record that nothing limits, or the error for which the record is dropped.
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
    admit: Callable[[float], Place | Exception | None] | None = None

    @property
    def limited(self) -> bool:
        """Whether keys and values, or records, are counted."""
        return self.batch_bytes > 0 or self.batch_records > 0
