"""Bugs of the hand-over between threads."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/net/handoff/waiting.py",
        old="        if ticket.starves and not starved:\n",
        new="        if ticket.starves:\n",
        breaks="a send that needs memory wakes the loop again after each turn",
        tests=("tests/net/handoff/test_waiting.py::test_a_waiter_for_the_shared_resource_is_reported_once_and_counts_until_it_leaves",),
    ),
    Mutant(
        file="pykafka4/net/handoff/waiting.py",
        old="        if ticket.left:\n            return\n",
        new="        if ticket.left:\n            return\n        ticket.left = True\n",
        breaks="Ctrl-C while a thread leaves the line keeps its place, or those behind asleep",
        tests=(
            "tests/net/handoff/test_waiting.py::test_an_interrupted_wait_leaves_the_gate_to_those_behind",
            "tests/net/handoff/test_waiting.py::test_a_thread_in_line_gets_its_turn_when_the_one_before_it_is_interrupted",
        ),
    ),
    Mutant(
        file="pykafka4/net/handoff/waiting.py",
        old="        if ticket not in self._turn():\n",
        new="        if False:\n",
        breaks="threads that wait for room overtake each other",
        tests=("tests/net/handoff/test_waiting.py::test_only_the_first_in_line_is_tried",),
    ),
    Mutant(
        file="pykafka4/net/handoff/waiting.py",
        old="self._line.appendleft if self._interrupts(ticket.thread) else self._line.append)(ticket)",
        new="self._line.append)(ticket)",
        breaks="`send` in a signal handler waits behind the thread that it interrupts",
        tests=(
            "tests/net/handoff/test_waiting.py::test_a_signal_handler_that_waits_in_line_comes_before_the_thread_it_interrupts",
            "tests/producer/test_delivery.py::test_a_signal_handler_sends_while_the_thread_it_interrupts_waits_for_room",
        ),
    ),
    Mutant(
        file="pykafka4/net/handoff/waiting.py",
        old="        stepped_aside, ticket.steps_aside = ticket.steps_aside, ticket.hindered()\n",
        new="        stepped_aside = ticket.steps_aside\n",
        breaks="a thread that waits for room in a full partition keeps those that write to others waiting",
        tests=(
            "tests/net/handoff/test_waiting.py::test_a_blocked_waiter_lets_later_ones_pass_but_not_those_with_the_same_key",
            "tests/producer/test_delivery.py::test_a_thread_that_waits_for_room_in_a_full_partition_keeps_no_other_waiting",
        ),
    ),
    Mutant(
        file="pykafka4/net/handoff/waiting.py",
        old="        if ticket.steps_aside != stepped_aside:\n            self._count()\n",
        new="        if ticket.steps_aside != stepped_aside:\n",
        breaks="threads that write to other partitions queue up although all that wait do so for a full partition",
        tests=(
            "tests/net/handoff/test_waiting.py::test_a_newcomer_queues_up_unless_all_waiters_step_aside_and_have_other_keys",
            "tests/producer/test_full_partition.py::test_a_send_to_another_partition_need_not_queue_up",
        ),
    ),
    Mutant(
        file="pykafka4/net/handoff/waiting.py",
        old="for ticket in first) if all(ticket.steps_aside for ticket in first) else None\n",
        new="for ticket in first)\n",
        breaks="threads overtake one that waits for buffer_memory",
        tests=("tests/net/handoff/test_waiting.py::test_a_newcomer_queues_up_unless_all_waiters_step_aside_and_have_other_keys",),
    ),
    Mutant(
        file="pykafka4/net/handoff/waiting.py",
        old="                if not (ticket.steps_aside and ticket.hindered()):\n",
        new="                if True:\n",
        breaks="a thread that waits for room in a full partition is woken, for nothing, by each batch of the others",
        tests=("tests/net/handoff/test_waiting.py::test_a_waiter_is_not_woken_while_only_its_own_key_is_blocked",),
    ),
    Mutant(
        file="pykafka4/net/handoff/waiting.py",
        old="                if not (ticket.steps_aside and ticket.hindered()):\n",
        new="                if not ticket.hindered():\n",
        breaks="a thread that waits for memory and whose partition is full by now keeps those behind it waiting",
        tests=("tests/net/handoff/test_waiting.py::test_a_waiter_for_the_shared_resource_steps_aside_when_its_key_is_blocked_later",),
    ),
    Mutant(
        file="pykafka4/net/handoff/waiting.py",
        old="                if not (ticket.steps_aside and ticket.hindered()):\n",
        new="                if not ticket.steps_aside:\n",
        breaks="a thread that waits for room in a full partition is not woken when there is room",
        tests=("tests/producer/test_full_partition.py::test_a_leader_of_the_full_partition_ends_the_wait",),
    ),
    Mutant(
        file="pykafka4/net/handoff/waiting.py",
        old="            if ticket.key in aside:\n",
        new="            if False:\n",
        breaks="threads that wait for room in the same full partition overtake each other",
        tests=("tests/net/handoff/test_waiting.py::test_a_blocked_waiter_lets_later_ones_pass_but_not_those_with_the_same_key",),
    ),
    Mutant(
        file="pykafka4/net/handoff/waiting.py",
        old='if self._outcome.setdefault("", outcome) is outcome:',
        new='if self._outcome.update({"": outcome}) is None:',
        breaks="the second result of a promise counts",
        tests=("tests/net/handoff/test_waiting.py::test_the_first_outcome_of_a_promise_counts_and_callbacks_run_once",),
    ),
    Mutant(
        file="pykafka4/net/handoff/waiting.py",
        old="        self._count()\n        self.release()  # the next one",
        new="        self._count()  # the next may",
        breaks="the next thread in line is not tried when the first leaves",
        tests=("tests/net/handoff/test_waiting.py::test_a_thread_in_line_gets_its_turn_when_the_one_before_it_is_interrupted",),
    ),
    Mutant(
        file="pykafka4/net/handoff/workers.py",
        old="            given_up.append(None)\n            self._threads -= 1\n",
        new="            given_up.append(None)\n",
        breaks="after a Ctrl-C while the thread for callbacks is started none is ever started",
        tests=(
            "tests/net/handoff/test_workers.py::test_an_interrupt_while_the_first_thread_for_callbacks_is_started_keeps_none_from_being_started",
        ),
    ),
    Mutant(
        file="pykafka4/net/handoff/workers.py",
        old="            if len(waiting) > 2:\n                del waiting[:2]\n",
        new="",
        breaks="events for a slow listener pile up",
        tests=("tests/net/handoff/test_workers.py::test_a_slow_listener_ends_up_with_the_offline_partitions",),
    ),
    Mutant(
        file="pykafka4/net/handoff/workers.py",
        old="        if not callback.begun:\n            self._workers.submit(callback)",
        new="        pass",
        breaks="a callback that the executor drops never runs",
        tests=("tests/net/handoff/test_workers.py::test_callbacks_that_the_applications_executor_drops_are_run_all_the_same",),
    ),
    Mutant(
        file="pykafka4/net/handoff/workers.py",
        old="        except BaseException:  # SystemExit ends the callback, not the executor",
        new="        except ArithmeticError:  # SystemExit ends the callback, not the executor",
        breaks="an exception in a callback is lost in the executor of the application",
        tests=("tests/net/handoff/test_workers.py::test_what_a_callback_raises_on_the_applications_executor_is_logged_whatever_it_is",),
    ),
    Mutant(
        file="pykafka4/net/handoff/workers.py",
        old="                    self._idle.remove(latch)\n                return\n",
        new="                    pass\n                return\n",
        breaks="a burst of calls waits for one thread",
        tests=("tests/net/handoff/test_workers.py::test_a_burst_of_blocking_work_gets_a_thread_for_each_although_one_is_idle",),
    ),
    Mutant(
        file="pykafka4/net/handoff/workers.py",
        old="lambda: self._hand_over(callback))",
        new="self._hand_over(callback) or (lambda: None))",
        breaks="an executor that blocks stops the loop",
        tests=("tests/net/test_loop.py::test_an_executor_whose_submit_blocks_does_not_stop_the_loop",),
    ),
    Mutant(
        file="pykafka4/net/handoff/workers.py",
        old='log.info("%s: cannot start another %s thread: %s", self._client_id, self._name, error)',
        new='log.info("cannot start another %s thread: %s", self._name, error)',
        breaks="a log line does not say which client it is about",
        tests=("tests/source/test_log_lines.py::test_each_log_line_begins_with_the_client_id",),
    ),
    Mutant(
        file="pykafka4/net/handoff/latch.py",
        old="    latch.acquire()\n",
        new="",
        breaks="a thread does not sleep on a new latch",
        tests=("tests/net/handoff/test_latch.py::test_a_latch_wakes_once_however_often_it_was_opened_before",),
    ),
    Mutant(
        file="pykafka4/net/handoff/latch.py",
        old="        with contextlib.suppress(RuntimeError):  # another thread was faster\n            latch.release()",
        new="        latch.release()",
        breaks="a thread that opens a latch together with another fails",
        tests=("tests/net/handoff/test_latch.py::test_a_latch_that_another_thread_opens_at_the_same_time_is_open",),
    ),
    Mutant(
        file="pykafka4/net/handoff/latch.py",
        old="        with contextlib.suppress(RuntimeError):  # another thread was faster\n            latch.release()",
        new="        pass",
        breaks="nobody is woken",
        tests=("tests/net/handoff/test_latch.py::test_opening_a_latch_wakes_the_thread_that_sleeps_on_it",),
    ),
    Mutant(
        file="pykafka4/net/handoff/workers.py",
        old="                    if not woken:\n                        self._threads -= 1\n                        return None\n",
        new="                    self._threads -= 1\n                    return None\n",
        breaks="a thread ends although an interrupted call has woken it",
        tests=("tests/net/handoff/test_workers.py::test_an_interrupt_while_an_idle_thread_is_woken_leaves_no_trace_of_it",),
    ),
    Mutant(
        file="pykafka4/net/handoff/workers.py",
        old="                if latch in self._idle:  # its time is over, or Ctrl-C came to the thread that woke it\n",
        new="                if not woken:\n",
        breaks="a thread that is woken when its time is over ends without the call",
        tests=("tests/net/handoff/test_workers.py::test_a_thread_that_is_woken_just_when_it_gives_up_waiting_takes_the_call",),
    ),
    Mutant(
        file="pykafka4/net/handoff/workers.py",
        old="                if latch in self._idle:  # its time is over, or Ctrl-C came to the thread that woke it\n",
        new="                if latch in self._idle and not woken:\n",
        breaks="a call wakes a thread that is not there any more",
        tests=("tests/net/handoff/test_workers.py::test_an_interrupt_while_an_idle_thread_is_woken_leaves_no_trace_of_it",),
    ),
    Mutant(
        file="pykafka4/net/handoff/workers.py",
        old="                    if not woken:\n                        self._threads -= 1\n",
        new="                    if not woken:\n",
        breaks="after the thread for callbacks has ended none is ever started",
        tests=("tests/net/handoff/test_workers.py::test_the_thread_of_callbacks_ends_when_there_is_nothing_to_do_and_comes_back",),
    ),
    Mutant(
        file="pykafka4/net/handoff/turns.py",
        old="    os.register_at_fork(after_in_child=_turns.clear)",
        new="    pass",
        breaks="a child of a fork waits for a thread of its parent",
        tests=("tests/net/test_kerberos.py::test_a_child_does_not_wait_for_a_thread_of_its_parent",),
    ),
    Mutant(
        file="pykafka4/net/handoff/waiting.py",
        old="            if ticket.gone is not None and ticket.gone():\n",
        new="            if False:\n",
        breaks="a task whose event loop was closed while it waited for room blocks its partition for good",
        tests=("tests/aio/test_aio_sending.py::test_a_send_whose_event_loop_was_closed_gives_up_its_place",),
    ),
    Mutant(
        file="pykafka4/net/handoff/waiting.py",
        old="        if timeout != 0 and logs.current().on_loop():\n",
        new="        if False:\n",
        breaks="a destructor on the client's own thread waits there for what only that thread does",
        tests=(
            "tests/net/handoff/test_waiting.py::test_the_thread_of_a_loop_never_waits",
            "tests/consumer/test_destructors.py::test_a_call_that_would_wait_on_the_loop_says_why_it_does_not",
            "tests/producer/test_transactions_of_consumers.py::test_a_block_that_ends_on_the_loops_thread_does_not_wait_for_it",
        ),
    ),
)
