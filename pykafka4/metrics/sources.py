"""Reads the figures of clients. Invariant: no source waits without limit for a client's thread that hangs.

Every handle has a source for its network, which the producers and consumers of one `Client` share; all handles but `Client` and
`AdminClient` have a second source. Sources with the same `key` have the same figures: a reader of several handles reads each key once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import attrs

from pykafka4.core.histogram import Histogram
from pykafka4.errors import ConfigError, KafkaError, KafkaTimeoutError
from pykafka4.metrics.catalogue import (
    BROKER,
    CLIENT_ID,
    DEFINITIONS,
    ERROR,
    GROUP,
    OPERATION,
    OPERATION_TYPE,
    PARTITION,
    REASON,
    REQUEST,
    SYSTEM,
    TOPIC,
    WRITTEN,
)
from pykafka4.metrics.values import By, Metric
from pykafka4.records import TopicPartition, Written

if TYPE_CHECKING:
    from pykafka4.core.producer.outcomes.ledger import ProducerStats, RecordCounts

__all__ = ["ConsumerSource", "Detail", "Measured", "NetworkSource", "ProducerSource", "ShareSource", "Source", "read_all"]

K = TypeVar("K")

PATIENCE_S: Final = 1.0  # a client whose thread does not respond within this time is reported as not connected
SENT: Final = {SYSTEM: "kafka", OPERATION: "send", OPERATION_TYPE: "send"}
POLLED: Final = {SYSTEM: "kafka", OPERATION: "poll", OPERATION_TYPE: "receive"}
OPERATIONS: Final = {  # by request: (operation, type of operation)
    "Produce": ("send", "send"),
    "Fetch": ("fetch", "receive"),
    "ShareFetch": ("fetch", "receive"),
    "OffsetCommit": ("commit", "settle"),
    "TxnOffsetCommit": ("commit", "settle"),
    "ShareAcknowledge": ("acknowledge", "settle"),
}


@attrs.frozen
class Detail:
    """The labels of a reading: topics, partitions, brokers."""

    by: By = attrs.field(default="topic")
    by_broker: bool = False

    @by.validator
    def _check(self, _: object, by: object) -> None:
        if by not in ("client", "topic", "partition"):
            raise ConfigError(f'by={by!r}: must be "client", "topic" or "partition"')


class Source(Protocol):
    """A part of a client with figures of its own."""

    @property
    def key(self) -> object:
        """A key that is equal for sources with the same figures."""

    @property
    def alive(self) -> bool:
        """Whether the part is open."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels that all figures of the source have."""

    def read(self, detail: Detail) -> Iterator[Metric]:
        """The figures of this moment, without `labels`. Also works on a closed client."""


class Measured(Protocol):
    """The part of a handle that readers of figures use."""

    @property
    def _sources(self) -> tuple[Source, ...]:
        """The sources of the handle's figures."""


def read_all(sources: Iterable[Source], detail: Detail) -> list[Metric]:
    return [attrs.evolve(metric, labels={**source.labels, **metric.labels}) for source in sources for metric in source.read(detail)]


def _metric(name: str, value: float | Histogram, labels: Mapping[str, str] | None = None) -> Metric:
    defined = DEFINITIONS[name]
    return Metric(name, defined.kind, defined.unit, defined.description, labels or {}, value)


@attrs.frozen
class _Source:
    """A source of one producer or consumer. `session` is the implementation behind the handle."""

    _session: Any

    @property
    def key(self) -> object:
        return id(self._session)

    @property
    def labels(self) -> Mapping[str, str]:
        return {CLIENT_ID: self._session.config.client_id}


# ---------------------------------------------------------------- network


@attrs.frozen
class NetworkSource:
    """The connections and requests of a client, read from its `runtime`."""

    _runtime: Any

    @property
    def key(self) -> object:
        return id(self._runtime)

    @property
    def alive(self) -> bool:
        return bool(self._runtime.loop.alive)

    @property
    def labels(self) -> Mapping[str, str]:
        return {CLIENT_ID: self._runtime.config.client_id}

    def read(self, detail: Detail) -> Iterator[Metric]:
        engine = self._runtime.engine
        try:
            links, age, offline = self._runtime.loop.ask(self._look, PATIENCE_S, "the client's figures")
            yield _metric("pykafka4.client.connected", float(any(link.state == "ready" for link in links)))
            yield _metric("pykafka4.client.offline.partitions", offline)
            if age is not None:
                yield _metric("pykafka4.client.metadata.age", age)
            yield from _links(links, detail)
        except KafkaError:  # the client's thread is stuck or has ended; counts of traffic can be read without it
            yield _metric("pykafka4.client.connected", 0.0)
        # A copy, because the loop thread may add a broker meanwhile.
        yield from _traffic({node: traffic.snapshot() for node, traffic in engine.network.traffic.copy().items()}, detail)

    def _look(self, now: float) -> tuple[Any, float | None, int]:
        engine = self._runtime.engine
        told = engine.cluster.updated_at
        return engine.network.status(now), None if told is None else now - told, len(engine.recovery.offline)


