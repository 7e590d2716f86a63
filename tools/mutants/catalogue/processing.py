"""Deliberate bugs in processing."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

WORK, RUN, PAUSES = "pykafka4/processing/work.py", "pykafka4/processing/run.py", "pykafka4/processing/pauses.py"
TESTS = "tests/consumer/test_process.py"

MUTANTS = (
    Mutant(
        file="pykafka4/processing/progress.py",
        old="            if not finished:\n                break\n",
        new="",
        breaks="a commit passes records that are not finished",
        tests=("tests/processing/test_progress.py",),
    ),
    Mutant(
        file="pykafka4/processing/progress.py",
        old="not self.ended and record.offset > self._last",
        new="not self.ended",
        breaks="after a jump back, records are counted in the old window",
        tests=("tests/processing/test_progress.py::test_a_record_before_the_last_one_begins_anew",),
    ),
    Mutant(
        file=WORK,
        old="            if lane is None:\n",
        new="            if True:\n",
        breaks="records with one key are handled at the same time",
        tests=("tests/processing/test_work.py::test_records_of_a_key_are_handled_in_order_and_others_in_any",),
    ),
    Mutant(
        file=WORK,
        old="        self._await(sent, lambda error:",
        new="        self._await([], lambda error:",
        breaks="a record is finished before what its handler sent is acknowledged",
        tests=("tests/processing/test_work.py::test_a_record_is_finished_when_what_its_handler_sent_is_acknowledged",),
    ),
    Mutant(
        file=WORK,
        old="            self._changed.wait_for(lambda: not any(progress.running for progress in ending), timeout)\n",
        new="            pass\n",
        breaks="a revocation does not wait for the handlers that run",
        tests=(f"{TESTS}::test_before_a_revocation_what_is_in_hand_is_finished_and_committed",),
    ),
    Mutant(
        file=WORK,
        old="            ended = task.progress.ended\n",
        new="            ended = False\n",
        breaks="handlers start for records of partitions that have another owner",
        tests=("tests/processing/test_work.py::test_the_end_of_a_partition_waits_for_what_is_in_hand_and_starts_nothing_more",),
    ),
    Mutant(
        file=WORK,
        old="        if free:\n            self._wake()\n        self._next(lane)\n",
        new="        self._next(lane)\n",
        breaks="a full partition is read on only at the next look at the clock",
        tests=("tests/processing/test_work.py::test_a_watched_partition_wakes_the_thread_that_polls_once",),
    ),
    Mutant(
        file=RUN,
        old="    return record.topic, record.partition, record.key, None if record.key is not None else record.offset\n",
        new="    return record.topic, record.partition, record.key\n",
        breaks="records without a key are handled one after the other",
        tests=("tests/processing/test_work.py::test_records_of_a_key_are_handled_in_order_and_others_in_any",),
    ),
    Mutant(
        file=RUN,
        old="            self._between.seek({tp: offset for tp, offset in places.items() if tp in mine})\n",
        new="            pass\n",
        breaks="a consumer that goes on after process skips what was not finished",
        tests=(f"{TESTS}::test_a_handler_that_raises_ends_it_with_that_exception_and_loses_nothing",),
    ),
    Mutant(
        file=RUN,
        old="        if selection.listener is processing and not processing.closed:\n",
        new="        if selection.listener is processing:\n",
        breaks="a consumer that another task closes does not commit what was processed",
        tests=("tests/aio/test_aio_process.py::test_close_by_another_task_ends_it",),
    ),
    Mutant(
        file=RUN,
        old="        self._commit_now(offsets, COMMIT_SECONDS)\n        self._tell",
        new="        self._tell",
        breaks="before a revocation what is finished is not committed",
        tests=(f"{TESTS}::test_before_a_revocation_what_is_in_hand_is_finished_and_committed",),
    ),
    Mutant(
        file=PAUSES,
        old="} - self._consumer.paused()\n",
        new="}\n",
        breaks="process resumes what the application has paused",
        tests=(f"{TESTS}::test_a_full_partition_that_the_application_pauses_stays_paused",),
    ),
    Mutant(
        file=PAUSES,
        old="            self._consumer.pause(full)\n",
        new="",
        breaks="a slow record lets its partition fill memory",
        tests=(f"{TESTS}::test_a_slow_record_pauses_its_partition_alone",),
    ),
)
