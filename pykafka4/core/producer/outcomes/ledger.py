"""Counts the records of a producer by outcome.

Invariant: accepted = acked + queued + in flight + failed + dropped, at every moment, in total and for each topic and partition.

The loop counts acknowledged and failed records here, per batch; the accumulator counts dropped records. When a thread calls `stats` or
`status`, queued and in-flight records are counted from the batches. One step of the loop reads all counts (`Ledger.snapshot`), and the
calling thread computes the result. The step makes few objects that the garbage collector tracks: a full collection would delay the loop.
`tests/simulation` compares the sums with the batches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from operator import add
from typing import Any, NamedTuple, TypeVar

import attrs

from pykafka4.core.producer.outcomes.losses import (
    NEVER,
    NO_DROPS,
    NO_LOSS,
    NOTHING,
    RETIRED,
    Dropped,
    Drops,
    Failed,
    Loss,
    LossKey,
    by_topic,
)
from pykafka4.errors import DeliveryFailed, KafkaError
from pykafka4.records import TopicPartition, Written
from pykafka4.wire.records.hot import Accumulator, Batch

__all__ = ["Census", "Ledger", "ProducerStats", "RecordCounts", "Snapshot", "take_census"]

REMEMBERED = 100  # failures kept for `failures_since`
SEALED = 1  # the highest state of a batch without an outcome
FEW_PARKED = 5000  # `take_census` counts up to this many parked handles one by one


class RecordCounts(NamedTuple):
    """Counts of the accepted records of a topic or partition, by outcome.

    `accepted` is the sum of `acked`, `queued`, `in_flight`, and all counts of `failed` and `dropped`. `failed` has an entry per (reason,
    written), `dropped` one per reason. `first_lost_ms` and `last_lost_ms` are the lowest and highest timestamp of the failed and dropped
    records, in milliseconds since the epoch (-1: no record failed or was dropped, or these records had no timestamp).
    `uncompressed_bytes` and `compressed_bytes` are the sizes of the acknowledged batches, with headers, before and after compression.
    `repeated` counts acknowledged records that an earlier attempt may also have written (only without idempotence).
    """

    accepted: int
    acked: int
    queued: int
    in_flight: int
    failed: Failed
    dropped: Dropped
    first_lost_ms: int
    last_lost_ms: int
    uncompressed_bytes: int
    compressed_bytes: int
    repeated: int

    @property
    def lost(self) -> int:
        """The number of records that failed, without records that a policy dropped."""
        return sum(self.failed.values())

    def asdict(self) -> dict[str, Any]:
        """The counts as a dict for JSON; keys of `failed` become strings such as `"TIMED_OUT, maybe written"`."""
        return {**self._asdict(), "failed": _named(self.failed), "dropped": dict(self.dropped)}


@attrs.frozen
class ProducerStats:
    """Counts of all records accepted by `send`, by outcome: `accepted` is the sum of `acked`, `queued`, `in_flight`, `failed`, `dropped`.

    All counts are from the same moment. `failed` has an entry per (reason, written), `dropped` one per reason. `retries` counts each
    resending of a batch, `requests` the Produce requests; `buffered_bytes` is the part of `buffer_memory` in use. Other fields are as in
    `RecordCounts`. `partitions` has the counts of each partition with records, `topics` the sums of each topic's partitions and of its
    records without a partition. A topic that had no record for `metadata_max_idle_ms`, or never had a partition, is only in `topics`, and
    only if it is one of the last 1,000 such topics.
    """

    accepted: int
    acked: int
    queued: int
    in_flight: int
    failed: dict[tuple[str, Written], int]
    retries: int
    requests: int
    buffered_bytes: int
    dropped: dict[str, int] = attrs.Factory(dict)
    first_lost_ms: int = NEVER
    last_lost_ms: int = NEVER
    uncompressed_bytes: int = 0
    compressed_bytes: int = 0
    repeated: int = 0
    topics: Mapping[str, RecordCounts] = attrs.field(factory=dict, repr=False)
    partitions: Mapping[TopicPartition, RecordCounts] = attrs.field(factory=dict, repr=False)

    @property
    def lost(self) -> int:
        """The number of records that failed, without records that a policy dropped."""
        return sum(self.failed.values())

    def totals(self) -> dict[str, Any]:
        """The counts of the producer as a dict for JSON, without `topics` and `partitions`; keys of `failed` as in
        `RecordCounts.asdict`."""
        fields = [a.name for a in attrs.fields(type(self)) if a.name not in ("topics", "partitions")]
        return {**{name: getattr(self, name) for name in fields}, "failed": _named(self.failed)}

    def asdict(self) -> dict[str, Any]:
        """All counts as a dict for JSON; keys of `failed` as in `RecordCounts.asdict`, keys of `partitions` such as `"orders-3"`."""
        return {
            **self.totals(),
            "topics": {topic: counts.asdict() for topic, counts in self.topics.items()},
            "partitions": {str(tp): counts.asdict() for tp, counts in self.partitions.items()},
        }


def _named(failed: Failed) -> dict[str, int]:
    return {f"{reason}, {'maybe' if written is Written.MAYBE else 'not'} written": count for (reason, written), count in failed.items()}


class Tally(NamedTuple):
    """Counters of a partition. The ledger replaces a tally instead of changing it, so that a snapshot need not copy it."""

    acked: int = 0
    raw_bytes: int = 0  # size of the acknowledged batches before compression
    sent_bytes: int = 0  # size of the acknowledged batches after compression
    repeated: int = 0

    def plus(self, other: Tally) -> Tally:
        return Tally(*map(add, self, other))


NO_TALLY = Tally()


@attrs.frozen
class FailedBatch:
    """A failed batch, or parked records that failed together."""

    before: int  # number of records that failed earlier
    records: int
    error: DeliveryFailed


Sizes = dict[tuple[str, int], int]  # number of records by partition
Census = tuple[int, Iterable[tuple[Batch, int, bool]], list[tuple[str, int]]]  # see `Accumulator.census`


class WaitingBatches:
    """Three lists instead of a tuple (batch, number of records, whether it is in flight) for each batch without an outcome."""

    __slots__ = ("_batches", "_counts", "_flying")

    def __init__(self, batches: list[Batch]) -> None:
        self._batches = batches
        self._counts = [batch.count if batch.state <= SEALED else 0 for batch in batches]
        self._flying = [batch.in_flight for batch in batches]

    def __iter__(self) -> Iterator[tuple[Batch, int, bool]]:
        return compress(zip(self._batches, self._counts, self._flying, strict=True), self._counts)


def take_census(acc: Accumulator) -> Census:
    """The result of `Accumulator.census`, if possible without a tuple for each batch. Call this on the loop thread.

    Only `send` on another thread can change the counts meanwhile. For example, this call reads `accepted`, that thread appends a record to
    a batch, this call counts the record, and the sum exceeds `accepted`. Then `accepted` has changed, so this call counts again. After
    three attempts, or if many records are parked, the accumulator counts in one step.
    """
    for _ in range(3):
        accepted, parked = acc.accepted, acc.parked_records
        if parked > FEW_PARKED:
            break
        items: list[Any] = acc.unfinished()
        waiting = WaitingBatches(items[: len(items) - parked])
        topics = Counter([handle.topic for handle in items[len(items) - parked :]])
        if acc.accepted == accepted:
            return accepted, waiting, list(topics.items())
    return acc.census()


class PartitionTrouble(NamedTuple):
    """The last error of a partition.

    `refused` is the time of the first of consecutive failures because of a missing right; None after an acknowledgement or another error.
    """

    error: KafkaError
    at: float
    refused: float | None


class Ledger:
    """The sender's counters. While the loop runs, other threads use only `failures_since` and `failures_seen`."""

    __slots__ = (
        "_batches",
        "_drops",
        "_fresh_drops",
        "_last",
        "_losses",
        "_partitions",
        "_retired",
        "_stride",
        "_tallies",
        "acked",
        "all_lost",
        "all_repeated",
        "clock",
        "failed",
        "failures",
        "failures_seen",
        "in_flight",
        "raw_bytes",
        "requests",
        "retries",
        "sent_bytes",
        "take_dropped",
        "troubles",
    )

    def __init__(self) -> None:
        self.take_dropped: Callable[[], list[Any]] = list  # `Accumulator.take_dropped`
        self.clock: Callable[[], float] = lambda: 0.0  # monotonic seconds, for `troubles` and `BatchMeasures`
        self.troubles: dict[TopicPartition, PartitionTrouble] = {}
        self.acked = self.in_flight = self.retries = self.requests = 0
        self.failed: Counter[tuple[str, Written]] = Counter()
        self.failures: list[FailedBatch] = []
        self.failures_seen = 0
        self._last: FailedBatch | None = None
        self._batches, self._stride = 0, 1  # number of failed batches, of which every `_stride`-th is kept
        self.raw_bytes = self.sent_bytes = self.all_repeated = 0
        self.all_lost = NO_LOSS
        self._drops = NO_DROPS
        self._fresh_drops: tuple[list[Any], ...] = ()  # taken from the accumulator, and not in `_drops` yet
        self._tallies: dict[TopicPartition, Tally] = {}
        self._losses: dict[LossKey, Loss] = {}
        self._partitions: dict[str, list[int]] = {}  # topic -> its partitions with a tally
        self._retired: dict[str, Tally] = {}  # topic -> the sum of its partitions that are no longer counted; the latest last

    # ---- partitions

    def meet(self, tp: TopicPartition) -> None:
        if tp not in self._tallies:
            self._tallies[tp] = NO_TALLY
            self._partitions.setdefault(tp.topic, []).append(tp.partition)

    def retire(self, topic: str) -> None:
        kept, loss = self._retired.get(topic, NO_TALLY), self._losses.get((topic, None), NO_LOSS)
        for partition in self._partitions.pop(topic, ()):
            kept = kept.plus(self._tallies.pop(TopicPartition(topic, partition)))
            loss = loss.plus(self._losses.pop((topic, partition), NO_LOSS))
            self.troubles.pop(TopicPartition(topic, partition), None)
        self._remember_topic(topic, kept, loss)

    def _remember_topic(self, topic: str, kept: Tally, loss: Loss) -> None:
        self._retired.pop(topic, None)
        self._retired[topic] = kept
        if loss is not NO_LOSS:
            self._losses[topic, None] = loss
        if len(self._retired) > RETIRED:
            oldest = next(
                (topic for topic in self._retired if topic not in self._partitions), None
            )  # the counts of topics in use must not shrink
            if oldest is not None:
                del self._retired[oldest]
                self._losses.pop((oldest, None), None)

    # ---- changes of records

    def sent(self, records: int, retried_batches: int) -> None:
        self.in_flight += records
        self.requests += 1
        self.retries += retried_batches

    def sent_before(self, records: int) -> None:
        """Count queued records as in flight again: a late response to a superseded request acknowledges them."""
        self.in_flight += records

    def requeued(self, records: int) -> None:
        self.in_flight -= records

    def acknowledged(self, tp: TopicPartition, records: int, raw_bytes: int, sent_bytes: int) -> None:
        """`raw_bytes` and `sent_bytes` are the sizes before and after compression."""
        self.in_flight -= records
        self.acked += records
        self.raw_bytes += raw_bytes
        self.sent_bytes += sent_bytes
        acked, raw, sent, repeated = self._tallies[tp]
        self._tallies[tp] = Tally(acked + records, raw + raw_bytes, sent + sent_bytes, repeated)

    def repeated(self, tp: TopicPartition, records: int) -> None:
        self.all_repeated += records
        self._tallies[tp] = self._tallies[tp].plus(Tally(repeated=records))

    def lost(
        self,
        topic: str,
        partition: int | None,
        code: str,
        written: Written,
        records: int,
        cause: Exception,
        times: tuple[int, int] = (NEVER, NEVER),
    ) -> None:
        """`times` are the first and last timestamp of the records, in milliseconds."""
        # Store the failure before counting it: `failures_since` runs on other threads, reads the count first, and must find the failure.
        self._remember(FailedBatch(self.failures_seen, records, DeliveryFailed(topic, partition, code, written, None, cause)))
        self.failures_seen += records
        self.failed[code, written] += records
        self._lose(topic, partition, Loss({(code, written): records}, NOTHING, *times))

    def note_trouble(self, tp: TopicPartition, error: KafkaError, refused: bool) -> None:
        """Keep the last error of this partition. `refused`: whether a right is missing."""
        before, now = self.troubles.get(tp), self.clock()
        since = now if before is None or before.refused is None else before.refused
        self.troubles[tp] = PartitionTrouble(error, now, since if refused else None)

    def note_progress(self, tp: TopicPartition) -> None:
        trouble = self.troubles.get(tp)
        if trouble is not None and trouble.refused is not None:
            self.troubles[tp] = trouble._replace(refused=None)

    def _lose(self, topic: str, partition: int | None, loss: Loss) -> None:
        self.all_lost = self.all_lost.plus(loss)
        if topic not in self._partitions:
            self._remember_topic(topic, self._retired.get(topic, NO_TALLY), self._losses.get((topic, None), NO_LOSS).plus(loss))
            return
        if partition is not None:
            self.meet(TopicPartition(topic, partition))
        self._losses[topic, partition] = self._losses.get((topic, partition), NO_LOSS).plus(loss)

    # ---- failures that the application has not seen

    def _remember(self, failure: FailedBatch) -> None:
        """Keep the first failure, the last, and every `_stride`-th between them, so that memory is bounded in a long outage."""
        self._last = failure
        if self._batches % self._stride == 0:
            if len(self.failures) == REMEMBERED:
                del self.failures[1::2]
                self._stride *= 2
            self.failures.append(failure)
        self._batches += 1

    def failures_since(
        self, mark: int, seen: Collection[int] = (), reported: Sequence[tuple[int, int]] = ()
    ) -> tuple[int, DeliveryFailed | None]:
        """The number of records that failed since `failures_seen` was `mark` and that the application has not seen; and the first such
        failure, or None.

        The application has seen the records in `seen` (for each, the number of records that had failed before its batch), and those in the
        ranges `reported`, which are disjoint and in order. After more than `REMEMBERED` failed batches the returned failure may be a later
        one. For any thread.
        """
        total = self.failures_seen  # read first: a failure is stored before it is counted
        known = [failure for failure in (*self.failures, self._last) if failure is not None and failure.before >= mark]
        covered = sum(end - max(start, mark) for start, end in reported if end > mark)
        starts = [start for start, _ in reported]

        def was_reported(before: int) -> bool:
            at = bisect_right(starts, before) - 1
            return at >= 0 and before < reported[at][1]

        seen_by_batch = Counter(before for before in seen if before >= mark and not was_reported(before))
        count = total - mark - covered - seen_by_batch.total()
        if count <= 0 or not known:
            return 0, None
        unseen = (f for f in known if seen_by_batch[f.before] < f.records and not was_reported(f.before))
        return count, next(unseen, known[-1]).error

    # ---- the result

    def collect_drops(self) -> None:
        """Take the counts of dropped records from the accumulator; `stats` does this one turn before `snapshot`, as there may be many."""
        if taken := self.take_dropped():
            self._fresh_drops += (taken,)

    def snapshot(self, census: Census, buffered_bytes: int) -> Snapshot:
        """Copy all counters. The cost for the loop is small: `Snapshot.stats` adds them up on the calling thread."""
        self.collect_drops()
        return Snapshot(
            census=census,
            drops=self._drops,
            fresh_drops=self._fresh_drops,
            known=frozenset(self._partitions),
            tallies=self._tallies.copy(),
            losses=self._losses.copy(),
            retired=self._retired.copy(),
            lost=self.all_lost,
            totals={
                "acked": self.acked,
                "failed": dict(self.failed),
                "retries": self.retries,
                "requests": self.requests,
                "buffered_bytes": buffered_bytes,
                "uncompressed_bytes": self.raw_bytes,
                "compressed_bytes": self.sent_bytes,
                "repeated": self.all_repeated,
            },
        )

    def settle_drops(self, snapshot: Snapshot, sums: Drops) -> None:
        """Store `sums`, the sums of the drops of `snapshot`, so that the next snapshot begins with them.

        If two threads have added up the same drops, only the first stores its sums: the second would discard drops that were taken after
        its snapshot.
        """
        if self._drops is snapshot.drops and sums is not snapshot.drops:
            self._drops, self._fresh_drops = sums, self._fresh_drops[len(snapshot.fresh_drops) :]


