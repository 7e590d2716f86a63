"""Reads a topic into a dict, on a thread of its own. Invariant: once `complete`, the dict reflects all records before
`read_to`, or `error` is set.

Only that thread changes the dict and `read_to`. Other threads read attributes, look keys up and copy the dict, each in one atomic
step.

The consumer session has no group, and `auto_offset_reset="none"`: a reset would leave out records, so its cause is an error instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pykafka4.client.steps import at_once
from pykafka4.consumer.session import ConsumerSession
from pykafka4.core import INFINITY
from pykafka4.core.metadata.topic import MISSING_S
from pykafka4.errors import ClosedError, ForkedClientError, KafkaError, KafkaTimeoutError, OffsetOutOfRange, broker_error
from pykafka4.errors.codes import BY_NAME
from pykafka4.logs import get_log
from pykafka4.net import system
from pykafka4.net.handoff.waiting import Signal
from pykafka4.records import TopicPartition
from pykafka4.tables.limits import Limits
from pykafka4.wire.records.hot import Record

__all__ = ["TableReader"]

log = get_log("pykafka4.tables")

OnChange = Callable[[Any, Any, Any], object]
CHECK_S: Final = 1.0  # seconds between two checks for new partitions, and the limit of a poll
# The same while a thread waits, because a poll that only moves over a gap in the offsets returns no records, and ends after its limit.
WAITED_CHECK_S: Final = 0.05
MOST_RESTARTS: Final = 5  # restarts of the first read, each because an offset was out of range
CLOSE_S: Final = 5.0
NO_TOPIC: Final = BY_NAME["UNKNOWN_TOPIC_OR_PARTITION"].code


class TableReader:
    def __init__(self, session: ConsumerSession, topic: str, limits: Limits, on_change: OnChange | None) -> None:
        self._session, self.topic, self._limits, self._on_change = session, topic, limits, on_change
        self.rows: dict[Any, tuple[Any, int]] = {}  # value and size
        self.size = 0  # bytes of keys and values
        self.read_to: Mapping[TopicPartition, int] = {}  # the positions after the last poll that raised no error
        self.error: KafkaError | None = None
        # True once the rows have all records up to `_ends`; from then on, `on_change` is called. Only the table's thread sets `complete`:
        # otherwise a restart of the first read could empty rows that another thread has just found complete.
        self.complete = False
        self.changed = Signal()  # notified after a poll, and when the reading ends
        self._stopping = False
        self._forgotten = False  # the table was garbage-collected: its thread closes the session, if it has not ended before
        self._ended = False  # the table's thread has ended, or is about to read `_forgotten` as its last step
        self._ends: Mapping[TopicPartition, int] = {}  # the ends of the logs that `start` found
        self._restarts = 0
        self._checked_at = -INFINITY
        self._thread = system.Thread(target=self._serve, name=f"pykafka4-table-{topic}", daemon=True)

    # ---------------------------------------------------------------- threads of the application

    def start(self, timeout: float) -> None:
        """Start the thread, and wait until the rows have all records up to the current end of the log, or, with read_committed, up to the
        first open transaction.

        Raises the error that has ended the reading, errors of Metadata and ListOffsets, or KafkaTimeoutError.
        """
        until = system.monotonic() + timeout
        tps = self._partitions(_left(until))
        self._ends = at_once(self._session.lookups.ends(tps, _left(until)))
        self._thread.start()
        self.wait(lambda: self.complete, _left(until), f"table of {self.topic}: not complete")

    def refresh(self, timeout: float) -> None:
        """Wait until the rows have all records below the current high watermarks, including records after the beginning of open
        transactions.

        A partition with new records may be newer than the known metadata, so the metadata is requested first.
        """
        until = system.monotonic() + timeout
        self.check()
        self._session.runtime.refresh_metadata([self.topic], timeout)
        tps = self._partitions(_left(until))
        ends = at_once(self._session.lookups.high_watermarks(tps, _left(until)))
        self.wait(lambda: self._reached(ends), _left(until), f"table of {self.topic}: not up to date")

    def wait(self, condition: Callable[[], bool], timeout: float, what: str) -> None:
        """Wait until `condition()` is true. Raises KafkaTimeoutError, or the error that has ended the reading.

        Raises KafkaError if `on_change` calls this: the thread of the table cannot wait for itself.
        """
        if self._thread is system.current_thread():
            raise KafkaError(f"{what}: on_change must not wait for its own table")
        self._session.wakeup()  # ends a poll of CHECK_S; polls that begin while a thread waits are shorter
        met = self.changed.wait(lambda: self.error is not None or self._stopping or condition(), timeout)
        self.check()
        if not met:
            raise KafkaTimeoutError(f"{what} after {timeout:g} s; a longer timeout may help")

    def _reached(self, ends: Mapping[TopicPartition, int]) -> bool:
        read_to = self.read_to
        return all(tp in read_to and read_to[tp] >= end for tp, end in ends.items())

    def _partitions(self, timeout: float) -> list[TopicPartition]:
        return [TopicPartition(self.topic, number) for number in self._session.runtime.partitions_of(self.topic, timeout)]

    def check(self) -> None:
        """If the table has ended for this process, raise the error that ended it, ClosedError, or ForkedClientError."""
        if (end := self._end()) is not None:
            raise end.again()

    def _end(self) -> KafkaError | None:
        if self.error is not None:
            return self.error
        if self._session.runtime.loop.forked:
            return ForkedClientError("this table was opened in the parent process; open one in this process")
        return ClosedError(f"this table of {self.topic} is closed; open another one") if self._stopping else None

    def lag(self) -> int | None:
        read_to, claims = self.read_to, self._session.reader.claims.copy()
        if not read_to or any(claim.end < 0 for claim in claims.values()):
            return None
        return sum(max(0, claim.end - read_to.get(tp, 0)) for tp, claim in claims.items())

    def status(self) -> dict[str, Any]:
        end = self._end()
        state = "reading" if end is None else "closed" if isinstance(end, ClosedError) and end is not self.error else "failed"
        reason = None if end is None or state == "closed" else str(end)
        own = {"state": state, "reason": reason, "topic": self.topic, "keys": len(self.rows), "bytes": self.size, "lag": self.lag()}
        return {**own, "consumer": self._session.status()}

    def stop(self, timeout: float) -> None:
        self._stopping = True
        until = system.monotonic() + timeout
        self._session.wakeup()
        self.changed.notify()
        if self._thread.is_alive() and self._thread is not system.current_thread():
            self._thread.join(timeout)
        self._session.close(_left(until), failed=True)

    def forget(self) -> None:
        """End the thread and the session without waiting, because the garbage collector calls this."""
        self._forgotten = self._stopping = True  # in this order: the thread looks at the first when the second is set
        session = self._session
        session.wakeup()
        # `_ended` is read after `_forgotten` is set; the thread sets `_ended` before it reads `_forgotten`. In another order: the thread
        # reads False, this method sets `_forgotten` and reads False, and nobody closes the session. Two closes do no harm.
        if self._ended and not session.closed and session.runtime.loop.alive:
            session.runtime.callbacks.post(lambda: session.close(CLOSE_S, failed=True))

    # ---------------------------------------------------------------- the thread of the table

    def _serve(self) -> None:
        try:
            while not self._stopping:
                self._step()
        except BaseException as error:
            if not self._stopping:
                self._fail(error)
        finally:
            self._ended = True
            self.changed.notify()
            if self._forgotten:
                self._session.close(CLOSE_S, failed=True)

    def _step(self) -> None:
        now, pause = system.monotonic(), WAITED_CHECK_S if self.changed.waiting else CHECK_S
        if now >= self._checked_at + pause:
            self._check_partitions()
            self._checked_at = now
        session = self._session
        try:
            records = session.poll(pause, None, session.records)
        except OffsetOutOfRange:
            if self.complete or self._restarts >= MOST_RESTARTS:
                raise
            self._start_over()
            return
        for record in records:
            self._apply(record)
        self.read_to = session.reader.positions()
        self.complete = self.complete or self._reached(self._ends)
        self.changed.notify()

    def _check_partitions(self) -> None:
        """Begin to read new partitions, from their first records on. Raises BrokerError for a deleted topic."""
        cluster, known = self._session.runtime.engine.cluster, self._session.reader.claims

        def count_partitions(_: float) -> tuple[int, bool]:
            return cluster.partitions(self.topic), cluster.was_missing(self.topic, MISSING_S)

        found, deleted = self._session.runtime.loop.ask(count_partitions, CLOSE_S)
        if deleted:
            raise broker_error(NO_TOPIC, f"topic {self.topic}", "it was deleted", topic=self.topic)
        tps = [TopicPartition(self.topic, number) for number in range(max(len(self._ends), found))]
        if fresh := [tp for tp in tps if tp not in known]:
            self._session.assignment.assign(tps)
            self._seek(fresh)

    def _seek(self, tps: list[TopicPartition]) -> None:
        self._session.seek(at_once(self._session.lookups.beginnings(tps, CLOSE_S * 6)))

    def _start_over(self) -> None:
        """Read from the beginning again, because records were deleted before they had been fetched."""
        self._restarts += 1
        self.rows, self.size = {}, 0
        self._seek(list(self._session.reader.claims))

    def _apply(self, record: Record[Any, Any]) -> None:
        raw, key = record.raw, record.key
        if raw.key is None:
            raise KafkaError(f"{self._where(record)} has no key: a table needs a topic whose records have keys")
        try:
            before = self.rows.get(key)
        except TypeError as error:
            raise KafkaError(f"{self._where(record)}: its key, of type {type(key).__name__}, cannot be a key of a dict: {error}") from None
        old: Any = None if before is None else before[0]
        size = 0 if before is None else before[1]
        if raw.value is None:
            self.rows.pop(key, None)
            self.size -= size
        else:
            new = len(raw.key) + len(raw.value)
            self.rows[key] = record.value, new
            self.size += new - size
            if (bound := self._limits.exceeded(len(self.rows), self.size)) is not None:
                raise KafkaError(
                    f"the table of {self.topic} exceeds {bound} at {self._where(record)}: set a larger bound, or read another topic"
                )
        if self.complete and self._on_change is not None and not (before is None and raw.value is None):
            self._tell(key, old, record.value)

    def _tell(self, key: Any, old: Any, new: Any) -> None:
        assert self._on_change is not None
        try:
            self._on_change(key, old, new)
        except Exception:
            log.exception("%s: on_change of the table of %s raised", self._session.config.client_id, self.topic, topic=self.topic)

    def _where(self, record: Record[Any, Any]) -> str:
        return f"{record.topic}-{record.partition} at offset {record.offset}"

    def _fail(self, error: BaseException) -> None:
        known = error if isinstance(error, KafkaError) else KafkaError(f"{type(error).__name__}: {error}")
        if known is not error:
            known.__cause__ = error
        known.add_note(f"pykafka4: this error has ended the table of {self.topic}; open it again")
        self.error = known
        self.rows, self.size = {}, 0
        log.warning("%s: the table of %s has ended: %s", self._session.config.client_id, self.topic, known, topic=self.topic)


def _left(until: float) -> float:
    return max(0.0, until - system.monotonic())
