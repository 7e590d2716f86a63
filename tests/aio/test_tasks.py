"""Latches of tasks, and callbacks on the event loop."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

from pykafka4.aio.tasks import EventLoopBinding, TaskLatch
from pykafka4.net import system
from pykafka4.producer.deliveries import TaskWaker
from tests.aio.tasking import eventually, run


def test_a_wake_up_that_comes_late_does_not_end_the_next_sleep() -> None:
    async def main() -> None:
        binding = EventLoopBinding("test")
        binding.enter()
        latch = TaskLatch(binding)
        latch.release()
        assert await latch.sleep(None)  # it was open, so the call that wakes is still to come
        asyncio.get_running_loop().call_later(0.01, latch.release)
        assert await latch.sleep(system.monotonic() + 60)
        assert not await latch.sleep(system.monotonic())

    run(main())


def raise_cancelled(*_: Any) -> None:
    raise asyncio.CancelledError


def told() -> list[BaseException]:
    """What the exception handler of the running loop is told from here on."""
    errors: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context["exception"]))
    return errors


def test_a_wake_up_that_raises_does_not_stop_the_others() -> None:
    async def main() -> None:
        tasks, called, errors = TaskWaker(asyncio.get_running_loop()), list[int](), told()
        tasks.run_soon(raise_cancelled)
        tasks.run_soon(lambda: called.append(1))  # the same call of the loop does both
        await eventually(lambda: called == [1])
        tasks.run_soon(lambda: called.append(2))
        await eventually(lambda: called == [1, 2])
        assert len(errors) == 1

    run(main())


def test_a_callback_that_raises_cancelled_error_is_reported() -> None:
    async def main() -> None:
        binding, called, errors = EventLoopBinding("aio.Producer"), list[int](), told()
        binding.enter()
        binding.call_back(raise_cancelled)(0)
        binding.call_back(called.append)(1)
        binding.tasks.run_soon(lambda: called.append(2))
        await asyncio.sleep(0)
        assert called == [1, 2]
        assert [type(error) for error in errors] == [asyncio.CancelledError]

    run(main())


def test_a_callback_has_the_context_in_which_it_was_passed() -> None:
    who, called = ContextVar("who", default=""), list[str]()

    async def main() -> None:
        binding = EventLoopBinding("aio.Consumer")
        binding.enter()
        who.set("caller")
        callback = binding.call_back(lambda number: called.append(f"{who.get()} {number}"))
        who.set("later")
        for number in range(2):
            thread = system.Thread(target=callback, args=(number,))
            thread.start()
        await eventually(lambda: len(called) == 2)

    run(main())
    assert sorted(called) == ["caller 0", "caller 1"]
