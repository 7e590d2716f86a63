"""Many threads at once, destructors in the middle of anything, and sends within sends: nothing is lost, nothing overtakes."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from pykafka4.errors import BufferFull
from pykafka4.records import Written
from tests.wire.records.hot_world import MIB, World, compiled, each_core, wire_bytes

pytestmark = each_core


class Crowd:
    """So many threads, each of which sends so many records in their order; what goes wrong in one is kept."""

    def __init__(self, count: int, each: int, send: Callable[[int, int], object]) -> None:
        self.each, self.send = each, send
        self.errors: list[BaseException] = []
        self.threads = [threading.Thread(target=self._run, args=(name,)) for name in range(count)]
        for thread in self.threads:
            thread.start()

    def _run(self, name: int) -> None:
        try:
            for number in range(self.each):
                self.send(name, number)
        except BaseException as error:
            self.errors.append(error)

    def busy(self) -> bool:
        return any(thread.is_alive() for thread in self.threads)


def test_eight_threads_lose_nothing_and_keep_their_order(core: ModuleType) -> None:
    each = 20_000 if core is compiled else 500
    world = World(core, {"t": 3}, buffer_memory=64 * MIB, max_partition_bytes=64 * MIB)

    def send(name: int, number: int) -> None:
        world.acc.send("t", b"%d %d" % (name, number), partition=name % 3, on_delivery=None if number % 7 else (lambda d: None))

    crowd = Crowd(8, each, send)
    batches: list[Any] = []
    while crowd.busy():
        batches += world.acc.take(0.0)[0]
    batches += world.seal_all()
    assert not crowd.errors
    seen: dict[int, int] = dict.fromkeys(range(8), 0)
    for batch in batches:
        for record in batch.records():
            name, number = map(int, record.value.split())
            assert batch.partition == name % 3
            assert number == seen[name]
            seen[name] += 1
        callbacks = batch.complete(0, -1)
        if callbacks is not None:
            callbacks()
    assert set(seen.values()) == {each}
    assert world.acc.accepted == world.acc.acked == 8 * each
    assert world.acc.reserved == 0


class Sending:
    """Sends when it is collected, which may be in the middle of anything: it is part of a cycle."""

    running = threading.local()  # has a truth value `here` while one does: it must not wait, whatever its thread is in the middle of

    def __init__(self, world: World, outcomes: list[str]) -> None:
        self.world, self.outcomes, self.me = world, outcomes, self

    def __del__(self) -> None:
        self.running.here = True
        try:
            self.world.acc.send("t", b"9 0 from a destructor")
            self.outcomes.append("accepted")
        except BufferFull:
            self.outcomes.append("refused")
        self.running.here = False


class Loop:
    """The thread beside a crowd: makes it wait for room, and settles what it sent, whole and halved, acknowledged and failed."""

    def __init__(self, core: ModuleType, codec: int, crowd: int) -> None:
        self.thread, self.freed = threading.current_thread(), threading.Condition()
        self.world = World(core, {"t": 3}, codec=codec, buffer_memory=MIB // 4, make_room=self._make_room)
        self.seen = [0] * crowd  # records of each thread
        self.queue: list[Any] = []

    def _make_room(self, topic: str, partition: int, size: int, deadline: float) -> float:
        acc = self.world.acc
        if threading.current_thread() is self.thread or getattr(Sending.running, "here", False):
            raise BufferFull("neither the loop nor a destructor waits")
        acc.waiters += 1
        with self.freed:
            room = self.freed.wait_for(lambda: acc.room(topic, partition, size), 60)
        acc.waiters -= 1
        if not room:
            raise BufferFull(f"no room for {size} bytes beside {acc.reserved}")
        return deadline

    def turn(self) -> None:
        self.queue.extend(self.world.seal_all())
        while self.queue and self.queue[0].ready:
            self._finish(self.queue.pop(0))
        with self.freed:
            self.freed.notify_all()

    def _finish(self, batch: Any) -> None:
        """Settle it while its bytes are held: they must not change."""
        data = wire_bytes(batch)
        view = memoryview(batch)
        for part in batch.split() if batch.count % 5 == 4 else [batch]:
            self._read(part)
            callbacks = part.fail("X", Written.NO, None) if part.count % 3 == 0 else part.complete(0, -1)
            if callbacks is not None:
                callbacks()
        assert bytes(view) == data
        view.release()

    def _read(self, batch: Any) -> None:
        for record in batch.records():
            name, number = record.value.split()[:2]
            if name != b"9":
                assert int(number) == self.seen[int(name)]
                self.seen[int(name)] += 1


@pytest.mark.parametrize("codec", [0, 3])
def test_back_pressure_compression_and_destructors_together_lose_nothing(core: ModuleType, codec: int) -> None:
    each = 3000 if core is compiled else 300
    loop, called = Loop(core, codec, 6), []
    acc = loop.world.acc
    destructors: list[str] = []

    def send(name: int, number: int) -> None:
        value = b"%d %d " % (name, number) + b"x" * (number * 37 % 2000)
        acc.send("t", value, partition=name % 3, on_delivery=called.append)
        if number % 50 == 0:
            Sending(loop.world, destructors)

    crowd = Crowd(6, each, send)
    while crowd.busy():
        loop.turn()
    gc.collect()
    while acc.unfinished():
        loop.turn()
    assert not crowd.errors
    assert loop.seen == [each] * 6
    assert len(called) == each * 6
    assert len(destructors) == each * 6 // 50
    assert acc.accepted == acc.acked + acc.failed == each * 6 + destructors.count("accepted")
    assert acc.reserved == 0


def test_sending_in_the_middle_of_sending_does_not_break_the_batch(core: ModuleType) -> None:
    depth = 0

    def clock() -> float:
        nonlocal depth
        if depth < 3:
            depth += 1
            try:
                world.acc.send("t", b"from the clock")
            except BufferFull:
                assert core is not compiled  # the plain core holds its lock here, and must refuse rather than wait for itself
            depth -= 1
        return world.now

    world = World(core, clock=clock)
    for i in range(200):
        world.send(value=b"%d" % i * 50)
    values = [r.value for b in world.seal_all() for r in b.records()]
    assert [v for v in values if v != b"from the clock"] == [b"%d" % i * 50 for i in range(200)]
    assert world.acc.accepted == len(values)
    assert (len(values) > 200) == (core is compiled)