def _broker(node: int, detail: Detail) -> dict[str, str]:
    return {BROKER: str(node) if node >= 0 else "bootstrap"} if detail.by_broker else {}


def _links(links: Iterable[Any], detail: Detail) -> Iterator[Metric]:
    ready, flying = Counter[tuple[tuple[str, str], ...]](), Counter[tuple[tuple[str, str], ...]]()
    for link in links:
        place = tuple(_broker(link.node, detail).items())
        ready[place] += link.state == "ready"
        flying[place] += link.in_flight
    for place in ready:
        yield _metric("pykafka4.client.connections", ready[place], dict(place))
        yield _metric("pykafka4.client.requests.in_flight", flying[place], dict(place))


def _traffic(by_broker: Mapping[int, Any], detail: Detail) -> Iterator[Metric]:
    sums = Counter[tuple[str, tuple[tuple[str, str], ...]]]()
    histograms: dict[tuple[str, tuple[tuple[str, str], ...]], Histogram] = {}

    def measure(name: str, labels: Mapping[str, str], histogram: Histogram) -> None:
        key = name, tuple(labels.items())
        histograms[key] = histograms[key].plus(histogram) if key in histograms else histogram

    for node, traffic in by_broker.items():
        place = _broker(node, detail)
        for name, value in _counters(traffic):
            sums[name, tuple(place.items())] += value
        for request, count in traffic.unanswered.items():
            sums["pykafka4.client.requests.failed", tuple({REQUEST: request, **place}.items())] += count
        for request, durations in traffic.durations.items():
            measure("pykafka4.client.request.duration", {REQUEST: request, **place}, durations)
            if request in OPERATIONS:
                operation, kind = OPERATIONS[request]
                labels = {SYSTEM: "kafka", OPERATION: operation, OPERATION_TYPE: kind, **place}
                measure("messaging.client.operation.duration", labels, durations)
    yield from (_metric(name, value, dict(labels)) for (name, labels), value in sums.items())
    yield from (_metric(name, value, dict(labels)) for (name, labels), value in histograms.items())


def _counters(traffic: Any) -> Iterator[tuple[str, Any]]:
    yield "pykafka4.client.connections.opened", traffic.opened
    yield "pykafka4.client.connections.failed", traffic.failed
    yield "pykafka4.client.connections.lost", traffic.lost
    yield "pykafka4.client.io.sent", traffic.sent_bytes
    yield "pykafka4.client.io.received", traffic.received_bytes
    yield "pykafka4.client.throttle.time", traffic.throttled_s


# ---------------------------------------------------------------- producers


@attrs.frozen
class ProducerSource(_Source):
    """The records and batches of a producer."""

    @property
    def alive(self) -> bool:
        return self._session.undelivered is None and bool(self._session.runtime.loop.alive)

    def read(self, detail: Detail) -> Iterator[Metric]:
        session = self._session
        if not _responds(session.runtime):
            return
        stats: ProducerStats = session.stats()
        for place, counts in _rows(stats, detail.by):
            yield from _records(place, counts)
        yield _metric("pykafka4.producer.oldest.age", session.oldest_age())
        yield _metric("pykafka4.producer.buffer.used", stats.buffered_bytes)
        yield _metric("pykafka4.producer.buffer.limit", session.config.buffer_memory)
        yield _metric("pykafka4.producer.requests", stats.requests)
        yield _metric("pykafka4.producer.retries", stats.retries)
        measures = session.machine.measures
        yield _metric("pykafka4.producer.batch.messages", measures.records.snapshot())
        yield _metric("pykafka4.producer.batch.size", measures.sizes.snapshot())
        yield _metric("pykafka4.producer.delivery.duration", measures.durations.snapshot())


def _responds(runtime: Any) -> bool:
    """Whether figures can be read: the client's thread responds, has ended or is ending.

    A wait for a stuck thread would hold up a scrape. A forked child has only a copy of the figures, so the result is False.
    """
    try:
        runtime.loop.ask(lambda now: None, PATIENCE_S, "the client's figures")
    except KafkaTimeoutError:
        return False
    except KafkaError:
        pass
    return not runtime.loop.forked


def _rows(stats: ProducerStats, by: By) -> Iterator[tuple[dict[str, str], ProducerStats | RecordCounts]]:
    if by == "client":
        yield {}, stats
        return
    left = dict(stats.topics)
    if by == "partition":
        for tp, counts in stats.partitions.items():
            yield {TOPIC: tp.topic, PARTITION: str(tp.partition)}, counts
            left[tp.topic] = _without(left[tp.topic], counts)
    for topic, counts in left.items():
        if by == "topic" or counts.accepted:  # by partition: the topic's records that belong to no listed partition
            yield {TOPIC: topic}, counts


def _without(topic: RecordCounts, partition: RecordCounts) -> RecordCounts:
    numbers = {
        name: getattr(topic, name) - getattr(partition, name)
        for name in ("accepted", "acked", "queued", "in_flight", "uncompressed_bytes", "compressed_bytes", "repeated")
    }
    return topic._replace(
        failed=_minus(topic.failed, partition.failed),
        dropped=_minus(topic.dropped, partition.dropped),
        **numbers,
    )


