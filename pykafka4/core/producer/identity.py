"""Producer ids. Rule: a queue never starts at sequence 0 under a (producer id, epoch) that its partition may have seen.

Brokers recognise a duplicate batch by (producer id, epoch, sequence), per partition. All queues share one producer id; each has its own
epoch, which it raises without asking a broker. A new id is requested when no epoch is left.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from pykafka4.core import Failed, Outcome, Request, Transitions
from pykafka4.core.backoff import Backoff
from pykafka4.core.network.question import Question
from pykafka4.error_table import ErrorCode, error_code
from pykafka4.errors import KafkaError, broker_error
from pykafka4.wire.protocol.messages_txn import InitProducerIdRequest

__all__ = ["Identity", "IdentityState"]

# Not retriable by Kafka's table. The first three concern transactional ids only; the last one is a failure inside the broker.
TRANSIENT = {"INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "UNKNOWN_PRODUCER_ID", "UNKNOWN_SERVER_ERROR"}
LAST_EPOCH = 32_767  # epochs are 16 bits wide


class IdentityState(Enum):
    """The state of the producer id."""

    NONE = "none"
    ASKING = "asking"
    READY = "ready"
    FATAL = "fatal"


S = IdentityState
TABLE = Transitions[S](
    "producer id",
    {
        S.NONE: {S.ASKING, S.FATAL},
        S.ASKING: {S.READY, S.NONE, S.FATAL},
        S.READY: {S.NONE, S.FATAL},
        S.FATAL: set(),
    },
    {
        S.NONE: "InitProducerId has to be sent, after a back-off if it failed before",
        S.ASKING: "InitProducerId is in flight",
        S.READY: "queues begin their epochs under this producer id",
        S.FATAL: "refused for good: every record fails",
    },
)


class Identity:
    """The producer id of an idempotent producer, and the epoch in which its new queues start."""

    __slots__ = (
        "_avoid",
        "_backoff",
        "_changed",
        "_not_before",
        "_question",
        "_timeout",
        "fatal",
        "first_epoch",
        "producer_id",
        "state",
        "trouble",
    )

    def __init__(self, backoff: Backoff, timeout: float, changed: Callable[[], None], avoid: Callable[[float, int], None]) -> None:
        """`changed` is called after a new id has arrived. `avoid(now, node)`: send requests to other brokers first."""
        self.state = S.NONE
        self.producer_id = -1
        self.first_epoch = -1  # the epoch of a queue that starts to use this id
        self.fatal: KafkaError | None = None
        self.trouble: KafkaError | None = None  # why the last request failed, until one succeeds
        self._backoff, self._timeout, self._changed, self._avoid = backoff, timeout, changed, avoid
        self._not_before = 0.0
        self._question = Question(self._answered)

    @property
    def wake_at(self) -> float:
        """When the next request is due."""
        return self._question.again_at if self._question.open else self._not_before

    def after(self, producer_id: int, epoch: int, spent: bool) -> tuple[int, int] | None:
        """The (producer id, epoch) that follows this one (-1, -1: a new queue); None until a new id has arrived.

        The same id with the next epoch, unless the id is `spent` or that was its last epoch.
        """
        if producer_id >= 0 and not spent and epoch < LAST_EPOCH:
            return producer_id, epoch + 1
        if self.producer_id >= 0 and self.producer_id != producer_id and self.first_epoch <= LAST_EPOCH:
            return self.producer_id, self.first_epoch
        if self.state is S.READY:
            self.state = TABLE.move(self.state, S.NONE)
        return None

    def forget(self, producer_id: int, epoch: int) -> None:
        """A queue in this epoch was dropped: a new queue of its partition has to start in a later epoch."""
        if producer_id == self.producer_id:
            self.first_epoch = max(self.first_epoch, epoch + 1)

    def fail(self, error: KafkaError) -> None:
        """Fail this producer for good."""
        if self.state is not S.FATAL:
            self.state, self.fatal = TABLE.move(self.state, S.FATAL), error

    def ask(self, now: float) -> Request | None:
        """The request for an id, if one is due. Every response has another id; the first one is used."""
        if self.state not in (S.NONE, S.ASKING) or now < self.wake_at:
            return None
        if self.state is S.NONE:
            self.state = TABLE.move(self.state, S.ASKING)
        # Without a transactional id brokers return a new id, whatever id and epoch the request has.
        message = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1)
        return self._question.ask(now, message, self._timeout)

    def _answered(self, now: float, outcome: Outcome) -> None:
        if self.state is S.FATAL:
            return
        if isinstance(outcome, Failed):
            self._failed(now, outcome.reason, outcome.passing)
        elif outcome.message.error_code:
            self._avoid(now, outcome.node)  # a broker that is cut off from the controllers has no ids
            self._refused(now, error_code(outcome.message.error_code))
        elif outcome.message.producer_id in (self.producer_id, -1):  # partitions may have seen it
            self._again(now, KafkaError(f"InitProducerId: requested a new producer id, the broker returned {outcome.message.producer_id}"))
        else:
            self.producer_id, self.first_epoch = outcome.message.producer_id, outcome.message.producer_epoch
            self.state, self.trouble = TABLE.move(self.state, S.READY), None
            self._backoff.reset()
            self._changed()

    def _refused(self, now: float, code: ErrorCode) -> None:
        self._failed(now, broker_error(code.code, "InitProducerId"), code.retriable or code.name in TRANSIENT)

    def _failed(self, now: float, error: KafkaError, transient: bool) -> None:
        """Retry after a back-off if that can help. A producer that has an id continues with the partitions that can use it."""
        if transient or self.producer_id >= 0:
            self._again(now, error)
        else:
            self.fail(error)

    def _again(self, now: float, error: KafkaError) -> None:
        self.state, self.trouble = TABLE.move(self.state, S.NONE), error
        self._not_before = now + self._backoff.next()
