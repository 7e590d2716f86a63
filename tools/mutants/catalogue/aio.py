"""Bugs of `pykafka4.aio`."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/aio/tasks.py",
        old="        if self._open:  # the sleep",
        new="        if True:  # the sleep",
        breaks="a task that waits for room is told that its time is over, by a wake-up that was meant for its last sleep",
        tests=("tests/aio/test_tasks.py::test_a_wake_up_that_comes_late_does_not_end_the_next_sleep",),
    ),
    Mutant(
        file="pykafka4/aio/producer.py",
        old="        return await self._send_later(awaits, lambda: self._accept(topic, value, key, more, on_delivery))",
        new="        return await self._send_later(\n            awaits, lambda: self._accept(*self._core.sending.prepare(topic, value, key, more), on_delivery)\n        )",
        breaks="a record that waits is serialized for each attempt",
        tests=("tests/aio/test_aio_sending.py::test_a_record_that_waits_is_serialized_once_and_seen_once_by_hooks",),
    ),
    Mutant(
        file="pykafka4/aio/producer.py",
        old="            many_ended(error, topic if isinstance(topic, str) else None, out)\n",
        new="            del error\n",
        breaks="after a refused record nobody knows which records of send_many were accepted",
        tests=("tests/aio/test_aio_sending.py::test_the_records_before_one_that_is_refused_are_accepted",),
    ),
    Mutant(
        file="pykafka4/aio/tasks.py",
        old='            system.Thread(target=end, name="pykafka4-close", daemon=True).start()\n',
        new="            end()\n",
        breaks="the end of close blocks the event loop",
        tests=("tests/aio/test_aio_sending.py::test_the_end_of_close_does_not_block_the_event_loop",),
    ),
    Mutant(
        file="pykafka4/aio/transactions.py",
        old="        self._calls.waits = False\n",
        new="",
        breaks="beginning and ending transactions blocks the event loop",
        tests=("tests/aio/test_aio_transactions.py::test_nothing_waits_for_the_client_on_the_thread_of_the_event_loop",),
    ),
    Mutant(
        file="pykafka4/aio/transactions.py",
        old="            if self._busy != what:",
        new="            if False:",
        breaks="a cancelled call that adds offsets stands in the way of the commit",
        tests=("tests/aio/test_aio_transactions.py::test_a_call_that_adds_offsets_and_is_cancelled_is_not_in_the_way_of_the_commit",),
    ),
    Mutant(
        file="pykafka4/aio/guard.py",
        old="        if other is not None and not other.over:",
        new="        if False:",
        breaks="two tasks poll at once",
        tests=("tests/aio/test_aio_consumer.py::test_two_tasks_in_poll_get_an_error_that_names_both",),
    ),
    Mutant(
        file="pykafka4/aio/guard.py",
        old="return self.task.done() or self.task.get_loop().is_closed()",
        new="return self.task.done()",
        breaks="a poll whose event loop was closed blocks all later ones",
        tests=("tests/aio/test_aio_consumer.py::test_a_poll_that_its_event_loop_never_finished_is_not_in_the_way_of_the_next_one",),
    ),
    Mutant(
        file="pykafka4/aio/guard.py",
        old="            if self.holds(mine):\n",
        new="            if True:\n",
        breaks="the late end of an abandoned poll releases the consumer that another task uses",
        tests=("tests/aio/test_aio_consumer.py::test_a_poll_that_its_event_loop_never_finished_is_not_in_the_way_of_the_next_one",),
    ),
    Mutant(
        file="pykafka4/aio/guard.py",
        old=" and not self.in_listener()\n",
        new="\n",
        breaks="a listener that close waits for cannot commit",
        tests=("tests/aio/test_aio_listeners.py::test_close_waits_for_a_listener_whose_poll_was_cancelled",),
    ),
    Mutant(
        file="pykafka4/aio/session.py",
        old="            await asyncio.sleep(0)\n",
        new="            pass\n",
        breaks="a task that only polls keeps all others waiting",
        tests=("tests/aio/test_aio_consumer.py::test_a_poll_lets_other_tasks_run_although_records_never_run_out",),
    ),
    Mutant(
        file="pykafka4/aio/session.py",
        old="        records = self._take(most, take)\n",
        new="        records = self._take(limit, take)\n",
        breaks="a poll decodes a large list at once",
        tests=("tests/aio/test_aio_consumer.py::test_a_poll_decodes_for_about_a_millisecond",),
    ),
    Mutant(
        file="pykafka4/aio/session.py",
        old="max(LEAST_SLICE, int(",
        new="max(1, int(",
        breaks="one slow moment, and lists have a single record",
        tests=("tests/aio/test_aio_consumer.py::test_a_poll_decodes_for_about_a_millisecond",),
    ),
    Mutant(
        file="pykafka4/aio/session.py",
        old="        if self.guard.in_listener():\n            raise",
        new="        if False:\n            raise",
        breaks="a poll inside a listener waits for that listener for ever",
        tests=("tests/aio/test_aio_listeners.py::test_poll_inside_a_listener_is_refused",),
    ),
    Mutant(
        file="pykafka4/aio/session.py",
        old='            error.add_note("pykafka4: the commit was under way; it may be carried out or not")\n',
        new="            del error\n",
        breaks="a cancelled commit does not say that its outcome is unknown",
        tests=("tests/aio/test_aio_cancelling.py::test_a_cancelled_commit_says_that_it_may_be_carried_out",),
    ),
    Mutant(
        file="pykafka4/aio/session.py",
        old="        await asyncio.wait([ending])\n",
        new="        await ending\n",
        breaks="cancelling a close ends its work",
        tests=("tests/aio/test_aio_consumer.py::test_a_cancelled_close_goes_on_and_the_next_waits_for_its_end",),
    ),
    Mutant(
        file="pykafka4/aio/session.py",
        old="            ends.push_async_callback(self._release_all, deadline, in_hand=in_hand)\n",
        new="            ends.push_async_callback(self._release_all, deadline, in_hand=True)\n",
        breaks="close finishes the list of another task",
        tests=("tests/aio/test_aio_consumer.py::test_a_close_by_another_task_does_not_finish_the_list_in_hand",),
    ),
    Mutant(
        file="pykafka4/aio/session.py",
        old="        if self.runtime.loop.forked:\n            self.check()",
        new="        if False:\n            self.check()",
        breaks="a forked child is told that its event loop is another one",
        tests=("tests/aio/test_aio_consumer.py::test_a_forked_child_gets_the_fork_error",),
    ),
    Mutant(
        file="pykafka4/aio/consumer.py",
        old="weakref.finalize(self, TaskSession.forgotten, session)",
        new="weakref.finalize(self, id, session)",
        breaks="a consumer for asyncio that was forgotten is not noticed",
        tests=("tests/aio/test_aio_consumer.py::test_a_forgotten_consumer_warns_and_leaves",),
    ),
    Mutant(
        file="pykafka4/aio/consumer.py",
        old="await self._close(failed=error is not None)",
        new="await self._close(failed=False)",
        breaks="an async with block left by an exception finishes its list",
        tests=("tests/aio/test_aio_consumer.py::test_a_block_that_an_exception_leaves_does_not_finish_the_list_in_hand",),
    ),
    Mutant(
        file="pykafka4/aio/waits.py",
        old="    await asyncio.wait([asyncio.ensure_future(running)])",
        new="    await running",
        breaks="cancelling a poll cancels the listener",
        tests=(
            "tests/aio/test_aio_listeners.py::test_cancelling_a_poll_does_not_cancel_the_listener_and_the_next_poll_waits_for_it[assigned]",
        ),
    ),
    Mutant(
        file="pykafka4/aio/waits.py",
        old="        if not running.cancelled():  #",
        new="        if False:  #",
        breaks="what a coroutine of the listener raises is lost",
        tests=("tests/aio/test_aio_listeners.py::test_what_a_listener_raises_is_raised_by_poll_and_the_partitions_are_released",),
    ),
    Mutant(
        file="pykafka4/aio/tasks.py",
        old='        raise RuntimeError(f"this {self._what} is used on another event loop or thread;',
        new='        RuntimeError(f"this {self._what} is used on another event loop or thread;',
        breaks="another thread seeks a consumer for asyncio",
        tests=("tests/aio/test_aio_consumer.py::test_it_belongs_to_one_event_loop_at_a_time",),
    ),
    Mutant(
        file="pykafka4/aio/transactions.py",
        old="                self._reads.refuse()\n",
        new="                pass\n",
        breaks="what was read for a transaction that could not begin is committed with the next one",
        tests=("tests/aio/test_aio_transactions_of_consumers.py::test_a_transaction_is_refused_while_another_task_polls[4.4]",),
    ),
    Mutant(
        file="pykafka4/aio/transactions.py",
        old="        finally:\n            await self._rewind(error)\n",
        new="        finally:\n            pass\n",
        breaks="an aborted transaction of a task does not read its records again",
        tests=("tests/aio/test_aio_transactions_of_consumers.py::test_records_are_copied_exactly_once_and_read_again_after_an_abort[4.4]",),
    ),
)
