"""Bugs of transactions, each with the check that has to find it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from pykafka4.consumer import Consumer
from pykafka4.consumer.reading.reader import Reader
from pykafka4.consumer.transactional import TransactionalReads
from pykafka4.consumer.waits import Steps
from pykafka4.core import Failed
from pykafka4.core.producer.transactions.machine import Transactions
from pykafka4.core.producer.transactions.machine import TransactionState as S
from pykafka4.core.producer.transactions.records import Transacted
from pykafka4.options.config import ConsumerConfig
from pykafka4.producer import Producer
from tests.simulation.mutants.lists import change_lists
from tests.simulation.plans.schedules import Hunt, Patch, around

__all__ = ["MUTANTS"]


WHOLE, ONCE = "a committed transaction is read whole", "each committed record is read once, in order"


def every_commit_aborts(patch: pytest.MonkeyPatch) -> None:
    def instead(original: Any, self: Transactions) -> Any:
        message = original(self)
        message.committed = False
        return message

    around(patch, Transactions, "_end_message", instead)


def nothing_is_handed_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reader, "take", lambda self, form, limit: None)
    patch.setattr(Reader, "filled", property(lambda self: bool(self.arrivals)))  # otherwise a poll would not wait


def aborted_records_are_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerConfig, "reads_committed", property(lambda self: False))


def lists_are_turned_round(patch: pytest.MonkeyPatch) -> None:
    change_lists(patch, lambda records: records[::-1])


def records_are_sent_twice(patch: pytest.MonkeyPatch) -> None:
    def instead(original: Any, self: Producer, *args: Any, **options: Any) -> Any:
        original(self, *args, **options)
        return original(self, *args, **options)

    around(patch, Producer, "send", instead)


def the_consumer_does_not_go_back(patch: pytest.MonkeyPatch) -> None:
    """As if it had: what was read for the transaction that failed counts as read for the next one."""

    def instead(self: TransactionalReads, timeout: float | None) -> Steps[None]:
        self._reading = None
        yield from ()

    patch.setattr(TransactionalReads, "_rewinding", instead)


def the_consumer_goes_back_to_where_it_began(patch: pytest.MonkeyPatch) -> None:
    def instead(self: TransactionalReads, timeout: float | None) -> Steps[None]:
        self._reader.rewind_each(dict.fromkeys(self._reader.claims, (0, -1)))
        self._reading = None
        yield from ()

    patch.setattr(TransactionalReads, "_rewinding", instead)


def lists_are_copied_turned_round(patch: pytest.MonkeyPatch) -> None:
    around(patch, Consumer, "poll", lambda original, self, *args: original(self, *args)[::-1])


def a_failed_record_does_not_prevent_the_commit(patch: pytest.MonkeyPatch) -> None:
    def instead(original: Any, self: Transactions, error: BaseException) -> None:
        if self.state not in (S.IN_TRANSACTION, S.COMMITTING):
            original(self, error)

    around(patch, Transactions, "record_failed", instead)


def an_unknown_end_is_a_success(patch: pytest.MonkeyPatch) -> None:
    def instead(original: Any, self: Transactions, now: float, outcome: Any) -> Any:
        if isinstance(outcome, Failed) and self.state in (S.COMMITTING, S.ABORTING):
            return self._complete()
        return original(self, now, outcome)

    around(patch, Transactions, "_ended", instead)


def the_commit_does_not_wait_for_records(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transacted, "settled", lambda self: True)


MUTANTS: Final[dict[Patch, Hunt]] = {
    every_commit_aborts: Hunt({"a committed transaction is read whole"}, says="incomplete, "),
    nothing_is_handed_out: Hunt({"transactions end and are read"}, says="transactions are left: "),
    aborted_records_are_read: Hunt({"nothing of an aborted transaction is read"}, says="aborted, "),
    lists_are_turned_round: Hunt({"each committed record is read once, in order"}, says="offsets in another order, "),
    the_consumer_does_not_go_back: Hunt({WHOLE, ONCE}, says="not copied: "),
    the_consumer_goes_back_to_where_it_began: Hunt({ONCE}, says="copied again: "),
    lists_are_copied_turned_round: Hunt({ONCE, WHOLE}, says="copied in another order: "),
    a_failed_record_does_not_prevent_the_commit: Hunt({WHOLE, "no internal errors"}, says="incomplete, "),  # EndTxn of an empty one, first
    an_unknown_end_is_a_success: Hunt({WHOLE, "nothing of an aborted transaction is read"}, says="incomplete, "),
    the_commit_does_not_wait_for_records: Hunt(
        {WHOLE, "nothing of an aborted transaction is read", ONCE, "no internal errors"}, says="incomplete, "
    ),
    records_are_sent_twice: Hunt({"each committed record is read once, in order"}, says="repeated: "),
}