K = TypeVar("K")


@attrs.frozen
class Snapshot:
    """The counters of one moment, not yet added up."""

    census: Census
    drops: Drops
    fresh_drops: tuple[list[Any], ...]
    known: frozenset[str]  # topics in use, whose partitions are counted
    tallies: dict[TopicPartition, Tally]
    losses: dict[LossKey, Loss]
    retired: dict[str, Tally]
    lost: Loss
    totals: dict[str, Any]

    @property
    def all_drops(self) -> Drops:
        """The sums of dropped records, to be stored with `Ledger.settle_drops`."""
        if not self.fresh_drops and not self.drops.rows:
            return self.drops
        return self.drops.plus(self.fresh_drops, self.known)

    def stats(self, drops: Drops | None = None) -> ProducerStats:
        """Add up the totals. `drops` are `all_drops`, if already computed."""
        accepted, batches, parked = self.census
        drops = self.all_drops if drops is None else drops
        first = [ms for ms in (self.lost.first_ms, drops.first_ms) if ms != NEVER]
        queued = in_flight = 0
        for _, records, flying in batches:
            if flying:
                in_flight += records
            else:
                queued += records
        partitions = PartitionCounts(self, drops)
        return ProducerStats(
            accepted=accepted + sum(drops.by_reason.values()),
            queued=queued + sum([records for _, records in parked]),
            in_flight=in_flight,
            dropped=drops.by_reason.copy(),
            first_lost_ms=min(first, default=NEVER),
            last_lost_ms=max(self.lost.last_ms, drops.last_ms),
            topics=TopicCounts(lambda: self._count_topics(partitions.found(), parked, drops)),
            partitions=partitions,
            **self.totals,
        )

    def find_partitions(self, drops: Drops) -> PartitionParts:
        queued, in_flight = _by_partition(self.census[1])
        tallies = self.tallies.copy()
        for topic, partition in (*queued, *((topic, partition) for topic, partition, _ in drops.rows)):
            if partition >= 0 and (topic, partition) not in tallies:  # its first batch is not queued yet, or all its records were dropped
                tallies[TopicPartition(topic, partition)] = NO_TALLY
        return PartitionParts(tallies, queued, in_flight)

    def _count_topics(self, found: PartitionParts, parked: list[tuple[str, int]], drops: Drops) -> dict[str, RecordCounts]:
        """The counts of every topic: its partitions, parked records, and records whose partition is unknown or no longer counted."""
        sums = {topic: [*tally] for topic, tally in self.retired.items()}
        for (topic, _), (acked, raw, sent, repeated) in found.tallies.items():
            row = sums.get(topic)
            if row is None:
                row = sums[topic] = [0, 0, 0, 0]
            row[0] += acked
            row[1] += raw
            row[2] += sent
            row[3] += repeated
        queued, in_flight = dict(parked), dict[str, int]()
        for sizes, of_topic in ((found.queued, queued), (found.in_flight, in_flight)):
            for (topic, _), records in sizes.items():  # includes batches that get their partition when they are sent
                of_topic[topic] = of_topic.get(topic, 0) + records
        losses = by_topic(self.losses, drops)
        return {
            topic: _counts(Tally(*sums.get(topic, NO_TALLY)), queued.get(topic, 0), in_flight.get(topic, 0), losses.get(topic, NO_LOSS))
            for topic in dict.fromkeys((*sums, *losses, *queued))
        }


