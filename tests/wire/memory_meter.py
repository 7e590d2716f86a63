"""What a piece of code takes at its worst. Rule: what earlier tests left behind hides nothing of this one's use."""

from __future__ import annotations

import ctypes
import os
import re
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

MIB = 1 << 20
# A sanitizer keeps freed memory for a while, to notice who uses it.
MEASURED = Path("/proc/self/clear_refs").exists() and not os.environ.get("PYKAFKA4_SANITIZED")
linux = pytest.mark.skipif(not MEASURED, reason="the peak of resident memory is read from Linux's /proc, and without a sanitizer")


@contextmanager
def peak_memory(limit: int = 64 * MIB) -> Iterator[None]:
    """Fail when the process's resident memory rose by more than `limit` bytes; native allocations count, and it costs no time.

    Does nothing where it cannot be measured.
    """
    if not MEASURED:
        yield
        return
    ctypes.CDLL(None).malloc_trim(0)  # what earlier tests freed would hide as much of this one's use
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    yield
    assert resident("VmHWM") - before <= limit


def resident(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * 1024


def traced(act: Callable[[], Any]) -> int:
    """Bytes of Python objects that `act` took at its worst: exact, everywhere, and slow."""
    tracemalloc.start(1)
    try:
        act()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak
