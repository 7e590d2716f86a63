"""The partition of a record: the given one, the one of its key as in Java, or the current sticky partition."""

from __future__ import annotations

from types import ModuleType

import pytest

from pykafka4.core import INFINITY
from tests.wire.records.hot_world import World, each_core

pytestmark = each_core

JAVA_HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "hashed"), JAVA_HASHES.items())
def test_murmur2_is_that_of_the_java_client(core: ModuleType, key: bytes, hashed: int) -> None:
    assert core.murmur2(key) == hashed
    assert core.murmur2(memoryview(bytearray(key))) == hashed


def test_a_partition_that_is_not_known_is_looked_for_before_it_is_refused(core: ModuleType) -> None:
    sought: list[tuple[str, int]] = []

    def find_partition(topic: str, partition: int, deadline: float) -> float:
        assert deadline == INFINITY
        sought.append((topic, partition))
        if partition == 2:
            world.acc.set_partitions(topic, 3, range(3))
        return deadline

    world = World(core, {"t": 2}, find_partition=find_partition)
    assert world.send(partition=1).partition == 1
    assert world.send(partition=2).partition == 2
    with pytest.raises(ValueError, match="partition=3, but the highest partition of the topic is 2"):
        world.send(partition=3)
    assert sought == [("t", 2), ("t", 3)]
    assert world.acc.accepted == 2


def test_keys_choose_partitions_as_in_java(core: ModuleType) -> None:
    world = World(core, {"t": 7})
    for key, hashed in JAVA_HASHES.items():
        assert world.send(key=key).partition == (hashed & 0x7FFFFFFF) % 7


def test_an_explicit_partition_wins_over_the_key(core: ModuleType) -> None:
    assert World(core, {"t": 7}).send(key=b"abc", partition=5).partition == 5


def test_records_without_key_stick_to_a_partition_until_it_has_had_a_batch(core: ModuleType) -> None:
    world = World(core, {"t": 3})
    partitions = [world.send(value=b"x" * 1000).partition for _ in range(60)]
    runs = [p for i, p in enumerate(partitions) if i == 0 or partitions[i - 1] != p]
    assert len(runs) == 4
    assert set(runs) == {0, 1, 2}


def test_lingered_batches_count_towards_the_share_of_a_partition(core: ModuleType) -> None:
    world = World(core, {"t": 2})
    partitions = []
    for _ in range(40):
        partitions.append(world.send(value=b"x" * 1000).partition)
        world.ack_all()
    assert set(partitions) == {0, 1}
    assert partitions.count(0) in range(14, 27)


def test_records_without_key_avoid_partitions_without_a_leader(core: ModuleType) -> None:
    world = World(core, {"t": 4})
    world.acc.set_partitions("t", 4, [2])
    assert {world.send(value=b"x" * 5000).partition for _ in range(20)} == {2}
    world.acc.set_partitions("t", 4, [])
    assert {world.send(value=b"x" * 5000).partition for _ in range(40)} == {0, 1, 2, 3}


def test_producers_start_with_different_partitions(core: ModuleType) -> None:
    assert len({World(core, {"t": 50}, seed=seed).send().partition for seed in range(20)}) > 10


def test_an_empty_key_is_a_key(core: ModuleType) -> None:
    world = World(core, {"t": 7})
    hashed = 275646681  # murmur2 of no bytes, by Java's Utils.murmur2
    assert core.murmur2(b"") == hashed
    assert {world.send(key=b"", value=bytes(3_000)).partition for _ in range(20)} == {hashed % 7}
