"""The records of a transactional producer, as its transactions see them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pykafka4.core.producer.transactions.records import Transacted
from pykafka4.errors import KafkaError


def test_records_are_given_up_only_while_one_is_not_in_flight() -> None:
    """An abort asks in each turn of the loop, and giving up goes through all records."""
    acc, ledger = SimpleNamespace(accepted=9, acked=3, failed=2), SimpleNamespace(in_flight=4)
    reason, asked = KafkaError("aborted"), list[float]()

    def fail_unsent(now: float, why: KafkaError) -> tuple[int, int]:
        assert why is reason
        asked.append(now)
        return 2, 2

    parts: list[Any] = [acc, ledger, None, None, None, SimpleNamespace(fail_unsent=fail_unsent)]
    records = Transacted(*parts)
    assert records.fail_unsent(1.0, reason) is None
    acc.accepted += 1  # by a thread that was late
    assert records.fail_unsent(2.0, reason) == (2, 2)
    acc.failed += 1
    assert records.fail_unsent(3.0, reason) is None
    ledger.in_flight -= 1  # it is back in its queue
    assert records.fail_unsent(4.0, reason) == (2, 2)
    acc.acked, ledger.in_flight = 7, 0
    assert records.fail_unsent(5.0, reason) is None
    assert asked == [2.0, 4.0]
