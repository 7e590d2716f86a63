"""Defines the handle that has the outcome of an accepted record, in plain Python; `_delivery.pxi` is the compiled counterpart.

Invariant: a handle does not keep the bytes of an acknowledged batch alive.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NoReturn, final

from pykafka4.errors import DeliveryFailed, ForkedClientError, KafkaTimeoutError
from pykafka4.other_clients.tables import method_hint
from pykafka4.records import ProducerRecord, RecordMetadata
from pykafka4.wire.records._plain_arguments import Item
from pykafka4.wire.records._plain_batch import ACKED, FAILED, NAMES, SPLIT, Batch, call_back
from pykafka4.wire.records._plain_topic import PARKING
from pykafka4.wire.records.common import checked_callback, fresh

__all__ = ["Delivery"]


@final
class Delivery:
    """The handle that `send` returns: a promise of one record's outcome. A handle does not keep an acknowledged batch's memory."""

    __slots__ = ("_place", "_sizes", "timestamp_ms")

    def __init__(self, r: Item) -> None:
        self._place: tuple[Batch, int]  # (batch, the record's number there): replaced in one step, because several threads may read it
        self.timestamp_ms = r.timestamp
        self._sizes = tuple(-1 if data is None else len(data) for data in (r.key, r.value))

    def _found(self) -> tuple[Batch, int]:
        """(the batch that has the record after splits; the record's number there). Raises RuntimeError if the record was not accepted."""
        batch, index = place = self._place if hasattr(self, "_place") else _refuse()
        while batch.state == SPLIT:
            start, there, batch = next(run for run in reversed(batch._parts) if index >= run[0])
            index += there - start
            self._place = place = batch, index
        return place

    def _home(self) -> Batch:
        return self._found()[0]

    @property
    def topic(self) -> str:
        """The record's topic."""
        return self._home().topic

    @property
    def partition(self) -> int | None:
        """The record's partition; None until one is chosen."""
        partition = self._home().partition
        return partition if partition >= 0 else None

    def done(self) -> bool:
        """Whether there is an outcome."""
        return self._home().state >= ACKED

    @property
    def settled(self) -> bool:
        """Whether there is an outcome and the callbacks of the batch have returned."""
        return self._home()._settled

    def _await_outcome(self, timeout: float | None) -> tuple[Batch, int]:
        if not self.done() and not self._place[0]._acc._wait(self.done, timeout):
            where = self.topic if self.partition is None else f"{self.topic}-{self.partition}"
            raise KafkaTimeoutError(
                f"{where}: not acknowledged within {timeout:g} s; it is still being sent, and Producer.status() says why"
            )
        return self._found()

    def _failure(self, b: Batch, index: int) -> DeliveryFailed:
        if b._dropped:  # the application asked for the drop: the end of its `with` block does not raise it as a failure
            return DeliveryFailed(b.topic, self.partition, b._code, b._outcome_written, None, fresh(b._cause))
        if index not in b._seen_failures:  # each failure counts once as seen, however often the application asks
            b._seen_failures.add(index)
            if b._acc._failure_seen is not None:
                b._acc._failure_seen(b._failed_before)
        return DeliveryFailed(b.topic, self.partition, b._code, b._outcome_written, b._record(index), fresh(b._cause))

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait until the record is acknowledged; return its offset and partition (`RecordMetadata`).

        `timeout` is in seconds, None for no limit. Raises KafkaTimeoutError when that time has passed, DeliveryFailed if the record failed,
        ForkedClientError in a forked child if the record had no outcome before the fork.
        """
        b, index = self._await_outcome(timeout)
        if b.state == FAILED:
            raise self._failure(b, index)
        offset = b._base_offset + index if b._base_offset >= 0 else -1
        timestamp = b._append_time if b._append_time >= 0 else self.timestamp_ms
        key_size, value_size = self._sizes
        return RecordMetadata(b.topic, b.partition, offset, timestamp, key_size, value_size, b.maybe_repeated)

    def exception(self, timeout: float | None = None) -> DeliveryFailed | None:
        """The DeliveryFailed of a failed record, None for an acknowledged record; waits as `result` does."""
        b, index = self._await_outcome(timeout)
        return self._failure(b, index) if b.state == FAILED else None

    def lost(self) -> list[ProducerRecord]:
        """[the record] if it failed, was not dropped and can be decoded; otherwise []. The failure does not count as seen."""
        b, index = self._found()
        record = b._record(index) if b.state == FAILED and not b._dropped else None
        return [] if record is None else [record]

    def add_done_callback(self, fn: Callable[[Delivery], object]) -> None:
        """Call `fn(delivery)` once, on the callback executor, when there is an outcome (at once if there is one already)."""
        checked_callback(self.topic, "a callback", fn)
        acc = self._place[0]._acc
        if isinstance(acc.refusal, ForkedClientError):  # no outcome arrives in this process, and a thread of the parent may hold the lock
            raise acc.refusal.again()
        with acc._lock():
            b, index = self._found()
            pending = b.state < ACKED
            if pending:
                rows = b._extras if b.partition != PARKING else b._home.parked[index - b._home.parked_first].extras
                rows.append((self, fn))
        if not pending:
            acc._submit(lambda: call_back(acc.client_id, fn, self))

    if not TYPE_CHECKING:  # with a `__getattr__` a type checker would accept every name

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(method_hint("Delivery", name, dir(type(self))))

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("cannot pickle 'Delivery' object")

    def __await__(self) -> Generator[Any, Any, RecordMetadata]:
        generator: Generator[Any, Any, RecordMetadata] = self._home()._acc._awaiting(self)
        return generator

    def __repr__(self) -> str:
        if not hasattr(self, "_place"):
            return "<Delivery of a record that was not accepted>"
        b = self._home()
        if b.partition == PARKING:
            return f"<Delivery {b.topic} waiting for a partition>"
        return f"<Delivery {b.topic}-{b.partition} {NAMES[b.state]}>" if b.partition >= 0 else f"<Delivery {b.topic} {NAMES[b.state]}>"


def _refuse() -> NoReturn:
    raise RuntimeError("this record was not accepted: its send raised an exception")
