"""Collects all figures of a running agent, for the pages and for the last log lines.

Invariant: an account counts each message in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from pykafka4.agent.account.balance import SpooledCounts, balance
from pykafka4.agent.account.ledger import BeforeProducer, Ledger
from pykafka4.agent.account.reasons import Reasons
from pykafka4.agent.account.values import Account, Report
from pykafka4.agent.message import Reason
from pykafka4.producer import Producer

__all__ = ["Books", "Counting", "SpoolCounts", "counters_of"]

T = TypeVar("T")

# Dory's names of counters, a contract with monitors written for Dory: no name may change.
_OF_REASONS: Final = {
    "InputAgentDiscardMsgNoMem": Reason.NO_MEM,
    "DiscardDueToRateLimit": Reason.RATE_LIMIT,
    "DiscardLongMsg": Reason.LONG_MSG,
    "DiscardBadTopicMsgOnRoute": Reason.BAD_TOPIC,
    "DiscardNoAvailablePartition": Reason.NO_AVAILABLE_PARTITIONS,
    "DiscardOnFailedDeliveryAttemptLimit": Reason.DELIVERY_ATTEMPT_LIMIT,
    "DiscardOnTopicAutocreateFail": Reason.TOPIC_AUTOCREATE_FAIL,
}


class Counting(Protocol):
    """A part of the agent with counters, such as the inputs."""

    def counters(self) -> Mapping[str, int]:
        """Return the counters, under Dory's names where Dory has them. Any thread may call this."""


class SpoolState(Protocol):
    @property
    def topics(self) -> Mapping[str, SpooledCounts]: ...


class SpoolCounts(Protocol):
    """The spool's methods for the account."""

    def state(self) -> SpoolState: ...

    def hold(self) -> None:
        """Pass no message to the producer until `release` has been called as often as `hold`."""

    def release(self) -> None: ...


class OnLoop(Protocol):
    """Runs a function on the agent's loop or, after the loop is closed, on the caller's thread, and returns its result."""

    def __call__(self, look: Callable[[], T], /) -> T: ...


class Books:
    """Figures of the producer, the ledger, the inputs and the spool. Any thread may call the methods.

    The loop must not call `account`, which waits for the producer's thread.
    """

    def __init__(
        self,
        producer: Producer,
        ledger: Ledger,
        reasons: Reasons,
        parts: Sequence[Counting] = (),
        spool: SpoolCounts | None = None,
        on_loop: OnLoop | None = None,
    ) -> None:
        """`on_loop` calls the spool's methods on the agent's loop. If it is None, the caller's thread calls them."""
        self._producer, self._ledger, self._reasons = producer, ledger, reasons
        self._parts, self._spool, self._on_loop = parts, spool, on_loop

    def account(self) -> Account:
        """Raises KafkaTimeoutError if the producer's thread does not answer in time, TimeoutError if the agent's loop does not."""
        spool = self._spool
        if spool is None:
            return balance(self._producer.stats(), self._ledger.before_producer(), {}, self._reasons)
        try:
            before, spooled = self._call(lambda: self._look(spool))
            stats = self._producer.stats()
        # `release` must follow even if `_look` timed out: the loop still runs `hold` later, and without `release` the replay would never
        # continue.
        finally:
            self._call(spool.release)
        return balance(stats, before, spooled, self._reasons)

    def _look(self, spool: SpoolCounts) -> tuple[BeforeProducer, Mapping[str, SpooledCounts]]:
        """Return the ledger's and the spool's counts of one moment, and hold the replay until the producer's counts are read.

        A message that the replay passed on in between would be in both the spool's and the producer's count. Only the loop moves damaged
        messages from the spool's count to the ledger's, so on the loop no message is in both.
        """
        spool.hold()
        return self._ledger.before_producer(), spool.state().topics

    def _call(self, look: Callable[[], T]) -> T:
        return look() if self._on_loop is None else self._on_loop(look)

    def unfinished_report(self) -> Report:
        return self._ledger.unfinished_report()

    def finished_report(self) -> Report | None:
        return self._ledger.finished_report()

    def total_report(self) -> Report:
        return self._ledger.total_report()

    def counters(self, account: Account) -> Mapping[str, int]:
        """Return counters since the start, under Dory's names where Dory has them. Counts of messages come from `account`."""
        found = self._ledger.counters()
        for part in self._parts:
            found.update(part.counters())
        return {**found, **counters_of(account)}


def counters_of(account: Account) -> dict[str, int]:
    total, reasons = account.total, account.total.discards.by_reason
    return {
        "MsgCreate": total.accepted,
        "MsgDestroy": total.acknowledged + total.discards.count,
        "AckOk": total.acknowledged,
        **{name: reasons.get(reason, 0) for name, reason in _OF_REASONS.items()},
    }
