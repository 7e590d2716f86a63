"""Compression of batches: who does it, and what happens when it saves nothing or fails."""

from __future__ import annotations

import logging
from types import ModuleType
from typing import Any

import pytest
from hot_world import World, each_core, plain_records, wire_bytes

from pykafka4.error_table import Written
from pykafka4.wire.batch import read_header

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
    def broken(codec: int, data: object) -> bytes:
        raise RuntimeError("no such library")

    world = World(core, codec=1, compress=broken)
    world.send(value=b"x" * 1000)
    with caplog.at_level(logging.ERROR, "pykafka4"):
        (batch,) = world.seal_all()
    assert plain_records(wire_bytes(batch))[0][2] == b"x" * 1000
    assert "compressing a batch failed" in caplog.text


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
