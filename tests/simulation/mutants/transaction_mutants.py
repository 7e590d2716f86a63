"""Bugs of transactions, each with the check that has to find it."""

from __future__ import annotations

from typing import Any, Final

import pytest
from schedules import Hunt, Patch, around

from pykafka4.config import ConsumerConfig
from pykafka4.core.consumer.reader import Reader
from pykafka4.core.producer.transactions import Transactions
from pykafka4.producer import Producer

__all__ = ["MUTANTS"]


def every_commit_aborts(patch: pytest.MonkeyPatch) -> None:
    def instead(original: Any, self: Transactions) -> Any:
        message = original(self)
        message.committed = False
        return message

    around(patch, Transactions, "_end_message", instead)


def nothing_is_handed_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reader, "take", lambda self, limit: [])


def aborted_records_are_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerConfig, "reads_committed", property(lambda self: False))


def lists_are_turned_round(patch: pytest.MonkeyPatch) -> None:
    around(patch, Reader, "take", lambda original, self, limit: original(self, limit)[::-1])


def records_are_sent_twice(patch: pytest.MonkeyPatch) -> None:
    def instead(original: Any, self: Producer, *args: Any, **options: Any) -> Any:
        original(self, *args, **options)
        return original(self, *args, **options)

    around(patch, Producer, "send", instead)


MUTANTS: Final[dict[Patch, Hunt]] = {
    every_commit_aborts: Hunt({"a committed transaction is read whole"}, says="incomplete, "),
    nothing_is_handed_out: Hunt({"transactions end and are read"}, says="transactions are left: "),
    aborted_records_are_read: Hunt({"nothing of an aborted transaction is read"}, says="aborted, "),
    lists_are_turned_round: Hunt({"each committed record is read once, in order"}, says="offsets in another order, "),
    records_are_sent_twice: Hunt({"each committed record is read once, in order"}, says="repeated: "),
}
