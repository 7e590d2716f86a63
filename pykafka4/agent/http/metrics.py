"""Writes the agent's figures in Prometheus' text format. Invariant: at most MOST_TOPICS topics have their own label."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from pykafka4.agent.account.values import Discards, TopicAccount
from pykafka4.agent.http.look import AgentLook, TopicQueue, offline, queues, topic_of
from pykafka4.agent.message import Reason
from pykafka4.pages.brokers import brokers

__all__ = ["CONTENT_TYPE", "exposition"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
MOST_TOPICS: Final = 1_000  # each has four time series or more, which Prometheus keeps after the topic is gone
PREFIX: Final = "pykafka4_agent"
UNKNOWN: Final = {Reason.BAD_TOPIC, Reason.TOPIC_AUTOCREATE_FAIL}  # the reasons if brokers do not know a topic
OTHERS: Final = ""  # the label of the topics without a row; no topic has this name


def exposition(look: AgentLook, counters: Mapping[str, int], version: str, started_at: float, labelled: set[str]) -> bytes:
    """`labelled` has the topics with their own label. The caller keeps the set from call to call; this function adds topics."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(look, counters, version, started_at, labelled))
    return generate_latest(registry)


class _Figures(Collector):
    def __init__(self, look: AgentLook, counters: Mapping[str, int], version: str, started_at: float, labelled: set[str]) -> None:
        self._look, self._counters, self._version, self._started_at = look, counters, version, started_at
        self._labelled = labelled

    def describe(self) -> Iterable[Metric]:
        """Return nothing: a description prevents name clashes of collectors, and this registry has only one collector."""
        return ()

    def collect(self) -> Iterator[Metric]:
        look = self._look
        yield InfoMetricFamily(PREFIX, "The agent's version.", {"version": self._version})
        yield GaugeMetricFamily(f"{PREFIX}_start_time_seconds", "When the agent started, in seconds since the epoch.", self._started_at)
        yield from _process(look)
        yield from _messages(_rows(look, self._labelled))
        yield from _queues(queues(look.status))
        yield from _inputs(look)
        yield from _brokers(look)
        yield from _spool(look)
        counter = CounterMetricFamily(f"{PREFIX}_dory", "The agent's counters, under Dory's names where Dory has them.", labels=["name"])
        for name, value in self._counters.items():
            counter.add_metric([name], value)
        yield counter


def _process(look: AgentLook) -> Iterator[Metric]:
    account, status = look.account, look.status
    yield GaugeMetricFamily(f"{PREFIX}_connected", "1: a broker can be reached; otherwise 0.", float(status["state"] == "connected"))
    yield GaugeMetricFamily(f"{PREFIX}_offline_partitions", "Partitions that nothing can be sent to.", len(offline(status)))
    yield GaugeMetricFamily(f"{PREFIX}_memory_bytes", "Bytes of messages in memory.", look.buffered)
    yield GaugeMetricFamily(f"{PREFIX}_memory_max_bytes", "The limit of the memory for messages: max_buffer.", look.max_buffer or 0)
    yield CounterMetricFamily(
        f"{PREFIX}_possible_duplicates", "Acknowledged messages that may be in Kafka twice.", account.possible_duplicates
    )
    yield CounterMetricFamily(f"{PREFIX}_restored_messages", "Messages that were on disk when the agent started.", account.restored)
    refused = CounterMetricFamily(f"{PREFIX}_refused", "Refused datagrams and frames, and unclean ends of connections.", labels=["reason"])
    for reason, count in account.refused.items():
        refused.add_metric([reason.value], count)
    yield refused


def _rows(look: AgentLook, labelled: set[str]) -> dict[str, TopicAccount]:
    """Return rows of `labelled` topics, and under an empty name the sum of other topics. The first MOST_TOPICS topics become labelled.

    Topics that brokers do not know usually have no row of their own, because each invented name would be a new time series. A topic whose
    messages were all discarded before brokers were asked (for example RATE_LIMIT) has a row: if it got one only after its first
    acknowledgement, the sum of the others would fall then. A topic with parked messages has no row, and is not in the sum, before its
    first acknowledgement or discard.
    """
    # A labelled topic stays labelled, even without messages or without a row. Otherwise another topic would take its place, and leave the
    # sum of the others. The sum would fall, and Prometheus takes a falling counter for a restart.
    parked = {topic_of(name) for name, row in look.status.get("partitions", {}).items() if row["parked"]}
    rows = {name: row for name, row in look.account.topics.items() if row.acknowledged or row.discards.count or name not in parked}
    known = (name for name, row in rows.items() if row.acknowledged or UNKNOWN.isdisjoint(row.discards.by_reason))
    labelled.update(islice((name for name in known if name not in labelled), MOST_TOPICS - len(labelled)))
    chosen = {name: row for name, row in rows.items() if name in labelled}
    left = [look.account.others, *(row for name, row in rows.items() if name not in chosen)]
    return {**chosen, OTHERS: _sum(left)} if any(row.accepted for row in left) else chosen


