"""Standing. Rule: only reads; says of each partition whether its records can be sent now, and if they cannot, since when and why.

`Producer.status` shows it. A partition is online if nothing but the producer's own limits (linger, requests in flight) delays its records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pykafka4.core.metadata.recovery import Recovery
from pykafka4.core.network.network import Network
from pykafka4.core.producer.ledger import Census
from pykafka4.core.producer.queues import PartitionQueue
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition

__all__ = ["Standing", "Standings", "show"]


class Standing(NamedTuple):
    """The state of a partition. `since` (monotonic seconds) is None where the client does not know when it began: at the latest
    when the oldest record was sent that waits."""

    tp: TopicPartition
    reason: KafkaError | str | None  # None: online
    since: float | None
    last_error: KafkaError | None  # of the oldest batch that waits

    def describe(self, row: dict[str, Any], now: float) -> None:
        """Write it into the partition's row of `status()`."""
        if self.reason is not None:
            row["state"], row["reason"] = "offline", str(self.reason)
            row["since"] = row["oldest_age"] if self.since is None else max(0.0, now - self.since)
        row["last_error"] = None if self.last_error is None else str(self.last_error)


class Standings:
    """Looks at the queues of one producer."""

    __slots__ = ("_missing_id", "_network", "_recovery")

    def __init__(
        self, network: Network, recovery: Recovery, missing_id: Callable[[PartitionQueue], tuple[bool, KafkaError | None]]
    ) -> None:
        """`missing_id(queue)` is whether `queue` waits for a producer id, and why none has arrived."""
        self._network, self._recovery, self._missing_id = network, recovery, missing_id

    def of(self, queue: PartitionQueue, now: float) -> Standing | TopicPartition:
        """The state of the queue's partition; only its name if there is nothing to say."""
        last_error = queue.batches[0].last_error if queue.batches else None
        reason, since = self._obstacle(queue, now)
        return queue.tp if reason is None and last_error is None else Standing(queue.tp, reason, since, last_error)

    def _obstacle(self, queue: PartitionQueue, now: float) -> tuple[KafkaError | str | None, float | None]:
        if queue.tp.partition < 0:  # partitioner="late"
            return ("waits for a broker that can take it" if queue.waiting else None), None
        offline = self._recovery.offline.get(queue.tp)
        if offline is not None:
            return offline.reason, offline.since
        leader = self._recovery.leader(queue.tp)
        if leader is None:
            return "no leader", queue.leaderless_since
        if not self._network.ready(leader.node):
            return self._unready(queue, leader.node, now)
        waits, trouble = self._missing_id(queue)
        if waits:
            return trouble or "waits for a producer id", None
        if queue.stale and queue.in_doubt:
            return "its epoch has ended; waits until nothing sent in it is in doubt", None
        if queue.held_until > now:
            return f"sends again in {queue.held_until - now:.3g} s", None
        return None, None

    def _unready(self, queue: PartitionQueue, node: int, now: float) -> tuple[str | None, float | None]:
        """There is no connection to the leader, or it is throttled. Nobody connects to a broker that nothing is to be sent to."""
        throttled = self._network.throttled_until(node)
        if throttled > now:
            return f"broker {node} throttles this client for {throttled - now:.3g} s", None
        why, since = self._network.why_down(node), self._network.down_since(node)
        if why:
            return why, since
        return (f"connecting to broker {node}", None) if queue.waiting or queue.in_flight else (None, None)


IDLE: dict[str, Any] = {
    "state": "online",
    "since": None,
    "reason": None,
    "queued": 0,
    "queued_bytes": 0,
    "oldest_age": None,
    "in_flight": 0,
    "last_error": None,
}


def show(now: float, standings: Sequence[Standing | TopicPartition], census: Census) -> dict[str, dict[str, Any]]:
    """The partitions in `status()`. Call it on the thread that asked."""
    rows = {(s.tp if isinstance(s, Standing) else s): IDLE.copy() for s in standings}
    _count(rows, census, now)
    for standing in standings:
        if isinstance(standing, Standing):
            standing.describe(rows[standing.tp], now)
    return {(f"{topic}-{partition}" if partition >= 0 else f"{topic} (no partition yet)"): row for (topic, partition), row in rows.items()}


def _count(rows: dict[TopicPartition, dict[str, Any]], census: Census, now: float) -> None:
    """Add what waits: the batches without an outcome."""
    for batch, records, in_flight in census[1]:
        row = rows.get((batch.topic, batch.partition))  # type: ignore[call-overload]  # an equal tuple
        if row is None:  # the loop has not seen its first batch yet
            row = rows[TopicPartition(batch.topic, batch.partition)] = IDLE.copy()
        if in_flight:
            row["in_flight"] += records
        else:
            row["queued"] += records
            row["queued_bytes"] += batch.size
        age = now - batch.sent_at
        row["oldest_age"] = max(age, row["oldest_age"] or 0.0)
