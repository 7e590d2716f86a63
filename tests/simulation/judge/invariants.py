"""Invariants. Each promise has a name, a schedule that breaks one says which, and each has a mutant of the client that breaks it.

What the application was told is compared with what lies in the model's logs; nothing here asks the client what it believes, except for
its own account, which has to balance.
"""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID

import attrs

from pykafka4.core import INFINITY
from pykafka4.core.metadata.topic import CONTRADICTED_S
from pykafka4.errors import DeliveryFailed
from pykafka4.errors.codes import BY_NAME
from pykafka4.records import TopicPartition, Written
from pykafka4.wire.records.batch import WireRecord
from pykafka4.wire.records.hot import Batch, Delivery
from tests.simulation.judge.flow import Flow
from tests.simulation.judge.promised import Broken
from tests.simulation.judge.special import Special

if TYPE_CHECKING:
    from pykafka4.core.producer.sender import Sender
    from pykafka4.testing.model import ModelCluster
    from pykafka4.wire.records.hot import Accumulator
    from tests.simulation.world.disturbance import Disturbances

__all__ = ["Broken", "Sent", "Truth", "Watch"]

REFUSALS: Final = {"INVALID_RECORD", "TOPIC_AUTHORIZATION_FAILED", "POLICY_VIOLATION", "MESSAGE_TOO_LARGE", "INVALID_TIMESTAMP"}
FINAL_CODES: Final = {*REFUSALS, "UNKNOWN_SERVER_ERROR"}
UNANSWERED: Final = "AUTHENTICATION_FAILED"  # of a cluster whose connections were all cut before a first answer: it may demand TLS
SHED: Final = {"BUFFER_FULL", "RATE_LIMITED"}  # not accepted: dropped by `send`
EARLY_S: Final = 0.05  # seconds between a `send` and its record's being in a batch, at most
LOST_COUNT: Final = {"OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_EPOCH"}  # final where a batch may be written


@attrs.frozen(eq=False)
class StoredRecord:
    """A record in a log: its partition, the topic as it was created then, and the record of the leader's log."""

    tp: TopicPartition
    topic: UUID
    record: WireRecord


@attrs.define(eq=False)
class Sent:
    """One record as the application sees it."""

    actor: int
    number: int
    topic: str
    value: bytes
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None
    timestamp_ms: int | None
    at: float
    called: bool  # whether there is a callback at all
    wraps: int | None = None  # with partition_key: the number that chooses the partition
    second: int | None = None  # how often a second callback ran; None: there is none
    delivery: Delivery | None = None  # None while `send` runs, and when the handle was dropped
    accepted: bool = False
    taken: float = INFINITY  # when `send` returned: a batch has it since then at the latest
    parked: bool = False  # its topic was not known yet
    dropped: bool = False  # the application kept no handle
    answers: int = 0  # how often the callback ran
    judged: bool = False
    looked_at: bool = False  # the application has asked for the outcome
    shed: bool = False  # `send` dropped it
    stored: StoredRecord | None = None  # the record in the log that the acknowledgement is about

    @property
    def open(self) -> bool:
        """Whether something is still to come."""
        if not self.accepted:
            return False
        if (self.called and not self.answers) or self.second == 0:
            return True
        return self.delivery is not None and not self.delivery.done()

    @property
    def unheard(self) -> bool:
        """Whether it failed and the application has not looked. To ask is to look."""
        unknown = self.accepted and self.delivery is not None and not (self.judged or self.looked_at or self.shed)
        return unknown and self.delivery.done() and self.delivery.exception(0) is not None  # type: ignore[union-attr]

    @property
    def done(self) -> bool:
        """Whether the outcome is known."""
        return self.answers > 0 or (self.delivery is not None and self.delivery.done())


