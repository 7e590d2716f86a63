"""The spool's tasks on a loop of asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pykafka4.agent.message import Message
from pykafka4.agent.settings.values import SpoolSettings, Sync
from pykafka4.agent.spool.spool import Spool
from tests.agent.spool.world import FakeDelivery, FakeLedger, FakeSender, World, message, number_of

DEADLINE_S = 30.0


class WatchedSender(FakeSender):
    """Calls back when it is sent a message."""

    def __init__(self, on_send: Callable[[], object]) -> None:
        super().__init__()
        self.on_send = on_send

    def send_spooled(self, given: Message) -> FakeDelivery:
        delivery = super().send_spooled(given)
        self.on_send()
        return delivery


class Watched:
    """A spool whose tasks run, and a condition that is looked at after each message."""

    def __init__(self, folder: Path) -> None:
        self.changed = asyncio.Event()
        self.sender = WatchedSender(self.changed.set)
        self.spool = Spool(SpoolSettings(path=folder, sync=Sync.INTERVAL, sync_interval_ms=10), FakeLedger(), None)
        self.spool.start(self.sender, 2**20)

    async def until(self, count: int) -> None:
        """So many messages are sent."""
        async with asyncio.timeout(DEADLINE_S):
            while len(self.sender.sent) < count:
                self.changed.clear()
                await self.changed.wait()

    def add(self, *numbers: int) -> None:
        for number in numbers:
            self.spool.add(message("a", number))
        self.spool.write()


def test_tasks_send_old_and_new_messages_and_acknowledgements_of_a_thread_wake_them(tmp_path: Path) -> None:
    old = World(tmp_path)
    old.add(message("a", 0), message("a", 1))
    old.crash()

    async def run() -> None:
        watched = Watched(tmp_path)
        watched.add(2)
        await watched.until(3)
        assert [number_of(given) for given in watched.sender.sent] == [0, 1, 2]
        thread = threading.Thread(target=watched.sender.end)
        thread.start()
        thread.join()
        async with asyncio.timeout(DEADLINE_S):
            while watched.spool.takes("a"):
                await asyncio.sleep(0.001)
        watched.add(3)
        await watched.until(4)
        await watched.spool.stop()
        watched.add(4)
        assert watched.spool.close([]) == []
        assert len(watched.sender.sent) == 4

    asyncio.run(run())
    again = World(tmp_path)
    again.run()
    assert again.sent("a") == [3, 4]
    again.crash()


def test_failed_task_goes_to_the_handler_of_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("a bug")

    async def run() -> None:
        handled: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: handled.set_result(repr(context["exception"])))
        watched = Watched(tmp_path)
        monkeypatch.setattr(watched.sender, "send_spooled", lambda _: fail())
        watched.add(0)
        async with asyncio.timeout(DEADLINE_S):
            assert await handled == "RuntimeError('a bug')"
        await watched.spool.stop()
        watched.spool.close([])

    asyncio.run(run())


def test_message_behind_others_that_wait_does_not_go_through_all_topics(tmp_path: Path) -> None:
    looks = 0

    def clock() -> float:
        nonlocal looks
        looks += 1
        return 0.0

    async def run() -> None:
        spool = Spool(SpoolSettings(path=tmp_path, sync=Sync.NEVER), FakeLedger(), None, clock)
        spool.start(FakeSender(room=0), 2**20)
        for n in range(300):
            spool.add(message("a", n))
            spool.write()
            await asyncio.sleep(0)
        await spool.stop()
        spool.close([])

    asyncio.run(run())
    assert looks < 100
