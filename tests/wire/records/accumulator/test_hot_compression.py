"""Compression of batches: who does it, and what happens when it saves nothing or fails."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from pykafka4.records import Written
from pykafka4.wire.records.compression import compress
from pykafka4.wire.records.decoder import read_header
from tests.wire.records.hot_world import World, each_core, only_compiled, plain_records, wire_bytes

pytestmark = each_core


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_batch_is_compressed_by_whoever_fills_it(core: ModuleType, codec: int) -> None:
    world = World(core, codec=codec)
    for _ in range(30):
        world.send(value=b"x" * 1000)
    sealed, _, _ = world.acc.take(world.now)
    assert sealed
    assert all(b.ready for b in sealed)
    for batch in sealed:
        data = wire_bytes(batch)
        assert read_header(data).codec == codec
        assert batch.size == len(data) < 2000
        assert [r[2] for r in plain_records(data)] == [b"x" * 1000] * batch.count


def test_a_lingered_batch_is_compressed_by_the_loop(core: ModuleType) -> None:
    world = World(core, codec=1)
    world.send(value=b"x" * 1000)
    world.acc.expedite()
    _, (batch,), _ = world.acc.take(world.now)
    world.acc.seal(batch)
    assert not batch.ready
    before = world.acc.reserved
    batch.compress()
    batch.compress()
    assert batch.ready
    assert world.acc.reserved == batch.size < before
    assert [r.value for r in batch.records()] == [b"x" * 1000]
    wire_bytes(batch)
    batch.complete(0, -1)
    assert world.acc.reserved == 0


def test_compression_that_saves_nothing_is_dropped(core: ModuleType) -> None:
    world = World(core, codec=4)
    world.send(value=b"\x01")
    (batch,) = world.seal_all()
    assert read_header(wire_bytes(batch)).codec == 0


def test_a_codec_that_fails_sends_the_batch_as_it_is(core: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    world = World(core, codec=1, compress=lambda codec, data: compress(99, data))
    world.send(value=b"x" * 1000)
    with caplog.at_level(logging.ERROR, "pykafka4"):
        (batch,) = world.seal_all()
    assert plain_records(wire_bytes(batch))[0][2] == b"x" * 1000
    assert "me: t-0: compressing a batch failed" in caplog.text


def test_a_compressor_that_keeps_its_input_cannot_see_it_change(core: ModuleType) -> None:
    kept: list[Any] = []

    def keeping(codec: int, data: Any) -> bytes:
        kept.append(memoryview(data))
        return b"c"

    world = World(core, codec=1, compress=keeping)
    world.send(value=b"x" * 1000)
    (batch,) = world.seal_all()
    before = bytes(kept[0])
    batch.fail("X", Written.NO, None)
    for _ in range(5):
        world.send(value=b"y" * 1000)
    assert bytes(kept[0]) == before
    kept.clear()


class Alarm(Exception):
    """What a signal handler of an application raises."""


@contextlib.contextmanager
def alarms(error: BaseException) -> Iterator[Callable[[], None]]:
    """Gives what raises a signal whose handler raises `error`."""

    def handler(number: int, frame: object) -> None:
        raise error

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        yield lambda: signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Alarm(), RuntimeError("a codec may raise this one, too")], ids=repr)
def test_a_signal_while_a_batch_is_compressed_is_raised_and_stops_no_partition(core: ModuleType, error: BaseException) -> None:
    with alarms(error) as ring:
        left = [ring]

        def interrupted(codec: int, data: Any) -> bytes:
            if left:
                left.pop()()
            return compress(codec, data)

        world = World(core, codec=1, compress=interrupted, batch_size=4096)
        world.acc.can_send = True
        sent = 0
        with pytest.raises(type(error)):
            for _ in range(10):
                world.send(value=b"x" * 1000)
                sent += 1
    assert world.acc.accepted == sent
    assert world.wakes > 1  # the loop was woken for the batch
    world.send(value=b"y")
    batches = world.seal_all()
    assert [b.ready for b in batches] == [True, True]
    assert len(plain_records(b"".join(wire_bytes(b) for b in batches))) == sent + 1
    for batch in batches:
        batch.complete(0, -1)
    assert (world.acc.reserved, world.acc.batches, world.acc.unfinished()) == (0, 0, [])


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Alarm()], ids=repr)
def test_a_signal_while_the_loop_is_woken_is_raised_and_the_loop_woken_all_the_same(core: ModuleType, error: BaseException) -> None:
    only_compiled(core)
    world = World(core)
    with alarms(error) as ring:
        left = [ring]

        def wake() -> None:
            if left:
                left.pop()()
            world.wakes += 1

        world = World(core, wake=wake)
        with pytest.raises(type(error)):
            world.send()
    assert world.wakes == 1
    assert world.acc.accepted == 1
    assert world.ack_all() == 1


def test_a_signal_while_threads_waiting_for_room_are_notified_is_raised_by_send(core: ModuleType) -> None:
    only_compiled(core)
    with alarms(Alarm()) as ring:
        left: list[Callable[[], None]] = []

        def wake() -> None:
            if left:
                left.pop()()

        world = World(core, wake=wake)
        world.send(value=b"x")
        world.acc.waiters = 1
        left.append(ring)
        with pytest.raises(Alarm):
            world.send(value=b"x" * 4000)  # the batch grows, which gives back the memory that it had
    world.acc.waiters = 0
    assert world.ack_all() == world.acc.accepted == 2
    assert world.acc.reserved == 0


def test_a_second_thread_at_any_line_does_not_compress_the_result(core: ModuleType) -> None:
    """Any thread may call `compress`; here a trace function does, between the lines of the first call (of the plain core)."""
    packed: list[int] = []

    def pack(codec: int, data: Any) -> bytes:
        packed.append(len(data))
        return compress(codec, data)

    world = World(core, codec=1, compress=pack)
    world.send(value=b"x" * 1000)
    world.acc.expedite()
    _, (batch,), _ = world.acc.take(world.now)
    world.acc.seal(batch)

    def trace(frame: Any, event: str, _: Any) -> Any:
        if event == "line" and frame.f_code.co_name == "compress" and packed:
            batch.compress()
        return trace

    tracer = sys.gettrace()
    sys.settrace(trace)
    try:
        batch.compress()
    finally:
        sys.settrace(tracer)
    assert len(packed) == 1
    assert [r.value for r in batch.records()] == [b"x" * 1000]
