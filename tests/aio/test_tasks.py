"""Latches of tasks."""

from __future__ import annotations

import asyncio

from tasking import run

from pykafka4.aio.tasks import Home, TaskLatch
from pykafka4.net import system


def test_a_wake_up_that_comes_late_does_not_end_the_next_sleep() -> None:
    async def main() -> None:
        home = Home("test")
        home.enter()
        latch = TaskLatch(home)
        latch.release()
        assert await latch.sleep(None)  # it was open, so the call that wakes is still to come
        asyncio.get_running_loop().call_later(0.01, latch.release)
        assert await latch.sleep(system.monotonic() + 60)
        assert not await latch.sleep(system.monotonic())

    run(main())
