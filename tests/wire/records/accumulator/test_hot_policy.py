"""Topics with policies of their own: when their batches are due or complete, what is compressed, and which records are too large."""

from __future__ import annotations

from contextlib import nullcontext
from types import ModuleType
from typing import Any

import pytest

from pykafka4.errors import BufferFull, ClosedError, RecordTooLarge
from pykafka4.records import Written
from pykafka4.wire.records.compression import compress
from pykafka4.wire.records.decoder import read_header
from pykafka4.wire.records.policy import Admission, Policy
from tests.wire.records.hot_world import MIB, World, each_core, only_compiled, plain_records, wire_bytes

pytestmark = each_core


def world_of(core: ModuleType, policies: dict[str, Policy], **options: Any) -> World:
    return World(core, dict.fromkeys(policies, 2), policy=lambda topic: policies.get(topic, Policy(0.005)), **options)


# -- lingers


def test_each_topic_has_its_own_linger(core: ModuleType) -> None:
    world = world_of(core, {"slow": Policy(1.0), "quick": Policy(0.01)})
    world.send("slow")
    world.now += 0.001
    world.send("quick")
    assert world.acc.wake_at == pytest.approx(100.011)
    assert world.acc.take(100.010)[1] == []
    sealed, due, again = world.acc.take(100.0111)
    assert (sealed, [b.topic for b in due], again) == ([], ["quick"], pytest.approx(101.0))
    assert [b.topic for b in world.acc.take(101.0)[1]] == ["slow"]


def test_a_batch_with_a_shorter_linger_wakes_the_loop_and_one_with_a_longer_does_not(core: ModuleType) -> None:
    world = world_of(core, {"slow": Policy(1.0), "quick": Policy(0.01), "slowest": Policy(2.0)})
    for topic, wakes in (("slow", 1), ("quick", 2), ("slowest", 2)):
        world.send(topic)
        assert world.wakes == wakes, topic


def test_topics_with_one_linger_are_taken_together(core: ModuleType) -> None:
    only_compiled(core)
    world = world_of(core, {"a": Policy(0.01), "b": Policy(0.01, 1)})
    world.send("a")
    world.now += 0.001
    world.send("b")
    assert [b.topic for b in world.acc.take(100.01)[1]] == ["a", "b"]


def test_without_linger_every_batch_is_due_whatever_its_topics_linger(core: ModuleType) -> None:
    world = world_of(core, {"slow": Policy(100.0), "quick": Policy(0.01)})
    world.send("slow")
    world.send("quick")
    _, due, again = world.acc.take(world.now, True)
    assert ({b.topic for b in due}, again) == ({"slow", "quick"}, float("inf"))


def test_flush_ends_every_linger(core: ModuleType) -> None:
    world = world_of(core, {"slow": Policy(100.0), "quick": Policy(0.01)})
    world.send("slow")
    world.send("quick")
    world.acc.expedite()
    assert {b.topic for b in world.acc.take(world.now)[1]} == {"slow", "quick"}


def test_a_batch_has_the_linger_of_its_topic(core: ModuleType) -> None:
    world = world_of(core, {"slow": Policy(1.5)})
    world.send("slow")
    assert [b.linger for b in world.seal_all()] == [1.5]


# -- combined batches


def test_combined_batches_are_due_together_when_the_linger_of_the_oldest_is_over(core: ModuleType) -> None:
    together = Policy(1.0, combined=True)
    world = world_of(core, {"a": together, "b": together, "alone": Policy(1.0)})
    for topic in ("a", "alone", "b"):
        world.send(topic)
        world.now += 0.5
    assert world.acc.take(100.999)[1] == []
    sealed, due, again = world.acc.take(101.0)
    assert (sealed, {b.topic for b in due}, again) == ([], {"a", "b"}, pytest.approx(101.5))


