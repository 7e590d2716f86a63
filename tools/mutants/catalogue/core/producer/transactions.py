"""Bugs of transactions."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MACHINE, TESTS = "pykafka4/core/producer/transactions.py", "tests/producer/test_transactions.py::"
REFUSED, READS = "tests/producer/test_transactions_refused.py::", "tests/producer/test_transactions_of_consumers.py::"

MUTANTS: Final = (
    Mutant(
        file="pykafka4/core/producer/transacted.py",
        old="        return None if undecided == self._ledger.in_flight else",
        new="        return None if not undecided else",
        breaks="while an abort waits for one response, each turn goes through all records",
        tests=("tests/core/producer/test_transacted.py::test_records_are_given_up_only_while_one_is_not_in_flight",),
    ),
    Mutant(
        file="pykafka4/core/producer/transacted.py",
        old="        return None if undecided == self._ledger.in_flight else",
        new="        return None if self._ledger.in_flight else",
        breaks="records that a thread sends while the transaction is aborted wait until nothing is in flight",
        tests=("tests/core/producer/test_transacted.py::test_records_are_given_up_only_while_one_is_not_in_flight",),
    ),
    Mutant(
        file="pykafka4/core/producer/transactions.py",
        old=" and not (self._unanswered and self._can_renew):",
        new=":",
        breaks="an EndTxn that was given up and arrives late ends the next transaction",
        tests=("tests/producer/test_transactions.py::test_an_end_whose_answer_was_lost_cannot_end_the_next_transaction",),
    ),
    Mutant(
        file="pykafka4/core/producer/transaction_offsets.py",
        old="        if isinstance(outcome, Failed) and outcome.written is Written.MAYBE:\n            self._transaction.note_unanswered()\n",
        new="",
        breaks="offsets that were given up and arrive late are stored with the next transaction",
        tests=(TESTS + "test_offsets_whose_answer_was_lost_cannot_be_stored_in_the_next_transaction",),
    ),
    Mutant(
        file="pykafka4/core/producer/transaction_offsets.py",
        old="                self._transaction.note_started(certain=False)\n                self._transaction.note_unanswered()\n",
        new="                self._transaction.note_started(certain=False)\n",
        breaks="an AddOffsetsToTxn that arrives late begins a transaction that nobody ends",
        tests=(TESTS + "test_what_begins_a_transaction_late_is_refused_when_that_has_ended",),
    ),
    Mutant(
        file=MACHINE,
        old="                self.note_unanswered()\n",
        new="",
        breaks="an AddPartitionsToTxn that arrives late begins a transaction that nobody ends",
        tests=(TESTS + "test_what_begins_a_transaction_late_is_refused_when_that_has_ended",),
    ),
    Mutant(
        file=MACHINE,
        old="        if self.state is S.ABORTABLE_ERROR and expected is S.IN_TRANSACTION:\n",
        new="        if self.state is S.ABORTABLE_ERROR:\n",
        breaks="a loop that goes on after TransactionAborted goes on for ever when a transaction cannot be aborted",
        tests=(REFUSED + "test_a_loop_that_goes_on_after_aborted_transactions_ends_when_one_cannot_be_aborted",),
    ),
    Mutant(
        file=MACHINE,
        old=" and not self._certain and not self._commits_sent",
        new=" and not self._certain",
        breaks="an abort succeeds although the transaction was committed",
        tests=(TESTS + "test_an_abort_after_a_commit_that_was_executed_is_no_success",),
    ),
    Mutant(
        file=MACHINE,
        old="self.state in (S.COMMITTING, S.ABORTING) and self._records.settled() and not",
        new="self.state in (S.COMMITTING, S.ABORTING) and not",
        breaks="EndTxn commits before the records are acknowledged",
        tests=(TESTS + "test_a_record_that_failed_prevents_the_commit",),
    ),
    Mutant(
        file=MACHINE,
        old="        elif self.state in (S.IN_TRANSACTION, S.COMMITTING):\n            self._must_abort(error)",
        new="        elif self.state is S.IN_TRANSACTION:\n            self._must_abort(error)",
        breaks="a record that fails during the commit does not prevent it",
        tests=(TESTS + "test_a_record_that_failed_prevents_the_commit",),
    ),
    Mutant(
        file=MACHINE,
        old="        if dropped := self._records.dropped() - self._dropped:",
        new="        if dropped := 0:",
        breaks="a transaction without its dropped records is committed",
        tests=(TESTS + "test_a_record_that_was_dropped_prevents_the_commit",),
    ),
    Mutant(
        file=MACHINE,
        old="        if self._started:\n            return self._end.poll(",
        new="        if True:\n            return self._end.poll(",
        breaks="the coordinator is asked to end a transaction that it does not know",
        tests=(TESTS + "test_an_empty_transaction_asks_nothing_of_the_coordinator",),
    ),
    Mutant(
        file=MACHINE,
        old="self._or_committed(self._fenced() if fenced else error)",
        new="self._or_committed(error)",
        breaks="a fenced producer is not told that there is another one",
        tests=(TESTS + "test_a_second_producer_fences_the_first",),
    ),
    Mutant(
        file=MACHINE,
        old="            self._renew(self._complete)\n        else:",
        new="            self._complete()\n        else:",
        breaks="after a lost numbering the next transaction goes on in the same epoch",
        tests=(TESTS + "test_a_lost_numbering_aborts_and_does_not_begin_another_epoch",),
    ),
    Mutant(
        file=MACHINE,
        old="        if queue.tp in self._added:\n            return True",
        new="        if True:\n            return True",
        breaks="up to version 1 a partition is written to before it is part of the transaction",
        tests=(TESTS + "test_commits_are_read_and_aborts_are_not",),
    ),
    Mutant(
        file=MACHINE,
        old="not self._offsets.busy and not self._adding",
        new="not self._adding",
        breaks="EndTxn does not wait for offsets",
        tests=(TESTS + "test_a_commit_waits_for_offsets_whose_call_timed_out",),
    ),
    Mutant(
        file="pykafka4/core/producer/transaction_requests.py",
        old='"EndTxn": 4,',
        new='"EndTxn": 5,',
        breaks="EndTxn of version 2 is sent to a cluster that has not finalized it",
        tests=(TESTS + "test_a_cluster_that_has_not_finalized_version_2_gets_the_requests_of_version_1",),
    ),
    Mutant(
        file="pykafka4/core/producer/transaction_requests.py",
        old='REPEATED: Final = {"UNKNOWN_SERVER_ERROR"}',
        new="REPEATED: Final = set[str]()",
        breaks="a hiccup of a coordinator ends the producer",
        tests=(TESTS + "test_passing_errors_of_coordinators_are_retried",),
    ),
    Mutant(
        file=MACHINE,
        old='        self._records.admit(TransactionError(f"{self.id}: {why}"))',
        new="        self._records.admit(None)",
        breaks="records are accepted outside of a transaction, or while it ends",
        tests=(TESTS + "test_what_does_not_fit_the_state_is_refused",),
    ),
    Mutant(
        file=MACHINE,
        old="        if not self._commits_sent or self.state not in OPEN:",
        new="        if True:",
        breaks="a commit that may have been carried out is called certain",
        tests=(REFUSED + "test_a_commit_that_was_sent_and_refused_is_in_doubt",),
    ),
    Mutant(
        file=MACHINE,
        old='            reason = TransactionAborted(f"{error}: {topic} cannot be part of this transaction")\n'
        "            return Next.GIVE_UP, caused_by(reason, error)",
        new="            pass",
        breaks="a topic that cannot be part of a transaction ends the producer",
        tests=(REFUSED + "test_a_partition_that_cannot_be_added_aborts_the_transaction",),
    ),
    Mutant(
        file=MACHINE,
        old="        self._joining.soon = False\n        worst",
        new="        self._add.reset()\n        worst",
        breaks="AddPartitionsToTxn is repeated without a growing back-off",
        tests=(REFUSED + "test_adding_a_partition_is_repeated_with_a_growing_back_off",),
    ),
)
