"""Builds Produce requests, and counts the requests in flight to each broker.

Invariant: a batch keeps its sequence and its checksum while it may be written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol
from uuid import UUID

import attrs

from pykafka4.core import INFINITY, Outcome, Request
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.network.network import Network
from pykafka4.core.producer.outcomes.batch_outcomes import BatchEvents
from pykafka4.core.producer.outcomes.ledger import Ledger
from pykafka4.core.producer.queues.partition_queue import PartitionQueue
from pykafka4.options.config import ProducerConfig
from pykafka4.wire.protocol.messages_produce import ProduceRequest
from pykafka4.wire.records.hot import ACKED, Batch

__all__ = ["NO_ID", "SILENCE_S", "InFlightProduce", "ProduceRequests"]

BY_NAME_ONLY = 12  # the last version of Produce that identifies topics by name
MOST_IN_FLIGHT = 5  # batches per partition that brokers remember for an idempotent producer, from Kafka 1.0 on
REMEMBERS_ONE = 3  # the highest Produce version of Kafka 0.11, which remembers only the last batch
# The part of request_timeout_ms for which brokers wait for replicas. If brokers waited for all of it, one partition without its replicas
# would delay the response beyond the client's timeout, and the outcomes of all partitions of the request would be lost.
BROKERS_SHARE = 0.8
SILENCE_S = 2.0  # seconds without a response until a Metadata request: the broker may be frozen, and no longer be a leader
NO_ID = UUID(int=0)


class ResponseReader(Protocol):
    """The part of the sender that reads Produce responses."""

    def apply(self, now: float, flight: InFlightProduce, outcome: Outcome) -> None:
        """Acknowledge, requeue or fail the batches of `flight`."""


@attrs.define(eq=False)
class InFlightProduce(Request):
    """A Produce request that has no response yet."""

    sender: ProduceRequests = attrs.field(kw_only=True)
    entries: tuple[tuple[PartitionQueue, Batch], ...] = attrs.field(kw_only=True)
    topics: Mapping[str, ProduceRequest.Topic] = attrs.field(kw_only=True)  # by name, with the topic ids at the time of sending
    terms: tuple[int, ...] = attrs.field(kw_only=True)  # `PartitionQueue.term` of each entry at the time of sending
    sent_at: float = attrs.field(kw_only=True)

    def on_reply(self, now: float, outcome: Outcome) -> None:
        self.sender.request_ended(now, self, outcome)

    @property
    def superseded(self) -> list[tuple[PartitionQueue, Batch]]:
        """The entries whose leader was replaced after the request was sent (`PartitionQueue.supersede`)."""
        return [entry for entry, term in zip(self.entries, self.terms, strict=True) if term != entry[0].term]

    @property
    def is_over(self) -> bool:
        """Whether the leaders of all batches were replaced, and all batches are acknowledged."""
        return len(self.superseded) == len(self.entries) and all(batch.state == ACKED for _, batch in self.entries)


class ProduceRequests:
    def __init__(
        self,
        config: ProducerConfig,
        network: Network,
        cluster: Cluster,
        ledger: Ledger,
        responses: ResponseReader,
    ) -> None:
        self._config, self._network, self._cluster, self._ledger, self._responses = config, network, cluster, ledger, responses
        self._in_flight: dict[int, int] = {}  # number of requests, for each node that ever got one
        self.highest: int | None = None  # the highest version to use; None: any
        self._full: dict[int, None] = {}  # the nodes with the maximum number of requests in flight
        self._unanswered: dict[int, dict[InFlightProduce, None]] = {}  # node -> its requests, oldest first
        self._heard_at: dict[int, float] = {}  # node -> when a request to it last ended

    events: BatchEvents | None = None

    def room(self, node: int) -> bool:
        return self._in_flight.get(node, 0) < self._config.max_in_flight_requests_per_connection

    @property
    def quiet(self) -> bool:
        """Whether no request is in flight, except requests that are over."""
        return all(flight.is_over for flights in self._unanswered.values() for flight in flights)

    def all_full(self) -> bool:
        if not self._full or not any(self._network.ready(node) for node in self._full):
            return False
        return not any(self.room(node) and self._network.ready(node) for node in self._in_flight)

    def silent(self, now: float) -> tuple[list[str], float]:
        """The topics in requests to brokers that have not responded for SILENCE_S, and the time of the next check (INFINITY if no request
        is in flight)."""
        topics: dict[str, None] = {}
        look_at = INFINITY
        for node, flights in self._unanswered.items():
            if (quiet_since := self.quiet_since(node)) is not None:
                due = quiet_since + SILENCE_S
                look_at = min(look_at, due if due > now else now + SILENCE_S / 2)
                if due <= now:
                    topics.update(dict.fromkeys(name for flight in flights for name in flight.topics))
        return list(topics), look_at

    def quiet_since(self, node: int) -> float | None:
        """The time since which `node` has not responded; None if no request to it is in flight."""
        # A broker handles its requests in order: each response shows that it was at work until then.
        flights = self._unanswered.get(node)
        return max(next(iter(flights)).sent_at, self._heard_at.get(node, -INFINITY)) if flights else None

    def depth(self, node: int) -> int:
        """The maximum number of batches of a partition in flight to `node`: as many as the broker remembers per producer.

        If more were in flight and the responses were lost, the broker would not recognise the first ones as duplicates. Without idempotence
        the maximum is one: otherwise a resent batch could be written after later batches.
        """
        remembers_one = (self._network.version(node, ProduceRequest.api_key) or 0) <= REMEMBERS_ONE
        return 1 if remembers_one or not self._config.enable_idempotence else MOST_IN_FLIGHT

    def build(self, node: int, entries: list[tuple[PartitionQueue, Batch]], now: float) -> InFlightProduce:
        topics: dict[str, ProduceRequest.Topic] = {}
        records = retried = 0
        for queue, batch in entries:
            self._finish(queue, batch)
            topic = topics.get(batch.topic)
            if topic is None:
                topic_id = self._cluster.topic_id(batch.topic) or NO_ID
                topic = topics[batch.topic] = ProduceRequest.Topic(name=batch.topic, topic_id=topic_id, partition_data=[])
            topic.partition_data.append(ProduceRequest.Topic.Partition(index=batch.partition, records=batch))
            records += batch.count
            retried += batch.attempts > 1
        message = ProduceRequest(
            transactional_id=self._config.transactional_id,
            acks=self._config.acks,
            timeout_ms=max(1, int(self._config.request_timeout_ms * BROKERS_SHARE)),
            topic_data=list(topics.values()),
        )
        flight = InFlightProduce(
            node,
            message,
            now + self._config.request_timeout_ms / 1000,
            max_version=self._limit(message),
            expects_reply=self._config.acks != 0,
            sender=self,
            entries=tuple(entries),
            topics=topics,
            terms=tuple([queue.term for queue, _ in entries]),
            sent_at=now,
        )
        self._unanswered.setdefault(node, {})[flight] = None
        self._in_flight[node] = self._in_flight.get(node, 0) + 1
        if not self.room(node):
            self._full[node] = None
        self._ledger.sent(records, retried)
        if self.events is not None:
            self.events.requested(node, [batch for _, batch in entries])
        return flight

    def _limit(self, message: ProduceRequest) -> int | None:
        if any(topic.topic_id is NO_ID for topic in message.topic_data):
            return BY_NAME_ONLY if self.highest is None else min(BY_NAME_ONLY, self.highest)
        return self.highest

    def _finish(self, queue: PartitionQueue, batch: Batch) -> None:
        batch.attempts += 1
        if not self._config.enable_idempotence:
            if batch.attempts == 1:
                batch.finish(-1, -1, -1)
            return
        fresh = batch.base_sequence < 0
        queue.number(batch)
        if fresh or batch.producer_id < 0:
            batch.finish(queue.producer_id, queue.epoch, batch.base_sequence)

    def request_ended(self, now: float, flight: InFlightProduce, outcome: Outcome) -> None:
        self._in_flight[flight.node] -= 1
        del self._unanswered[flight.node][flight]
        self._heard_at[flight.node] = now
        self._full.pop(flight.node, None)
        self._responses.apply(now, flight, outcome)
