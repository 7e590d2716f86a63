"""Bugs of the loop: whose failure is whose, crashes, logging, and connections that nobody needs."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

ONE_MACHINE = "tests/core/test_engine.py::test_an_exception_ends_its_machine_with_waiters_told_and_the_others_go_on"
QUEUE = "tests/core/metadata/test_metadata_queue.py::"
LEADERLESS = "tests/core/metadata/test_recovery.py::test_thousands_of_partitions_without_leader_cost_no_connection_and_no_scan"

MUTANTS: Final = (
    Mutant(
        file="pykafka4/net/loop.py",
        old="        self._logs.flush()  # also if the loop has already ended\n",
        new="",
        breaks="close() does not wait for what was logged last",
        tests=("tests/net/test_logs.py::test_closing_hands_over_what_was_logged_last_and_ends_the_thread",),
    ),
    Mutant(
        file="pykafka4/core/engine.py",
        old="                    request.on_reply = partial(self._answer, slot, request.on_reply)\n",
        new="                    pass\n",
        breaks="an exception in the answer to a request ends the client",
        tests=(ONE_MACHINE,),
    ),
    Mutant(
        file="pykafka4/core/engine.py",
        old="jobs += [Job(job.run, partial(self._answer, slot, job.then)) for job in effects.jobs]",
        new="jobs += effects.jobs",
        breaks="an exception at the end of a job ends the client",
        tests=(ONE_MACHINE,),
    ),
    Mutant(
        file="pykafka4/core/engine.py",
        old="        self._deliver += self._shut_down(slot.machine, reason)\n        for listener",
        new="        self._shut_down(slot.machine, reason)\n        for listener",
        breaks="the callbacks of a machine that failed are lost",
        tests=(ONE_MACHINE,),
    ),
    Mutant(
        file="pykafka4/core/engine.py",
        old="        self._slots = tuple(other for other in self._slots if other is not slot)\n        log.critical",
        new="        log.critical",
        breaks="a machine that failed is polled again",
        tests=(ONE_MACHINE,),
    ),
    Mutant(
        file="pykafka4/core/engine.py",
        old="        if slot is not None and slot.failure is not None:\n            return\n",
        new="",
        breaks="calls for a machine that failed still reach it",
        tests=("tests/core/test_engine.py::test_answers_jobs_and_calls_of_a_failed_machine_find_nobody",),
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
        breaks="who waits on a machine that failed is not told",
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
        file="pykafka4/net/handoff/workers.py",
        old="lambda: self._hand_over(callback))",
        new="self._hand_over(callback) or (lambda: None))",
        breaks="an executor that blocks stops the loop",
        tests=("tests/net/test_loop.py::test_an_executor_whose_submit_blocks_does_not_stop_the_loop",),
    ),
    Mutant(
        file="pykafka4/core/network/chooser.py",
        old="least = 0 if any(0 <= node < LANE for node in self._ready) else -INFINITY",
        new="least = -INFINITY",
        breaks="bootstrap servers are connected to again and again while brokers are connected",
        tests=("tests/core/network/test_network_any.py::test_avoiding_every_broker_opens_no_connection_while_all_are_connected",),
    ),
    Mutant(
        file="pykafka4/core/metadata/recovery.py",
        old="        self._changed.update(change.topics & self._outages.keys())\n",
        new="        self._changed.update(self._outages)\n",
        breaks="every offline partition is looked at whenever any topic changes",
        tests=(LEADERLESS,),
    ),
    Mutant(
        file="pykafka4/core/metadata/recovery.py",
        old="        if not outage.asking and self._network.up and not self._cluster.seeks(topic):\n",
        new="        if False:\n",
        breaks="nobody asks for a partition that the metadata does not know",
        tests=("tests/core/metadata/test_recovery.py::test_a_partition_that_the_metadata_does_not_know_is_asked_about",),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="        check_topic(topic)\n        known = self._topic(topic)\n",
        new="        known = self._topic(topic)\n",
        breaks="a name that is none spoils the metadata requests of everybody",
        tests=("tests/core/metadata/test_cluster.py::test_a_name_that_kafka_does_not_allow_is_refused_and_spoils_no_other_request",),
    ),
    Mutant(
        file="pykafka4/core/metadata/metadata_queue.py",
        old="                if cost > left and left < BUDGET:\n                    break\n",
        new="",
        breaks="thousands of leaderless topics are asked for every second",
        tests=(f"{QUEUE}test_thousands_of_leaderless_topics_are_asked_for_within_a_budget",),
    ),
    Mutant(
        file="pykafka4/core/metadata/metadata_queue.py",
        old="if cost > left and left < BUDGET:",
        new="if cost > left:",
        breaks="a topic with very many partitions is never asked for again",
        tests=(f"{QUEUE}test_the_first_topic_goes_even_if_it_is_over_the_budget",),
    ),
    Mutant(
        file="pykafka4/core/metadata/metadata_queue.py",
        old="        self._rush = bool(self._turns)\n",
        new="        pass\n",
        breaks="the end of an outage is noticed one turn after the other",
        tests=(f"{QUEUE}test_news_about_one_topic_has_all_the_others_asked_for_at_once",),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old=" and not self._queue.in_turns(name):\n",
        new=":\n",
        breaks="topics of a leader that cannot be reached are asked for every second, however many",
        tests=(f"{QUEUE}test_topics_of_a_leader_that_cannot_be_connected_to_are_asked_for_within_the_budget",),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="        self._topic(name)\n        self._queue.put(name, now)\n",
        new="        self._ask_for(name, now)\n",
        breaks="a call that waits for a topic waits for its turn among thousands",
        tests=(f"{QUEUE}test_a_topic_that_somebody_waits_for_is_not_left_to_its_turn",),
    ),
)