class Truth:
    """What is really in the logs, those of deleted topics included, read as it is written."""

    def __init__(self, cluster: ModelCluster) -> None:
        self._cluster = cluster
        self.stored: dict[bytes, list[StoredRecord]] = defaultdict(list)
        self.fresh: list[tuple[bytes, StoredRecord]] = []  # not looked at yet
        cluster.on_append.append(self._appended)

    def _appended(self, tp: TopicPartition, base: int, count: int) -> None:
        topic = self._cluster.topics[tp.topic].id
        log = self._cluster.log(*tp)
        for batch in reversed(log.batches):
            if batch.base_offset < base:
                break
            for record in log.records_in(batch):
                stored = StoredRecord(tp, topic, record)
                value = record.value or b""
                self.stored[value].append(stored)
                self.fresh.append((value, stored))

    def at(self, value: bytes, tp: TopicPartition, offset: int) -> StoredRecord | None:
        """Where that value was appended at `offset` (-1: anywhere) of a partition of that name."""
        return next((p for p in self.stored.get(value, ()) if p.tp == tp and offset in (-1, p.record.offset)), None)

    def lies(self, stored: StoredRecord) -> bool:
        """Whether the record is still there: its topic was not deleted, and no other leader's log lacks it."""
        topic = self._cluster.topics.get(stored.tp.topic)
        if topic is None or topic.id != stored.topic:
            return False
        log, offset = self._cluster.log(*stored.tp), stored.record.offset
        at = bisect.bisect_right(log.batches, offset, key=lambda batch: batch.next_offset)
        if at == len(log.batches) or log.batches[at].base_offset > offset:
            return False
        records = log.records_in(log.batches[at])
        return any(r is stored.record for r in records) or any(r.offset == offset and r.value == stored.record.value for r in records)

    def below(self, tp: TopicPartition, offset: int) -> Iterator[WireRecord]:
        """The records before `offset` now."""
        log = self._cluster.log(*tp)
        return (r for b in log.batches if b.base_offset < offset for r in log.records_in(b) if r.offset < offset)

    def partitions_if(self, topic: str, ids: frozenset[UUID]) -> frozenset[TopicPartition]:
        """The partitions of the topic of that name, if its id is among `ids`."""
        found = self._cluster.topics.get(topic)
        return frozenset() if found is None or found.id not in ids else frozenset(p.tp for p in found.partitions)

    def partitions_of(self, topic: str) -> int:
        """How many partitions the topic of that name has."""
        return len(self._cluster.topics[topic].partitions)

    def existing(self, stored: StoredRecord) -> bool:
        """Whether the topic is the one it was appended to."""
        topic = self._cluster.topics.get(stored.tp.topic)
        return topic is not None and topic.id == stored.topic

    def living(self, value: bytes) -> list[StoredRecord]:
        """The records with that value that are in the logs now."""
        found = self.stored.get(value, [])
        if len(found) < 2:
            return found
        # A record that was cut off with an old leader's log may lie at the same offset again.
        return list({(p.tp, p.record.offset): p for p in found if self.lies(p)}.values())


Term: TypeAlias = tuple[UUID | None, int]  # of a leader: the topic as it was created then, and the leader epoch


