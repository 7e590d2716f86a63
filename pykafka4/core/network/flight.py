"""Keeps the deadline for the response to a request in flight. Invariant: the time for the response to a submitted request starts when the
request is written, and again with each timely response to an earlier request, because only then does the broker begin this request."""

from __future__ import annotations

from pykafka4.core import Request
from pykafka4.errors import ConnectionLost, KafkaError
from pykafka4.wire.protocol.frame import FrameTooLarge

__all__ = ["MUTES_FROM", "Flight", "of_others"]

# The part of the request's timeout after which its response is nearly late, and does not restart the time of later requests. A leader that
# is cut off from the other brokers accepts requests as before, and for each one in turn waits for its replicas until 80 % of the
# timeout has passed. With restarts, five batches in flight would wait for minutes until the client asks for the new leader.
NEARLY_LATE_SHARE = 0.75

# Before these versions (KIP-219, Kafka 2.0), a broker that throttles delays the response itself. No other API of this client needs a limit.
MUTES_FROM = {
    "AddOffsetsToTxn": 1, "AddPartitionsToTxn": 1, "AlterReplicaLogDirs": 1, "ApiVersions": 2, "CreateAcls": 1,
    "CreateDelegationToken": 1, "CreatePartitions": 1, "CreateTopics": 3, "DeleteAcls": 1, "DeleteGroups": 1, "DeleteRecords": 1,
    "DeleteTopics": 2, "DescribeAcls": 1, "DescribeConfigs": 2, "DescribeDelegationToken": 1, "DescribeGroups": 2, "DescribeLogDirs": 1,
    "EndTxn": 1, "ExpireDelegationToken": 1, "Fetch": 8, "FindCoordinator": 2, "Heartbeat": 2, "InitProducerId": 1, "JoinGroup": 3,
    "LeaveGroup": 2, "ListGroups": 2, "ListOffsets": 3, "Metadata": 6, "OffsetCommit": 4, "OffsetFetch": 4, "Produce": 6,
    "RenewDelegationToken": 1, "SyncGroup": 2, "TxnOffsetCommit": 1,
}  # fmt: skip


class Flight:
    __slots__ = ("correlation_id", "deadline", "request", "timeout", "version", "written_at")

    def __init__(self, request: Request, version: int, correlation_id: int, written_at: float) -> None:
        self.request, self.version, self.correlation_id, self.written_at = request, version, correlation_id, written_at
        waited = 0.0 if request.asked_at is None else written_at - request.asked_at
        self.deadline = request.deadline + waited
        self.timeout = self.deadline - written_at

    @property
    def is_muting(self) -> bool:
        """Whether a broker that throttles has sent the response at once, and expects the client to wait (KIP-219)."""
        return self.version >= MUTES_FROM.get(type(self.request.message).__name__.removesuffix("Request"), 0)

    def was_nearly_late(self, now: float) -> bool:
        return self.deadline - now < (1 - NEARLY_LATE_SHARE) * self.timeout

    def restart_time(self, now: float) -> None:
        self.deadline = max(self.deadline, now + self.timeout)


def of_others(reason: KafkaError) -> KafkaError:
    """Return the reason for the later requests on an ended connection: `reason`, but without the cause FrameTooLarge, because
    the response that was too large belonged to the first request."""
    return ConnectionLost(str(reason)) if isinstance(reason.__cause__, FrameTooLarge) else reason