def _sum(rows: list[TopicAccount]) -> TopicAccount:
    total = rows[0]
    reasons = dict(total.discards.by_reason)
    for row in rows[1:]:
        for reason, count in row.discards.by_reason.items():
            reasons[reason] = reasons.get(reason, 0) + count
    accepted, acknowledged, queued, spooled = (sum(column) for column in zip(*map(_counts, rows), strict=True))
    return TopicAccount(accepted, acknowledged, queued, spooled, Discards(reasons))


def _counts(row: TopicAccount) -> tuple[int, int, int, int]:
    return row.accepted, row.acknowledged, row.queued, row.spooled


def _messages(rows: Mapping[str, TopicAccount]) -> Iterator[Metric]:
    accepted = CounterMetricFamily(f"{PREFIX}_accepted", "Messages that inputs took, or that were on disk at the start.", labels=["topic"])
    acknowledged = CounterMetricFamily(f"{PREFIX}_acknowledged", "Messages that Kafka has acknowledged.", labels=["topic"])
    queued = GaugeMetricFamily(f"{PREFIX}_queued", "Messages in memory.", labels=["topic"])
    spooled = GaugeMetricFamily(f"{PREFIX}_spooled", "Messages that are only on disk.", labels=["topic"])
    discarded = CounterMetricFamily(f"{PREFIX}_discarded", "Messages that were discarded.", labels=["topic", "reason"])
    for topic, row in rows.items():
        accepted.add_metric([topic], row.accepted)
        acknowledged.add_metric([topic], row.acknowledged)
        queued.add_metric([topic], row.queued)
        spooled.add_metric([topic], row.spooled)
        for reason, count in row.discards.by_reason.items():
            discarded.add_metric([topic, reason.value], count)
    yield from (accepted, acknowledged, queued, spooled, discarded)


def _queues(found: Mapping[str, TopicQueue]) -> Iterator[Metric]:
    states = {"new": 0, "batch": 0, "waiting": 0, "in_flight": 0}
    for queue in found.values():
        for state in states:
            states[state] += getattr(queue, state)
    memory = GaugeMetricFamily(f"{PREFIX}_queue", "Messages in memory, by state.", labels=["state"])
    for state, count in states.items():
        memory.add_metric([state], count)
    yield memory
    ages = [queue.oldest_s for queue in found.values() if queue.oldest_s is not None]
    yield GaugeMetricFamily(f"{PREFIX}_oldest_message_seconds", "The age of the oldest message in memory.", max(ages, default=0.0))


def _inputs(look: AgentLook) -> Iterator[Metric]:
    messages = CounterMetricFamily(f"{PREFIX}_input_messages", "Messages that an input took.", labels=["input"])
    read = CounterMetricFamily(f"{PREFIX}_input_bytes", "Bytes that an input read.", labels=["input"])
    refused = CounterMetricFamily(
        f"{PREFIX}_input_refused", "Refused datagrams and frames, and unclean ends of connections.", labels=["input"]
    )
    clients = GaugeMetricFamily(f"{PREFIX}_input_clients", "Open connections.", labels=["input"])
    for entry in look.inputs:
        label = [entry.source.value]
        messages.add_metric(label, entry.messages)
        read.add_metric(label, entry.bytes)
        refused.add_metric(label, entry.refused)
        if entry.clients is not None:
            clients.add_metric(label, entry.clients)
    yield from (messages, read, refused, clients)


def _brokers(look: AgentLook) -> Iterator[Metric]:
    up = GaugeMetricFamily(
        f"{PREFIX}_broker_up", "1: no connection, or a working one; 0: the last connection failed.", labels=["broker", "address"]
    )
    for broker in brokers(look.status):
        if broker["node"] is not None and broker["node"] >= 0:
            up.add_metric([str(broker["node"]), str(broker["address"])], float(not broker["error"]))
    yield up


def _spool(look: AgentLook) -> Iterator[Metric]:
    if look.spool is None:
        return
    yield GaugeMetricFamily(f"{PREFIX}_spool_bytes", "Bytes of messages on disk.", look.spool.bytes)
    yield GaugeMetricFamily(f"{PREFIX}_spool_max_bytes", "The limit of the bytes of messages on disk.", look.spool.max_size)
    yield GaugeMetricFamily(
        f"{PREFIX}_spool_failing",
        "1: the disk refuses writes, or files cannot be synced; otherwise 0.",
        float(look.spool.failure is not None),
    )