@pytest.mark.parametrize("limit", [{"batch_records": 4}, {"batch_bytes": 8}], ids=["records", "bytes"])
def test_combined_batches_are_due_together_when_their_records_reach_a_limit(core: ModuleType, limit: dict[str, int]) -> None:
    together = Policy(60.0, combined=True, **limit)
    world = world_of(core, {"a": together, "b": together, "other": Policy(60.0, combined=True, batch_records=9)})
    for topic in ("a", "b", "other", "a"):
        world.send(topic, value=b"12", partition=0)
    wakes = world.wakes
    assert world.acc.take(world.now)[1] == []
    world.send("b", value=b"12", partition=1)
    assert world.wakes == wakes + 1
    sealed, due, _ = world.acc.take(world.now)
    assert (sealed, sorted(b.count for b in due), {b.topic for b in due}) == ([], [1, 1, 2], {"a", "b"})


def test_the_count_of_combined_batches_begins_anew_when_they_were_taken(core: ModuleType) -> None:
    together = Policy(60.0, combined=True, batch_records=3)
    world = world_of(core, {"a": together, "b": together})
    for topic in ("a", "b", "a"):
        world.send(topic)
    first = world.acc.take(world.now)[1]
    world.send("a")  # still open, as nothing has sealed it: it is on its way
    for batch in first:
        assert world.acc.seal(batch, True)
    world.send("a")
    world.send("b")
    assert world.acc.take(world.now)[1] == []
    world.send("b")
    assert sum(b.count for b in world.acc.take(world.now)[1]) == 3


def test_a_full_batch_has_left_those_that_it_was_combined_with(core: ModuleType) -> None:
    together = Policy(60.0, combined=True, batch_records=4)
    world = world_of(core, {"a": together, "b": together}, batch_size=1000)
    for _ in range(3):
        world.send("a", value=bytes(400), partition=0)  # the third does not fit
    assert [b.count for b in world.acc.take(world.now)[0]] == [2]
    world.send("b", partition=0)
    world.send("b", partition=0)
    assert world.acc.take(world.now)[1] == []
    world.send("b", partition=0)
    assert sorted(b.count for b in world.acc.take(world.now)[1]) == [1, 3]


# -- complete batches


def test_a_batch_is_complete_with_so_many_records(core: ModuleType) -> None:
    world = world_of(core, {"t": Policy(60.0, batch_records=3)})
    for n in range(7):
        world.send(value=b"%d" % n, partition=0)
    sealed, due, _ = world.acc.take(world.now)
    assert [[r[2] for r in plain_records(wire_bytes(b))] for b in sealed] == [[b"0", b"1", b"2"], [b"3", b"4", b"5"]]
    assert due == []


def test_a_batch_is_complete_with_so_many_bytes_of_keys_and_values(core: ModuleType) -> None:
    world = world_of(core, {"t": Policy(60.0, batch_bytes=10)})
    for value in (b"1234", b"123", b"1", b"12345678"):  # with their keys 5, 4, 2: 11; then 9
        world.send(value=value, key=b"k", headers=[("header", b"does not count")], partition=0)
    assert [b.count for b in world.acc.take(world.now)[0]] == [3]


def test_a_record_without_bytes_counts_as_one(core: ModuleType) -> None:
    world = world_of(core, {"t": Policy(60.0, batch_bytes=3)})
    for _ in range(3):
        world.send(value=None, partition=0)
    assert [b.count for b in world.acc.take(world.now)[0]] == [3]


def test_the_first_limit_that_is_reached_counts(core: ModuleType) -> None:
    world = world_of(core, {"t": Policy(60.0, batch_bytes=100, batch_records=4)})
    for size in (60, 60, 1, 1, 1, 1):
        world.send(value=bytes(size), partition=0)
    assert [b.count for b in world.acc.take(world.now)[0]] == [2, 4]


def test_a_complete_batch_is_compressed_and_wakes_the_loop(core: ModuleType) -> None:
    world = world_of(core, {"t": Policy(60.0, 1, batch_records=2)})
    world.send(value=bytes(1000), partition=0)
    world.acc.can_send = True
    before = world.wakes
    world.send(value=bytes(1000), partition=0)
    assert world.wakes == before + 1
    (batch,) = world.acc.take(world.now)[0]
    assert read_header(wire_bytes(batch)).codec == 1


