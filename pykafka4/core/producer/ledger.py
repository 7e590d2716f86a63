"""Ledger. Rule: accepted = acked + queued + in flight + failed + dropped, at every moment, in total and for each topic and partition.

Every record that `send` accepted is counted in exactly one of these; the simulation compares the sums with the batches themselves.
Acknowledged and lost records are counted here, per batch, on the loop thread. Queued records and those in flight are counted when somebody
asks, in the batches themselves. Both are read in one step of the loop (`Ledger.snapshot`); the result is computed from that on the thread
that asked.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, ItemsView, Iterable, Iterator, Mapping, ValuesView
from operator import add
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import attrs

from pykafka4.error_table import Written
from pykafka4.errors import DeliveryFailed
from pykafka4.records import TopicPartition
from pykafka4.wire.records.hot import Batch

__all__ = ["Census", "Ledger", "ProducerStats", "RecordCounts", "Snapshot"]

REMEMBERED = 100  # failures kept for `failures_since`: the first, the last, and a sample of those between
RETIRED = 1000  # topics kept of those that nothing is sent to any more
BACKLOG = 1000  # dropped records that are not counted yet; then the loop is woken to count them
NEVER = -1  # the timestamp of a record that does not exist

Failed = Mapping[tuple[str, Written], int]
Dropped = Mapping[str, int]
NOTHING: Mapping[Any, int] = MappingProxyType({})


class RecordCounts(NamedTuple):
    """Counts of the accepted records of a topic or partition, by outcome: `accepted` is the sum of the others.

    `failed` has an entry per (reason, written), `dropped` one per reason. `first_lost_ms` and `last_lost_ms` are timestamps of records:
    what failed or was dropped lies between them (-1: nothing did, or the records were dropped without a timestamp).
    `uncompressed_bytes` and `compressed_bytes` are the sizes of the acknowledged batches, headers included, before and after compression.
    `repeated` counts acknowledged records that an earlier attempt of their batch may have written, too (only without idempotence).
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
        """Records that failed, whatever the reason."""
        return sum(self.failed.values())

    def asdict(self) -> dict[str, Any]:
        """The counts as a dict for JSON; a key of `failed` becomes `"TIMED_OUT, maybe written"`."""
        return {**self._asdict(), "failed": _named(self.failed), "dropped": dict(self.dropped)}


