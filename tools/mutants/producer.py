"""Bugs of the producer: its options, its machine, its queues, its identity."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/producer.py",
        old="buffer_memory=config.buffer_memory,",
        new="buffer_memory=1 << 40,",
        breaks="buffer_memory is ignored",
        tests=("tests/producer/test_delivery.py::test_a_send_that_finds_no_room_in_time_names_what_is_full",),
    ),
    Mutant(
        file="pykafka4/core/sender.py",
        old="            self._home(queue, batch)\n            if not outcome.passing and not batch.done:",
        new="            self._home(queue, batch)\n            if not batch.done:",
        breaks="the producer never sends again after a lost request",
        tests=("tests/core/test_sender.py::test_batch_survives_a_lost_connection_and_keeps_its_number",),
    ),
    Mutant(
        file="pykafka4/core/sender.py",
        old="expects_reply=self.config.acks != 0,",
        new="expects_reply=True,",
        breaks="with acks=0 an answer is waited for",
        tests=("tests/core/test_sender.py::test_with_acks_0_written_is_finished",),
    ),
    Mutant(
        file="pykafka4/core/sender.py",
        old="            queue.proven = True\n",
        new="",
        breaks="the first batch's acknowledgement opens no pipeline",
        tests=("tests/core/test_sender.py::test_a_failed_batch_is_sent_again_before_those_behind_it",),
    ),
    Mutant(
        file="pykafka4/core/sender.py",
        old="landed_at = answer.base_offset if row.produce is Produce.ACK else -1",
        new="landed_at = answer.base_offset",
        breaks="a duplicate's answer names an offset that is not its own",
        tests=("tests/core/test_sender_numbers.py::test_duplicate_counts_as_acknowledged",),
    ),
    Mutant(
        file="pykafka4/core/sender.py",
        old="if batch.count == 1 or (batch.written and self.config.enable_idempotence):",
        new="if batch.count == 1:",
        breaks="an idempotent batch that may be in the log is split",
        tests=("tests/core/test_sender_split.py::test_a_batch_that_may_be_written_is_not_halved",),
    ),
    Mutant(
        file="pykafka4/core/sender.py",
        old="if not queue.may_send(now) or (queue.in_flight and queue.node != node):",
        new="if not queue.may_send(now):",
        breaks="batches of one partition travel to two leaders at once",
        tests=("tests/core/test_sender.py::test_leader_change_waits_for_what_is_in_flight_to_the_old_leader",),
    ),
    Mutant(
        file="pykafka4/core/sender.py",
        old="        self._lines.replace_all()\n",
        new="",
        breaks="queues stay in the line of the old leader",
        tests=("tests/core/test_sender.py::test_a_partition_without_a_leader_waits_and_the_other_goes_on",),
    ),
    Mutant(
        file="pykafka4/core/sender.py",
        old="max_version=None if all(ids.values()) else BY_NAME_ONLY,",
        new="max_version=None,",
        breaks="a topic without id is asked for by id",
        tests=("tests/core/test_sender_versions.py::test_produce_stays_below_topic_ids_while_one_is_unknown",),
    ),
    Mutant(
        file="pykafka4/core/sender.py",
        old="self.ledger.landed(batch.count)",
        new="self.ledger.landed(1)",
        breaks="the account counts batches instead of records",
        tests=("tests/producer/test_delivery.py::test_leaving_the_block_delivers_everything",),
    ),
    Mutant(
        file="pykafka4/core/queues.py",
        old="self.in_flight < (self.depth if self.proven else 1)",
        new="self.in_flight < self.depth",
        breaks="the first batch of an epoch does not go alone",
        tests=("tests/core/test_sender_numbers.py::test_first_batch_of_an_epoch_goes_alone",),
    ),
    Mutant(
        file="pykafka4/core/queues.py",
        old="return not self.broken and not self.strays and",
        new="return not self.strays and",
        breaks="batches are sent while one that came back waits for those behind it",
        tests=("tests/core/test_sender.py::test_a_failed_batch_is_sent_again_before_those_behind_it",),
    ),
    Mutant(
        file="pykafka4/core/queues.py",
        old="self.next_sequence = (self.next_sequence + batch.count) % SEQUENCES",
        new="self.next_sequence = self.next_sequence + batch.count",
        breaks="sequence numbers do not wrap",
        tests=("tests/core/test_sender_numbers.py::test_sequences_wrap_at_two_to_the_31",),
    ),
    Mutant(
        file="pykafka4/core/queues.py",
        old="for part in reversed(parts):",
        new="for part in parts:",
        breaks="the halves of a split batch change places",
        tests=("tests/core/test_sender_split.py::test_too_large_a_batch_is_split_in_order",),
    ),
    Mutant(
        file="pykafka4/core/queues.py",
        old="(bool(self.batches) and self.batches[0].written)",
        new="False",
        breaks="a written batch at the head is not in doubt",
        tests=("tests/core/test_sender_numbers.py::test_a_batch_that_may_be_in_the_log_keeps_its_number_whatever_happens_elsewhere",),
    ),
    Mutant(
        file="pykafka4/core/identity.py",
        old="self._not_before = now + self._backoff.next()",
        new="self._not_before = now",
        breaks="a producer id is asked for again without a pause",
        tests=("tests/core/test_identity.py::test_passing_errors_are_tried_again_after_a_pause",),
    ),
    Mutant(
        file="pykafka4/core/identity.py",
        old="            self._changed()\n",
        new="",
        breaks="a new epoch does not renumber",
        tests=("tests/core/test_identity.py::test_a_broker_that_is_silent_is_not_the_only_one_asked_and_one_id_is_taken",),
    ),
    Mutant(
        file="pykafka4/core/sender.py",
        old='            self._fail(queue, batch, "TIMED_OUT", reason)\n        self._watch(queue)\n',
        new='            self._fail(queue, batch, "TIMED_OUT", reason)\n',
        breaks="only the first deadline of a partition is watched",
        tests=("tests/producer/test_delivery.py::test_what_expires_says_which_address_failed_and_why",),
    ),
)