class PartitionParts(NamedTuple):
    tallies: dict[TopicPartition, Tally]
    queued: Sizes
    in_flight: Sizes


class LazyCounts(Mapping[K, RecordCounts]):
    """Counts that are computed when a caller reads them: most calls of `stats` use only the totals."""

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


class TopicCounts(LazyCounts[str]):
    __slots__ = ("_compute", "_found")

    def __init__(self, compute: Callable[[], dict[str, RecordCounts]]) -> None:
        self._compute = compute
        self._found: dict[str, RecordCounts] | None = None

    @property
    def _all(self) -> dict[str, RecordCounts]:
        if self._found is None:
            self._found = self._compute()
        return self._found

    def __getitem__(self, topic: str) -> RecordCounts:
        return self._all[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


class PartitionCounts(LazyCounts[TopicPartition]):
    """The counts of each partition, computed when a caller reads them: there may be thousands of partitions."""

    __slots__ = ("_drops", "_found", "_snapshot")

    def __init__(self, snapshot: Snapshot, drops: Drops) -> None:
        self._snapshot, self._drops = snapshot, drops
        self._found: PartitionParts | None = None

    def found(self) -> PartitionParts:
        if self._found is None:
            self._found = self._snapshot.find_partitions(self._drops)
        return self._found

    def __getitem__(self, tp: TopicPartition) -> RecordCounts:
        tallies, queued, in_flight = self.found()
        loss = self._snapshot.losses.get(tp, NO_LOSS)
        if self._drops.rows:
            loss = self._drops.added(loss, tp)
        return _counts(tallies[tp], queued.get(tp, 0), in_flight.get(tp, 0), loss)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self.found().tallies)

    def __len__(self) -> int:
        return len(self.found().tallies)


def _by_partition(batches: Iterable[tuple[Batch, int, bool]]) -> tuple[Sizes, Sizes]:
    """The numbers of queued and in-flight records. The first dict has every partition with a batch, perhaps with 0."""
    queued: Sizes = {}
    in_flight: Sizes = {}
    for batch, count, flying in batches:
        place = batch.topic, batch.partition
        if flying:
            in_flight[place] = in_flight.get(place, 0) + count
            queued.setdefault(place, 0)
        else:
            queued[place] = queued.get(place, 0) + count
    return queued, in_flight


def _counts(tally: Tally, queued: int, in_flight: int, loss: Loss) -> RecordCounts:
    acked, raw, sent, repeated = tally
    failed, dropped, first, last = loss
    lost = 0 if loss is NO_LOSS else sum([*failed.values(), *dropped.values()])
    counts = acked + queued + in_flight + lost, acked, queued, in_flight, failed, dropped, first, last, raw, sent, repeated
    return tuple.__new__(RecordCounts, counts)  # takes half the time of `RecordCounts(...)`