def _minus(whole: Mapping[K, int], part: Mapping[K, int]) -> dict[K, int]:
    return {key: left for key, count in whole.items() if (left := count - part.get(key, 0))}


def _records(place: Mapping[str, str], counts: ProducerStats | RecordCounts) -> Iterator[Metric]:
    yield _metric("messaging.client.sent.messages", counts.acked, {**SENT, **place})
    for (code, written), count in counts.failed.items():
        failed = {**SENT, **place, ERROR: code, WRITTEN: "maybe" if written is Written.MAYBE else "no"}
        yield _metric("messaging.client.sent.messages", count, failed)
    for reason, count in counts.dropped.items():
        yield _metric("pykafka4.producer.messages.dropped", count, {**place, REASON: reason})
    yield _metric("pykafka4.producer.messages.queued", counts.queued, place)
    yield _metric("pykafka4.producer.messages.in_flight", counts.in_flight, place)
    yield _metric("pykafka4.producer.messages.repeated", counts.repeated, place)
    yield _metric("pykafka4.producer.io.uncompressed", counts.uncompressed_bytes, place)
    yield _metric("pykafka4.producer.io.compressed", counts.compressed_bytes, place)


# ---------------------------------------------------------------- consumers


def _of_group(session: Any, group: str | None) -> dict[str, str]:
    labels = {CLIENT_ID: session.config.client_id}
    return labels if group is None else {**labels, GROUP: group}


@attrs.frozen
class ConsumerSource(_Source):
    """The records, partitions and membership of a consumer."""

    @property
    def alive(self) -> bool:
        return not self._session.closed and bool(self._session.runtime.loop.alive)

    @property
    def labels(self) -> Mapping[str, str]:
        return _of_group(self._session, self._session.config.group_id)

    def read(self, detail: Detail) -> Iterator[Metric]:
        session = self._session
        if not _responds(session.runtime):
            return
        reader, stats = session.reader, session.stats()
        for place, count in _by_place(reader.returned.copy(), detail.by).items():
            yield _metric("messaging.client.consumed.messages", count, {**POLLED, **dict(place)})
        for place, lag in _by_place(reader.lags(), detail.by).items():
            yield _metric("pykafka4.consumer.lag", lag, dict(place))
        yield from self._membership()
        yield _metric("pykafka4.consumer.partitions", stats["partitions"])
        yield _metric("pykafka4.consumer.partitions.paused", len(reader.paused))
        yield _metric("pykafka4.consumer.io.fetched", stats["fetched_bytes"])
        yield _metric("pykafka4.consumer.buffer.used", stats["buffered_bytes"])
        yield _metric("pykafka4.consumer.columns.held", stats["held_bytes"])
        yield _metric("pykafka4.consumer.offsets.lost", stats["lost_offsets"])
        yield _metric("pykafka4.consumer.messages.poison", stats["poison_records"])

    def _membership(self) -> Iterator[Metric]:
        session, now = self._session, self._session.runtime.loop.now()
        membership, since = session.machine.membership, session.reader.idle_since()
        yield _metric("pykafka4.consumer.joined", float(membership.state.value == "stable"))
        yield _metric("pykafka4.consumer.rebalances", membership.assignments)
        yield _metric("pykafka4.consumer.polls", session.reader.polls)
        if since is None or since > 0:
            yield _metric("pykafka4.consumer.poll.age", 0.0 if since is None else max(0.0, now - since))
        for code, count in session.machine.offsets.finished.copy().items():
            yield _metric("pykafka4.consumer.commits", count, {ERROR: code} if code else {})


def _by_place(counts: Mapping[TopicPartition, int], by: By) -> dict[tuple[tuple[str, str], ...], int]:
    sums = Counter[tuple[tuple[str, str], ...]]()
    for (topic, partition), count in counts.items():
        place = ((TOPIC, topic), (PARTITION, str(partition)))
        sums[() if by == "client" else place[:1] if by == "topic" else place] += count
    return sums


@attrs.frozen
class ShareSource(_Source):
    """The records of a share consumer."""

    @property
    def alive(self) -> bool:
        return not self._session.closed and bool(self._session.runtime.loop.alive)

    @property
    def labels(self) -> Mapping[str, str]:
        return _of_group(self._session, self._session.config.group)

    def read(self, detail: Detail) -> Iterator[Metric]:
        if not _responds(self._session.runtime):
            return
        stats = self._session.stats()
        yield _metric("messaging.client.consumed.messages", stats["delivered"], POLLED)
        yield _metric("pykafka4.share.acknowledged", stats["acknowledged"])
        yield _metric("pykafka4.share.failed", stats["failed"])
        yield _metric("pykafka4.share.dropped", stats["dropped"])
        yield _metric("pykafka4.share.in_hand", stats["in_hand"])
        yield _metric("pykafka4.share.buffered", stats["buffered"])
