"""Pace: after a thread gave way it is left alone for a while, but only if it computes."""

from __future__ import annotations

import os
import sys
import threading
import time
from statistics import median
from typing import Any

import pytest
from net_helpers import SECONDS

from pykafka4.gil.flag import compiled

if compiled is None or sys.platform != "linux":
    pytest.skip("the compiled flag is not used here", allow_module_level=True)


def wait_after_giving_way(fd: int) -> float:
    """Give way to a thread, then wait for it; returns how long that took. It needs 0.1 ms."""
    began, asked = threading.Event(), list[bool]()
    lock: Any = compiled.Lock()
    lock.acquire()

    def other() -> None:
        began.wait(SECONDS)
        compiled.wait(fd, 0.003)  # meanwhile the other one computes
        asked.append(True)
        compiled.done()
        time.sleep(0.00005)
        lock.release()

    thread = threading.Thread(target=other)
    thread.start()
    began.set()
    while not asked:
        compiled.give_way_to_others()
    before = time.perf_counter()
    assert lock.acquire(True, SECONDS)
    took = time.perf_counter() - before
    thread.join()
    return took


def test_a_thread_that_gave_way_and_waits_then_is_woken_at_once() -> None:
    reader, writer = os.pipe()
    try:
        usual = min(median(wait_after_giving_way(reader) for _ in range(50)) for _ in range(4))  # the machine may be busy
    finally:
        os.close(reader)
        os.close(writer)
    assert usual < 0.00035
