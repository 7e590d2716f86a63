"""Sizes around every threshold of the cores: what changes its way there (a longer number, a larger block, a checksum without the GIL)."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from pykafka4.errors import BufferFull, CorruptRecord
from pykafka4.wire.records.batch import WireRecord, batches, build_batch
from pykafka4.wire.records.compression import CODECS, compress, decompress
from pykafka4.wire.records.layout import ATTRIBUTES, HEADER_SIZE
from pykafka4.wire.records.reference import murmur2
from tests.wire.records.hot_world import IMPLEMENTATIONS, MIB, World, as_tuples, decoded, each_core, plain_records, wire_bytes

STRIDE = 3 * 4096  # from here on the checksum is computed in three streams
LONG_CRC = 1 << 20  # … and without the GIL
FIRST_BLOCK_BYTES = 2048  # a batch starts with this capacity
CHECKED = [8, 100, *(n + d for n in (STRIDE, 2 * STRIDE, LONG_CRC, 256 * 1024) for d in (-1, 0, 1)), 300_000]
VALUES = [0, 1, *(n + d for n in (64, 8192, 1 << 20) for d in (-14, -13, -12, -11, -10, -9, -8, -7, -6, -2, -1, 0, 1))]


def batch_of(checked: int) -> bytes:
    """A batch whose checksum covers so many bytes, or a few more than the smallest has."""
    size = max(0, checked - (HEADER_SIZE - ATTRIBUTES) - 7)
    while True:
        data = build_batch([WireRecord(value=bytes(i * 31 & 255 for i in range(size)))])
        if len(data) - ATTRIBUTES <= checked or size == 0:
            return data
        size -= len(data) - ATTRIBUTES - checked


@each_core
@pytest.mark.parametrize("checked", CHECKED)
def test_a_changed_byte_is_found_in_batches_of_every_size(core: ModuleType, checked: int) -> None:
    data = batch_of(checked)
    assert len(data) - ATTRIBUTES == checked or checked < 50
    records, error, _ = decoded(core, data)
    assert (len(records), error) == (1, None)
    for at in {ATTRIBUTES + 2, len(data) // 2, len(data) - 2, len(data) - 1}:
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        records, error, _ = decoded(core, damaged)
        assert records == []
        assert isinstance(error, CorruptRecord), f"byte {at} of {len(data)}"


@each_core
@pytest.mark.parametrize(
    "size",
    [n for n in CHECKED if n >= 100]
    + [
        FIRST_BLOCK_BYTES - 75,
        FIRST_BLOCK_BYTES - 74,
        FIRST_BLOCK_BYTES - 73,
        FIRST_BLOCK_BYTES - 72,
        FIRST_BLOCK_BYTES - 71,
        FIRST_BLOCK_BYTES,
    ],
)
def test_a_batch_of_every_size_is_sent_with_its_checksum(core: ModuleType, size: int) -> None:
    world = World(core, batch_size=MIB // 4, buffer_memory=64 * MIB, max_partition_bytes=64 * MIB, max_request_size=4 * MIB)
    value = bytes(i * 7 & 255 for i in range(size))
    world.send(value=value)
    world.send(value=b"behind")
    data = b"".join(wire_bytes(batch, 5, 1, 0) for batch in world.seal_all())
    for batch in batches(data):
        batch.check()
    assert [r[2] for r in plain_records(data)] == [value, b"behind"]


@pytest.mark.parametrize("codec", [0, 2])
def test_both_cores_write_the_same_bytes_for_values_of_every_size(codec: int) -> None:
    seen = []
    for core in IMPLEMENTATIONS:
        world = World(core, codec=codec, batch_size=MIB, buffer_memory=64 * MIB, max_partition_bytes=64 * MIB, max_request_size=4 * MIB)
        for size in VALUES:
            world.send(value=b"v" * size, key=b"k" * (size % 9000), headers=[("n" * (size % 130), b"h" * (size % 8200))], timestamp_ms=size)
        seen.append([wire_bytes(batch) for batch in world.seal_all()])
    assert all(one == seen[0] for one in seen)
    sizes = [len(r[2]) for data in seen[0] for r in plain_records(data)]
    assert sizes == VALUES


@pytest.mark.parametrize("delta", [0, 63, 64, 8191, 8192, 2**20, 2**31, 2**40, 2**62])
def test_both_cores_read_the_same_from_offsets_and_times_of_every_size(delta: int) -> None:
    last = min(delta, 2**31 - 2) + 1
    for base in (0, 2**40):
        put = [
            WireRecord(offset=base, timestamp_ms=0, value=b"first"),
            WireRecord(offset=base + last, timestamp_ms=delta, key=b"", value=b"", headers=(("", b""), ("n", None))),
        ]
        for core in IMPLEMENTATIONS:
            records, error, _ = decoded(core, build_batch(put, base_offset=base))
            assert error is None
            assert as_tuples(records) == [
                ("t", 3, base, 0, "CREATE_TIME", None, b"first", (), -1),
                ("t", 3, base + last, delta, "CREATE_TIME", b"", b"", (("", b""), ("n", None)), -1),
            ]


@each_core
def test_an_empty_key_is_a_key(core: ModuleType) -> None:
    world = World(core, {"t": 7})
    own = (murmur2(b"") & 0x7FFFFFFF) % 7
    parked = [world.send("new", key=b"", value=b"%d" % i) for i in range(3)]
    world.acc.set_partitions("new", 7, range(7))
    world.acc.designate("new")
    sent = [world.send(key=key, value=b"x" * 9000) for _ in range(9) for key in (b"", "", bytearray())]
    assert {d.partition for d in sent + parked} == {own}
    keys = [r[1] for batch in world.seal_all() for r in plain_records(wire_bytes(batch))]
    assert keys == [b""] * 30


@each_core
def test_no_key_goes_to_any_partition(core: ModuleType) -> None:
    world = World(core, {"t": 7})
    assert len({world.send(key=None, value=b"x" * 9000).partition for _ in range(50)}) == 7
    assert {r[1] for batch in world.seal_all() for r in plain_records(wire_bytes(batch))} == {None}


@each_core
@pytest.mark.parametrize("value", [10, 500, 3000, 20_000])
def test_a_partition_never_holds_more_than_its_bound(core: ModuleType, value: int) -> None:
    bound = 64 * 1024
    world = World(core, {"t": 2}, max_partition_bytes=bound)
    with pytest.raises(BufferFull):
        while True:
            world.send(value=b"x" * value, partition=0)
            assert world.acc.reserved <= bound
    assert world.acc.reserved > bound // 2  # it was this bound that refused, and not long before it was reached
    world.send(value=b"x" * value, partition=1)


@each_core
def test_records_that_wait_for_their_partitions_never_hold_more_than_the_bound_of_one(core: ModuleType) -> None:
    bound = 64 * 1024
    world = World(core, {"t": 1}, max_partition_bytes=bound)
    with pytest.raises(BufferFull):
        while True:
            world.send("new", value=b"x" * 1000)
            assert world.acc.reserved <= bound
    assert world.acc.reserved > bound - 1300
    world.send("other", value=b"x" * 1000)
    world.send("t", value=b"x" * 1000)


@each_core
def test_more_batches_records_and_handles_than_are_kept_for_reuse(core: ModuleType) -> None:
    world = World(core, {"t": 200}, batch_size=2048, buffer_memory=16 * MIB, max_partition_bytes=MIB)
    for turn in range(3):
        handles = [world.send(value=b"%d" % (turn * 10_000 + i), partition=i % 200) for i in range(5000)]
        data = [wire_bytes(batch) for batch in world.seal_all()]
        assert len(data) >= 200
        out: list[Any] = []
        for one in data:
            records, error, _ = decoded(core, one)
            assert error is None
            out += records
        assert sorted(int(r.value) for r in out) == list(range(turn * 10_000, turn * 10_000 + 5000))
        for batch in world.acc.unfinished():
            batch.complete(0, -1)
        assert all(handle.done() for handle in handles)
        assert world.acc.reserved == 0


@pytest.mark.parametrize("size", [n + d for n in (4096, 32 * 1024, 64 * 1024, 128 * 1024, 256 * 1024) for d in (-1, 0, 1)])
@pytest.mark.parametrize("codec", sorted(CODECS.values()))
def test_every_codec_gives_back_blocks_of_every_size(codec: int, size: int) -> None:
    data = bytes((i * i >> 3) & 255 for i in range(size))
    packed = compress(codec, data)
    assert decompress(codec, packed, size) == data
