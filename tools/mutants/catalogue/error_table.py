"""Bugs of the table of Kafka's error codes."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/error_table.py",
        old='    (7, "REQUEST_TIMED_OUT", Y, METADATA,',
        new='    (7, "REQUEST_TIMED_OUT", Y, NOTHING,',
        breaks="batches are sent to a leader that is cut off from its replicas again and again",
        tests=(
            "tests/core/producer/test_sender_codes.py",
            "tests/simulation/test_stale_broker.py::test_producers_find_the_new_leaders_meanwhile",
        ),
    ),
    Mutant(
        file="pykafka4/error_table.py",
        old='(7, "REQUEST_TIMED_OUT", Y, METADATA, RESEND, MAYBE)',
        new='(7, "REQUEST_TIMED_OUT", Y, METADATA, FAIL, MAYBE)',
        breaks="REQUEST_TIMED_OUT fails instead of being sent again",
        tests=(
            "tests/core/producer/test_sender_numbers.py::test_a_batch_that_may_be_in_the_log_keeps_its_sequence_whatever_happens_elsewhere",
        ),
    ),
    Mutant(
        file="pykafka4/error_table.py",
        old='(2, "CORRUPT_MESSAGE", Y, NOTHING, RESEND, NO)',
        new='(2, "CORRUPT_MESSAGE", Y, NOTHING, FAIL, NO)',
        breaks="CORRUPT_MESSAGE fails instead of being sent again",
        tests=("tests/core/producer/test_sender_options.py::test_a_batch_refused_in_passing_goes_out_again_as_it_was",),
    ),
    Mutant(
        file="pykafka4/error_table.py",
        old='"UNKNOWN_TOPIC_ID", Y, METADATA, RESEND,',
        new='"UNKNOWN_TOPIC_ID", Y, METADATA, FAIL,',
        breaks="UNKNOWN_TOPIC_ID fails instead of being sent again",
        tests=(
            "tests/core/producer/test_sender_numbers.py::test_a_batch_that_may_be_in_the_log_keeps_its_sequence_whatever_happens_elsewhere",
        ),
    ),
    Mutant(
        file="pykafka4/error_table.py",
        old='"UNKNOWN_LEADER_EPOCH", Y, METADATA, RESEND,',
        new='"UNKNOWN_LEADER_EPOCH", Y, METADATA, FAIL,',
        breaks="UNKNOWN_LEADER_EPOCH fails instead of being sent again",
        tests=("tests/core/producer/test_sender_options.py::test_a_batch_refused_in_passing_goes_out_again_as_it_was",),
    ),
    Mutant(
        file="pykafka4/error_table.py",
        old='(6, "NOT_LEADER_OR_FOLLOWER", Y, METADATA, RESEND, MAYBE)',
        new='(6, "NOT_LEADER_OR_FOLLOWER", Y, METADATA, RESEND, NO)',
        breaks="NOT_LEADER_OR_FOLLOWER counts as not written, though it can come after the append",
        tests=("tests/core/producer/test_sender_numbers.py::test_a_sequence_that_may_be_in_the_log_is_not_given_to_another_batch",),
    ),
    Mutant(
        file="pykafka4/error_table.py",
        old='(3, "UNKNOWN_TOPIC_OR_PARTITION", Y, METADATA, RESEND, MAYBE)',
        new='(3, "UNKNOWN_TOPIC_OR_PARTITION", Y, METADATA, RESEND, NO)',
        breaks="UNKNOWN_TOPIC_OR_PARTITION counts as not written, though it can come after the append",
        tests=("tests/core/producer/test_sender_numbers.py::test_a_sequence_that_may_be_in_the_log_is_not_given_to_another_batch",),
    ),
    Mutant(
        file="pykafka4/error_table.py",
        old='(20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", Y, NOTHING, RESEND, MAYBE)',
        new='(20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", Y, NOTHING, RESEND, NO)',
        breaks="NOT_ENOUGH_REPLICAS_AFTER_APPEND counts as not written",
        tests=("tests/core/producer/test_sender_numbers.py::test_a_sequence_that_may_be_in_the_log_is_not_given_to_another_batch",),
    ),
    Mutant(
        file="pykafka4/error_table.py",
        old='(19, "NOT_ENOUGH_REPLICAS", Y, NOTHING, RESEND, NO)',
        new='(19, "NOT_ENOUGH_REPLICAS", Y, NOTHING, FAIL, NO)',
        breaks="NOT_ENOUGH_REPLICAS fails instead of being sent again",
        tests=("tests/core/producer/test_sender.py::test_a_failed_batch_is_sent_again_before_those_behind_it",),
    ),
    Mutant(
        file="pykafka4/error_table.py",
        old='(10, "MESSAGE_TOO_LARGE", N, NOTHING, SPLIT, NO)',
        new='(10, "MESSAGE_TOO_LARGE", N, NOTHING, FAIL, NO)',
        breaks="a batch that is too large is not split",
        tests=("tests/core/producer/test_sender_split.py::test_too_large_a_batch_is_split_in_order",),
    ),
    Mutant(
        file="pykafka4/error_table.py",
        old='return self.name.endswith("_AUTHORIZATION_FAILED")',
        new='return self.name == "TOPIC_AUTHORIZATION_FAILED"',
        breaks="only a missing right to a topic counts as one",
        tests=("tests/test_rights.py::test_every_denial_has_its_class_and_no_other_code_has",),
    ),
)
