"""Bugs of size limits that brokers tell, and of topics that no longer exist."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

LIMITS: Final = "tests/core/producer/test_limits.py::"
MISSING: Final = "tests/core/producer/test_missing.py::"

MUTANTS: Final = (
    Mutant(
        file="pykafka4/core/producer/limits.py",
        old="again_at is None or again_at - self._max_age + FRESH < now",
        new="again_at is None",
        breaks="a limit that was lowered is not asked for again before its age",
        tests=(LIMITS + "test_a_limit_that_was_lowered_is_asked_for_when_a_batch_that_fits_is_refused",),
    ),
    Mutant(
        file="pykafka4/core/producer/limits.py",
        old="again_at is None or again_at - self._max_age + FRESH < now",
        new="True",
        breaks="each refused batch asks for the limit",
        tests=(LIMITS + "test_batches_that_were_in_flight_already_are_no_reason_to_ask_again",),
    ),
    Mutant(
        file="pykafka4/core/producer/limits.py",
        old="        if now >= self._next_at:\n",
        new="        if False:\n",
        breaks="a limit that was raised is never learned",
        tests=(LIMITS + "test_a_limit_that_was_raised_is_learned_in_time",),
    ),
    Mutant(
        file="pykafka4/core/producer/limits.py",
        old="if result.error_code and code.retriable:",
        new="if False:",
        breaks="a passing error counts as an answer",
        tests=(LIMITS + "test_the_question_is_repeated_until_it_is_answered",),
    ),
    Mutant(
        file="pykafka4/core/producer/limits.py",
        old="        for topic in list(self._wanted):\n            self._settle(now, topic)\n",
        new="        return\n",
        breaks="a broker that cannot tell a limit is asked without end",
        tests=(LIMITS + "test_an_old_broker_that_cannot_be_asked_is_not_asked_again_soon",),
    ),
    Mutant(
        file="pykafka4/core/producer/missing.py",
        old="        if since + self._patience <= now:\n",
        new="        if True:\n",
        breaks="a topic that was recreated and deleted again fails its records too early",
        tests=(MISSING + "test_a_topic_that_came_back_and_went_again_unnoticed_is_waited_for_again",),
    ),
    Mutant(
        file="pykafka4/core/producer/missing.py",
        old="        if since is None:\n            return\n",
        new="        since = since or 0.0\n",
        breaks="a topic that is back fails its records",
        tests=(MISSING + "test_a_topic_that_came_back_unnoticed_fails_nothing",),
    ),
    Mutant(
        file="pykafka4/core/producer/missing.py",
        old="            self._due[topic] = max(since, oldest) + self._patience\n",
        new="            pass\n",
        breaks="only the first records of a missing topic fail in time",
        tests=(MISSING + "test_records_of_a_deleted_topic_fail_by_name_and_the_wait_is_from_their_own_sending",),
    ),
)