def test_a_complete_batch_ends_the_turn_of_its_partition(core: ModuleType) -> None:
    world = world_of(core, {"t": Policy(60.0, batch_records=2)})
    partitions = [world.send().partition for _ in range(6)]
    assert partitions[0] == partitions[1] == partitions[4] != partitions[2]


def test_parked_records_fill_batches_as_others_do(core: ModuleType) -> None:
    world = World(core, {}, policy=lambda topic: Policy(60.0, batch_records=2))
    handles = [world.send("new", partition=0) for _ in range(5)]
    world.acc.set_partitions("new", 1, [0])
    assert world.acc.designate("new") == (0, [])
    assert [b.count for b in world.acc.take(world.now)[0]] == [2, 2]
    world.ack_all()
    assert [h.done() for h in handles] == [False] * 4 + [True]


def test_a_signal_while_a_complete_batch_is_compressed_still_wakes_the_loop(core: ModuleType) -> None:
    def interrupted(codec: int, data: Any) -> bytes:
        raise KeyboardInterrupt

    world = world_of(core, {"t": Policy(60.0, 1, batch_records=1)}, compress=interrupted)
    with pytest.raises(KeyboardInterrupt):
        world.send(value=bytes(1000))
    assert (world.wakes, world.acc.accepted) == (1, 1)
    assert [b.ready for b in world.acc.take(world.now)[0]] == [True]


# -- compression


def codec_of(world: World, topic: str, value: bytes) -> int:
    world.send(topic, value)
    (batch,) = world.seal_all()
    codec = read_header(wire_bytes(batch)).codec
    batch.complete(0, -1)
    return int(codec)


def test_each_topic_has_its_own_codec(core: ModuleType) -> None:
    world = world_of(core, {"z": Policy(0.0, 4), "g": Policy(0.0, 1), "n": Policy(0.0)})
    assert [codec_of(world, topic, bytes(1000)) for topic in ("z", "g", "n")] == [4, 1, 0]


def test_a_level_reaches_the_codec_and_none_leaves_its_default(core: ModuleType) -> None:
    calls: list[tuple[Any, ...]] = []

    def compressor(codec: int, data: Any, *level: int) -> bytes:
        calls.append((codec, *level))
        return compress(codec, data, *level)

    world = world_of(core, {"a": Policy(0.0, 4, 19), "b": Policy(0.0, 4)}, compress=compressor)
    codec_of(world, "a", bytes(1000))
    codec_of(world, "b", bytes(1000))
    assert calls == [(4, 19), (4,)]


@pytest.mark.parametrize(("least", "codec"), [(1007, 1), (1008, 0)])
def test_a_batch_with_fewer_bytes_is_not_compressed(core: ModuleType, least: int, codec: int) -> None:
    """The record has 1,007 bytes: its value and the seven that surround it; the length of each field is one byte, or two."""
    world = world_of(core, {"t": Policy(0.0, 1, compression_min_bytes=least)})
    assert codec_of(world, "t", bytes(998)) == codec


@pytest.mark.parametrize(("size", "codec"), [(500, 1), (501, 0)])
def test_a_batch_that_stays_too_large_is_sent_as_it_was(core: ModuleType, size: int, codec: int) -> None:
    world = world_of(core, {"t": Policy(0.0, 1, compression_max_ratio=0.5)}, compress=lambda codec, data: bytes(size))
    world.send("t", bytes(991))  # 1,000 bytes with the fields around it
    (batch,) = world.seal_all()
    assert batch.raw_size == 1061
    assert read_header(wire_bytes(batch)).codec == codec


