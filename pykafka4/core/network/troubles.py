"""Reports errors that are retried without end: one warning after WARN_AFTER_S, further ones every REPEAT_S, and the reason in `status()`.

Invariant: a cause is logged and shown only until `over`, or until STALE_S (or longer, see below) after its last failed attempt. A single
failed attempt is normal, and is not logged. Of thousands of partitions that fail at the same time, at most one is logged every GAP_S.
"""

from __future__ import annotations

from typing import Final

import attrs

from pykafka4.core import INFINITY
from pykafka4.errors import BrokerError, KafkaError
from pykafka4.logs import get_log

__all__ = ["REPEAT_S", "WARN_AFTER_S", "Troubles"]

log = get_log("pykafka4.network")

WARN_AFTER_S: Final = 5.0  # longer than an election of leaders or coordinators usually takes
REPEAT_S: Final = 30.0  # between warnings about the same cause; in `network` also before the first warning that no broker is reachable
GAP_S: Final = 5.0  # between warnings about different causes
# Without a failed attempt for this time, or for twice the timeout of a request if that is longer, the retries have ended without `over`.
STALE_S: Final = 60.0
USUAL_CAUSES: Final = {
    "COORDINATOR_NOT_AVAILABLE": "usually fewer brokers are running than offsets.topic.replication.factor (for transactions: "
    "transaction.state.log.replication.factor) demands, so the brokers cannot create the coordinators' topic",
    "COORDINATOR_LOAD_IN_PROGRESS": "the coordinator reads its log, which can take minutes if the log cleaner does not compact the log",
    "NOT_COORDINATOR": "the brokers disagree about the coordinator: usually one is cut off from the controller",
    "CONCURRENT_TRANSACTIONS": "the last transaction of this transactional_id has not ended: usually brokers of its partitions are down",
    "NOT_ENOUGH_REPLICAS": "fewer replicas are in sync than min.insync.replicas demands: usually brokers are down",
    "KAFKA_STORAGE_ERROR": "a disk of the broker has failed or is full",
    "INVALID_REPLICATION_FACTOR": "fewer brokers are running than default.replication.factor demands for a new topic",
    "UNKNOWN_TOPIC_OR_PARTITION": "it does not exist: usually its name is misspelt, or it has not been created yet",
    "LEADER_NOT_AVAILABLE": "the partition has no leader: usually the brokers of its replicas are down",
    "REBALANCE_IN_PROGRESS": "the group does not come to rest: usually a member joins and leaves again and again",
}


@attrs.define(eq=False)
class Trouble:
    """`since` and `noted_at` are the times of the first and the last failed attempt."""

    since: float
    warn_at: float
    error: KafkaError
    noted_at: float

    @property
    def text(self) -> str:
        cause = USUAL_CAUSES.get(str(self.error.code)) if isinstance(self.error, BrokerError) else None
        return f"{self.error}; {cause}" if cause else str(self.error)


class Troubles:
    """The errors that one client retries at the moment. Loop thread only."""

    __slots__ = ("_client_id", "_current", "_forget_at", "_quiet_until", "_stale")

    def __init__(self, client_id: str, request_timeout: float = 0.0) -> None:
        """`request_timeout` is in seconds."""
        self._client_id, self._stale = client_id, max(STALE_S, 2 * request_timeout)
        self._current: dict[object, Trouble] = {}  # by the object that retries, or that stands in for it
        self._quiet_until = self._forget_at = -INFINITY  # the earliest next warning; the next removal of stale troubles

    def note(self, now: float, what: object, error: KafkaError, patience: float = WARN_AFTER_S) -> None:
        """Record a failed attempt of `what`; log a warning if attempts have failed for `patience` seconds."""
        if now >= self._forget_at:
            self._forget_at = now + self._stale
            self._current = {key: trouble for key, trouble in self._current.items() if trouble.noted_at + self._stale >= now}
        trouble = self._current.get(what)
        if trouble is None or trouble.noted_at + self._stale < now:
            trouble = self._current[what] = Trouble(now, now + patience, error, now)
        trouble.error, trouble.noted_at = error, now
        if now >= trouble.warn_at and now >= self._quiet_until:
            trouble.warn_at, self._quiet_until = now + REPEAT_S, now + GAP_S
            log.warning("%s: still retrying after %.0f s: %s", self._client_id, now - trouble.since, trouble.text)

    def over(self, what: object) -> None:
        """Forget `what`, which has succeeded or was given up."""
        if self._current:
            self._current.pop(what, None)

    def reason(self, now: float) -> str | None:
        """Return the error that has been retried for the longest time; None if no error has been retried for WARN_AFTER_S."""
        current = [t for t in self._current.values() if t.noted_at >= t.since + WARN_AFTER_S and t.noted_at + self._stale >= now]
        return min(current, key=lambda trouble: trouble.since).text if current else None
