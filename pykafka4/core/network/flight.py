"""A request in flight on a connection. Rule: the time to respond starts when the request is written, or the broker begins with it."""

from __future__ import annotations

from pykafka4.core import Request
from pykafka4.errors import ConnectionLost, KafkaError
from pykafka4.wire.protocol.frame import FrameTooLarge

__all__ = ["Flight", "of_others"]

NEARLY_LATE = 0.75  # of its time-out: a broker that waited for its replicas without success took 80 %, as it would for the next requests


class Flight:
    """A request whose bytes were handed out, and its version."""

    __slots__ = ("correlation_id", "deadline", "patience", "request", "version", "written_at")

    def __init__(self, request: Request, version: int, correlation_id: int, written_at: float) -> None:
        self.request, self.version, self.correlation_id, self.written_at = request, version, correlation_id, written_at
        waited = 0.0 if request.asked_at is None else written_at - request.asked_at
        self.deadline = request.deadline + waited
        self.patience = self.deadline - written_at

    def was_nearly_late(self, now: float) -> bool:
        """Whether a response at `now` took most of the request's time-out."""
        return self.deadline - now < (1 - NEARLY_LATE) * self.patience

    def restart_time(self, now: float) -> None:
        """The broker has responded to an earlier request: only now it processes the next one, however long ago that was written."""
        self.deadline = max(self.deadline, now + self.patience)


def of_others(reason: KafkaError) -> KafkaError:
    """`reason`, for which a connection ended, for all its requests but the first. A response that was too large is that of the first."""
    return ConnectionLost(str(reason)) if isinstance(reason.__cause__, FrameTooLarge) else reason
