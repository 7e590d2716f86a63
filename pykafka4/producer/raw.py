"""Sends complete record batches. Invariant: a batch is accepted or refused as a unit; its handle is done when each record has its outcome.

Brokers may refuse a batch as too large, or refuse some of its records. Then the sender splits the batch, and the handle follows all parts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, final

import attrs

from pykafka4.errors import DeliveryFailed, KafkaTimeoutError
from pykafka4.misuse import check_topic
from pykafka4.producer.deliveries import Deliveries
from pykafka4.producer.topics import TopicPolicies
from pykafka4.wire.records.common import checked_callback
from pykafka4.wire.records.hot import ACKED, FAILED, Accumulator, Batch, Delivery
from pykafka4.wire.records.policy import Admission
from pykafka4.wire.records.raw_batch import RawBatch, as_sendable

__all__ = ["RawDelivery", "RawMetadata", "RawSending"]

INFINITY: Final = float("inf")


@attrs.frozen
class RawMetadata:
    """The position of an acknowledged raw batch in the log.

    `base_offset` is the offset of the batch's first record; the other records follow the first one, unless the batch was split.
    `log_append_time_ms` is -1 if it is not known. An offset of -1, and `maybe_repeated`, mean the same as in
    `RecordMetadata`.
    """

    topic: str
    partition: int
    base_offset: int
    count: int
    log_append_time_ms: int
    maybe_repeated: bool


@final
class RawDelivery:
    """The handle that `send_raw` returns for all records of a batch. The handle does not keep an acknowledged batch's memory."""

    __slots__ = ("_batch", "_signal", "count")

    def __init__(self, batch: Batch, count: int, signal: Deliveries) -> None:
        self._batch, self.count, self._signal = batch, count, signal

    @property
    def topic(self) -> str:
        """The topic to which the batch is sent."""
        return self._batch.topic

    @property
    def partition(self) -> int:
        """The partition to which the batch is sent."""
        return self._batch.partition

    def done(self) -> bool:
        """Whether each record has its outcome."""
        return self._batch.done

    def result(self, timeout: float | None = None) -> RawMetadata:
        """Wait until all records of the batch are acknowledged; return the position of the batch in the log.

        Raises KafkaTimeoutError after `timeout` seconds (None: no limit). If records failed, raises the DeliveryFailed of the first failed
        record, with a note that has the number of failed records.
        """
        failure = self.exception(timeout)
        if failure is not None:
            raise failure
        parts = self._batch.leaves()
        offset, append_time, *_ = parts[0].outcome
        repeated = any(part.maybe_repeated for part in parts)
        return RawMetadata(self.topic, self.partition, offset, self.count, append_time, repeated)

    def exception(self, timeout: float | None = None) -> DeliveryFailed | None:
        """Wait as `result` does; return the DeliveryFailed of the first failed record, None for an acknowledged batch."""
        if not self._batch.done and not self._signal.wait(self.done, timeout):
            raise KafkaTimeoutError(
                f"{self.topic}-{self.partition}: not acknowledged within {timeout:g} s; the batch is still being sent, "
                "and Producer.status() says why"
            )
        failures: list[DeliveryFailed] = [part.handle().exception(0) for part in self._batch.leaves() if part.state == FAILED]
        if not failures:
            return None
        failed = sum(part.count for part in self._batch.leaves() if part.state == FAILED) or self.count  # a dropped batch has no count
        failures[0].add_note(f"pykafka4: failed records of the raw batch: {failed} of {self.count}")
        return failures[0]

    def add_done_callback(self, fn: Callable[[RawDelivery], object]) -> None:
        """Call `fn(delivery)` once, on the callback executor, when each record has its outcome (at once if the batch is done)."""
        checked_callback(self.topic, "a callback", fn)
        _WhenDone(self, fn).wait()

    def open_delivery(self) -> Delivery | None:
        """The handle of a record without an outcome; None if each record has its outcome."""
        part = next((part for part in self._batch.leaves() if part.state < ACKED), None)
        return None if part is None else part.handle()

    def last_delivery(self) -> Delivery:
        delivery: Delivery = self._batch.leaves()[-1].handle()
        return delivery

    def __await__(self) -> Generator[Any, Any, RawMetadata]:
        while (delivery := self.open_delivery()) is not None:
            yield from self._signal.until_done(delivery)
        return self.result(0)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("cannot pickle 'RawDelivery' object")

    def __repr__(self) -> str:
        state = "done" if self.done() else "waiting"
        return f"<RawDelivery {self.topic}-{self.partition} {self.count} records, {state}>"


class _WhenDone:
    """The batch may be split before it is done, so each callback looks for another part without an outcome."""

    __slots__ = ("_delivery", "_fn")

    def __init__(self, delivery: RawDelivery, fn: Callable[[RawDelivery], object]) -> None:
        self._delivery, self._fn = delivery, fn

    def wait(self) -> None:
        (self._delivery.open_delivery() or self._delivery.last_delivery()).add_done_callback(self)

    def __call__(self, _: Delivery) -> None:
        if self._delivery.done():
            self._fn(self._delivery)
        else:
            self.wait()


class RawSending:
    __slots__ = ("_acc", "_policies", "_signal")

    def __init__(self, acc: Accumulator, policies: TopicPolicies, signal: Deliveries) -> None:
        self._acc, self._policies, self._signal = acc, policies, signal

    def prepare(self, topic: str, batch: RawBatch, partition: int | None) -> tuple[str, int, RawBatch]:
        """Raises the producer's refusal, if any, before rebuilding the batch."""
        topic = check_topic(topic)
        if not isinstance(batch, RawBatch):
            raise TypeError(f"{topic}: batch must be a RawBatch, not {type(batch).__name__}; RawBatch.from_bytes makes one from bytes")
        where = batch.partition if partition is None else partition
        if where == -1:
            raise ValueError(f"{topic}: the batch does not name a partition; pass partition=")
        if (refusal := self._acc.refusal) is not None:
            raise refusal.again()
        return topic, where, as_sendable(batch)

    def accept(self, topic: str, partition: int, batch: RawBatch) -> RawDelivery:
        admissions = self._admissions(topic, batch.count)
        if not isinstance(admissions, list):
            return self._handle(self._acc.drop_batch(topic, partition, batch.data, "RATE_LIMITED", admissions), batch)
        try:
            return self._handle(self._acc.send_batch(topic, partition, batch.data), batch)
        except BaseException:
            _give_back(admissions)
            raise

    def _handle(self, taken: Batch, batch: RawBatch) -> RawDelivery:
        return RawDelivery(taken, batch.count, self._signal)

    def _admissions(self, topic: str, count: int) -> list[Admission] | Exception:
        """An admission by the rate limit, if any, for each record, perhaps after a wait; or the error with which the batch is dropped."""
        admit, admissions, deadline = self._policies(topic).admit, list[Admission](), INFINITY
        if admit is None:
            return admissions
        try:
            while len(admissions) < count:
                admission = admit(deadline)
                if admission is None:
                    break
                if not isinstance(admission, Admission):
                    _give_back(admissions)
                    return admission
                admissions.append(admission)
                deadline = admission.deadline
        except BaseException:
            _give_back(admissions)
            raise
        return admissions


def _give_back(admissions: list[Admission]) -> None:
    for admission in admissions:
        admission.give_back()
