"""Requests the producer id of an idempotent producer, and finds the next (producer id, epoch) of each queue.

Invariant: a queue never starts at sequence 0 under a (producer id, epoch) that its partition may have seen. Brokers recognise a duplicate
batch by (producer id, epoch, sequence), per partition. New queues get the latest producer id; each queue raises its own epoch without a
request. A queue that has no epoch left, or whose id is `spent`, gets a newer id, which the producer requests if necessary.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from pykafka4.core import INFINITY, Failed, Outcome, Transitions
from pykafka4.core.backoff import Backoff
from pykafka4.core.network.call import AnyBroker, Call, Next, Verdict, unanswered
from pykafka4.core.network.network import Network
from pykafka4.core.outbox import Outbox
from pykafka4.errors import AuthorizationError, KafkaError, broker_error
from pykafka4.errors.codes import error_code
from pykafka4.wire.protocol.messages_txn import InitProducerIdRequest

__all__ = ["Identity", "IdentityState"]

# Errors of InitProducerId that are retried although Kafka's table does not call them retriable. The first three concern transactional ids
# only.
TRANSIENT = {"INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "UNKNOWN_PRODUCER_ID", "UNKNOWN_SERVER_ERROR"}
LAST_EPOCH = 32_767  # epochs are 16 bits wide


class IdentityState(Enum):
    """The state of the producer id."""

    NONE = "none"
    READY = "ready"
    FATAL = "fatal"


S = IdentityState
TABLE = Transitions[S](
    "producer id",
    {
        S.NONE: {S.READY, S.FATAL},
        S.READY: {S.NONE, S.FATAL},
        S.FATAL: set(),
    },
    {
        S.NONE: "InitProducerId has to be sent, or is in flight",
        S.READY: "queues begin their epochs under this producer id",
        S.FATAL: "refused for good: every record fails",
    },
)


class IdUser(Protocol):
    """The part of the producer whose batches wait for a producer id."""

    def id_arrived(self) -> None:
        """Send the batches that wait."""

    def id_denied(self, now: float) -> None:
        """Fail the batches that wait."""


class Identity:
    __slots__ = (
        "_call",
        "_user",
        "fatal",
        "first_epoch",
        "producer_id",
        "state",
    )

    def __init__(self, network: Network, backoff: Backoff, timeout: float, user: IdUser) -> None:
        self.state = S.NONE
        self.producer_id = -1
        self.first_epoch = -1  # of new queues; above the epochs of dropped queues (`forget`)
        self.fatal: KafkaError | None = None
        self._user = user
        self._call = Call(AnyBroker(network), backoff, timeout, _message, self._answered, self._gave_up)

    @property
    def trouble(self) -> KafkaError | None:
        return self._call.last_error

    @property
    def denied(self) -> AuthorizationError | None:
        """The error of the last response, if a right is missing. The next request may be allowed."""
        return self.trouble if isinstance(self.trouble, AuthorizationError) else None

    def after(self, producer_id: int, epoch: int, spent: bool) -> tuple[int, int] | None:
        """The (producer id, epoch) of a queue after `producer_id` and `epoch` (-1, -1: a new queue); None until a new id has arrived.

        The queue keeps the id, and gets the next epoch, unless the id is `spent` or `epoch` was its last.
        """
        if producer_id >= 0 and not spent and epoch < LAST_EPOCH:
            return producer_id, epoch + 1
        if self.producer_id >= 0 and self.producer_id != producer_id and self.first_epoch <= LAST_EPOCH:
            return self.producer_id, self.first_epoch
        if self.state is S.READY:
            self.state = TABLE.move(self.state, S.NONE)
        return None

    def forget(self, producer_id: int, epoch: int) -> None:
        """Let new queues start after `epoch`: a queue in this epoch was dropped, and its partition may have seen the epoch.

        One number for all partitions is enough, because an epoch may be skipped.
        """
        if producer_id == self.producer_id:
            self.first_epoch = max(self.first_epoch, epoch + 1)

    def fail(self, error: KafkaError) -> None:
        if self.state is not S.FATAL:
            self.state, self.fatal = TABLE.move(self.state, S.FATAL), error

    def poll(self, now: float, outbox: Outbox) -> float:
        """Request an id if one is needed; return the time of the next poll. If several brokers return an id, the first id is used."""
        return self._call.poll(now, outbox) if self.state is S.NONE else INFINITY

    def _answered(self, now: float, outcome: Outcome) -> Verdict:
        if self.state is S.FATAL:
            return None
        if isinstance(outcome, Failed):
            return unanswered(outcome)
        response = outcome.message
        if response.error_code:  # retried at another broker: a broker that is cut off from the controllers has no ids
            code = error_code(response.error_code)
            transient = code.retriable or code.name in TRANSIENT
            return Next.ELSEWHERE if transient else Next.GIVE_UP, broker_error(code.code, "InitProducerId", None, "InitProducerId")
        if response.producer_id in (self.producer_id, -1):  # partitions may have seen the current id in any epoch
            return Next.RETRY, KafkaError(f"InitProducerId: requested a new producer id, the broker returned {response.producer_id}")
        self.producer_id, self.first_epoch = response.producer_id, response.producer_epoch
        self.state = TABLE.move(self.state, S.READY)
        self._call.reset()
        self._user.id_arrived()
        return None

    def _gave_up(self, now: float, error: KafkaError) -> None:
        """End the producer, unless it has an id: then it continues with the partitions that can use the id.

        A producer without the right to an id also continues: the right may be granted.
        """
        if isinstance(error, AuthorizationError):
            self._user.id_denied(now)
        elif self.producer_id < 0:
            self.fail(error)


def _message() -> InitProducerIdRequest:
    """The request for a new id: without a transactional id, brokers ignore the id and epoch in it."""
    return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1)
