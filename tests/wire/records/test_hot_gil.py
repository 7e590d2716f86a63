"""The compiled core and the GIL: a checksum does not cost the loop its turn beside an application that computes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka4.gil.flag import give_way
from tests.wire.records.hot_world import MIB, World, compiled, decoded, wire_bytes

if compiled is None or not getattr(sys, "_is_gil_enabled", lambda: True)():
    pytest.skip("the compiled core is not used here", allow_module_level=True)
SWITCH_S = 0.05  # seconds after which the interpreter takes the GIL from a thread that does not give way
TRIES = 10


def batch_of(size: int) -> Any:
    """A batch of one record of `size` bytes, ready to be sent."""
    world = World(compiled, batch_size=4 * MIB, buffer_memory=8 * MIB, max_partition_bytes=8 * MIB, max_request_size=8 * MIB)
    world.send(value=bytes(size))
    (batch,) = world.seal_all()
    return batch


@pytest.fixture
def computing(request: pytest.FixtureRequest) -> Iterator[None]:
    """Beside another thread that computes, and calls the parameter in between."""
    meanwhile: Callable[[], object] = request.param
    ending = False

    def compute() -> None:
        while not ending:
            sum(range(100))
            meanwhile()

    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    thread = threading.Thread(target=compute)
    thread.start()
    try:
        yield
    finally:
        sys.setswitchinterval(before)
        ending = True
        thread.join()


def usual(each: Callable[[], object]) -> float:
    """Return the seconds of the third fastest call: the slower ones may have lost their processor to another process.

    Before each call the other thread has its turn.
    """
    took = []
    for _ in range(TRIES):
        time.sleep(0)  # the other thread takes the GIL, so that the interpreter leaves it to `each` for SWITCH_S seconds
        began = time.perf_counter()
        each()
        took.append(time.perf_counter() - began)
    return sorted(took)[2]


keeps = pytest.mark.parametrize("computing", [lambda: None], indirect=True, ids=["keeps the GIL"])
gives = pytest.mark.parametrize("computing", [give_way], indirect=True, ids=["gives way"])


@keeps
@pytest.mark.usefixtures("computing")
def test_a_usual_batch_is_finished_without_releasing_the_gil() -> None:
    batch, stamps = batch_of(MIB - 1000), iter(range(TRIES))
    assert usual(lambda: batch.finish(1, 0, next(stamps))) < SWITCH_S / 2


@gives
@pytest.mark.usefixtures("computing")
def test_after_the_checksum_of_a_large_batch_the_loop_asks_for_the_gil() -> None:
    batch, stamps = batch_of(3 * MIB), iter(range(TRIES))
    assert usual(lambda: batch.finish(1, 0, next(stamps))) < SWITCH_S / 2


@keeps
@pytest.mark.usefixtures("computing")
def test_a_usual_batch_is_read_without_releasing_the_gil() -> None:
    data = wire_bytes(batch_of(MIB - 1000))
    assert usual(lambda: decoded(compiled, data, bound=4 * MIB)) < SWITCH_S / 2


@gives
@pytest.mark.usefixtures("computing")
def test_after_the_checksum_of_a_large_batch_that_was_read_poll_asks_for_the_gil() -> None:
    data = wire_bytes(batch_of(3 * MIB))
    assert usual(lambda: decoded(compiled, data, bound=4 * MIB)) < SWITCH_S / 2
