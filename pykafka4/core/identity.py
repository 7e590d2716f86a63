"""Producer identity. Rule: the epoch changes only while no batch anywhere is maybe-persisted under the old one.

Brokers recognise a repeated batch by (producer id, epoch, sequence). Resending a batch under a new epoch when its first copy may lie in
the log would write it twice, so `renew` waits until the sender says that nothing is in doubt.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from pykafka4.core import Failed, Outcome, Request, Transitions
from pykafka4.core.backoff import Backoff
from pykafka4.core.question import Question
from pykafka4.error_table import ErrorCode, error_code
from pykafka4.errors import KafkaError, UnsupportedVersion, broker_error
from pykafka4.wire.messages_txn import InitProducerIdRequest

__all__ = ["Identity", "IdentityState"]

AFRESH = {"INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "UNKNOWN_PRODUCER_ID"}  # nobody can take over an id without a transactional id
HICCUPS = {"UNKNOWN_SERVER_ERROR"}  # not retriable by Kafka's table, but nothing is at stake in asking again, and a producer is
LAST_EPOCH = 32_766  # 32,767 is the highest a broker gives; ask for a new id before that


class IdentityState(Enum):
    """Where the producer stands with its id."""

    NONE = "none"
    ASKING = "asking"
    READY = "ready"
    RENEWING = "renewing"  # must change, waits until nothing is in doubt
    FATAL = "fatal"


S = IdentityState
TABLE = Transitions[S](
    "producer identity",
    {
        S.NONE: {S.ASKING, S.FATAL},
        S.ASKING: {S.READY, S.NONE, S.FATAL},
        S.READY: {S.RENEWING, S.FATAL},
        S.RENEWING: {S.NONE, S.FATAL},
        S.FATAL: set(),
    },
)


class Identity:
    """The producer id and epoch of an idempotent producer."""

    __slots__ = (
        "_backoff",
        "_changed",
        "_doubt",
        "_not_before",
        "_question",
        "_timeout",
        "epoch",
        "fatal",
        "producer_id",
        "reason",
        "state",
        "trouble",
    )

    def __init__(self, backoff: Backoff, timeout: float, changed: Callable[[], None], doubt: Callable[[float, int], None]) -> None:
        """`changed` is called when a new id or epoch is here: every sequence starts at 0 again. `doubt(now, node)`: ask others first."""
        self.state = S.NONE
        self.producer_id, self.epoch = -1, -1
        self.fatal: KafkaError | None = None
        self.reason = ""
        self.trouble: KafkaError | None = None  # why the last question failed, until one is answered
        self._backoff, self._timeout, self._changed, self._doubt = backoff, timeout, changed, doubt
        self._not_before = 0.0
        self._question = Question(self._answered)

    @property
    def ready(self) -> bool:
        """Whether new batches may be numbered and sent."""
        return self.state is S.READY

    @property
    def renewing(self) -> bool:
        """Whether a new epoch is wanted and waits for what is in doubt."""
        return self.state is S.RENEWING

    @property
    def wake_at(self) -> float:
        """When to ask (again)."""
        return self._question.again_at if self._question.open else self._not_before

    def renew(self, reason: str) -> None:
        """The broker's idea of our sequence is lost: ask for a new epoch as soon as nothing is in doubt."""
        if self.state is S.READY:
            self.state, self.reason = TABLE.move(self.state, S.RENEWING), reason

    def settle(self) -> None:
        """Nothing is in doubt any more: a renewal may go ahead."""
        if self.state is S.RENEWING:
            self.state = TABLE.move(self.state, S.NONE)

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
        keep = 0 <= self.epoch < LAST_EPOCH
        message = InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=60_000,
            producer_id=self.producer_id if keep else -1,
            producer_epoch=self.epoch if keep else -1,
        )
        return self._question.ask(now, message, self._timeout)

    def _answered(self, now: float, outcome: Outcome) -> None:
        if self.state is S.FATAL:
            return
        if isinstance(outcome, Failed):
            self._unanswered(now, outcome)
        elif outcome.message.error_code:
            self._doubt(now, outcome.node)  # one that is cut off from the controllers has no ids to give
            self._refused(now, error_code(outcome.message.error_code))
        else:
            self.producer_id, self.epoch = outcome.message.producer_id, outcome.message.producer_epoch
            self.state, self.trouble = TABLE.move(self.state, S.READY), None
            self._backoff.reset()
            self._changed()

    def _unanswered(self, now: float, outcome: Failed) -> None:
        if outcome.passing:
            self._again(now, outcome.reason)
        elif isinstance(outcome.reason, UnsupportedVersion) and self.producer_id >= 0:
            self.producer_id, self.epoch = -1, -1  # brokers before 2.5 cannot raise an epoch: a new id does as well
            self.state = TABLE.move(self.state, S.NONE)
        else:
            self.fail(outcome.reason)

    def _refused(self, now: float, code: ErrorCode) -> None:
        error = broker_error(code.code, "InitProducerId")
        if code.name in AFRESH:
            self.producer_id, self.epoch = -1, -1
        elif not code.retriable and code.name not in HICCUPS:
            self.fail(error)
            return
        self._again(now, error)

    def _again(self, now: float, error: KafkaError) -> None:
        self.state, self.trouble = TABLE.move(self.state, S.NONE), error
        self._not_before = now + self._backoff.next()
