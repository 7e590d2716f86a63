"""Invariants. Rule: each promise is a function with a name, and a schedule that breaks one says which.

What the application was told is compared with what lies in the model's logs; nothing here asks the client what it believes, except for
its own account, which has to balance.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import attrs

from pykafka4.core.queues import PartitionQueue
from pykafka4.error_table import BY_NAME, Written
from pykafka4.errors import DeliveryFailed
from pykafka4.records import TopicPartition
from pykafka4.testing.log import PartitionLog
from pykafka4.wire.hot import Batch, Delivery

if TYPE_CHECKING:
    from pykafka4.core.sender import Sender
    from pykafka4.testing.model import ModelCluster
    from pykafka4.wire.hot import Accumulator

__all__ = ["Broken", "Sent", "Truth", "Watch"]

CLASSIFIED = {"TIMED_OUT", "CLOSED", *BY_NAME}  # reasons to give a batch up; trouble with a connection is none


class Broken(AssertionError):
    """A promise was broken. `promise` is its name; the message says how, and which seed shows it."""

    def __init__(self, promise: str, detail: str) -> None:
        super().__init__(f"{promise}: {detail}")
        self.promise, self.detail = promise, detail


@attrs.define(eq=False)
class Sent:
    """One record as the application sees it."""

    actor: int
    number: int
    topic: str
    value: bytes
    at: float
    delivery: Delivery
    answers: int = 0  # how often the callback ran
    called: bool = False  # whether there is a callback at all
    judged: bool = False


def value_of(topic: str, actor: int, number: int, size: int) -> bytes:
    """A value that says where it belongs."""
    head = b"%s|%d|%d|" % (topic.encode(), actor, number)
    return head + b"." * max(0, size - len(head))


def name_of(value: bytes) -> tuple[str, int, int]:
    """(topic, actor, number) of a value."""
    topic, actor, number, _ = value.split(b"|", 3)
    return topic.decode(), int(actor), int(number)


class Truth:
    """What really lies in the logs, those of deleted topics included, read as it is written."""

    def __init__(self, cluster: ModelCluster) -> None:
        self._cluster = cluster
        self._read: dict[PartitionLog, int] = {}  # next offset to read
        self.places: dict[bytes, list[tuple[PartitionLog, int]]] = defaultdict(list)
        self.order: dict[PartitionLog, list[bytes]] = defaultdict(list)
        self.fresh: list[tuple[PartitionLog, bytes]] = []  # not looked at yet
        cluster.on_append.append(self._appended)

    def _appended(self, tp: TopicPartition, base: int, count: int) -> None:
        log = self._cluster.log(*tp)
        for batch in reversed(log.batches):
            if batch.base_offset < base:
                break
            for record in log.records_in(batch):
                value = record.value or b""
                self.places[value].append((log, record.offset))
                self.order[log].append(value)
                self.fresh.append((log, value))

    def holds(self, value: bytes, tp: TopicPartition, offset: int) -> bool:
        """Whether `value` lies at `offset` (-1: anywhere) of a log of that name."""
        return any(log.tp == tp and offset in (-1, at) for log, at in self.places.get(value, ()))


class Watch:
    """Looks at a producer all the time."""

    def __init__(self, truth: Truth, *, idempotent: bool, acks: int, buffer_memory: int) -> None:
        self.truth, self.idempotent, self.acks, self.buffer_memory = truth, idempotent, acks, buffer_memory
        self.duplicates_allowed = not idempotent
        self.unordered: set[str] = set()  # topics where brokers could not keep the order, whatever the client did
        self.broken: Broken | None = None
        self.sent: list[Sent] = []
        self.by_value: dict[bytes, Sent] = {}
        self.accepted = 0
        self.acked = 0
        self.failed = 0
        self.maybe = 0
        self.codes: dict[str, int] = defaultdict(int)
        self._last: dict[tuple[PartitionLog, int], int] = {}
        self._seen: dict[PartitionLog, set[bytes]] = defaultdict(set)
        self._leaders: dict[TopicPartition, dict[int, int]] = defaultdict(lambda: defaultdict(int))

    # ---- told by the application's actors

    def accept(self, sent: Sent) -> None:
        """`send` returned."""
        self.sent.append(sent)
        self.by_value[sent.value] = sent
        self.accepted += 1

    def answered(self, sent: Sent) -> None:
        """The record's callback ran. What is wrong is kept for `look`: the client logs what callbacks raise, and goes on."""
        sent.answers += 1
        try:
            if sent.answers > 1 or not sent.delivery.done():
                raise Broken("one completion", f"{sent.value[:40]!r}: callback number {sent.answers}, done: {sent.delivery.done()}")
            self.judge(sent)
        except Broken as broken:
            self.broken = self.broken or broken

    def judge(self, sent: Sent) -> None:
        """The record has its outcome: it must be true."""
        if sent.judged:
            return
        sent.judged = True
        error = sent.delivery.exception(0)
        if error is None:
            self._judge_ack(sent)
        elif isinstance(error, DeliveryFailed):
            self._judge_failure(sent, error)
        else:
            raise Broken("failures are classified", f"{sent.value[:40]!r} failed with {error!r}")

    def _judge_ack(self, sent: Sent) -> None:
        self.acked += 1
        meta = sent.delivery.result(0)
        tp = TopicPartition(meta.topic, meta.partition)
        if self.acks == 0:
            return
        if meta.topic != sent.topic or not self.truth.holds(sent.value, tp, meta.offset):
            places = [(str(log.tp), at) for log, at in self.truth.places.get(sent.value, ())]
            raise Broken("nothing acked is lost", f"{sent.value[:40]!r} was acked as {tp} offset {meta.offset}; it lies at {places}")

    def _judge_failure(self, sent: Sent, error: DeliveryFailed) -> None:
        self.failed += 1
        self.codes[str(error.code)] += 1
        self.maybe += error.written is Written.MAYBE
        if str(error.code) not in CLASSIFIED:
            raise Broken("failures are classified", f"{sent.value[:40]!r} failed as {error.code}: {error}")
        if error.record is None or error.record.value != sent.value:
            raise Broken("failed records come back", f"{sent.value[:40]!r} came back as {error.record!r}")
        if error.written is Written.NO and self.truth.places.get(sent.value):
            raise Broken("not written is not in the log", f"{sent.value[:40]!r} failed ({error}) and lies in the log")

    # ---- told by the simulation

    def look(self, sender: Sender, acc: Accumulator) -> None:
        """After every turn."""
        if self.broken is not None:
            raise self.broken
        self.look_at_logs()
        self.look_at_ledger(sender, acc)
        if acc.reserved > self.buffer_memory:
            raise Broken("memory is bounded", f"{acc.reserved} bytes in use, buffer_memory is {self.buffer_memory}")

    def look_at_logs(self) -> None:
        """What was appended since the last look."""
        fresh, self.truth.fresh = self.truth.fresh, []
        for log, value in fresh:
            topic, actor, number = name_of(value)
            sent = self.by_value.get(value)
            if sent is None or topic != log.tp.topic:
                raise Broken("no foreign records", f"{value[:40]!r} lies in {log.tp}")
            if value in self._seen[log]:
                if not self.duplicates_allowed:
                    raise Broken("no duplicates", f"{value[:40]!r} lies in {log.tp} twice")
                continue
            self._seen[log].add(value)
            before = self._last.get((log, actor), -1)
            if number < before and topic not in self.unordered and not self._late(sent):
                raise Broken("order per partition", f"{log.tp}: record {number} of actor {actor} lies behind its record {before}")
            self._last[log, actor] = max(before, number)
            if sent.judged and (error := sent.delivery.exception(0)) is not None:
                assert isinstance(error, DeliveryFailed)
                if error.written is Written.NO:
                    raise Broken("not written is not in the log", f"{value[:40]!r} failed ({error}) and came into the log later")

    def _late(self, sent: Sent) -> bool:
        """Whether it was given up before, as maybe written: a request under way may come later, and a new producer id fences nothing."""
        return sent.delivery.done() and sent.delivery.exception(0) is not None

    def look_at_ledger(self, sender: Sender, acc: Accumulator) -> None:
        """The account against a walk over everything."""
        stats = sender.ledger.stats(acc.accepted, acc.reserved)
        if stats.accepted != self.accepted:
            raise Broken("the ledger balances", f"{stats.accepted} accepted, {self.accepted} were sent")
        flying = sum(b.count for b in self._flying(sender.queues.values()))
        if stats.in_flight != flying:
            raise Broken("the ledger balances", f"{stats.in_flight} in flight, {flying} are")
        waiting = sum(1 if isinstance(item, Delivery) else item.count for item in acc.unfinished() if not _done(item))
        if stats.queued != waiting - flying:
            raise Broken("the ledger balances", f"{stats.queued} queued, {waiting - flying} are")
        if acc.acked != stats.acked or acc.failed != stats.lost:
            raise Broken(
                "the ledger balances", f"{stats.acked} acked and {stats.lost} failed, the accumulator counts {acc.acked} and {acc.failed}"
            )

    def _flying(self, queues: object) -> list[Batch]:
        assert hasattr(queues, "__iter__")
        return [
            batch for queue in queues if isinstance(queue, PartitionQueue) and queue.in_flight for batch in queue.batches if batch.in_flight
        ]

    def departed(self, tps: list[TopicPartition], node: int) -> None:
        """A produce request for these partitions went out to `node`."""
        for tp in tps:
            at = self._leaders[tp]
            at[node] += 1
            if len(at) > 1:
                raise Broken("one leader at a time", f"requests for {tp} are under way to {sorted(at)}")

    def returned(self, tps: list[TopicPartition], node: int) -> None:
        """It was answered, or its connection ended."""
        for tp in tps:
            at = self._leaders[tp]
            at[node] -= 1
            if not at[node]:
                del at[node]

    # ---- at the end

    def open_records(self) -> list[Sent]:
        """Records without an outcome, or whose callback has not run."""
        return [s for s in self.sent if not s.delivery.done() or (s.called and not s.answers)]

    def conclude(self) -> None:
        """Everything has its outcome now."""
        if self.broken is not None:
            raise self.broken
        left = self.open_records()
        if left:
            raise Broken("progress", f"{len(left)} of {self.accepted} records have no outcome; the first is {left[0].value[:40]!r}")
        for sent in self.sent:
            self.judge(sent)
        self.look_at_logs()
        for sent in self.sent:
            error = sent.delivery.exception(0)
            if isinstance(error, DeliveryFailed) and error.written is Written.NO and self.truth.places.get(sent.value):
                raise Broken("not written is not in the log", f"{sent.value[:40]!r} failed ({error}) and lies in the log")


def _done(item: Batch | Delivery) -> bool:
    return item.done() if isinstance(item, Delivery) else item.done
