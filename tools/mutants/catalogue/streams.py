"""Deliberate bugs in streams."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

ALLOTMENT, DISPATCHER = "pykafka4/processing/allotment.py", "pykafka4/processing/dispatcher.py"
UNIT, TESTS = "tests/processing/test_allotment.py", "tests/consumer/test_streams.py"
WAITS = "tests/consumer/test_runs_waits.py"

MUTANTS = (
    Mutant(
        file="pykafka4/processing/streams.py",
        old="    guard.iterations.clear()",
        new="    pass",
        breaks="streams do not begin while the thread that opens them has an iterator in a variable",
        tests=("tests/consumer/test_guard.py::test_streams_begin_although_their_thread_has_an_iterator",),
    ),
    Mutant(
        file=ALLOTMENT,
        old="            return ending  # another thread",
        new="            pass  # another thread",
        breaks="a record that was polled before its partition ended, and comes then, is committed",
        tests=(f"{UNIT}::test_what_was_polled_before_its_partition_ended_and_comes_then_is_not_finished",),
    ),
    Mutant(
        file=ALLOTMENT,
        old="        return self._busy.get(queue.tp, queue.stream) is not queue.stream\n",
        new="        return False\n",
        breaks="a partition that moved starts on the new stream while the old one has a record of it in hand",
        tests=(
            f"{UNIT}::test_a_partition_that_moves_starts_on_the_new_stream_when_the_old_one_has_finished_its_record",
            f"{UNIT}::test_a_partition_that_comes_back_waits_for_the_record_of_its_earlier_time",
        ),
    ),
    Mutant(
        file=ALLOTMENT,
        old="                self._finish(stream)\n                begun = True",
        new="                begun = True",
        breaks="no record is ever finished by asking for the next one",
        tests=(f"{UNIT}::test_a_record_is_finished_when_the_next_one_is_asked_for",),
    ),
    Mutant(
        file=ALLOTMENT,
        old="                    first[queue.tp] = stream.hand[1]\n",
        new="                    pass\n",
        breaks="a commit covers the record in hand",
        tests=(f"{UNIT}::test_a_record_is_finished_when_the_next_one_is_asked_for",),
    ),
    Mutant(
        file=ALLOTMENT,
        old="                with self._lock:\n                    self._give_back(stream)\n            raise\n",
        new="                pass\n            raise\n",
        breaks="Ctrl-C in a stream loses the record that was about to be returned",
        tests=(f"{UNIT}::test_ctrl_c_at_any_place_loses_no_record_and_returns_none_twice",),
    ),
    Mutant(
        file=ALLOTMENT,
        old="            queue.records.appendleft(record)\n",
        new="            pass\n",
        breaks="the record of a thread that has ended is skipped",
        tests=(f"{UNIT}::test_the_record_of_a_thread_that_has_ended_is_returned_again",),
    ),
    Mutant(
        file=ALLOTMENT,
        old="        self._wait_for(ending, timeout, meanwhile)\n",
        new="",
        breaks="a revocation does not wait for records in hand",
        tests=(f"{UNIT}::test_the_end_of_a_partition_waits_for_the_record_in_hand_and_returns_what_is_safe",),
    ),
    Mutant(
        file=ALLOTMENT,
        old="                del queue.stream.queues[queue.tp]\n            self._balance()\n",
        new="                del queue.stream.queues[queue.tp]\n",
        breaks="after a loss some streams have nothing to do",
        tests=(f"{UNIT}::test_after_a_loss_streams_differ_by_one_partition_at_most_and_few_partitions_move",),
    ),
    Mutant(
        file=ALLOTMENT,
        old="            if owner.is_alive():\n",
        new="            if False:\n",
        breaks="two threads read one stream",
        tests=(f"{UNIT}::test_a_stream_is_read_by_one_thread",),
    ),
    Mutant(
        file=ALLOTMENT,
        old="            stream.hand = now, stream.hand[1]\n",
        new="            pass\n",
        breaks="after a log lost its end, a commit passes a record in hand before that",
        tests=(f"{UNIT}::test_records_before_the_end_that_a_log_lost_stay",),
    ),
    Mutant(
        file=ALLOTMENT,
        old="            queue.records.appendleft(record)\n            self.held += not queue.ended\n",
        new="            queue.records.appendleft(record)\n            self.held += 1\n",
        breaks="records of partitions that have gone count as waiting",
        tests=(f"{UNIT}::test_a_record_that_is_given_back_while_its_partition_ends_is_not_finished",),
    ),
    Mutant(
        file=ALLOTMENT,
        old="if record.offset < offset)",
        new=")",
        breaks="after a log lost its end, records of the lost part are handed out",
        tests=(f"{UNIT}::test_a_log_that_lost_its_end_is_read_again_from_there",),
    ),
    Mutant(
        file=ALLOTMENT,
        old=" and owner not in excepted and _alive(owner)",
        new="",
        breaks="the end waits for records that nobody can finish",
        tests=(f"{TESTS}::test_close_from_within_a_loop_does_not_wait_for_its_own_record",),
    ),
    Mutant(
        file=DISPATCHER,
        old="        if self._wanted:\n            self._commit_wanted()\n        return",
        new="        return",
        breaks="a wait for a record in hand and the commit that its thread waits for wait for each other",
        tests=(f"{WAITS}::test_a_commit_by_a_thread_with_a_record_in_hand_does_not_wait_for_the_end",),
    ),
    Mutant(
        file=DISPATCHER,
        old="        return self._closer, self._reads.closer()\n",
        new="        return ()\n",
        breaks="a thread with a record in hand that closes, and the revocation that waits for it, wait for each other",
        tests=(f"{WAITS}::test_a_thread_with_a_record_in_hand_closes_during_a_revocation",),
    ),
    Mutant(
        file=DISPATCHER,
        old="self._plan.max_poll / 2, self._reads.left())",
        new="self._plan.max_poll / 2)",
        breaks="close waits for a record in a stream's hand as long as streams do",
        tests=(f"{WAITS}::test_close_takes_the_time_that_it_was_given",),
    ),
    Mutant(
        file=DISPATCHER,
        old="        self._commit_now(offsets, COMMIT_SECONDS)\n",
        new="",
        breaks="before a revocation what streams have finished is not committed",
        tests=(f"{TESTS}::test_before_a_revocation_the_record_in_hand_is_finished_and_committed",),
    ),
    Mutant(
        file=DISPATCHER,
        old="        self._reads.go_back(self._safe.places())\n",
        new="",
        breaks="a consumer that goes on after its streams skips what was not finished",
        tests=(f"{TESTS}::test_an_unfinished_record_holds_back_the_commit_and_the_consumer_goes_on_there",),
    ),
    Mutant(
        file=DISPATCHER,
        old="            pauses.pause_full(touched, allotment.waiting)\n",
        new="            pass\n",
        breaks="a stream that nobody reads fills memory",
        tests=(f"{TESTS}::test_what_waits_is_bounded",),
    ),
    Mutant(
        file="pykafka4/processing/streams.py",
        old="        dispatcher.end(0.0)\n",
        new="        pass\n",
        breaks="streams that were forgotten are served for ever",
        tests=(f"{TESTS}::test_forgotten_streams_end",),
    ),
    Mutant(
        file=DISPATCHER,
        old="        if self.in_own_thread():\n",
        new="        if False:\n",
        breaks="streams.commit in a listener waits for its own thread",
        tests=(
            "tests/consumer/test_streams_listeners.py::test_a_listener_does_not_wait_for_its_own_thread_and_commits_only_what_is_finished",
        ),
    ),
    Mutant(
        file=DISPATCHER,
        old="            self._pauses.leave_out(strange)\n",
        new="",
        breaks="records for which there is no stream are skipped",
        tests=("tests/consumer/test_streams_listeners.py::test_what_is_for_no_stream_is_left_alone",),
    ),
    Mutant(
        file="pykafka4/processing/streams.py",
        old="        if self._dispatcher.in_own_thread() or ",
        new="        if ",
        breaks="streams.close in a listener waits for its own thread",
        tests=(
            "tests/consumer/test_streams_listeners.py::test_a_listener_does_not_wait_for_its_own_thread_and_commits_only_what_is_finished",
        ),
    ),
    Mutant(
        file="pykafka4/processing/streams.py",
        old=" or logs.current().on_loop():",
        new=":",
        breaks="streams.close in a destructor on the client's own thread raises",
        tests=("tests/consumer/test_destructors.py::test_streams_that_are_closed_on_the_loop_end_in_the_background",),
    ),
)
