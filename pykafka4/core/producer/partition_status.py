"""Finds out whether the records of each partition can be sent now; if not, why, and since when. Invariant: this module only reads.

`Producer.status` shows the result. A partition is online if only the producer's own limits (linger, requests in flight) delay its records.
`look` and `look_at_parked` return flat lists: a tuple for each of thousands of partitions would make the garbage collector run on the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.recovery import Recovery
from pykafka4.core.network.network import Network
from pykafka4.core.producer.outcomes.ledger import Census, Ledger
from pykafka4.core.producer.produce.requests import SILENCE_S, ProduceRequests
from pykafka4.core.producer.queues.partition_queue import PartitionQueue
from pykafka4.core.producer.transactions.machine import Transactions
from pykafka4.errors import KafkaError
from pykafka4.wire.records.hot import OPEN

__all__ = ["NO_PARTITION", "WIDTH", "PartitionStatus", "show"]

WIDTH: Final = 5  # items of `look` per queue: partition, reason (None: online), since, last error, its time
PARKED_WIDTH: Final = 3  # items of `look_at_parked` per topic: name, reason, when the oldest record was sent
NO_PARTITION: Final = "{} (no partition yet)"  # the key of a topic's records that have no partition


class Parked(Protocol):
    """The part of the accumulator with the parked records."""

    def parked(self, topic: str) -> tuple[int, float]:
        """The number of parked records of `topic`, and the time when the oldest was sent."""


class MissingIds(Protocol):
    """The part of `Numbering` with the queues that wait for a producer id."""

    def missing(self, queue: PartitionQueue) -> tuple[bool, KafkaError | None]:
        """Whether `queue` waits for a producer id, and the error of the last request for one."""


class PartitionStatus:
    """Finds the obstacles of queues and of parked records, on the loop thread."""

    __slots__ = ("_cluster", "_ledger", "_network", "_numbering", "_recovery", "_requests", "transactions")

    def __init__(
        self,
        network: Network,
        cluster: Cluster,
        recovery: Recovery,
        requests: ProduceRequests,
        ledger: Ledger,
        numbering: MissingIds,
    ) -> None:
        self._network, self._cluster, self._recovery, self._requests = network, cluster, recovery, requests
        self._ledger, self._numbering = ledger, numbering
        self.transactions: Transactions | None = None

    def look(self, queues: Iterable[PartitionQueue], now: float) -> list[Any]:
        """Return WIDTH items for each queue, one queue after the other. Times are monotonic seconds.

        "Since" is None where the client does not know when the trouble began; then `show` uses the age of the oldest record.
        """
        found: list[Any] = []
        offline, troubles = self._recovery.offline, self._ledger.troubles
        for queue in queues:
            tp, batches = queue.tp, queue.batches
            down = offline.get(tp)
            reason, since = self._obstacle(queue, now) if down is None else (down.reason, down.since)
            error, error_at = (batches[0].last_error if batches else None), None
            if error is None and troubles and (trouble := troubles.get(tp)) is not None:
                error, error_at, _ = trouble
            found += (tp, reason, since, error, error_at)
        return found

    def look_at_parked(self, topics: Iterable[str], acc: Parked, now: float) -> list[Any]:
        """Return the reasons why parked records have no partition yet: PARKED_WIDTH items for each topic."""
        found: list[Any] = []
        for topic in topics:
            found += (topic, self._why_parked(topic), acc.parked(topic)[1])
        return found

    def _why_parked(self, topic: str) -> str:
        if self._cluster.partitions(topic):
            return "the oldest record waits to be moved into a batch, or is for a partition that brokers do not report"
        error = self._cluster.topic_error(topic)
        if error is not None:
            return f"the brokers report {error.name}"
        return self._network.why_unreachable() or str(self._cluster.error or "the partitions of the topic are not known yet")

    def _obstacle(self, queue: PartitionQueue, now: float) -> tuple[KafkaError | str | None, float | None]:
        if queue.tp.partition < 0:  # partitioner="late"
            return ("waits for a broker that can take a batch" if queue.waiting else None), None
        leader = self._recovery.leader(queue.tp)
        if leader is None:
            return "no leader", None
        refused = self._ledger.troubles.get(queue.tp)
        if refused is not None and refused.refused is not None:
            return refused.error, refused.refused
        if not self._network.ready(leader.node):
            return self._unready(queue, leader.node, now)
        return self._held_back(queue, leader.node, now)

    def _unready(self, queue: PartitionQueue, node: int, now: float) -> tuple[str | None, float | None]:
        """The obstacle of a queue whose leader is not ready (`Network.ready`).

        While no record waits, a lost connection is an obstacle only after an attempt to connect again has failed.
        """
        waits = queue.waiting or queue.in_flight > 0
        throttled = self._network.throttled_until(node)
        if throttled > now:
            return (f"broker {node} throttles this client for {throttled - now:.3g} s" if waits else None), None
        why, since = self._network.why_down(node), self._network.down_since(node)
        if why and (waits or since is not None):
            return why, since
        return (f"connecting to broker {node}" if waits else None), None

    def _held_back(self, queue: PartitionQueue, node: int, now: float) -> tuple[KafkaError | str | None, float | None]:
        if not queue.waiting and not queue.awaits_response:
            return None, None
        waits, trouble = self._numbering.missing(queue)
        if waits:
            return trouble or "waits for a producer id", None
        if (why := self._why_not_in_transaction(queue, now)) is not None:
            return why, None
        node = queue.node if queue.awaits_response else node
        quiet_since = self._requests.quiet_since(node)
        if quiet_since is not None and quiet_since + SILENCE_S <= now:
            return f"broker {node} has not responded for {now - quiet_since:.3g} s", quiet_since
        if queue.stale and queue.in_doubt:
            return "its epoch has ended; waits until no batch of that epoch is in doubt", None
        if queue.strays and queue.waiting:
            requests = "1 request" if queue.strays == 1 else f"{queue.strays} requests"
            return f"waits for the end of {requests} whose records already have outcomes", None
        if queue.held_until > now:
            return f"sends again in {queue.held_until - now:.3g} s", None
        return None, None

    def _why_not_in_transaction(self, queue: PartitionQueue, now: float) -> KafkaError | str | None:
        """The reason why the next batch waits for its transaction. `ReadyQueues` does not list such a queue: `placed_at` is None."""
        transactions = self.transactions
        if transactions is None or queue.in_flight or queue.placed_at is not None:
            return None
        oldest = queue.batches[0] if queue.batches else queue.due
        late = oldest is not None and oldest.sent_at + SILENCE_S <= now
        return transactions.trouble or ("waits for the coordinator of the transaction" if late else None)


Row = dict[str, Any]  # a partition in `status()`
EMPTY: Final[Row] = {  # the row of records that have no queue yet
    "state": "online",
    "since": None,
    "reason": None,
    "queued": 0,
    "queued_bytes": 0,
    "open": 0,
    "parked": 0,
    "oldest_age": None,
    "in_flight": 0,
    "last_error": None,
    "last_error_age": None,
}


def show(
    now: float, found: Sequence[Any], census: Census, parked: Sequence[Any] = (), final: tuple[KafkaError, float] | None = None
) -> dict[str, Row]:
    """Build the partitions of `status()`. Call this on the thread that calls `status`: thousands of dicts take a long time to build.

    `final` is the error that ended the producer, and its time.
    """
    rows: dict[str, Row] = {}
    by_partition: dict[tuple[str, int], Row] = {}
    undated: list[Row] = []  # offline rows without a known beginning: they get the age of their oldest record
    items = iter(found)
    for tp, reason, since, error, error_at in zip(items, items, items, items, items, strict=True):
        by_partition[tp] = rows[_key(*tp)] = row = {
            "state": "online" if reason is None else "offline",
            "since": None if reason is None or since is None else now - since,
            "reason": None if reason is None else str(reason),
            "queued": 0,
            "queued_bytes": 0,
            "open": 0,
            "parked": 0,
            "oldest_age": None,
            "in_flight": 0,
            "last_error": None if error is None else str(error),
            "last_error_age": None if error_at is None else now - error_at,
        }
        if since is None and reason is not None:
            undated.append(row)
    _add_batches(rows, by_partition, census, now)
    for row in undated:
        row["since"] = row["oldest_age"]
    _add_parked(rows, census, parked, now)
    if final is not None:
        why, ago = str(final[0]), max(0.0, now - final[1])
        for row in rows.values():
            row["state"], row["reason"], row["since"] = "offline", why, ago
    return rows


def _key(topic: str, partition: int) -> str:
    return f"{topic}-{partition}" if partition >= 0 else NO_PARTITION.format(topic)


def _add_batches(rows: dict[str, Row], by_partition: dict[tuple[str, int], Row], census: Census, now: float) -> None:
    for batch, records, in_flight in census[1]:
        place = batch.topic, batch.partition
        row = by_partition.get(place)
        if row is None:
            row = by_partition[place] = rows[_key(*place)] = {**EMPTY}
        if in_flight:
            row["in_flight"] += records
        else:
            row["queued"] += records
            row["queued_bytes"] += batch.size
            row["open"] += records if batch.state == OPEN else 0
        age, oldest = now - batch.sent_at, row["oldest_age"]
        if oldest is None or age > oldest:
            row["oldest_age"] = age


def _add_parked(rows: dict[str, dict[str, Any]], census: Census, parked: Sequence[Any], now: float) -> None:
    """Add the parked records. Their bytes are not counted by topic."""
    counts, items = dict(census[2]), iter(parked)
    for topic, reason, oldest in zip(items, items, items, strict=True):
        if topic in counts:
            row = rows.setdefault(_key(topic, -1), {**EMPTY, "queued_bytes": None})
            row["queued"] += counts[topic]
            row["parked"] = counts[topic]
            row["oldest_age"] = max(now - oldest if oldest else 0.0, row["oldest_age"] or 0.0)
            row["state"], row["reason"], row["since"] = "offline", reason, row["oldest_age"]