class Watch:
    """Looks at a producer all the time."""

    def __init__(
        self,
        truth: Truth,
        disturbances: Disturbances,
        clock: Callable[[], float],
        *,
        idempotent: bool,
        acks: int,
        buffer_memory: int,
        delivery_timeout: float,
        linger: float,
        drain: float,
        partitions_late: bool = False,
    ) -> None:
        """`drain`: seconds that all records may take where each goes alone, one behind the other.

        `partitions_late`: records without key and partition get theirs when they are sent, and keep their order among themselves only.
        """
        self.partitions_late = partitions_late
        self.truth, self.disturbances, self._clock = truth, disturbances, clock
        self.idempotent, self.acks, self.buffer_memory = idempotent, acks, buffer_memory
        self.most_attempts: int | None = None  # max_failed_attempts
        self.errors: Counter[bytes] = Counter()  # error responses by value
        self.keys_ignored = False  # partitioner_ignore_keys
        self.shed = 0  # dropped by on_full or a rate limit
        self.once = False  # retries=0: no batch is sent twice
        self._delivery_timeout, self._drain = delivery_timeout, drain
        self._filling = linger + delivery_timeout / 10  # how long a batch takes records, at most
        self._timed_out: dict[TopicPartition, list[tuple[Sent, float | None]]] = defaultdict(list)  # and when the callback ran
        self._misled: set[tuple[str, float]] = set()
        self.misled_until = 0.0
        self.others: list[Watch] = []  # of other producers: what they sent is theirs
        self.forgetful: set[str] = set()  # topics whose brokers lost what they knew of producers
        self.unordered: set[str] = set()  # topics where brokers could not keep the order, whatever the client did
        self.unsafe: set[bytes] = set()  # values whose request ended without a definite answer
        self.unchecked: set[TopicPartition] = set()  # where a broker without state took what was numbered behind a refused batch
        self.unnumbered: set[bytes] = set()  # values that a broker acknowledged without knowing their offset
        self.truncated: set[TopicPartition] = set()  # partitions that lost committed records in an unclean election
        self.led_anew: set[TopicPartition] = set()  # partitions whose leader was lost: with acks=1 records may go with it
        self.refused: dict[str, set[TopicPartition]] = defaultdict(set)  # final errors that brokers gave
        self.closed = False  # the application closed the producer, or the loop was crashed on purpose
        self.crashed = False
        self.broken: Broken | None = None
        self.sent: list[Sent] = []
        self.by_value: dict[bytes, Sent] = {}
        self.offered = self.accepted = self.acked = self.failed = self.maybe = 0
        self.codes: dict[str, int] = defaultdict(int)
        self._last: dict[tuple[UUID, TopicPartition, int, bool], int] = {}
        self._end: dict[tuple[UUID, TopicPartition], int] = {}  # the offset of the last record seen
        self._leaders: dict[TopicPartition, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        self._led: dict[TopicPartition, dict[int, Term]] = defaultdict(dict)  # node -> its term when the last request went there
        self._flows: dict[TopicPartition, Flow] = {}
        self.special = Special(self)

    def share(self, first: Watch) -> None:
        """What brokers did to a log concerns all producers."""
        self.forgetful, self.unordered, self.truncated, self.led_anew = first.forgetful, first.unordered, first.truncated, first.led_anew
        self.errors = first.errors
        self.unsafe, self.unnumbered, self.refused = first.unsafe, first.unnumbered, first.refused
        self.unchecked = first.unchecked
        self.special.share(first.special)

    # ---- reported by the application's actors

    def offer(self, sent: Sent) -> None:
        """`send` is about to be called."""
        self.sent.append(sent)
        self.by_value[sent.value] = sent
        self.offered += 1

    def refuse(self, sent: Sent) -> None:
        """`send` raised."""
        self.sent.remove(sent)
        del self.by_value[sent.value]
        self.offered -= 1
        if self.truth.stored.get(sent.value):
            raise Broken("no foreign records", f"{sent.value[:40]!r} was refused by send and lies in the log")

    def accept(self, sent: Sent, delivery: Delivery) -> None:
        """`send` returned."""
        sent.accepted, sent.taken, sent.parked = True, self._clock(), delivery.partition is None
        sent.looked_at = delivery.done()
        error = delivery.exception(0) if sent.looked_at else None
        if isinstance(error, DeliveryFailed) and error.code in SHED:
            self._shed(sent, delivery, error)
            return
        self.accepted += 1
        if sent.dropped:
            return
        sent.delivery = delivery
        if sent.partition is not None:
            tp = TopicPartition(sent.topic, sent.partition)
            flow = self._flows.setdefault(tp, Flow())
            if not flow.waiting:
                flow.since = self._clock()
            flow.waiting.append(sent)

    def _shed(self, sent: Sent, delivery: Delivery, error: DeliveryFailed) -> None:
        """It was dropped at once; a callback tells of it."""
        sent.delivery, sent.shed = delivery, True
        self.shed += 1
        self.offered -= 1
        if error.written is not Written.NO or self.truth.stored.get(sent.value):
            raise Broken("what was dropped is told", f"{sent.value[:40]!r} was dropped as {error.written}, and lies in the log or may")
        self.special.counts[f"dropped: {error.code}"] += 1

    def answered(self, sent: Sent, delivery: Delivery) -> None:
        """The record's callback ran. What is wrong is kept for `look`: the client logs what callbacks raise, and goes on."""
        sent.answers += 1
        try:
            if sent.answers > 1 or not delivery.done():
                raise Broken("one completion", f"{sent.value[:40]!r}: callback number {sent.answers}, done: {delivery.done()}")
            self.judge(sent, delivery)
        except Broken as broken:
            self.broken = self.broken or broken

    def judge(self, sent: Sent, delivery: Delivery) -> None:
        """The record has its outcome: it must be true."""
        if sent.judged:
            return
        sent.judged = True
        error = delivery.exception(0)
        if isinstance(error, DeliveryFailed) and error.code in SHED:
            return
        if error is None:
            self._judge_ack(sent, delivery.result(0))
        elif isinstance(error, DeliveryFailed):
            self._judge_failure(sent, error)
        else:
            raise Broken("failures are classified", f"{sent.value[:40]!r} failed with {error!r}")

    def _judge_ack(self, sent: Sent, meta: Any) -> None:
        self.acked += 1
        tp = TopicPartition(meta.topic, meta.partition)
        if sent.partition is not None and meta.partition != sent.partition:
            raise Broken("records are what was sent", f"{sent.value[:40]!r} for partition {sent.partition} was acked in {tp}")
        if self.acks == 0:
            return
        if meta.offset == -1 and sent.value not in self.unnumbered:
            raise Broken("offsets are told", f"{sent.value[:40]!r} was acked as {tp} without an offset, which no broker left out")
        found = self.truth.at(sent.value, tp, meta.offset)
        if meta.topic != sent.topic or found is None:
            found_at = [(str(p.tp), p.record.offset) for p in self.truth.stored.get(sent.value, ())]
            raise Broken("nothing acked is lost", f"{sent.value[:40]!r} was acked as {tp} offset {meta.offset}; it lies at {found_at}")
        forgotten = self.idempotent and sent.topic in self.forgetful  # no broker could recognise the batch
        if len(self.truth.living(sent.value)) > 1 and not meta.maybe_repeated and not forgotten:
            raise Broken("no duplicates", f"{sent.value[:40]!r} was acked as written once, and is in the log twice")
        sent.stored = found
        self.special.acknowledged(sent)
        if meta.timestamp_ms != found.record.timestamp_ms:
            raise Broken(
                "records are what was sent", f"{sent.value[:40]!r} was acked with time {meta.timestamp_ms}, not {found.record.timestamp_ms}"
            )

    def _judge_failure(self, sent: Sent, error: DeliveryFailed) -> None:
        self.failed += 1
        code = str(error.code)
        self.codes[code] += 1
        self.maybe += error.written is Written.MAYBE
        known = {"TIMED_OUT", "CLOSED", "PURGED", "CLIENT_ERROR", UNANSWERED, *BY_NAME} | ({"CONNECTION_LOST"} if self.once else set())
        if code not in known or (code == "CLIENT_ERROR" and not self.crashed):
            raise Broken("failures are classified", f"{sent.value[:40]!r} failed as {code}: {error}")
        record = error.record
        if record is None or (record.value, record.key, record.headers) != (sent.value, sent.key, sent.headers):
            raise Broken("failed records come back", f"{sent.value[:40]!r} came back as {record!r}")
        self.special.look_at_failure(sent, error, code, self._clock())
        lies = any(stored.tp not in self.unchecked for stored in self.truth.stored.get(sent.value, ()))
        if error.written is Written.NO and lies:
            raise Broken("not written is not in the log", f"{sent.value[:40]!r} failed ({error}) and lies in the log")
        self._explain(sent, error, code)

    def _explain(self, sent: Sent, error: DeliveryFailed, code: str) -> None:
        """A failure has a reason outside the client."""
        if self.closed or self.crashed or code == "PURGED" or (self.once and code != "INVALID_RECORD"):
            return
        tp = None if error.partition is None else TopicPartition(sent.topic, error.partition)
        now = (
            self._clock() if sent.answers else min(self._clock(), sent.at + self._delivery_timeout)
        )  # without a callback it was not observed
        why = f"{sent.value[:40]!r}, sent at {sent.at:.3f}, failed at {now:.3f}: {error}"
        if code == "TIMED_OUT" and tp is not None:
            self._timed_out[tp].append((sent, now if sent.answers else None))
        if code in ("TIMED_OUT", UNANSWERED) or tp is None:  # a topic may stay unknown for unknown_topic_timeout_ms
            proven = tp is not None and tp in self._flows and self._flows[tp].proven
            calm = self.disturbances.calm(tp if proven else None, sent.at, now)
            if calm > self.disturbances.base + self._drain:
                raise Broken("no needless failure", f"{why}; {calm:.3f} s of it without a fault")
        elif code in FINAL_CODES and any(tp in (None, refused) for refused in self.refused[code]):
            return
        elif code in FINAL_CODES:
            if not self.special.is_refused(sent, tp, why):
                raise Broken("no needless failure", f"{why}; no broker said so")
        elif self.most_attempts is not None and self.errors[sent.value] >= self.most_attempts:
            self.special.counts["failed after max_failed_attempts"] += 1
        elif code not in LOST_COUNT or sent.value not in self.unsafe:
            raise Broken("no needless failure", f"{why}; it is to be tried again")

    # ---- reported by the simulation

    def look(self, sender: Sender, acc: Accumulator) -> None:
        """After every turn."""
        if self.broken is not None:
            raise self.broken
        self.look_at_logs()
        self.look_at_ledger(sender, acc)
        self._look_at_topics(sender)
        self.look_at_flows()
        if acc.reserved > self.buffer_memory:
            raise Broken("memory is bounded", f"{acc.reserved} bytes in use, buffer_memory is {self.buffer_memory}")

    def _look_at_topics(self, sender: Sender) -> None:
        """A client that learned of a new topic first, and of the old one after it, takes the old one for the newer, for so long."""
        for name, known in sender.cluster._topics.items():
            if known.former_ids and (since := known.behind_since) is not None and (name, since) not in self._misled:
                self._misled.add((name, since))
                if tps := self.truth.partitions_if(name, known.former_ids):
                    self.misled_until = since + CONTRADICTED_S
                    self.disturbances.add(self._clock(), self.misled_until, tps)

    def look_at_logs(self) -> None:
        """What was appended since the last look."""
        if not self.truth.fresh:
            return
        fresh, self.truth.fresh = self.truth.fresh, []
        for value, stored in fresh:
            sent, tp = self.by_value.get(value), stored.tp
            if sent is None and any(value in other.by_value for other in self.others):
                if self.truth.lies(stored):
                    self._look_for_truncation(stored)
                continue
            if sent is None or sent.topic != tp.topic:
                raise Broken("no foreign records", f"{value[:40]!r} was not sent to {tp} and lies there")
            self._look_at_content(sent, stored)
            error = sent.delivery.exception(0) if sent.delivery is not None and sent.judged else None
            if isinstance(error, DeliveryFailed) and error.written is Written.NO and tp not in self.unchecked:
                raise Broken("not written is not in the log", f"{value[:40]!r} failed ({error}) and came into the log later")
            if not self.truth.lies(stored):  # its leader was lost in the same step, before this look
                continue
            if len(self.truth.living(value)) > 1:
                self._judge_duplicate(sent, tp)
                continue
            self._look_at_order(sent, stored)

    def _look_at_content(self, sent: Sent, stored: StoredRecord) -> None:
        record = stored.record
        timestamp = record.timestamp_ms if sent.timestamp_ms is None else sent.timestamp_ms
        wanted = (sent.key, sent.headers, timestamp, stored.tp.partition if sent.partition is None else sent.partition)
        found = (record.key, tuple(record.headers), record.timestamp_ms, stored.tp.partition)
        if wanted != found:
            raise Broken("records are what was sent", f"{sent.value[:40]!r} lies as {found}, sent as {wanted}")
        self.special.look_at_stored(sent, stored, self._clock())

    def _judge_duplicate(self, sent: Sent, tp: TopicPartition) -> None:
        if tp.topic in self.forgetful or (not self.idempotent and not self.once and sent.value in self.unsafe):
            return
        found_at = [(str(p.tp), p.record.offset) for p in self.truth.living(sent.value)]
        raise Broken("no duplicates", f"{sent.value[:40]!r} lies at {found_at}")

    def _look_at_order(self, sent: Sent, stored: StoredRecord) -> None:
        self._look_for_truncation(stored)
        key, actor = (stored.topic, stored.tp, sent.actor, self._is_free(sent)), sent.actor
        before = self._last.get(key, -1)
        if sent.number < before and sent.topic not in self.unordered and not self._late(sent):
            raise Broken("order per partition", f"{stored.tp}: record {sent.number} of actor {actor} lies behind its record {before}")
        self._last[key] = max(before, sent.number)

    def _look_for_truncation(self, stored: StoredRecord) -> None:
        """A record at an offset that was taken before: what lay there and behind it went with an old leader's log."""
        where, offset = (stored.topic, stored.tp), stored.record.offset
        if offset <= self._end.get(where, -1):
            for key in [key for key in self._last if key[:2] == where]:
                del self._last[key]
            for record in self.truth.below(stored.tp, offset):
                sent = self.by_value.get(record.value or b"")
                if sent is not None:
                    key = (*where, sent.actor, self._is_free(sent))
                    self._last[key] = max(sent.number, self._last.get(key, -1))
        self._end[where] = offset

    def _is_free(self, sent: Sent) -> bool:
        """Whether records with a key or a partition may overtake it."""
        return self.partitions_late and (sent.key is None or self.keys_ignored) and sent.partition is None

    def _late(self, sent: Sent) -> bool:
        """Whether it was given up before, as maybe written: a request under way may come later, and a new producer id fences nothing.

        With acks=0 a record has its outcome when it is written to the socket; a request whose connection ends may be executed later.
        """
        if self.acks == 0:
            return True
        return sent.delivery is None or (sent.delivery.done() and sent.delivery.exception(0) is not None)

    def look_at_flows(self) -> None:
        """A partition that nothing keeps from going on is acknowledged again and again."""
        now, base = self._clock(), self.disturbances.base
        for tp, flow in self._flows.items():
            waiting = flow.waiting
            if not waiting:
                continue
            flow.go_on(now)
            if waiting and now - flow.since > base and now >= flow.look_at and not self.closed and not self.crashed:
                calm = self.disturbances.calm(tp if flow.proven else None, flow.since, now)
                flow.look_at = now + base - calm  # faults of the past are all known: it cannot be over `base` before
                if calm > base:
                    raise Broken(
                        "partitions go on",
                        f"{tp}: nothing since {flow.since:.3f}, now {now:.3f}, {calm:.3f} s of it without a fault; "
                        f"{len(waiting)} wait, first {waiting[0].value[:40]!r}",
                    )

    def forgot(self, topic: str) -> None:
        """The client dropped the metadata of `topic`, which was idle. Its partitions need it again, from whichever broker is asked."""
        for tp, flow in self._flows.items():
            if tp.topic == topic:
                flow.go_on(self._clock())  # acknowledged in this turn, which says nothing about the next record
                flow.proven = False

    def look_at_ledger(self, sender: Sender, acc: Accumulator) -> None:
        """The account against a walk over everything. Records whose `send` has not returned may be in it, or not."""
        unfinished = acc.unfinished()  # first: where it takes a lock, other threads send before it returns
        ledger, accepted = sender.ledger, acc.accepted
        if not self.accepted <= accepted <= self.offered:
            raise Broken("the ledger balances", f"{accepted} accepted, {self.accepted} to {self.offered} were sent")
        flying = waiting = 0
        for queue in sender.queues.values():
            if queue.in_flight:
                for batch in queue.batches:
                    if batch.in_flight:
                        flying += batch.count
        if ledger.in_flight != flying:
            raise Broken("the ledger balances", f"{ledger.in_flight} in flight, {flying} are")
        for item in unfinished:
            if isinstance(item, Batch):
                waiting += 0 if item.done else item.count
            elif not item.done():
                waiting += 1
        queued = accepted - ledger.acked - ledger.in_flight - ledger.failures_seen
        if queued != waiting - flying:
            raise Broken("the ledger balances", f"{queued} queued, {waiting - flying} are")
        stats = ledger.snapshot(acc.census(), 0).stats()
        rows, dropped = stats.partitions, sum(stats.dropped.values())
        if not self.shed <= dropped <= self.shed + self.offered - accepted:
            raise Broken("what was dropped is told", f"{dropped} count as dropped, applications know of {self.shed}")
        for tp, queue in sender.queues.items():
            under_way = sum(batch.count for batch in queue.batches if batch.in_flight)
            if queue.tp.partition >= 0 and rows[queue.tp].in_flight != under_way:  # what has no partition yet is in no row
                raise Broken(
                    "the ledger balances", f"{tp}: {rows[queue.tp].in_flight} of its records are in flight; it should be {under_way}"
                )
        lost = sum(ledger.failed.values())
        if acc.acked != ledger.acked or acc.failed != lost:
            raise Broken(
                "the ledger balances", f"{ledger.acked} acked and {lost} failed, the accumulator counts {acc.acked} and {acc.failed}"
            )

    def is_elsewhere(self, tp: TopicPartition, node: int) -> bool:
        """Whether a request for it is under way to another broker."""
        return any(other != node for other in self._leaders[tp])

    def departed(self, tps: list[TopicPartition], node: int, terms: list[Term] | None) -> None:
        """A produce request for these partitions went out to `node`, which leads in `terms`; None: without idempotence.

        A topic that was created again has other partitions: their leader epochs begin anew, and nobody waits for requests to the old ones.
        """
        if len(set(tps)) < len(tps):
            raise Broken("one batch per request", f"a request to {node} has batches of {sorted(map(str, tps))}")
        for tp, (topic_id, epoch) in zip(tps, terms or [(None, -1)] * len(tps), strict=True):
            at, led = self._leaders[tp], self._led[tp]
            at[node] += 1
            led[node] = topic_id, epoch
            if any(led[other][0] == topic_id and led[other][1] >= epoch for other in at if other != node):
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
        return [s for s in self.sent if s.open]

    def conclude(self) -> None:
        """Everything has its outcome now."""
        if self.broken is not None:
            raise self.broken
        for sent in self.sent:
            if sent.delivery is not None:
                self.judge(sent, sent.delivery)
        self.look_at_logs()
        self._look_at_timeouts()
        for sent in self.sent:
            if sent.stored is not None and self.truth.existing(sent.stored) and not self.truth.lies(sent.stored):
                tp = sent.stored.tp
                if tp not in self.truncated and (self.acks == -1 or tp not in self.led_anew):
                    raise Broken(
                        "nothing acked is lost", f"{sent.value[:40]!r} was acked as {tp} offset {sent.stored.record.offset}; it is gone"
                    )

    def _look_at_timeouts(self) -> None:
        """A batch is given up when its oldest record is as old as `delivery_timeout_ms`. It takes records for a tenth of that,
        from when its first record is in it, which may have waited in `send` before.

        Those that waited for their topic are put into batches whatever their age. What is left of a batch that was divided, because a
        broker refused it, is as old as the whole was; the oldest record may be in another part.
        """
        divided = set().union(*self.refused.values(), self.special.divided)
        if self.closed or any(sent.dropped and not sent.called for sent in self.sent):
            return  # the oldest record may be one whose outcome is not observed
        for tp, failed in self._timed_out.items():
            for sent, seen in failed:
                if seen is not None and tp in divided and seen - sent.at >= self._delivery_timeout - self._filling - EARLY_S:
                    continue
                if seen is not None and not any(
                    older.at <= seen - self._delivery_timeout + EARLY_S
                    and (older.parked or sent.at <= older.taken + self._filling + EARLY_S)
                    and (other is None or abs(other - seen) < EARLY_S)
                    for older, other in failed
                ):
                    raise Broken("no needless failure", f"{tp}: given up after {seen - sent.at:.3f} s of {self._delivery_timeout:g}")
