"""Many threads at once, destructors in the middle of anything, and sends within sends: nothing is lost, nothing overtakes."""

from __future__ import annotations

import gc
import threading
from types import ModuleType
from typing import Any

import pytest
from hot_world import MIB, World, compiled, each_core, wire_bytes

from pykafka4.error_table import Written
from pykafka4.errors import BufferFull

pytestmark = each_core


def test_eight_threads_lose_nothing_and_keep_their_order(core: ModuleType) -> None:
    each = 20_000 if core is compiled else 500
    world = World(core, {"t": 3}, buffer_memory=64 * MIB, max_partition_bytes=64 * MIB)
    errors: list[BaseException] = []

    def run(name: int) -> None:
        try:
            for i in range(each):
                world.acc.send("t", b"%d %d" % (name, i), partition=name % 3, on_delivery=None if i % 7 else (lambda d: None))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(name,)) for name in range(8)]
    batches: list[Any] = []
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        batches += world.acc.take(0.0)[0]
    for thread in threads:
        thread.join()
    batches += world.seal_all()
    assert not errors
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

    def __init__(self, world: World) -> None:
        self.world, self.me = world, self

    def __del__(self) -> None:
        self.running.here = True
        try:
            self.world.acc.send("t", b"9 0 from a destructor")
        except BufferFull:
            pass
        self.running.here = False


@pytest.mark.parametrize("codec", [0, 3])
def test_back_pressure_compression_and_destructors_together_lose_nothing(core: ModuleType, codec: int) -> None:
    each = 3000 if core is compiled else 300
    freed, errors, called = threading.Condition(), [], []
    loop = threading.current_thread()

    def make_room(topic: str, partition: int, size: int) -> None:
        if threading.current_thread() is loop or getattr(Sending.running, "here", False):
            raise BufferFull("neither the loop nor a destructor waits")
        world.acc.waiters += 1
        with freed:
            room = freed.wait_for(lambda: world.acc.room(topic, partition, size), 60)
        world.acc.waiters -= 1
        if not room:
            raise BufferFull(f"no room for {size} bytes beside {world.acc.reserved}")

    world = World(core, {"t": 3}, codec=codec, buffer_memory=MIB // 4, make_room=make_room)

    def run(name: int) -> None:
        try:
            for i in range(each):
                world.acc.send("t", b"%d %d " % (name, i) + b"x" * (i * 37 % 2000), partition=name % 3, on_delivery=called.append)
                if i % 50 == 0:
                    Sending(world)
        except BaseException as error:
            errors.append(error)

    def read(batch: Any) -> None:
        for record in batch.records():
            name, number = record.value.split()[:2]
            if name != b"9":
                assert int(number) == seen[int(name)]
                seen[int(name)] += 1

    def settle(batch: Any) -> None:
        read(batch)
        callbacks = batch.fail("X", Written.NO, None) if batch.count % 3 == 0 else batch.complete(0, -1)
        if callbacks is not None:
            callbacks()

    def turn() -> None:
        queue.extend(world.seal_all())
        while queue and queue[0].ready:
            batch = queue.pop(0)
            data = wire_bytes(batch)
            view = memoryview(batch)
            for part in batch.split() if batch.count % 5 == 4 else [batch]:
                settle(part)
            assert bytes(view) == data
            view.release()
        with freed:
            freed.notify_all()

    seen, queue = [0] * 6, []  # type: tuple[list[int], list[Any]]
    threads = [threading.Thread(target=run, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        turn()
    gc.collect()
    while world.acc.unfinished():
        turn()
    assert not errors
    assert seen == [each] * 6
    assert len(called) == each * 6
    assert world.acc.accepted == world.acc.acked + world.acc.failed > each * 6
    assert world.acc.reserved == 0


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
