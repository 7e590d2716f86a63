"""Functions that look like handlers or orders of `process`, and are none: what they return is run by nobody."""

from __future__ import annotations

from typing import Any

from pykafka4 import Record

__all__ = ["key_in_a_task", "numbers", "numbers_in_a_task"]


def numbers(record: Record) -> Any:
    """A generator function."""
    yield record.offset


async def numbers_in_a_task(record: Record) -> Any:
    """An async generator function."""
    yield record.offset


async def key_in_a_task(record: Record) -> Any:
    """A coroutine function."""
    return record.key