def test_parts_of_a_split_batch_obey_too(core: ModuleType) -> None:
    world = world_of(core, {"t": Policy(0.0, 1, compression_min_bytes=1500)})
    for _ in range(2):
        world.send(value=bytes(1000), partition=0)
    (batch,) = world.seal_all()
    assert read_header(wire_bytes(batch)).codec == 1
    assert [part.ready for part in batch.split()] == [True, True]


# -- sizes


def test_a_record_over_the_limit_of_its_topic_is_refused_by_name(core: ModuleType) -> None:
    world = world_of(core, {"t": Policy(0.0, max_message_bytes=1061), "other": Policy(0.0)})
    world.send(value=bytes(991))
    with pytest.raises(
        RecordTooLarge, match=r"^t: a record of 1062 bytes .* exceeds max_message_bytes=1061; raise that or split the record$"
    ):
        world.send(value=bytes(992))
    world.send("other", value=bytes(992))
    assert world.acc.accepted == 2


def test_a_parked_record_over_the_limit_is_refused_too(core: ModuleType) -> None:
    world = World(core, {}, policy=lambda topic: Policy(0.0, max_message_bytes=1061))
    with pytest.raises(RecordTooLarge, match="max_message_bytes=1061"):
        world.send("new", bytes(992))


def test_no_batch_grows_beyond_the_limit_of_its_topic(core: ModuleType) -> None:
    world = world_of(core, {"t": Policy(60.0, max_message_bytes=3000)})
    for _ in range(10):
        world.send(value=bytes(900), partition=0)
    sizes = [b.size for b in world.seal_all()]
    assert all(2000 < size <= 3000 for size in sizes[:-1])
    assert len(sizes) == 4


def test_batches_are_no_larger_than_what_brokers_take(core: ModuleType) -> None:
    world = world_of(core, {"t": Policy(60.0), "other": Policy(60.0)})
    world.acc.limit_batches("t", 2500)
    world.acc.limit_batches("t", 5000)  # a lower one is known
    world.acc.limit_batches("unknown", 5)
    for topic in ("t", "other"):
        for _ in range(12):
            world.send(topic, bytes(900), partition=0)
    sizes: dict[str, list[int]] = {"t": [], "other": []}
    for batch in world.seal_all():
        sizes[batch.topic].append(batch.size)
    assert max(sizes["t"]) <= 2500 < max(sizes["other"])
    world.send(value=bytes(4000), partition=0)
    assert max(b.size for b in world.seal_all()) > 4000, "a larger record goes alone: the broker decides"


@pytest.mark.parametrize("codec", [0, 1])
def test_a_record_over_the_limit_that_brokers_tell_is_refused_if_nothing_makes_it_smaller(core: ModuleType, codec: int) -> None:
    world = world_of(core, {"t": Policy(60.0, codec)})
    world.acc.limit_records("t", 1000)
    if codec:
        world.send(value=bytes(2000))
        return
    with pytest.raises(RecordTooLarge, match=r"t: a record of 20\d\d bytes .* exceeds max.message.bytes of the topic=1000"):
        world.send(value=bytes(2000))


@pytest.mark.parametrize("codec", [0, 1])
def test_a_limit_that_brokers_tell_replaces_what_was_known_before_but_no_option(core: ModuleType, codec: int) -> None:
    world = world_of(core, {"t": Policy(60.0, codec), "u": Policy(60.0, codec, max_message_bytes=3000)})
    for topic in ("t", "u"):
        world.acc.limit_batches(topic, 500)
        world.acc.limit_records(topic, 1000)
        world.acc.limit_records(topic, 5000)
        for _ in range(12):
            world.send(topic, bytes(900), partition=0)
    sizes = {"t": 0, "u": 0}
    for batch in world.seal_all():
        sizes[batch.topic] = max(sizes[batch.topic], batch.raw_size)
    assert 4000 < sizes["t"] <= 5000
    assert 2000 < sizes["u"] <= 3000


def test_a_limit_can_become_unknown_again(core: ModuleType) -> None:
    world = world_of(core, {"t": Policy(60.0)})
    world.acc.limit_records("t", 1000)
    world.acc.limit_records("t", 0)
    world.send(value=bytes(2000))


