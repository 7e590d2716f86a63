"""Bugs of which epoch a queue sends in, and of what happens when a producer id is denied."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/core/producer/numbering.py",
        old="        if queue.in_doubt:\n            candidate = queue.candidate\n            return candidate is not None and candidate.written\n",
        new="",
        breaks="an epoch ends while batches of it are in doubt",
        tests=("tests/core/producer/test_sender_numbers.py::test_a_partition_keeps_its_epoch_until_nothing_of_it_is_in_doubt",),
    ),
    Mutant(
        file="pykafka4/core/producer/numbering.py",
        old="            self._fail_waiting(queue, now, error)\n            self._ready.place(queue)",
        new="            self._ready.place(queue)",
        breaks="records wait for their time-out while the producer id is denied",
        tests=(
            "tests/core/producer/test_sender_topics.py::test_records_fail_with_the_right_that_their_topic_needs_when_the_producer_id_is_denied",
        ),
    ),
    Mutant(
        file="pykafka4/core/producer/numbering.py",
        old='"InitProducerId", topic=queue.tp.topic)',
        new='"InitProducerId")',
        breaks="a record that lacks a producer id does not say which topic needs a right",
        tests=(
            "tests/core/producer/test_sender_topics.py::test_records_fail_with_the_right_that_their_topic_needs_when_the_producer_id_is_denied",
        ),
    ),
    Mutant(
        file="pykafka4/core/producer/numbering.py",
        old="        if self.identity.denied is not None and not self._waiting:",
        new="        if False:",
        breaks="a producer id that was denied is asked for for ever, although nothing is sent",
        tests=("tests/core/producer/test_sender_topics.py::test_a_producer_id_that_was_denied_is_asked_for_again_only_for_a_record",),
    ),
    Mutant(
        file="pykafka4/core/producer/numbering.py",
        old="        if self.identity.denied is not None and not self._waiting:",
        new="        if self.identity.denied is not None:",
        breaks="a producer id that was denied once is never asked for again",
        tests=("tests/core/producer/test_sender_topics.py::test_a_producer_id_that_was_denied_is_asked_for_again_only_for_a_record",),
    ),
)
