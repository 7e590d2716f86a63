"""Deliberate bugs in processing."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

WORK, RUN, PAUSES = "pykafka4/processing/work.py", "pykafka4/processing/run.py", "pykafka4/processing/pauses.py"
SAFE = "pykafka4/processing/safe.py"
TESTS, RUNS = "tests/consumer/test_process.py", "tests/consumer/test_runs.py"

MUTANTS = (
    Mutant(
        file="pykafka4/processing/progress.py",
        old="while window and next(iter(window.values())).finished:",
        new="while window:",
        breaks="a commit passes records that are not finished",
        tests=("tests/processing/test_progress.py",),
    ),
    Mutant(
        file="pykafka4/processing/progress.py",
        old="        while window and next(reversed(window)) >= record.offset:\n            window.popitem()[1].void = True\n",
        new="",
        breaks="after a log lost its end, records of the lost part are handled",
        tests=(
            "tests/processing/test_progress.py::test_after_a_step_back_the_records_before_it_stay_and_those_behind_it_do_not_count",
            "tests/processing/test_work.py::test_after_a_log_lost_its_end_the_records_before_it_are_handled_and_those_behind_it_are_not",
        ),
    ),
    Mutant(
        file=SAFE,
        old="min(place, first.get(tp, place), key=_offset)",
        new="place",
        breaks="a commit passes records in hand",
        tests=("tests/processing/test_safe.py::test_a_place_is_held_back_by_a_record_in_hand_only",),
    ),
    Mutant(
        file=SAFE,
        old="min(place, first.get(tp, place), key=_offset) for tp, place in taken.items()",
        new="first[tp] for tp in taken.keys() & first.keys()",
        breaks="process and streams do not commit where reading began",
        tests=(f"{RUNS}::test_where_reading_began_is_committed_so_that_the_next_run_skips_nothing",),
    ),
    Mutant(
        file=SAFE,
        old="        taken = self._reads.taken_places()  # first: what comes into hand from now on is not before these\n"
        "        first = self._unfinished()\n",
        new="        first = self._unfinished()\n        taken = self._reads.taken_places()\n",
        breaks="a commit passes records that come into hand meanwhile",
        tests=("tests/processing/test_safe.py::test_what_comes_into_hand_meanwhile_is_not_passed",),
    ),
    Mutant(
        file=SAFE,
        old=" if tp not in self._ended}",
        new="}",
        breaks="a listener commits unfinished records of partitions that go to another member",
        tests=("tests/processing/test_safe.py::test_what_has_ended_is_not_committed_until_it_is_assigned_again",),
    ),
    Mutant(
        file=SAFE,
        old="stored.get(tp) != at.offset}",
        new="tp not in stored}",
        breaks="a run commits each partition once",
        tests=("tests/processing/test_safe.py::test_a_place_is_uncommitted_until_it_is_known_to_be_committed",),
    ),
    Mutant(
        file=WORK,
        old="        taken()\n",
        new="",
        breaks="what was handled is not committed before the next poll",
        tests=("tests/processing/test_work.py::test_what_is_taken_is_told_before_the_first_handler_starts",),
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
        old="        self._ends.wait(lambda: not any(progress.running > (progress is mine) for progress in ending), timeout)\n",
        new="",
        breaks="a revocation does not wait for the handlers that run",
        tests=(f"{TESTS}::test_before_a_revocation_what_is_in_hand_is_finished_and_committed",),
    ),
    Mutant(
        file=WORK,
        old="            ended = task.ended\n",
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
        old="            self._reads.go_back(self._safe.places())\n",
        new="            pass\n",
        breaks="a consumer that goes on after process skips what was not finished",
        tests=(f"{TESTS}::test_a_handler_that_raises_ends_it_with_that_exception_and_loses_nothing",),
    ),
    Mutant(
        file=RUN,
        old="        if not self.closed:\n",
        new="        if True:\n",
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
        file=RUN,
        old="                    self._own.shutdown()\n",
        new="                    pass\n",
        breaks="threads of process stay when it has ended",
        tests=(f"{TESTS}::test_the_threads_of_a_run_end_with_it",),
    ),
    Mutant(
        file=RUN,
        old="min(self._release_seconds, self._reads.left())",
        new="self._release_seconds",
        breaks="close waits for a handler as long as process does",
        tests=("tests/consumer/test_runs_waits.py::test_close_takes_the_time_that_it_was_given",),
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
        old="            self._consumer.pause(full)  # first: it reports pauses of the application, too, which `forget` is called for\n",
        new="",
        breaks="a slow record lets its partition fill memory",
        tests=(f"{TESTS}::test_a_slow_record_pauses_its_partition_alone",),
    ),
    Mutant(
        file=WORK,
        old="        if inspect.isgenerator(item) or inspect.isasyncgen(item):\n",
        new="        if False:\n",
        breaks="records are committed although the generator that their handler returned never ran",
        tests=(
            "tests/processing/test_work.py::test_a_handler_that_returns_a_generator_is_an_error_and_no_other_attempt_is_made",
            f"{TESTS}::test_a_generator_that_a_handler_returns_ends_it_and_is_not_finished",
        ),
    ),
    Mutant(
        file=WORK,
        old="    if len(sent) < len(several):\n",
        new="    if not sent and len(several) == 1:\n",
        breaks="records are committed although what their handler was to send, in a list, was never awaited",
        tests=("tests/processing/test_work.py::test_a_handler_that_returns_an_awaitable_is_an_error",),
    ),
    Mutant(
        file=WORK,
        old="            future.add_done_callback(self._look_after)\n",
        new="            pass\n",
        breaks="process stands still when its executor has cancelled handlers",
        tests=("tests/processing/test_work.py::test_an_executor_that_cancels_handlers_ends_the_work",),
    ),
    Mutant(
        file=RUN,
        old="    if _is(inspect.isgeneratorfunction, handle) or _is(inspect.isasyncgenfunction, handle):\n",
        new="    if False:\n",
        breaks="a handler that is a generator function is accepted",
        tests=(f"{TESTS}::test_a_wrong_argument_is_named", "tests/aio/test_aio_process.py::test_a_wrong_argument_is_named"),
    ),
    Mutant(
        file=WORK,
        old="            what(*arguments)\n        except BaseException as error:\n            self._fail(error)\n",
        new="            what(*arguments)\n        except BaseException:\n            raise\n",
        breaks="errors on a worker vanish in the future of its executor",
        tests=("tests/processing/test_work.py::test_nothing_that_goes_wrong_on_a_worker_is_lost_in_its_future",),
    ),
    Mutant(
        file=WORK,
        old="        except BaseException as refused:\n",
        new="        except RuntimeError as refused:\n",
        breaks="process hangs when the producer of dead letters exits",
        tests=("tests/processing/test_work.py::test_a_producer_of_dead_letters_that_exits_ends_the_work",),
    ),
    Mutant(
        file=WORK,
        old="            with contextlib.suppress(Exception):  # of an exception that cannot be changed\n",
        new="            if True:\n",
        breaks="an exception that takes no notes ends nothing",
        tests=("tests/processing/test_work.py::test_an_exception_that_cannot_be_changed_ends_the_work",),
    ),
    Mutant(
        file=WORK,
        old="        self._lock = system.RLock()  # of everything below\n",
        new="        self._lock = system.Condition()\n",
        breaks="Ctrl-C leaves the lock of the records in hand locked",
        tests=("tests/processing/test_work.py::test_ctrl_c_at_any_place_leaves_the_lock_free",),
    ),
    Mutant(
        file=WORK,
        old="            if self.partitions.get(progress.tp) is progress:\n                self.held -= window - progress.window\n",
        new="            self.held -= window - progress.window\n",
        breaks="records of partitions that have gone are counted twice as finished",
        tests=("tests/processing/test_work.py::test_what_is_held_is_counted",),
    ),
    Mutant(
        file=RUN,
        old="                self._work.refuse()\n                self._commit_last(waits=drained)\n",
        new="                if drained:\n                    self._commit_last(waits=True)\n",
        breaks="after a second Ctrl-C the consumer skips what was not finished",
        tests=(f"{TESTS}::test_a_second_ctrl_c_while_it_waits_for_handlers_loses_nothing_either",),
    ),
    Mutant(
        file=PAUSES,
        old="        return min(most, max(self._share(), self._most - held))\n",
        new="        return most\n",
        breaks="with many partitions, many times max_in_hand are in hand",
        tests=(
            f"{TESTS}::test_records_in_hand_are_bounded_however_many_partitions_there_are",
            "tests/consumer/test_streams.py::test_what_waits_is_bounded_however_many_partitions_there_are",
        ),
    ),
    Mutant(
        file=RUN,
        old="        return partial(_checked_key, by)\n",
        new="        return by\n",
        breaks="coroutines as keys give no order, and nobody is told",
        tests=(f"{TESTS}::test_an_order_of_coroutines_ends_it_because_it_is_none",),
    ),
    Mutant(
        file=WORK,
        old="        mine = self._runs.get(system.get_ident())  # a handler",
        new="        mine = None  # a handler",
        breaks="a handler that closes the consumer waits for itself",
        tests=("tests/consumer/test_runs_alone.py::test_a_handler_may_close_the_consumer",),
    ),
    Mutant(
        file=RUN,
        old='    except KafkaError as error:\n        log.warning("%s: the last commit',
        new='    except GroupError as error:\n        log.warning("%s: the last commit',
        breaks="partitions stay paused after streams whose last commit was refused",
        tests=("tests/consumer/test_runs_alone.py::test_after_streams_whose_last_commit_was_refused_nothing_stays_paused",),
    ),
)
