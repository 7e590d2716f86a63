"""Bugs behind the producer's handle: waiting for room, flushing, closing, deliveries."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/producer/core.py",
        old="hindered=lambda: not self._refused() and ",
        new="hindered=lambda: ",
        breaks="a thread that waits for room in a full partition stays blocked while `close` waits for deliveries",
        tests=("tests/producer/test_full_partition.py::test_close_ends_the_wait_before_it_gives_up_the_records",),
    ),
    Mutant(
        file="pykafka4/producer/core.py",
        old="return min(deadline, system.monotonic() + self.config.max_block_ms / 1000)",
        new="return system.monotonic() + self.config.max_block_ms / 1000",
        breaks="max_block_ms begins anew each time another thread takes the room",
        tests=("tests/producer/test_handle.py::test_max_block_ms_counts_from_the_first_wait_when_other_threads_take_the_room",),
    ),
    Mutant(
        file="pykafka4/producer/core.py",
        old="max_partition_bytes=config.partition_bytes,",
        new="max_partition_bytes=config.buffer_memory,",
        breaks="max_partition_bytes is ignored",
        tests=("tests/producer/test_options.py::test_the_accumulator_gets_the_option",),
    ),
    Mutant(
        file="pykafka4/producer/core.py",
        old="codec=CODECS[config.compression_type],",
        new="codec=0,",
        breaks="the producer never compresses",
        tests=("tests/producer/test_options.py::test_the_accumulator_gets_the_option",),
    ),
    Mutant(
        file="pykafka4/producer/core.py",
        old="linger=config.linger_ms / 1000,",
        new="linger=0.0,",
        breaks="linger_ms is ignored",
        tests=("tests/producer/test_options.py::test_the_accumulator_gets_the_option",),
    ),
    Mutant(
        file="pykafka4/producer/core.py",
        old="batch_size=config.batch_size,",
        new="batch_size=256 * 1024,",
        breaks="batch_size is ignored",
        tests=("tests/producer/test_options.py::test_the_accumulator_gets_the_option",),
    ),
    Mutant(
        file="pykafka4/producer/core.py",
        old="buffer_memory=config.buffer_memory,",
        new="buffer_memory=1 << 40,",
        breaks="buffer_memory is ignored",
        tests=("tests/producer/test_delivery.py::test_a_send_that_finds_no_room_in_time_names_what_is_full",),
    ),
    Mutant(
        file="pykafka4/producer/core.py",
        old="[item for item in unfinished if not _done(item)]",
        new="unfinished",
        breaks="close gives back records whose failure was reported before it",
        tests=("tests/producer/test_close.py::test_close_does_not_give_back_what_had_failed_before_while_its_callback_runs",),
    ),
    Mutant(
        file="pykafka4/producer/core.py",
        old="        if self.acc.can_send:\n            self.runtime.loop.wake()\n",
        new="        pass\n",
        breaks="the loop does not hear of a send that needs memory",
        tests=("tests/producer/test_delivery.py::test_a_send_that_needs_memory_does_not_wait_for_the_linger_of_open_batches",),
    ),
    Mutant(
        file="pykafka4/producer/core.py",
        old="            if partition < count or left <= 0:\n",
        new="            if True:\n",
        breaks="one broker that does not know a new partition yet is believed",
        tests=("tests/producer/test_growth.py::test_send_waits_for_a_partition_of_which_the_brokers_have_not_heard_yet",),
    ),
    Mutant(
        file="pykafka4/producer/core.py",
        old="                self._denied[topic] = denied = (count, now)\n",
        new="                denied = (count, now)\n",
        breaks="a wrong partition makes send wait until max_block_ms is over",
        tests=("tests/producer/test_growth.py::test_a_partition_that_brokers_deny_for_a_while_is_refused_and_then_at_once",),
    ),
    Mutant(
        file="pykafka4/producer/deliveries.py",
        old="        self._callbacks.post(fn)\n",
        new="        self._callbacks.submit(fn)\n",
        breaks="a signal handler that comes while a callback is handed over stops the loop",
        tests=("tests/producer/test_interrupts.py::test_a_signal_handler_may_send_and_flush_anywhere_in",),
    ),
    Mutant(
        file="pykafka4/producer/deliveries.py",
        old="            timer = loop.call_later(pause, look)\n",
        new="            timer = loop.call_later(3_600.0, look)\n",
        breaks="`await delivery` never ends on an asyncio loop that a callback waits for",
        tests=("tests/producer/test_handle.py::test_a_delivery_is_awaited_while_a_callback_waits_for_that",),
    ),
    Mutant(
        file="pykafka4/producer/deliveries.py",
        old="(often := self._callbacks.on_executor() or self._callbacks.in_callback())",
        new="(often := self._callbacks.on_executor())",
        breaks="`await delivery` in a callback, on a loop of the application's own, waits for another callback",
        tests=("tests/producer/test_handle.py::test_a_loop_of_the_applications_own_in_a_callback_waits_for_no_other_callback",),
    ),
    Mutant(
        file="pykafka4/producer/deliveries.py",
        old="        if _never_blocks(loop):\n",
        new="        if False:\n",
        breaks="`await delivery` waits for the callbacks of other records",
        tests=("tests/producer/test_handle.py::test_a_delivery_is_awaited_while_a_callback_hangs",),
    ),
    Mutant(
        file="pykafka4/producer/deliveries.py",
        old="        if _never_blocks(loop):\n",
        new="        if True:\n",
        breaks="an asyncio loop of the application's own can stall the client's loop",
        tests=("tests/producer/test_handle.py::test_a_loop_of_the_applications_own_is_called_on_the_callback_executor",),
    ),
    Mutant(
        file="pykafka4/producer/deliveries.py",
        old="        if self._asleep and loop is not None:\n",
        new="        if loop is not None:\n",
        breaks="each task of a batch costs a system call on the client's loop",
        tests=("tests/producer/test_handle.py::test_tasks_that_await_records_of_one_batch_are_woken_by_one_call",),
    ),
    Mutant(
        file="pykafka4/producer/__init__.py",
        old="            del client, options  # of this frame, which has not ended\n",
        new="",
        breaks="the error of a producer keeps its options",
        tests=("tests/secrets/test_secrets.py::test_calls_that_are_wrong",),
    ),
)
