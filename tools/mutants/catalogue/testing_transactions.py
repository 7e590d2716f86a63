"""Bugs of transactions in the model cluster."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/testing/transactions/coordinators.py",
        old='            self._fence(known)\n            return "CONCURRENT_TRANSACTIONS"',
        new='            return "CONCURRENT_TRANSACTIONS"',
        breaks="the model: a new producer never gets the transactional id of one with an open transaction",
        tests=("tests/testing/test_transactions.py::test_a_new_producer_fences_the_old_one_and_aborts_its_transaction",),
    ),
    Mutant(
        file="pykafka4/testing/transactions/coordinators.py",
        old="        self._timeline.after(RETRY, lambda: self._complete(known, ending))\n",
        new="        pass\n",
        breaks="the model: a marker that cannot be written at once never is",
        tests=("tests/testing/test_transactions.py::test_markers_wait_for_a_leader",),
    ),
    Mutant(
        file="pykafka4/testing/transactions/markers.py",
        old="        if batch is None or not log.holds(batch):\n",
        new="        if batch is None:\n",
        breaks="the model: a marker that a leader has lost is not written again",
        tests=("tests/testing/test_transactions.py::test_a_marker_that_a_leader_lost_is_written_again",),
    ),
    Mutant(
        file="pykafka4/testing/transactions/transaction.py",
        old="        raised = (self.producer_id, self.epoch) == (producer_id, epoch + 1)\n",
        new="        raised = False\n",
        breaks="the model: a repeated EndTxn is fenced",
        tests=("tests/testing/test_transactions.py::test_a_repeated_end_is_told_the_same",),
    ),
    Mutant(
        file="pykafka4/testing/transactions/transaction.py",
        old="        elif expected_epoch != self.last_epoch:\n",
        new="        else:\n",
        breaks="the model: a repeated InitProducerId is fenced",
        tests=("tests/testing/test_transactions.py::test_a_producer_that_names_its_epoch_gets_the_next_one_also_when_it_asks_twice",),
    ),
    Mutant(
        file="pykafka4/testing/storage/transactions.py",
        old="            undone = self.ended.pop()\n            self.open[undone.producer_id] = undone.first_offset\n",
        new="            self.ended.pop()\n",
        breaks="the model: a transaction whose marker is truncated is not open again",
        tests=("tests/testing/test_transactions.py::test_transactions_of_each_partition_end_where_its_log_is_cut",),
    ),
    Mutant(
        file="pykafka4/testing/storage/transactions.py",
        old="            if entry.marker_offset < high_watermark:\n                break\n",
        new="            break\n",
        breaks="the model: a transaction counts as ended before its marker is replicated",
        tests=("tests/testing/test_transactions.py::test_a_transaction_ends_for_readers_when_its_marker_is_replicated",),
    ),
    Mutant(
        file="pykafka4/testing/requests/transactions.py",
        old='    if error == "INVALID_TXN_STATE" and abortable:\n',
        new="    if False:\n",
        breaks="the model: versions with TRANSACTION_ABORTABLE are not told it",
        tests=("tests/testing/test_transactions.py::test_a_partition_that_was_not_added_refuses_the_write_below_version_12",),
    ),
    Mutant(
        file="pykafka4/testing/requests/commits.py",
        old='        refused = "UNSTABLE_OFFSET_COMMIT"\n',
        new="        pass\n",
        breaks="the model: offsets of an open transaction do not hold stable look-ups up",
        tests=("tests/testing/test_transactions.py::test_offsets_of_a_transaction_are_pending_until_it_ends",),
    ),
    Mutant(
        file="pykafka4/testing/groups/group.py",
        old="            if committed and number > self._last_commit.get(tp, 0):\n",
        new="            if committed:\n",
        breaks="the model: an older offset of a transaction replaces a newer commit",
        tests=("tests/testing/test_transactions.py::test_a_commit_that_came_after_the_pending_one_stays",),
    ),
    Mutant(
        file="pykafka4/testing/storage/log.py",
        old="            if refused is None and header.producer_id in self.transactions.open and not header.transactional:\n",
        new="            if False:\n",
        breaks="the model takes a batch without a transaction inside one",
        tests=("tests/testing/test_transactions.py::test_a_batch_without_a_transaction_is_refused_inside_one",),
    ),
)
