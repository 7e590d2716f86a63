"""Bugs of what a transaction takes from its consumer."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/consumer/transactional.py",
        old="            raise TransactionAborted(str(error)) from error\n",
        new="            raise\n",
        breaks="a block raises GroupError instead of TransactionAborted if the client knows first that it is no member any more",
        tests=(
            "tests/producer/test_transactions_of_consumers.py::test_a_consumer_that_is_no_member_any_more_aborts_whoever_says_so_first",
        ),
    ),
    Mutant(
        file="pykafka4/consumer/transactional.py",
        old="            if (self._refused or self._announced) and self._reader.handed_over.in_hand:\n",
        new="            if False:\n",
        breaks="process commits records that were read for a transaction which could not begin, and are not processed",
        tests=(
            "tests/producer/test_transactions_of_consumers.py::"
            "test_process_and_streams_are_refused_when_a_transaction_could_not_begin_until_its_records_are_read_again",
        ),
    ),
    Mutant(
        file="pykafka4/consumer/transactional.py",
        old="        self._refused = self._refused or self._announced\n",
        new="",
        breaks="records are lost when Ctrl-C comes as a transaction block is entered",
        tests=(
            "tests/producer/test_transactions_of_consumers.py::test_what_was_read_for_a_transaction_that_ctrl_c_kept_from_beginning_is_read_again",
        ),
    ),
    Mutant(
        file="pykafka4/consumer/transactional.py",
        old="if places.was_sought(tp) and at is not None}",
        new="if False and at is not None}",
        breaks="an abort after a seek back jumps forward over records that nobody has processed",
        tests=("tests/producer/test_transactions_of_consumers.py::test_after_a_seek_an_abort_goes_back_to_where_the_seek_went",),
    ),
    Mutant(
        file="pykafka4/consumer/transactional.py",
        old="if self._stored.get(tp) != at and",
        new="if",
        breaks="a transaction in which nothing was read sends all positions",
        tests=("tests/producer/test_transactions_of_consumers.py::test_a_transaction_in_which_nothing_was_read_costs_nothing",),
    ),
    Mutant(
        file="pykafka4/consumer/transactional.py",
        old="            if last is not None and not self._settled(last):",
        new="            if False:",
        breaks="after a commit that turned out to be aborted the consumer goes on behind its records",
        tests=("tests/producer/test_transactions_of_consumers.py::test_a_commit_that_timed_out_and_turns_out_to_be_aborted",),
    ),
    Mutant(
        file="pykafka4/consumer/transactional.py",
        old="back[tp] = (at.offset, at.leader_epoch)",
        new="back[tp] = (at.offset, -1)",
        breaks="an abort after an unclean election skips the records behind the lost end",
        tests=("tests/producer/test_transactions_of_consumers.py::test_after_an_abort_the_records_behind_a_lost_end_are_read_again",),
    ),
    Mutant(
        file="pykafka4/consumer/transactional.py",
        old="            if reading is not None and not self._settled(reading):\n                raise ConfigError(",
        new="            if False:\n                raise ConfigError(",
        breaks="process commits inside a transaction what that aborts",
        tests=("tests/producer/test_transactions_of_consumers.py::test_process_and_streams_are_refused_until_a_transaction_has_ended",),
    ),
    Mutant(
        file="pykafka4/consumer/transactional.py",
        old=" and not claims[tp].outdated",
        new="",
        breaks="a transaction commits offsets of a deleted topic",
        tests=(
            "tests/producer/test_transactions_of_consumers.py::test_offsets_of_a_deleted_topic_are_no_part_of_a_transaction_and_those_of_the_new_one_are",
        ),
    ),
)