def test_records_that_were_parked_before_a_limit_was_known_are_sent(core: ModuleType) -> None:
    """The loop moves them: an error would end it. The broker names the record that is too large."""
    world = World(core, {}, policy=lambda topic: Policy(60.0))
    for value in (b"v", bytes(3000), b"w", bytes(3000)):
        world.send("new", value, partition=0)
    world.acc.limit_records("new", 1000)
    world.acc.set_partitions("new", 1, [0])
    assert world.acc.designate("new") == (0, [])
    assert world.ack_all() == 4


# -- rates


def test_a_record_that_is_not_admitted_is_dropped_for_that_reason(core: ModuleType) -> None:
    left, calls = [None, ValueError("over the limit"), None], list[Any]()
    policies = {"t": Policy(0.0, admit=lambda _: left.pop(0)), "u": Policy(0.0)}
    world = world_of(core, policies, call_dropped=lambda callback, delivery: callback(delivery))
    handles = [world.send(), world.send(timestamp_ms=7, on_delivery=calls.append), world.send()]
    world.send("u")
    assert [h.done() for h in handles] == [False, True, False]
    error = handles[1].exception()
    assert (error.code, error.written, str(error.cause)) == ("RATE_LIMITED", Written.NO, "over the limit")
    assert calls == [handles[1]]
    assert world.take_dropped() == [("t", -1, "RATE_LIMITED", 1, 7, 7)]
    assert world.ack_all() == 3


def test_parked_records_ask_for_admission_when_they_are_sent(core: ModuleType) -> None:
    left = [None, ValueError("over")]
    world = World(core, {}, policy=lambda topic: Policy(0.0, admit=lambda _: left.pop(0)))
    handles = [world.send("new", partition=3), world.send("new", partition=3)]
    assert (world.acc.parked_records, [h.done() for h in handles]) == (1, [False, True])
    world.acc.set_partitions("new", 4, range(4))
    assert world.acc.designate("new") == (0, [])
    assert world.ack_all() == 1
    assert world.take_dropped()[0][:4] == ("new", -1, "RATE_LIMITED", 1), "no partition exists yet"


def test_a_record_that_is_refused_anyway_takes_no_place(core: ModuleType) -> None:
    asked: list[int] = []
    policy = Policy(0.0, max_message_bytes=1000, admit=lambda _: asked.append(1))
    world = World(core, policy=lambda topic: policy)
    for wrong in ({"value": bytes(2000)}, {"value": 5}, {"partition": -1}, {"partition": 7}, {"on_delivery": 5}):
        with pytest.raises((RecordTooLarge, TypeError, ValueError)):
            world.send(**wrong)
    assert asked == []


def test_what_admission_raises_send_raises_and_nothing_is_accepted(core: ModuleType) -> None:
    def full(_: float) -> None:
        raise BufferFull("later")

    world = World(core, policy=lambda topic: Policy(0.0, admit=full))
    with pytest.raises(BufferFull, match="later"):
        world.send()
    assert (world.acc.accepted, world.take_dropped()) == (0, [])


def test_a_producer_that_was_closed_during_the_wait_takes_no_record(core: ModuleType) -> None:
    world: World

    def close(_: float) -> None:
        world.acc.refusal = ClosedError("closed")

    world = World(core, policy=lambda topic: Policy(0.0, admit=close))
    with pytest.raises(ClosedError):
        world.send()
    assert world.acc.accepted == 0


