"""Threads of the client."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from pykafka4.net.threads import SLICE_S, Thread
from tests.net.net_helpers import SECONDS


def test_a_signal_that_interrupts_no_system_call_ends_a_join_within_a_slice() -> None:
    """Another thread receives it, as if it came to this one just before the system call. Takes a second, the length of a slice."""
    end = threading.Event()
    thread = Thread(target=end.wait, args=(SECONDS,))
    thread.start()
    timer = threading.Timer(0.05, signal.raise_signal, [signal.SIGINT])
    began = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        thread.join(SECONDS)
    assert time.monotonic() - began < 1.5 * SLICE_S
    end.set()
    thread.join()
    assert not thread.is_alive()


def test_join_returns_after_its_timeout() -> None:
    end = threading.Event()
    thread = Thread(target=end.wait, args=(SECONDS,))
    thread.start()
    thread.join(0.01)
    assert thread.is_alive()
    end.set()
    thread.join(SECONDS)
    assert not thread.is_alive()
