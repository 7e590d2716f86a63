"""Producer ids. Rule: a queue never numbers from 0 under a (producer id, epoch) that its partition may have seen.

Brokers recognise a repeated batch by (producer id, epoch, sequence), and keep these for every partition by itself. All queues share one
producer id; each has an epoch of its own, which it raises without asking a broker. Another id is asked for where no epoch is left.
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

# Not retriable by Kafka's table. The first three concern transactional ids only; the last one is a broker's own trouble.
TRANSIENT = {"INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "UNKNOWN_PRODUCER_ID", "UNKNOWN_SERVER_ERROR"}
LAST_EPOCH = 32_767  # epochs are 16 bits wide


class IdentityState(Enum):
    """Where the producer stands with its id."""

    NONE = "none"
    ASKING = "asking"
    READY = "ready"
    FATAL = "fatal"


S = IdentityState
TABLE = Transitions[S](
    "producer identity",
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
    """The producer id of an idempotent producer, and the epoch in which its queues begin."""

    __slots__ = (
        "_backoff",
        "_changed",
        "_doubt",
        "_not_before",
        "_question",
        "_timeout",
        "fatal",
        "first_epoch",
        "producer_id",
        "state",
        "trouble",
    )

    def __init__(self, backoff: Backoff, timeout: float, changed: Callable[[], None], doubt: Callable[[float, int], None]) -> None:
        """`changed` is called when another id is here. `doubt(now, node)`: ask other brokers first."""
        self.state = S.NONE
        self.producer_id = -1
        self.first_epoch = -1  # the epoch for a queue that takes this id
        self.fatal: KafkaError | None = None
        self.trouble: KafkaError | None = None  # why the last request failed, until one is answered
        self._backoff, self._timeout, self._changed, self._doubt = backoff, timeout, changed, doubt
        self._not_before = 0.0
        self._question = Question(self._answered)

    @property
    def wake_at(self) -> float:
        """When to ask (again)."""
        return self._question.again_at if self._question.open else self._not_before

    def after(self, producer_id: int, epoch: int, spent: bool) -> tuple[int, int] | None:
        """The (producer id, epoch) with which a queue continues after this one (-1, -1: a new queue); None until another id is here.

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
        """A queue that was in this epoch is dropped: should its partition get another, that one begins in a later epoch."""
        if producer_id == self.producer_id:
            self.first_epoch = max(self.first_epoch, epoch + 1)

    def fail(self, error: KafkaError) -> None:
        """This producer is finished."""
        if self.state is not S.FATAL:
            self.state, self.fatal = TABLE.move(self.state, S.FATAL), error

    def ask(self, now: float) -> Request | None:
        """The request for an id, if one is due. What several brokers give is not the same: the first id is taken."""
        if self.state not in (S.NONE, S.ASKING) or now < self.wake_at:
            return None
        if self.state is S.NONE:
            self.state = TABLE.move(self.state, S.ASKING)
        # Without a transactional id brokers answer with a fresh id, whatever id and epoch the request names.
        message = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1)
        return self._question.ask(now, message, self._timeout)

    def _answered(self, now: float, outcome: Outcome) -> None:
        if self.state is S.FATAL:
            return
        if isinstance(outcome, Failed):
            self._failed(now, outcome.reason, outcome.passing)
        elif outcome.message.error_code:
            self._doubt(now, outcome.node)  # a broker cut off from the controllers has no ids to give
            self._refused(now, error_code(outcome.message.error_code))
        elif outcome.message.producer_id in (self.producer_id, -1):  # partitions have seen it, in epochs from its first one on
            self._again(now, KafkaError(f"InitProducerId: a fresh id was asked for, the broker gave {outcome.message.producer_id}"))
        else:
            self.producer_id, self.first_epoch = outcome.message.producer_id, outcome.message.producer_epoch
            self.state, self.trouble = TABLE.move(self.state, S.READY), None
            self._backoff.reset()
            self._changed()

    def _refused(self, now: float, code: ErrorCode) -> None:
        self._failed(now, broker_error(code.code, "InitProducerId"), code.retriable or code.name in TRANSIENT)

    def _failed(self, now: float, error: KafkaError, transient: bool) -> None:
        """Ask again after a pause, unless that is no use. A producer that has an id goes on with the partitions that can use it."""
        if transient or self.producer_id >= 0:
            self._again(now, error)
        else:
            self.fail(error)

    def _again(self, now: float, error: KafkaError) -> None:
        self.state, self.trouble = TABLE.move(self.state, S.NONE), error
        self._not_before = now + self._backoff.next()
