"""Bugs of what Produce responses do to batches."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="ACTIONS if config.transactional_id is None else TRANSACTIONAL",
        new="ACTIONS",
        breaks="a queue of a transaction begins another epoch by itself",
        tests=("tests/producer/test_transactions.py::" + "test_a_lost_numbering_aborts_and_does_not_begin_another_epoch",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="if found is None or batch not in queue.batches[:1] or",
        new="if found is None or batch not in queue.batches or",
        breaks="a late acknowledgement counts behind the head, too",
        tests=("tests/core/producer/test_replaced_leader.py::test_a_late_acknowledgement_counts_for_the_head_only",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="                queue.abandon(batch)\n",
        new="",
        breaks="the next batch goes to a leader that has not answered the one before it",
        tests=("tests/core/producer/test_replaced_leader.py::test_a_late_acknowledgement_of_the_old_leader_counts_once",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old=".produce is Produce.ACK:\n                queue.",
        new=".produce in (Produce.ACK, Produce.DUPLICATE):\n                queue.",
        breaks="a replaced leader's duplicate counts as an acknowledgement",
        tests=("tests/core/producer/test_replaced_leader.py::test_a_late_duplicate_error_is_not_an_acknowledgement",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="limit, most = self._config.retries, self._config.max_failed_attempts",
        new="limit, most = None, self._config.max_failed_attempts",
        breaks="retries is ignored",
        tests=(
            "tests/core/producer/test_attempts.py::test_without_retries_a_lost_connection_fails_the_batch_as_maybe_written_and_the_next_record_goes_on",
        ),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="limit, most = self._config.retries, self._config.max_failed_attempts",
        new="limit, most = self._config.retries, None",
        breaks="max_failed_attempts is ignored",
        tests=("tests/core/producer/test_attempts.py::test_max_failed_attempts_counts_error_responses_and_not_lost_connections",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="                batch.attempts -= 1\n",
        new="                pass\n",
        breaks="a request that never reached a socket counts as an attempt",
        tests=("tests/core/producer/test_attempts.py::test_a_request_that_never_reached_a_socket_is_no_attempt",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="Produce.FAIL if last and row.produce in PARTED else row.produce",
        new="row.produce",
        breaks="without retries the halves of a batch are sent again",
        tests=("tests/core/producer/test_attempts.py::test_without_retries_an_error_fails_the_batch_at_once",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="found.current_leader.leader_id >= 0 and self._is_same_topic(flight, queue.tp.topic):",
        new="found.current_leader.leader_id >= 0:",
        breaks="a late response names the leader of a deleted topic, and the leaders of the new one are taken for outdated",
        tests=("tests/core/producer/test_sender_options.py::test_the_leader_of_a_topic_that_was_deleted_meanwhile_is_not_passed_on",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="            if not batch.done and (not outcome.passing or self._was_last(batch)):",
        new="            if not batch.done:",
        breaks="the producer never sends again after a lost request",
        tests=("tests/core/producer/test_sender.py::test_a_batch_survives_a_lost_connection_and_keeps_its_sequence",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="self._outcomes.acknowledge(queue, batch, offset, answer.log_append_time_ms)",
        new="self._outcomes.acknowledge(queue, batch, offset, -1)",
        breaks="the broker's append time is dropped",
        tests=("tests/core/producer/test_sender_options.py::test_what_the_broker_appended_at_its_own_time_says_so",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="offset = answer.base_offset if row.produce is Produce.ACK else -1",
        new="offset = answer.base_offset",
        breaks="a duplicate's answer names an offset that is not its own",
        tests=("tests/core/producer/test_sender_numbers.py::test_duplicate_counts_as_acknowledged",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="if batch.count == 1:",
        new="if batch.count == 1 or batch.written:",
        breaks="a batch too large for its topic fails when an earlier try may have been written",
        tests=("tests/core/producer/test_sender_split.py::test_a_batch_is_split_after_an_earlier_try_that_may_have_written_it",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="part.written = batch.written  # but",
        new="part.written = False  # but",
        breaks="halves of a batch that may be in the log count as not written",
        tests=(
            "tests/core/producer/test_sender_options.py::test_halves_of_a_batch_that_may_be_in_the_log_fail_as_maybe_written",
            "tests/core/producer/test_sender_split.py::test_halves_of_a_batch_that_is_in_the_log_are_not_written_again",
        ),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="        queue.doubt(batch)\n        self._requeue(queue, batch)\n        if not batch.done:",
        new="        self._requeue(queue, batch)\n        if not batch.done:",
        breaks="a partition left out of an answer counts as not written",
        tests=("tests/core/producer/test_sender_options.py::test_a_partition_that_an_answer_leaves_out_may_have_been_written",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="            if outcome.written is Written.MAYBE:\n                queue.doubt(batch)\n            else:",
        new="            if outcome.written is not Written.MAYBE:",
        breaks="a batch whose request was lost after it was written counts as not written",
        tests=("tests/core/producer/test_sender_numbers.py::test_a_partition_keeps_its_epoch_until_nothing_of_it_is_in_doubt",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="        if row.written is Written.MAYBE:\n            queue.doubt(batch)\n",
        new="",
        breaks="an error code that leaves it open counts as not written",
        tests=(
            "tests/core/producer/test_sender_options.py::test_halves_of_a_batch_that_may_be_in_the_log_fail_as_maybe_written",
            "tests/core/producer/test_sender_split.py::test_halves_of_a_batch_that_is_in_the_log_are_not_written_again",
        ),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="queue.stale = queue.spent = True",
        new="queue.stale = True",
        breaks="a fenced partition keeps its producer id",
        tests=("tests/core/producer/test_sender_numbers.py::test_a_fenced_partition_takes_another_producer_id_and_the_others_keep_theirs",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="if not reasons or (batch.written and self._config.enable_idempotence):",
        new="if not reasons:",
        breaks="the rest of a batch that may be written is sent again",
        tests=("tests/core/producer/test_sender_refused.py::test_a_batch_that_may_be_written_is_not_sent_again_in_part",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="for e in answer.record_errors if 0 <= e.batch_index < batch.count}",
        new="for e in answer.record_errors}",
        breaks="an index that names no record of the batch is believed",
        tests=("tests/core/producer/test_sender_refused.py::test_several_refused_records_and_hostile_indexes",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="            self._recovery.healthy(queue.tp)\n            queue.acknowledged",
        new="            queue.acknowledged",
        breaks="a partition that works again stays offline",
        tests=("tests/core/producer/test_sender_options.py::test_an_acknowledgement_makes_its_partition_healthy",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="self._cluster.hint(queue.tp, hinted.leader_id, hinted.leader_epoch, endpoints.get(hinted.leader_id))",
        new="pass",
        breaks="the leader that a Produce answer names is ignored",
        tests=("tests/core/producer/test_sender_options.py::test_the_leader_that_a_refusal_names_is_passed_on",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="        if queue.batches[0] is not batch:\n            return\n        queue.stale",
        new="        queue.stale",
        breaks="a sequence error behind an unacknowledged batch renews the epoch",
        tests=("tests/core/producer/test_sender.py::test_a_failed_batch_is_sent_again_before_those_behind_it",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="        queue.stale = queue.spent = True\n",
        new="        queue.stale = True\n",
        breaks="a fenced producer id is used on",
        tests=("tests/core/producer/test_sender_numbers.py::test_a_fenced_partition_takes_another_producer_id_and_the_others_keep_theirs",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="                self._network.avoid(now, queue.node)  # it may",
        new="                pass  # it may",
        breaks="a leader whose wait for its replicas timed out is itself asked for the current leader",
        tests=("tests/core/producer/test_sender_codes.py",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old='detail, "Produce", topic=queue.tp.topic)',
        new="detail)",
        breaks="a denied record does not say which right it needs",
        tests=("tests/core/producer/test_sender_topics.py::test_a_denied_batch_names_the_right_and_the_next_one_continues_the_sequence",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="        self._limit_batches(queue.tp.topic, batch.raw_size // 2)\n",
        new="",
        breaks="batches grow again and again to a size that brokers refuse",
        tests=("tests/core/producer/test_sender_split.py::test_later_batches_are_no_larger_than_the_halves_of_a_refused_one",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="        self._limits.refused(queue.tp.topic, now)\n",
        new="",
        breaks="brokers are never asked for the limit of a topic",
        tests=("tests/core/producer/test_limits.py::test_brokers_are_asked_for_the_limit_only_after_they_refused_a_batch",),
    ),
    Mutant(
        file="pykafka4/core/producer/answers.py",
        old="if row.produce is not Produce.SEQUENCE or queue.batches[0] is batch:",
        new="if True:",
        breaks="max_failed_attempts counts the errors of batches behind a failed one",
        tests=("tests/core/producer/test_attempts.py::test_the_error_of_a_batch_behind_a_failed_one_is_not_counted_as_its_own",),
    ),
)
