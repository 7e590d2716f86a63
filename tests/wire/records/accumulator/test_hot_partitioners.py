"""Partitioners: keys get the partitions of the client that a name stands for; other records go where its row says."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pykafka4.errors import BufferFull, KafkaError
from pykafka4.partitioners import NAMED, partitioner
from tests.wire.records.hot_world import IMPLEMENTATIONS, World, each_core

VECTORS = Path(__file__).with_name("partitions.txt")  # what librdkafka and Java choose: see its first lines


def world(core: ModuleType, name: str | Callable[..., int], topics: dict[str, int], **options: Any) -> World:
    ignore_keys, adaptive = options.pop("ignore_keys", False), options.pop("adaptive", False)
    return World(core, topics, partitioner=partitioner(name, ignore_keys, adaptive), **options)


def vectors() -> dict[tuple[str, int], list[tuple[bytes | None, int]]]:
    """By partitioner and number of partitions: keys and their partitions."""
    found: dict[tuple[str, int], list[tuple[bytes | None, int]]] = {}
    for line in VECTORS.read_text().splitlines():
        if not line.startswith("#"):
            name, count, key, partition = line.split(" ")
            found.setdefault((name, int(count)), []).append((None if key == "-" else bytes.fromhex(key), int(partition)))
    return found


@each_core
@pytest.mark.parametrize(("name", "count"), vectors())
def test_keys_get_the_partitions_of_java_and_librdkafka(core: ModuleType, name: str, count: int) -> None:
    it = world(core, name, {"t": count})
    keys = vectors()[name, count]
    assert [it.send(key=key).partition for key, _ in keys] == [partition for _, partition in keys]


@each_core
@pytest.mark.parametrize("name", ["consistent_random", "murmur2_random", "fnv1a_random"])
def test_only_librdkafkas_default_takes_an_empty_key_for_none(core: ModuleType, name: str) -> None:
    it = world(core, name, {"t": 1000}, seed=5)
    assert it.send(key=None).partition == 5
    assert (it.send(key=b"").partition == 5) is (name == "consistent_random")


@each_core
def test_round_robin_takes_each_available_partition_in_turn_whatever_the_key(core: ModuleType) -> None:
    it = world(core, "round_robin", {"t": 4})
    it.acc.set_partitions("t", 4, [0, 2, 3])
    assert [it.send(key=b"same").partition for _ in range(6)] == [2, 3, 0, 2, 3, 0]


@each_core
def test_round_robin_passes_over_a_full_partition_unless_all_are(core: ModuleType) -> None:
    it = world(core, "round_robin", {"t": 3}, max_partition_bytes=4096)
    it.send(value=bytes(6000), partition=1)  # more than its share, but its first batch
    assert [it.send().partition for _ in range(4)] == [2, 0, 2, 0]


@each_core
@pytest.mark.parametrize("name", ["murmur2", "consistent_random", "fnv1a", "random"])
def test_keys_can_be_ignored(core: ModuleType, name: str) -> None:
    it = world(core, name, {"t": 50}, ignore_keys=True)
    assert {it.send(key=b"%d" % n).partition for n in range(50)} == {0}


# -- Dory's partition key


@each_core
def test_a_partition_key_is_a_number_modulo_all_partitions(core: ModuleType) -> None:
    it = world(core, "partition_key", {"t": 7})
    numbers = [0, 6, 7, 2**31 - 1, 2**31, 2**32 - 1]
    assert [it.send(partition=number).partition for number in numbers] == [number % 7 for number in numbers]
    with pytest.raises(ValueError, match="partition=4294967296 must be from 0 to 4294967295"):
        it.send(partition=2**32)


@each_core
def test_a_partition_key_takes_the_next_partition_while_its_own_is_down(core: ModuleType) -> None:
    it = world(core, "partition_key", {"t": 4})
    it.acc.set_partitions("t", 4, [0, 1])
    assert [it.send(partition=number).partition for number in (4, 5, 6, 7)] == [0, 1, 0, 0]
    it.acc.set_partitions("t", 4, [0, 1, 2, 3])
    assert it.send(partition=6).partition == 2


@each_core
@pytest.mark.parametrize("name", ["partition_key_wait", "late_partition_key_wait"])
def test_a_partition_key_can_wait_for_its_partition(core: ModuleType, name: str) -> None:
    it = world(core, name, {"t": 4})
    it.acc.set_partitions("t", 4, [0, 1])
    assert [it.send(partition=number).partition for number in (4, 5, 6, 7, 2**32 - 1)] == [0, 1, 2, 3, 3]


@each_core
@pytest.mark.parametrize("ignore_keys", [False, True])
@pytest.mark.parametrize("name", ["late_partition_key", "late_partition_key_wait"])
def test_records_without_a_partition_key_get_their_partition_late(core: ModuleType, name: str, ignore_keys: bool) -> None:
    it = world(core, name, {"t": 3}, ignore_keys=ignore_keys)
    it.acc.set_partitions("t", 3, [0, 1])
    assert it.send().partition is None
    assert it.send(key=b"abc").partition == (None if ignore_keys else 479470107 % 3)
    assert it.send(partition=2**32 - 1).partition == 0
    assert it.send(partition=5).partition == (2 if name == "late_partition_key_wait" else 0)


@each_core
def test_a_partition_key_waits_for_its_topic_and_never_counts_as_a_missing_partition(core: ModuleType) -> None:
    it = world(core, "partition_key", {})
    deliveries = [it.send(partition=number) for number in (2**32 - 1, 5)]
    it.acc.set_partitions("t", 3, range(3))
    assert it.acc.designate("t", 1000, True) == (0, [])
    assert [delivery.partition for delivery in deliveries] == [(2**32 - 1) % 3, 2]


@each_core
def test_a_failed_parked_record_has_its_partition_key(core: ModuleType) -> None:
    it = world(core, "partition_key", {})
    delivery = it.send(partition=2**32 - 2)
    it.acc.fail_parked("t", KafkaError("gone"))
    assert delivery.lost()[0].partition == 2**32 - 2


# -- the application's function


@each_core
def test_a_function_gets_topic_key_partitions_and_available_ones(core: ModuleType) -> None:
    calls: list[tuple[Any, ...]] = []

    def last(topic: str, key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        calls.append((topic, key, list(partitions), list(available)))
        return partitions[-1]

    it = world(core, last, {"t": 3})
    it.acc.set_partitions("t", 3, [0, 2])
    assert [it.send(key=key).partition for key in (None, b"", "schlüssel", bytearray(b"k"))] == [2, 2, 2, 2]
    assert calls == [("t", key, [0, 1, 2], [0, 2]) for key in (None, b"", "schlüssel".encode(), b"k")]
    assert it.send(key=b"k", partition=1).partition == 1
    assert len(calls) == 4


@each_core
@pytest.mark.parametrize(
    ("wrong", "kind", "says"),
    [
        (None, TypeError, "t: the partitioner by_hand returned NoneType; it must return an int"),
        (True, TypeError, "returned bool"),
        (1.0, TypeError, "returned float"),
        (3, ValueError, "t: the partitioner by_hand returned 3; it must return an int from 0 to 2"),
        pytest.param(10**5000, ValueError, "t: the partitioner by_hand returned <unprintable int>;", id="long"),
        (-1, ValueError, "returned -1"),
        (2**70, ValueError, "returned 1180591620717411303424"),
        (KeyError("x"), KafkaError, "t: the partitioner by_hand raised KeyError: 'x'; the record was not sent"),
    ],
)
def test_a_function_that_fails_fails_that_record_only(core: ModuleType, wrong: object, kind: type[Exception], says: str) -> None:
    answers = [wrong, 1]

    def by_hand(*args: object) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    by_hand.__qualname__ = "by_hand"
    it = world(core, by_hand, {"t": 3})
    with pytest.raises(kind, match=says) as caught:
        it.send()
    assert caught.value.__cause__ is (wrong if isinstance(wrong, Exception) else None)
    assert it.acc.accepted == 0
    assert it.send().partition == 1


@each_core
def test_a_function_is_called_when_the_partitions_are_known_and_not_before(core: ModuleType) -> None:
    it = world(core, lambda topic, key, partitions, available: len(partitions) - 1, {}, find_topic=lambda topic, deadline: find(topic))

    def find(topic: str) -> float:
        assert it.new_topics == ["t"]
        it.acc.set_partitions(topic, 4, range(4))
        return 160.0

    assert it.send().partition == 3


@each_core
def test_records_for_a_function_wait_behind_parked_ones(core: ModuleType) -> None:
    waits: list[float] = []

    def find(topic: str, deadline: float) -> float:
        waits.append(deadline)
        it.acc.set_partitions(topic, 2, range(2))
        if len(waits) == 2:
            it.acc.designate(topic)
        return 160.0

    it = world(core, lambda *args: 1, {}, find_topic=find)
    first = it.send(value=b"1", partition=1)  # needs no function: it is parked
    second = it.send(value=b"2")
    assert waits == [float("inf"), 160.0]
    assert (first.partition, second.partition) == (1, 1)
    (batch,) = it.seal_all()
    assert [record.value for record in batch.records()] == [b"1", b"2"]


@each_core
def test_a_function_may_send_itself(core: ModuleType) -> None:
    def once(topic: str, key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        if key == b"outer":
            it.send(key=b"inner")
        return 0

    it = world(core, once, {"t": 2})
    it.send(key=b"outer")
    (batch,) = it.seal_all()
    assert [record.key for record in batch.records()] == [b"inner", b"outer"]


# -- the sticky partition (KIP-794)


def shares(it: World, batches: int, waits: Callable[[Any], int]) -> Counter[int]:
    """How many of so many full batches each partition got. Each is acknowledged after `waits(batch)` others."""
    chosen: Counter[int] = Counter()
    held: list[tuple[int, Any]] = []
    while chosen.total() < batches:
        it.send(value=bytes(900))
        sealed, _, _ = it.acc.take(it.now)
        for batch in sealed:
            held.append((chosen.total() + waits(batch), batch))
            chosen[batch.partition] += 1
        for due, batch in list(held):
            if due < chosen.total():
                held.remove((due, batch))
                acknowledge(batch)
    for _, batch in held:
        acknowledge(batch)
    return chosen


def acknowledge(batch: Any) -> None:
    batch.finish(-1, -1, -1)
    batch.complete(0, -1)


@each_core
def test_a_partition_that_is_not_acknowledged_gets_less_and_its_share_back(core: ModuleType) -> None:
    it = world(core, "murmur2", {"t": 4}, adaptive=True, batch_size=4096, buffer_memory=64 * 2**20, max_partition_bytes=16 * 2**20, seed=3)
    chosen = shares(it, 400, lambda batch: 0 if batch.partition else 10_000)
    assert chosen[0] < 25  # a quarter would be 100
    assert min(chosen[p] for p in (1, 2, 3)) > 90
    chosen = shares(it, 400, lambda batch: 8)  # now all are as slow as each other
    assert min(chosen.values()) > 80, chosen


@each_core
@pytest.mark.parametrize("adaptive", [False, True])
def test_a_slow_stream_without_keys_is_spread_over_the_partitions(core: ModuleType, adaptive: bool) -> None:
    it = world(core, "murmur2", {"t": 6}, adaptive=adaptive)
    chosen: Counter[int] = Counter()
    for _ in range(60):
        delivery = it.send(value=bytes(100))
        (batch,) = it.seal_all()  # its linger is over
        chosen[delivery.partition] += 1
        acknowledge(batch)
    assert len(chosen) == 6
    assert min(chosen.values()) >= (4 if adaptive else 10), chosen


@each_core
def test_without_adaptivity_every_partition_gets_as_much(core: ModuleType) -> None:
    it = world(core, "murmur2", {"t": 4}, batch_size=4096, buffer_memory=64 * 2**20, max_partition_bytes=16 * 2**20)
    assert set(shares(it, 400, lambda batch: 0 if batch.partition else 10_000).values()) == {100}


@pytest.mark.skipif(len(IMPLEMENTATIONS) < 2, reason="the compiled core is not built")
@pytest.mark.parametrize("name", NAMED)
def test_both_cores_choose_the_same_partitions(name: str) -> None:
    dice = random.Random(11)
    keys = [None if dice.random() < 0.5 else dice.randbytes(dice.randrange(12)) for _ in range(2000)]
    values = [dice.randbytes(dice.randrange(600)) for _ in keys]
    chosen = []
    for core in IMPLEMENTATIONS:
        it = world(core, name, {"t": 5}, adaptive=False, batch_size=2048, seed=9, buffer_memory=2**26, max_partition_bytes=2**26)
        chosen.append([it.send(key=key, value=value).partition for key, value in zip(keys, values, strict=True)])
    assert chosen[0] == chosen[1]


@each_core
def test_crc32_is_zlibs(core: ModuleType) -> None:
    it = world(core, "consistent", {"t": 1009})
    keys = [random.Random(n).randbytes(n) for n in range(300)]
    assert [it.send(key=key).partition for key in keys] == [zlib.crc32(key) % 1009 for key in keys]


# -- batches that get their partition when they are sent


def sealed_late(it: World, records: int = 1, size: int = 500) -> list[Any]:
    for _ in range(records):
        it.send(value=bytes(size))
    return it.seal_all()


@each_core
def test_records_without_key_and_partition_share_a_batch_that_has_no_partition_yet(core: ModuleType) -> None:
    it = world(core, "late", {"t": 3})
    free = [it.send(value=b"%d" % n) for n in range(3)]
    keyed = it.send(value=b"k", key=b"abc")
    chosen = it.send(value=b"p", partition=1)
    assert [delivery.partition for delivery in free] == [None, None, None]
    assert (keyed.partition, chosen.partition) == (479470107 % 3, 1)
    late = next(batch for batch in it.seal_all() if batch.partition < 0)
    assert [(record.value, record.partition) for record in late.records()] == [(b"0", None), (b"1", None), (b"2", None)]
    it.acc.assign(late, 2)
    assert [delivery.partition for delivery in free] == [2, 2, 2]
    assert {record.partition for record in late.records()} == {2}
    acknowledge(late)
    assert [delivery.result(0).offset for delivery in free] == [0, 1, 2]


@each_core
def test_a_batch_without_a_partition_counts_as_its_topics_and_then_as_the_partitions_bytes(core: ModuleType) -> None:
    it = world(core, "late", {"t": 2, "u": 1}, max_partition_bytes=8192)
    batches = sealed_late(it, 1, 4000)
    assert it.acc.crowded("t", -1, 6000)
    assert not it.acc.crowded("t", 1, 6000)
    assert not it.acc.crowded("u", -1, 6000)
    reserved = it.acc.reserved
    it.acc.assign(batches[0], 1)
    assert not it.acc.crowded("t", -1, 6000)
    assert it.acc.crowded("t", 1, 6000)
    assert it.acc.reserved == reserved
    acknowledge(batches[0])
    assert not it.acc.crowded("t", 1, 6000)
    assert it.acc.reserved == 0


@each_core
def test_a_thread_that_waits_for_such_room_is_woken_when_a_batch_gets_its_partition(core: ModuleType) -> None:
    it = world(core, "late", {"t": 2}, max_partition_bytes=8192)
    batches = sealed_late(it, 1, 7000)
    it.on_full = lambda: it.acc.assign(batches.pop(), 0)
    it.send(value=bytes(7000))
    assert it.asked_for_room[0][:2] == ("t", -1)
    it.acc.waiters = 1
    (batch,) = it.seal_all()
    wakes = it.wakes
    it.acc.assign(batch, 1)
    assert it.wakes > wakes


@each_core
def test_a_compressed_batch_without_a_partition_moves_all_its_bytes(core: ModuleType) -> None:
    it = world(core, "late", {"t": 2}, codec=1)
    (batch,) = sealed_late(it, 20)
    it.acc.assign(batch, 1)
    (part, other) = batch.split()
    assert (part.partition, other.partition) == (1, 1)
    for half in (part, other):
        half.compress()
        acknowledge(half)
    assert it.acc.reserved == 0
    assert it.acc.forget("t")


@each_core
def test_only_a_batch_that_can_be_sent_and_has_no_partition_is_given_one(core: ModuleType) -> None:
    it = world(core, "late", {"t": 2})
    with_partition = it.send(partition=0)
    (batch,) = it.seal_all()
    with pytest.raises(RuntimeError, match="cannot be given a partition"):
        it.acc.assign(batch, 1)
    assert with_partition.partition == 0
    (late,) = sealed_late(it)
    with pytest.raises(ValueError, match="there is no partition 2"):
        it.acc.assign(late, 2)
    it.acc.assign(late, 1)
    with pytest.raises(RuntimeError, match="cannot be given a partition"):
        it.acc.assign(late, 0)


@each_core
def test_a_topic_with_a_batch_without_a_partition_is_not_forgotten(core: ModuleType) -> None:
    it = world(core, "late", {"t": 2})
    (batch,) = sealed_late(it)
    assert not it.acc.forget("t")
    it.acc.assign(batch, 1)
    assert not it.acc.forget("t")
    acknowledge(batch)
    assert it.acc.forget("t")
    it.send()
    assert it.new_topics == ["t"]


@each_core
def test_parked_records_join_those_without_a_partition(core: ModuleType) -> None:
    it = world(core, "late", {})
    deliveries = [it.send(value=b"1"), it.send(value=b"2", partition=1)]
    it.acc.set_partitions("t", 2, range(2))
    it.acc.designate("t")
    assert [delivery.partition for delivery in deliveries] == [None, 1]
    deliveries.append(it.send(value=b"3"))
    late = next(batch for batch in it.seal_all() if batch.partition < 0)
    assert [record.value for record in late.records()] == [b"1", b"3"]


@each_core
def test_round_robin_waits_for_any_partition_and_chooses_again(core: ModuleType) -> None:
    it = world(core, "round_robin", {"t": 3}, max_partition_bytes=8192, batch_size=4096)
    queues: dict[int, list[Any]] = {}

    def relieve() -> None:
        for batch in it.seal_all():
            queues.setdefault(batch.partition, []).append(batch)
        acknowledge(queues[1].pop(0))  # the others are stuck

    it.on_full = relieve
    sent = Counter(it.send(value=bytes(3000)).partition for _ in range(60))
    assert {partition for _, partition, _ in it.asked_for_room} == {-1}
    assert sent[1] > 50


@each_core
def test_round_robin_with_raise_names_the_topic(core: ModuleType) -> None:
    it = world(core, "round_robin", {"t": 2}, max_partition_bytes=8192, batch_size=4096, limits="all is used up")
    with pytest.raises(BufferFull, match=r"\), t needs"):
        for _ in range(100):
            it.send(value=bytes(3000))


@each_core
def test_batches_without_a_partition_keep_to_the_size_that_brokers_take(core: ModuleType) -> None:
    it = world(core, "late", {"t": 4})
    it.send(value=bytes(10))
    it.seal_all()
    it.acc.limit_batches("t", 2500)
    for number in range(40):
        it.send(value=bytes(900), partition=number % 2 or None)
    batches = it.seal_all()
    assert {batch.partition for batch in batches} == {-1, 1}
    assert max(batch.size for batch in batches) <= 2500