@pytest.mark.parametrize("on_full", ["block", "raise", "drop"])
def test_a_record_that_gets_no_further_gives_its_place_back(core: ModuleType, on_full: str) -> None:
    back: list[int] = []
    policy = Policy(0.0, admit=lambda _: Admission(float("inf"), lambda: back.append(1)))
    how: dict[str, Any] = {"raise": {"limits": "full"}, "drop": {"drop_error": BufferFull("full")}, "block": {}}[on_full]
    world = World(core, policy=lambda topic: policy, buffer_memory=64 * 1024, max_partition_bytes=64 * 1024, **how)
    world.send(value=bytes(30_000))
    world.send("new", bytes(30_000))
    assert back == []
    for topic in ("t", "new"):
        if on_full == "drop":
            assert world.send(topic, bytes(30_000)).done()
        else:
            with pytest.raises(BufferFull):
                world.send(topic, bytes(30_000))
    assert back == [1, 1]
    with pytest.raises(BufferFull) if on_full != "drop" else nullcontext():
        world.acc.send_many("t", [bytes(30_000)])
    assert back == [1, 1, 1]


def test_a_record_that_was_accepted_keeps_its_place_whatever_follows(core: ModuleType) -> None:
    back: list[int] = []
    policy = Policy(0.0, batch_records=1, admit=lambda _: Admission(float("inf"), lambda: back.append(1)))
    world = World(core, policy=lambda topic: policy, wake=Interrupting())
    world.acc.can_send = True
    with pytest.raises(KeyboardInterrupt):
        world.send()
    assert (world.acc.accepted, back) == (1, [])


class Interrupting:
    def __call__(self) -> object:
        raise KeyboardInterrupt


def test_the_wait_for_a_place_and_the_wait_for_room_have_one_deadline(core: ModuleType) -> None:
    given: list[float] = []

    def admit(deadline: float) -> Admission:
        given.append(deadline)
        return Admission(123.5, lambda: None)

    world = World(core, policy=lambda topic: Policy(0.0, admit=admit), buffer_memory=64 * 1024, max_partition_bytes=64 * 1024)
    world.send(value=bytes(40_000))
    with pytest.raises(BufferFull):
        world.send(value=bytes(40_000))
    assert (given, world.deadlines) == ([float("inf")] * 2, [123.5])


def test_a_wait_for_a_partition_counts_before_the_wait_for_a_place(core: ModuleType) -> None:
    given: list[float] = []

    def find(topic: str, partition: int, deadline: float) -> float:
        world.acc.set_partitions("t", 8, range(8))
        return 117.0

    world = World(core, policy=lambda topic: Policy(0.0, admit=lambda until: given.append(until)), find_partition=find)
    assert world.send(partition=7).partition == 7
    assert given == [117.0]


def test_small_batches_do_not_take_the_room_of_large_ones(core: ModuleType) -> None:
    world = World(core, buffer_memory=MIB, max_partition_bytes=MIB // 4, policy=lambda topic: Policy(60.0, batch_records=10))
    for _ in range(2):
        world.send(value=b"x" * 9000, partition=0)  # the second finds no room: one batch was full
    world.ack_all()
    sent = 0
    with pytest.raises(BufferFull):
        while True:
            world.send(value=b"x", partition=0)
            sent += 1
    assert sent > 1_000


def test_what_the_loop_moves_out_of_parking_can_be_compressed_elsewhere(core: ModuleType) -> None:
    compressed: list[int] = []

    def spy(codec: int, data: Any, *level: int) -> bytes:
        compressed.append(len(data))
        return compress(codec, data, *level)

    policy = Policy(60.0, codec=1)
    world = World(core, {}, policy=lambda topic: policy, batch_size=4096, compress=spy)
    world.acc.defers = True
    for _ in range(20):
        world.send("new", b"v" * 1000)
    world.acc.set_partitions("new", 1, [0])
    world.acc.designate("new")
    assert compressed == []
    sealed = world.acc.take(world.now)[0]
    assert [batch.ready for batch in sealed] == [False] * len(sealed)
    assert len(sealed) > 3
    for batch in sealed:
        batch.compress()
    assert all(batch.ready for batch in sealed)
    assert len(compressed) == len(sealed)
    world.send("new", b"v" * 3500)
    world.send("new", b"v" * 3500)
    assert len(compressed) > len(sealed), "a caller compresses what it fills"
