"""Deliberate bugs in share consumers, on the application's side."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

HAND, SESSION = "pykafka4/share/hand.py", "pykafka4/share/session.py"
TESTS = "tests/share/test_share_consumer.py"

MUTANTS = (
    Mutant(
        file=HAND,
        old="                if aside:\n",
        new="                if False:\n",
        breaks="offsets without a record are not acknowledged",
        tests=(f"{TESTS}::test_gaps_are_acknowledged_so_that_the_group_goes_on",),
    ),
    Mutant(
        file=HAND,
        old="            if _why_lost(record, now) is None:\n                out.append(record)\n",
        new="            if True:\n                out.append(record)\n",
        breaks="poll returns a record whose lock has ended",
        tests=(f"{TESTS}::test_a_buffered_record_is_not_returned_after_its_lock",),
    ),
    Mutant(
        file=HAND,
        old="            self.ready.appendleft(record)\n",
        new="            pass\n",
        breaks="Ctrl-C at the end of a poll loses records until their locks expire",
        tests=(f"{TESTS}::test_an_interrupted_poll_loses_no_record",),
    ),
    Mutant(
        file=HAND,
        old="        self._set_aside(rest, first, last, AcknowledgeType.REJECT)\n",
        new="        self._set_aside(rest, first, last, AcknowledgeType.RELEASE)\n",
        breaks="a batch that cannot be read comes again and again",
        tests=(f"{TESTS}::test_a_batch_that_cannot_be_read_is_rejected_and_told_once",),
    ),
    Mutant(
        file=SESSION,
        old="        elif unacknowledged := self.hand.unacknowledged():\n",
        new="        elif unacknowledged := []:\n",
        breaks="poll goes on with records that are not acknowledged",
        tests=(f"{TESTS}::test_poll_refuses_to_go_on_with_unacknowledged_records",),
    ),
)
