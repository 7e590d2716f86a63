"""The lock of the plain core: a KeyboardInterrupt never leaves it taken, and a thread that comes back is refused."""

from __future__ import annotations

import threading

import pytest

from pykafka4 import BufferFull
from pykafka4.wire.records._plain_account import Section
from tests.net.interrupts import interrupts


def free(lock: threading.RLock) -> bool:  # type: ignore[valid-type]
    """Whether another thread gets the lock."""
    got: list[bool] = []
    thread = threading.Thread(target=lambda: got.append(lock.acquire(timeout=0)) or lock.release())
    thread.start()
    thread.join(10)
    return got == [True]


def test_an_interrupt_anywhere_leaves_the_lock_free() -> None:
    lock = threading.RLock()
    section = Section(lock)

    def use() -> None:
        with section():
            str(1)

    places = []
    for place in interrupts(use):
        assert free(lock), place
        places.append(place)
    assert any("Section.__call__" in place for place in places)


def test_a_thread_that_comes_back_before_it_has_left_is_refused() -> None:
    section = Section(threading.RLock())
    with section(), pytest.raises(BufferFull, match="in the middle of another call"), section():
        pass
    with section():
        pass