@attrs.frozen
class ProducerStats:
    """Counts of all records accepted by `send`, by outcome: `accepted` is the sum of `acked`, `queued`, `in_flight`, `failed`, `dropped`.

    All counts are of one moment. `failed` has an entry per (reason, written), `dropped` one per reason. `retries` counts batches that were
    resent, `requests` Produce requests; `buffered_bytes` is the part of `buffer_memory` in use. The others are as in `RecordCounts`.
    `partitions` has the counts of each partition that was sent to, `topics` those of each topic: the sums of its partitions, and records
    that were lost before they had a partition. Of topics that were not sent to for `metadata_max_idle_ms`, and of topics that never had a
    partition, only the entry in `topics` is kept, for the last 1,000 of them.
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
        """Records that failed, whatever the reason; without those that a policy dropped."""
        return sum(self.failed.values())

    def totals(self) -> dict[str, Any]:
        """The counts of the whole producer as a dict, without `topics` and `partitions`."""
        return {a.name: getattr(self, a.name) for a in attrs.fields(type(self)) if a.name not in ("topics", "partitions")}

    def asdict(self) -> dict[str, Any]:
        """Everything as a dict for JSON; keys are `"TIMED_OUT, maybe written"` in `failed`, and `"orders-3"` in `partitions`."""
        return {
            **self.totals(),
            "failed": _named(self.failed),
            "topics": {topic: counts.asdict() for topic, counts in self.topics.items()},
            "partitions": {str(tp): counts.asdict() for tp, counts in self.partitions.items()},
        }


def _named(failed: Failed) -> dict[str, int]:
    return {f"{reason}, {'maybe' if written is Written.MAYBE else 'not'} written": count for (reason, written), count in failed.items()}


class Loss(NamedTuple):
    """What was lost of a topic or partition; replaced, never changed, so that a snapshot need not copy it."""

    failed: Failed = NOTHING
    dropped: Dropped = NOTHING
    first_ms: int = NEVER
    last_ms: int = NEVER

    def plus(self, other: Loss) -> Loss:
        """Both together."""
        first = [ms for ms in (self.first_ms, other.first_ms) if ms != NEVER]
        return Loss(
            _sum(self.failed, other.failed), _sum(self.dropped, other.dropped), min(first, default=NEVER), max(self.last_ms, other.last_ms)
        )


NO_LOSS = Loss()


def _sum(one: Mapping[Any, int], other: Mapping[Any, int]) -> Mapping[Any, int]:
    return {**one, **{key: one.get(key, 0) + count for key, count in other.items()}} if one and other else one or other


class Tally(NamedTuple):
    """Counters of a partition; replaced, never changed, as `Loss`."""

    acked: int = 0
    raw_bytes: int = 0  # of the acknowledged batches, before compression
    sent_bytes: int = 0  # and after it
    repeated: int = 0

    def plus(self, other: Tally) -> Tally:
        """Both together."""
        return Tally(*map(add, self, other))


NO_TALLY = Tally()


@attrs.frozen
class Failure:
    """A failed batch: the number of records that had failed before it, the number of its records, and why it failed."""

    before: int
    records: int
    error: DeliveryFailed


Place = tuple[str, int | None]  # a partition, or with None a topic
Sizes = dict[tuple[str, int], int]  # records by partition
Census = tuple[int, list[tuple[Batch, int, bool]], list[tuple[str, int]]]  # see `Accumulator.census`


class Ledger:
    """The sender's counters. Used on the loop thread, except `dropped` and `failures_since`."""

    __slots__ = (
        "_batches",
        "_drops",
        "_last",
        "_losses",
        "_partitions",
        "_retired",
        "_stride",
        "_tallies",
        "acked",
        "all_lost",
        "all_repeated",
        "failed",
        "failures",
        "failures_seen",
        "in_flight",
        "raw_bytes",
        "requests",
        "retries",
        "sent_bytes",
        "take_dropped",
        "wake",
    )

    def __init__(self, wake: Callable[[], object] = lambda: None) -> None:
        """`wake()` has the loop call `count_drops` soon."""
        self.wake = wake
        self.take_dropped: Callable[[], Iterable[tuple[str, int, str, int, int, int]]] = lambda: ()  # `Accumulator.take_dropped`
        self.acked = self.in_flight = self.retries = self.requests = 0
        self.failed: Counter[tuple[str, Written]] = Counter()
        self.failures: list[Failure] = []
        self.failures_seen = 0
        self._last: Failure | None = None
        self._batches, self._stride = 0, 1  # failed batches; one of every `_stride` is kept
        self.raw_bytes = self.sent_bytes = self.all_repeated = 0
        self.all_lost = NO_LOSS
        self._drops: deque[tuple[str, int | None, str, int, int]] = deque()  # not counted yet
        self._tallies: dict[TopicPartition, Tally] = {}
        self._losses: dict[Place, Loss] = {}
        self._partitions: dict[str, list[int]] = {}  # with a tally, by topic
        self._retired: dict[str, Tally] = {}  # of topics without a tally: what remains of it; the latest last

    # ---- partitions

    def meet(self, tp: TopicPartition) -> None:
        """A partition that something is sent to: it is counted by itself."""
        if tp not in self._tallies:
            self._tallies[tp] = NO_TALLY
            self._partitions.setdefault(tp.topic, []).append(tp.partition)

    def retire(self, topic: str) -> None:
        """Nothing is sent to `topic` any more: keep only its sums."""
        kept, loss = self._retired.get(topic, NO_TALLY), self._losses.get((topic, None), NO_LOSS)
        for partition in self._partitions.pop(topic, ()):
            kept = kept.plus(self._tallies.pop(TopicPartition(topic, partition)))
            loss = loss.plus(self._losses.pop((topic, partition), NO_LOSS))
        self._remember_topic(topic, kept, loss)

    def _remember_topic(self, topic: str, kept: Tally, loss: Loss) -> None:
        self._retired.pop(topic, None)
        self._retired[topic] = kept
        if loss is not NO_LOSS:
            self._losses[topic, None] = loss
        if len(self._retired) > RETIRED:
            oldest = next(iter(self._retired))
            del self._retired[oldest]
            self._losses.pop((oldest, None), None)

    # ---- what happens to records

    def sent(self, records: int, retried_batches: int) -> None:
        """A request with `records` was sent."""
        self.in_flight += records
        self.requests += 1
        self.retries += retried_batches

    def sent_before(self, records: int) -> None:
        """Queued records get the response to a request that was no longer waited for."""
        self.in_flight += records

    def requeued(self, records: int) -> None:
        """Records in flight are back in their queue."""
        self.in_flight -= records

    def acknowledged(self, tp: TopicPartition, records: int, raw_bytes: int, sent_bytes: int) -> None:
        """Records in flight were acknowledged; their batch had so many bytes before and after compression."""
        self.in_flight -= records
        self.acked += records
        self.raw_bytes += raw_bytes
        self.sent_bytes += sent_bytes
        acked, raw, sent, repeated = self._tallies[tp]
        self._tallies[tp] = Tally(acked + records, raw + raw_bytes, sent + sent_bytes, repeated)

    def repeated(self, tp: TopicPartition, records: int) -> None:
        """Of the acknowledged records of this partition, so many may be in the log twice."""
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
        """Queued records failed for good. `times` are the first and last timestamp of these records."""
        self._remember(Failure(self.failures_seen, records, DeliveryFailed(topic, partition, code, written, None, cause)))
        self.failures_seen += records
        self.failed[code, written] += records
        self._lose(topic, partition, Loss({(code, written): records}, NOTHING, *times))

    def dropped(self, topic: str, partition: int | None, reason: str, records: int, timestamp_ms: int = NEVER) -> None:
        """Records were dropped by a policy instead of being queued. Call it from any thread: it takes no lock, and waits for nothing.

        `partition` is None if none was chosen. `timestamp_ms` is that of the records. They count as accepted.
        """
        self._drops.append((topic, partition, reason, records, timestamp_ms))
        if len(self._drops) % BACKLOG == 0:
            self.wake()

    def count_drops(self) -> None:
        """Count what was dropped; the loop calls this in every turn. It costs one look if nothing was."""
        if not (drops := self._drops):
            return
        found: dict[tuple[str, int | None], Loss] = {}
        for _ in range(len(drops)):  # more may come meanwhile: the next turn counts them
            topic, partition, reason, records, ms = drops.popleft()
            known = found.get((topic, partition), NO_LOSS)
            found[topic, partition] = known.plus(Loss(NOTHING, {reason: records}, ms, ms))
        for (topic, partition), loss in found.items():
            self._lose(topic, partition, loss)

    def _lose(self, topic: str, partition: int | None, loss: Loss) -> None:
        self.all_lost = self.all_lost.plus(loss)
        if topic not in self._partitions:
            self._remember_topic(topic, self._retired.get(topic, NO_TALLY), self._losses.get((topic, None), NO_LOSS).plus(loss))
            return
        if partition is not None:
            self.meet(TopicPartition(topic, partition))
        self._losses[topic, partition] = self._losses.get((topic, partition), NO_LOSS).plus(loss)

    # ---- failures that the application has not seen

    def _remember(self, failure: Failure) -> None:
        """Keep the first failure, the last, and one of every `_stride` in between."""
        self._last = failure
        if self._batches % self._stride == 0:
            if len(self.failures) == REMEMBERED:
                del self.failures[1::2]
                self._stride *= 2
            self.failures.append(failure)
        self._batches += 1

    def failures_since(
        self, mark: int, looked_at: Collection[int] = (), reported: Collection[tuple[int, int]] = ()
    ) -> tuple[int, DeliveryFailed | None]:
        """The number of records that failed since `failures_seen` was `mark` and that the application has not seen, and the first failure.

        It has seen those in `looked_at` (for each record, how many had failed before its batch), and those in the disjoint ranges
        `reported`.
        If many more than `REMEMBERED` batches failed, the failure may not be the first one, because not all are kept; it is None only if
        there was none. May be called from any thread.
        """
        total = self.failures_seen  # read first: a failure is stored before it is counted
        known = [failure for failure in (*self.failures, self._last) if failure is not None and failure.before >= mark]
        covered = sum(end - max(start, mark) for start, end in reported if end > mark)
        looked = Counter(before for before in looked_at if before >= mark and not any(start <= before < end for start, end in reported))
        count = total - mark - covered - looked.total()
        if count <= 0 or not known:
            return 0, None
        news = (f for f in known if looked[f.before] < f.records and not any(start <= f.before < end for start, end in reported))
        return count, next(news, known[-1]).error

    # ---- the result

    def snapshot(self, census: Census, buffered_bytes: int) -> Snapshot:
        """All counters at this moment. It costs the loop little, as nothing is added up: `stats` of the result does that."""
        self.count_drops()
        for topic, partition, reason, records, first_ms, last_ms in self.take_dropped():
            self._lose(topic, None if partition < 0 else partition, Loss(NOTHING, {reason: records}, first_ms, last_ms))
        return Snapshot(
            census=census,
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


@attrs.frozen
class Snapshot:
    """The counters of one moment, copied but not yet added up."""

    census: Census
    tallies: dict[TopicPartition, Tally]
    losses: dict[Place, Loss]
    retired: dict[str, Tally]
    lost: Loss
    totals: dict[str, Any]

    def stats(self) -> ProducerStats:
        """Add up the totals; those of topics and partitions when they are looked at."""
        accepted, batches, parked = self.census
        dropped = dict(self.lost.dropped)
        partitions = Later(self._count_partitions)
        return ProducerStats(
            accepted=accepted + sum(dropped.values()),
            queued=sum([records for _, records, in_flight in batches if not in_flight]) + sum([records for _, records in parked]),
            in_flight=sum([records for _, records, in_flight in batches if in_flight]),
            dropped=dropped,
            first_lost_ms=self.lost.first_ms,
            last_lost_ms=self.lost.last_ms,
            topics=Later(lambda: self._count_topics(partitions, parked)),
            partitions=partitions,
            **self.totals,
        )

    def _count_partitions(self) -> dict[TopicPartition, RecordCounts]:
        """The counts of every partition that was sent to."""
        queued, in_flight = _by_partition(self.census[1])
        tallies, losses = self.tallies, self.losses
        for place in queued:
            if place[1] >= 0 and place not in tallies:  # the loop has not seen its first batch yet
                tallies[TopicPartition(*place)] = NO_TALLY
        return {
            tp: _counts(tally, queued.get(tp, 0), in_flight.get(tp, 0), losses.get(tp, NO_LOSS) if losses else NO_LOSS)
            for tp, tally in tallies.items()
        }

    def _count_topics(self, partitions: Mapping[TopicPartition, RecordCounts], parked: list[tuple[str, int]]) -> dict[str, RecordCounts]:
        """The counts of every topic: its partitions, its parked records, and what has no partition or no longer has one."""
        sums = {topic: [*tally, 0] for topic, tally in self.retired.items()}  # acked, raw, sent, repeated, in flight
        queued: dict[str, int] = dict(parked)
        for batch, records, _ in self.census[1]:
            if batch.partition < 0:  # it gets its partition when it is sent
                queued[batch.topic] = queued.get(batch.topic, 0) + records
        for (topic, _), counts in partitions.items():
            row = sums.get(topic)
            if row is None:
                row = sums[topic] = [0, 0, 0, 0, 0]
            row[0] += counts.acked
            row[1] += counts.uncompressed_bytes
            row[2] += counts.compressed_bytes
            row[3] += counts.repeated
            row[4] += counts.in_flight
            if counts.queued:
                queued[topic] = queued.get(topic, 0) + counts.queued
        losses: dict[str, Loss] = {}
        for (topic, _), loss in self.losses.items():
            losses[topic] = losses.get(topic, NO_LOSS).plus(loss)
        found: dict[str, RecordCounts] = {}
        for topic in dict.fromkeys((*sums, *losses, *queued)):
            *tally, in_flight = sums.get(topic, (0, 0, 0, 0, 0))
            found[topic] = _counts(Tally(*tally), queued.get(topic, 0), in_flight, losses.get(topic, NO_LOSS))
        return found


K = TypeVar("K")


class Later(Mapping[K, RecordCounts]):
    """A mapping that is computed when it is first looked at: most calls of `stats` want totals only."""

    __slots__ = ("_compute", "_found")

    def __init__(self, compute: Callable[[], dict[K, RecordCounts]]) -> None:
        self._compute = compute
        self._found: dict[K, RecordCounts] | None = None

    @property
    def _all(self) -> dict[K, RecordCounts]:
        found = self._found
        if found is None:
            found = self._found = self._compute()
        return found

    def __getitem__(self, key: K) -> RecordCounts:
        return self._all[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def items(self) -> ItemsView[K, RecordCounts]:
        return self._all.items()

    def values(self) -> ValuesView[RecordCounts]:
        return self._all.values()

    def __repr__(self) -> str:
        return repr(self._all)

    def __reduce__(self) -> Any:
        return dict, (self._all,)


def _by_partition(batches: Iterable[tuple[Batch, int, bool]]) -> tuple[Sizes, Sizes]:
    """How many records are queued, and how many in flight. Every partition is in the first, perhaps with 0."""
    queued: Sizes = {}
    in_flight: Sizes = {}
    for batch, count, flying in batches:
        place = batch.topic, batch.partition
        if flying:
            in_flight[place] = in_flight.get(place, 0) + count
            count = 0
        queued[place] = queued.get(place, 0) + count
    return queued, in_flight


def _counts(tally: Tally, queued: int, in_flight: int, loss: Loss) -> RecordCounts:
    acked, raw, sent, repeated = tally
    failed, dropped, first, last = loss
    lost = 0 if loss is NO_LOSS else sum(failed.values()) + sum(dropped.values())
    return RecordCounts(acked + queued + in_flight + lost, acked, queued, in_flight, failed, dropped, first, last, raw, sent, repeated)
