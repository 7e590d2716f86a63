"""Deliberate bugs in the machine of share consumers."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

SOURCE = "pykafka4/core/share/source.py"
TESTS = "tests/share/test_share_consumer.py"

MUTANTS = (
    Mutant(
        file=SOURCE,
        old="        for lease in leases.values():\n            lease.ended = reason\n",
        new="",
        breaks="records of a session that has ended still count as locked",
        tests=(f"{TESTS}::test_a_lost_session_ends_the_locks_and_the_records_come_again",),
    ),
    Mutant(
        file=SOURCE,
        old="            self.queue.append(each)  # still locked: the broker could not store it now\n            self._rest(now)\n            return\n",
        new="            pass\n",
        breaks="an acknowledgement that the broker cannot store now fails",
        tests=(f"{TESTS}::test_a_broker_that_cannot_store_it_now_is_asked_again",),
    ),
)
