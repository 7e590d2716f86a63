"""Books: all figures of a running agent. Invariant: each method returns values, and the figures of one value are of one moment."""

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
    """A part of the agent with counters of its own: the inputs."""

    def counters(self) -> Mapping[str, int]:
        """By Dory's names. Callable from any thread."""


class SpoolState(Protocol):
    """The spool at a moment."""

    @property
    def topics(self) -> Mapping[str, SpooledCounts]: ...


class SpoolCounts(Protocol):
    """The spool, on the agent's loop."""

    def state(self) -> SpoolState:
        """Its counts."""

    def hold(self) -> None:
        """Hand no message over to the producer until `release` was called as often as this."""

    def release(self) -> None:
        """See `hold`."""


class OnLoop(Protocol):
    """Calls a function on the agent's loop and returns its result; also after the end of the loop."""

    def __call__(self, look: Callable[[], T], /) -> T: ...


class Books:
    """Figures of the producer, the ledger, the inputs and the spool. All methods may be called from any thread.

    `account` waits for the producer's thread (and with a spool for the agent's loop): not on the agent's loop.
    The others may be called there.
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
        """`parts` have counters of their own. `on_loop` calls the spool on the agent's loop."""
        self._producer, self._ledger, self._reasons = producer, ledger, reasons
        self._parts, self._spool, self._on_loop = parts, spool, on_loop

    def account(self) -> Account:
        """The account since the start. Raises KafkaTimeoutError if the producer's thread is stuck, TimeoutError if the agent's loop is."""
        spool = self._spool
        if spool is None:
            return balance(self._producer.stats(), self._ledger.before_producer(), {}, self._reasons)
        try:
            before, spooled = self._call(lambda: self._look(spool))
            stats = self._producer.stats()
        finally:  # also if the loop was too slow for the first call: it makes both later, in this order
            self._call(spool.release)
        return balance(stats, before, spooled, self._reasons)

    def _look(self, spool: SpoolCounts) -> tuple[BeforeProducer, Mapping[str, SpooledCounts]]:
        """The ledger's part and the spool's, of one moment.

        A message that leaves the disk for the producer before `stats` was read would be counted in both, so none may; one that is damaged
        on disk goes to the ledger, on the loop, so it is in one of them here.
        """
        spool.hold()
        return self._ledger.before_producer(), spool.state().topics

    def _call(self, look: Callable[[], T]) -> T:
        return look() if self._on_loop is None else self._on_loop(look)

    def unfinished_report(self) -> Report:
        """The interval that goes on now."""
        return self._ledger.unfinished_report()

    def finished_report(self) -> Report | None:
        """The last interval that has ended; None in the first one. It counts as read: see NoDiscardQuery."""
        return self._ledger.finished_report()

    def total_report(self) -> Report:
        """All intervals together; without figures of the producer, so it costs it nothing."""
        return self._ledger.total_report()

    def counters(self, account: Account) -> Mapping[str, int]:
        """Counters since the start by Dory's names, and some of the agent's own; those of messages are as in `account`."""
        found = self._ledger.counters()
        for part in self._parts:
            found.update(part.counters())
        return {**found, **counters_of(account)}


def counters_of(account: Account) -> dict[str, int]:
    """Counters of messages, also of those that failed in the producer."""
    total, reasons = account.total, account.total.discards.by_reason
    return {
        "MsgCreate": total.accepted,
        "MsgDestroy": total.acknowledged + total.discards.count,
        "AckOk": total.acknowledged,
        **{name: reasons.get(reason, 0) for name, reason in _OF_REASONS.items()},
    }
