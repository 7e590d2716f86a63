"""What the core calls may raise, call back or find no memory, in the middle of anything: no record is lost, none has two outcomes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import CodeType, FrameType, ModuleType
from typing import Any

import pytest

from pykafka4.errors import broker_error
from pykafka4.records import Written
from pykafka4.wire.records.batch import WireRecord, build_batch
from pykafka4.wire.records.compression import decompress
from tests.wire.records.chunk_bytes import records
from tests.wire.records.hot_world import MIB, World, compiled, each_core
from tests.wire.records.message_sets import build_message_set

only_compiled = pytest.mark.skipif(compiled is None, reason="the compiled core is not built")
FAILURES = 40  # allocations of one call that fail in turn


def chunk_that_calls(core: ModuleType, *, after: int = 0) -> tuple[Any, list[Callable[[], object]]]:
    """A chunk, a small part of a response, of two gzip batches; decompressing the one after `after` calls what the list has."""
    calls: list[Callable[[], object]] = []
    seen: list[int] = []

    def unpack(codec: int, payload: bytes, limit: int) -> bytes:
        seen.append(codec)
        if len(seen) == after + 1:
            for call in calls:
                call()
        return decompress(codec, payload, limit)

    data = build_batch(records(100), codec=1) + build_batch(records(100, start=100), codec=1, base_offset=100)
    response = bytes(data) + bytes(40 * len(data))
    part = memoryview(response)[: len(data)]
    return core.Chunk("t", 0, part, 0, decompress=unpack, max_decompressed=MIB), calls


def all_offsets(chunk: Any) -> list[int]:
    out: list[Any] = []
    while chunk.decode(out, 1000):
        pass
    return [record.offset for record in out]


@each_core
@pytest.mark.parametrize("after", [0, 1])
def test_a_chunk_may_be_made_independent_of_its_response_while_it_is_decoded(core: ModuleType, after: int) -> None:
    chunk, calls = chunk_that_calls(core, after=after)
    rubbish: list[bytes] = []
    calls += [chunk.copy_bytes, lambda: rubbish.append(b"\xee" * 100_000)]
    assert all_offsets(chunk) == list(range(200))


@only_compiled
def test_a_chunk_is_not_decoded_twice_at_once() -> None:
    assert compiled is not None
    chunk, calls = chunk_that_calls(compiled)
    calls.append(lambda: chunk.decode([], 10))
    with pytest.raises(RuntimeError, match="t-0: decode was called on a chunk that is being decoded"):
        chunk.decode([], 1000)
    calls[:] = [chunk.skip]
    chunk, calls = chunk_that_calls(compiled)
    calls.append(chunk.skip)
    with pytest.raises(RuntimeError, match="t-0: skip was called on a chunk that is being decoded"):
        chunk.decode([], 1000)
    assert all_offsets(chunk) == list(range(200))


@each_core
def test_ctrl_c_in_a_message_set_of_old_brokers_skips_nothing(core: ModuleType) -> None:
    data = build_message_set([WireRecord(offset=n, timestamp_ms=50, value=b"%d" % n) for n in range(100)], 1, 1)
    chunk = core.Chunk("t", 0, data, 0, decompress=decompress, max_decompressed=MIB)
    out: list[Any] = []
    with interrupted("_inner_records", 200), pytest.raises(KeyboardInterrupt):
        chunk.decode(out, 1000)
    while chunk.decode(out, 1000):
        pass
    assert [record.offset for record in out] == list(range(100))


class interrupted:  # noqa: N801 - used as a function
    """Ctrl-C at the nth line of the functions of that name."""

    def __init__(self, name: str, nth: int) -> None:
        self.name, self.left = name, nth

    def __enter__(self) -> None:
        sys.settrace(self._trace)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, arg: object) -> Any:
        code: CodeType = frame.f_code
        if code.co_name == self.name and event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self._trace


@each_core
def test_a_batch_whose_compression_is_interrupted_twice_is_sent_as_it_is(core: ModuleType) -> None:
    def interrupted_codec(codec: int, view: object) -> bytes:
        raise KeyboardInterrupt

    world = World(core, codec=1, compress=interrupted_codec)
    world.send(value=b"a" * 1000)
    world.acc.expedite()
    _, (batch,), _ = world.acc.take(world.now)
    world.acc.seal(batch)
    with interrupted("is_interruption", 1), pytest.raises(KeyboardInterrupt):
        batch.compress()
    assert batch.ready
    assert world.ack_all() == 1


def failing(nth: int, call: Callable[[], object]) -> bool:
    """Whether `call` failed with MemoryError when its nth allocation got nothing."""
    import _testcapi

    gc.collect()
    gc.disable()  # it would find no memory either, for what it finalizes of other tests
    _testcapi.set_nomemory(nth, nth + 1)
    try:
        call()
    except MemoryError:
        return True
    finally:
        _testcapi.remove_mem_hooks()
        gc.enable()
    return False


@pytest.fixture
def no_memory() -> None:
    pytest.importorskip("_testcapi", reason="this Python has no _testcapi, which makes allocations fail")


@only_compiled
@pytest.mark.usefixtures("no_memory")
def test_a_send_that_finds_no_memory_leaves_nothing() -> None:
    assert compiled is not None
    failed = 0
    for nth in range(FAILURES):
        world = World(compiled, {"t": 2})
        world.send(partition=1)
        world.ack_all()
        send = world.acc.send
        kwargs = {"partition": 0, "on_delivery": print}
        failed += (missed := failing(nth, lambda send=send, kwargs=kwargs: send("t", b"v", **kwargs)))
        if missed:
            assert (world.acc.unfinished(), world.acc.reserved, world.acc.batches) == ([], 0, 0), f"after {nth} allocations"
        world.send(partition=0)
        world.send(partition=1)
        assert world.ack_all() == 2 + (not missed)
        assert world.acc.unfinished() == []
    assert failed >= 2


@only_compiled
@pytest.mark.usefixtures("no_memory")
def test_a_batch_that_finds_no_memory_to_be_compressed_is_sent_as_it_is() -> None:
    assert compiled is not None
    for nth in range(FAILURES):
        world = World(compiled, codec=1, compress=lambda codec, view: b"x" * 10)
        world.send(value=b"a" * 1000)
        world.acc.expedite()
        _, (batch,), _ = world.acc.take(world.now)
        world.acc.seal(batch)
        failing(nth, batch.compress)
        assert batch.ready, f"after {nth} allocations"


@only_compiled
@pytest.mark.usefixtures("no_memory")
@pytest.mark.parametrize("how", ["split", "set_apart"])
def test_a_batch_that_finds_no_memory_to_be_split_stays_whole(how: str) -> None:
    assert compiled is not None
    failed = 0
    for nth in range(FAILURES):
        world = World(compiled)
        called: list[int] = []
        for n in range(4):
            world.send(value=b"%d" % n, on_delivery=lambda _, n=n, called=called: called.append(n))
        (batch,) = world.seal_all()
        divide = batch.split if how == "split" else lambda batch=batch: batch.set_apart([1])
        if failing(nth, divide):
            failed += 1
        left = world.acc.unfinished()
        assert sum([part.count for part in left]) == 4, f"after {nth} allocations: {left}"
        for part in left:
            callbacks = part.fail("X", Written.NO)
            callbacks()
        assert sorted(called) == [0, 1, 2, 3]
        assert (world.acc.failed, world.acc.reserved, world.acc.batches) == (4, 0, 0)
    assert failed >= 5


@only_compiled
def test_nothing_is_missed_that_moves_into_a_batch_while_one_looks() -> None:
    assert compiled is not None
    moved = 0
    for threshold in range(1, 40):
        world = World(compiled, {})
        for _ in range(5):
            world.send("p")
        world.acc.set_partitions("p", 1, [0])
        ran: list[str] = []

        def loop(phase: str, info: object, world: World = world, ran: list[str] = ran) -> None:
            """What the loop does when a destructor gives the interpreter's lock away in the middle of `unfinished`."""
            if not ran:
                ran.append(phase)
                world.acc.designate("p")

        unfinished, before = world.acc.unfinished, gc.get_threshold()
        gc.collect()
        gc.callbacks.append(loop)
        gc.set_threshold(threshold)
        try:
            found = unfinished()
        finally:
            gc.set_threshold(*before)
            gc.callbacks.remove(loop)
        moved += len(ran)
        assert found, f"threshold {threshold}"
    assert moved


@each_core
def test_a_topic_refused_while_its_first_send_is_announced_is_announced_again(core: ModuleType) -> None:
    """Two threads send the first records of a topic: the second one's fails before the first one has parked its own."""
    announced: list[str] = []
    world = World(core, {}, new_topic=lambda name: announced.append(name) or (announced == ["x"] and other_thread()))

    def other_thread() -> None:
        delivery = world.send("x")
        world.acc.fail_parked("x", broker_error("TOPIC_AUTHORIZATION_FAILED", "topic x"))
        assert world.acc.forget("x")
        assert delivery.done()
        announced.append("refused")

    first = world.send("x")
    assert not first.done()
    assert announced[-1] == "x", "the machine that asks for topics does not know of the record"
