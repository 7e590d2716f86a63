"""Bugs of the loop's thread, and of logging."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/net/loop.py",
        old="                promise.wait(AWAKE)\n",
        new="                pass\n",
        breaks="status() of a process that was stopped for long says that its loop does not respond",
        tests=("tests/net/test_loop.py::test_a_process_that_was_stopped_while_it_asked_waits_for_its_loop",),
    ),
    Mutant(
        file="pykafka4/net/loop.py",
        old='Helper("pykafka4-assignors", ASSIGNORS, client_id)',
        new='Helper("pykafka4-assignors", 1, client_id)',
        breaks="an assignor that hangs delays the assignors of the client's other consumers",
        tests=("tests/net/test_loop.py::test_jobs_that_block_run_at_once_and_keep_no_job_of_another_kind_waiting",),
    ),
    Mutant(
        file="pykafka4/net/loop.py",
        old="        self._callbacks.serve(None)\n",
        new="",
        breaks="a callback that is added after the client was closed is never called",
        tests=("tests/producer/test_delivery.py::test_a_callback_that_is_added_after_the_producer_was_closed_is_called",),
    ),
    Mutant(
        file="pykafka4/net/loop.py",
        old="        self._logs.flush()  # also if the loop has already ended\n",
        new="",
        breaks="close() does not wait for what was logged last",
        tests=("tests/net/test_logs.py::test_closing_hands_over_what_was_logged_last_and_ends_the_thread",),
    ),
    Mutant(
        file="pykafka4/net/loop.py",
        old="        self._deliver += self.engine.crash(reason)\n",
        new="        self.engine.crash(reason)\n",
        breaks="a crash of the loop loses delivery callbacks",
        tests=("tests/test_isolation.py::test_a_loop_that_crashes_fails_the_records_that_no_broker_has_answered",),
    ),
    Mutant(
        file="pykafka4/net/loop.py",
        old="            if waits_for is machine and (promise",
        new="            if False and (promise",
        breaks="a thread that waits on a failed machine is not woken",
        tests=("tests/net/test_loop.py::test_the_failure_of_a_machine_fails_its_promises_and_no_others",),
    ),
    Mutant(
        file="pykafka4/net/loop.py",
        old="            promise.set_exception(self._end())\n        elif",
        new="            pass\n        elif",
        breaks="a promise made after the end of the loop is never kept",
        tests=("tests/net/test_loop.py::test_a_promise_made_after_the_end_fails_at_once",),
    ),
    Mutant(
        file="pykafka4/net/loop.py",
        old="open_transport(engine.config.receive_message_max_bytes,",
        new="open_transport(100 * 1024 * 1024,",
        breaks="receive_message_max_bytes is ignored",
        tests=("tests/consumer/test_unreadable.py::test_a_batch_over_the_fetch_limit_is_reported_and_delays_no_other_partition",),
    ),
    Mutant(
        file="pykafka4/net/logs.py",
        old="        if self._queue.qsize() >= LIMIT:\n",
        new="        if False:\n",
        breaks="log records of the loop wait without bound",
        tests=("tests/net/test_logs.py::test_the_loop_goes_on_while_a_handler_blocks_and_drops_are_counted",),
    ),
    Mutant(
        file="pykafka4/net/logs.py",
        old="                self._ending = True\n                queue.put(None)\n                raise\n",
        new="                raise\n",
        breaks="a Ctrl-C while the log thread starts leaves a thread behind",
        tests=("tests/net/test_logs.py::test_ctrl_c_while_the_thread_starts_or_ends_keeps_no_later_record_from_being_handled",),
    ),
    Mutant(
        file="pykafka4/net/logs.py",
        old="                _attempt(self._report_dropped)\n",
        new="                self._report_dropped()\n",
        breaks="a handler that raises at the count of dropped records ends the log thread",
        tests=(
            "tests/net/test_logs.py::test_a_handler_that_ends_its_thread_at_the_count_of_drops_keeps_no_other_record_from_being_handled",
        ),
    ),
    Mutant(
        file="pykafka4/net/logs.py",
        old="        record.created, record.msecs = self.created, float(int(self.created * 1000) % 1000)\n",
        new="        self.created  # noqa: B018\n",
        breaks="log records of the loop tell when they were handled, not when they were logged",
        tests=("tests/net/test_logs.py::test_the_time_of_a_record_is_when_it_was_logged",),
    ),
    Mutant(
        file="pykafka4/net/loop.py",
        old="        empty_frames(error)\n        log.critical",
        new="        log.critical",
        breaks="a crash of the loop shows the message that it was sending",
        tests=("tests/secrets/test_secrets.py::test_a_crash_of_the_loop_while_it_sends_the_password",),
    ),
)
