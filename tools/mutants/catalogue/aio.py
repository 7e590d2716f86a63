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
        file="pykafka4/aio/producer.py",
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
)
