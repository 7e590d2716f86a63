"""What a member's process notes, and in which form. Rule: a record counts as read only if its line is there, and is committed only then.

A journal has one JSON object per line; `what` says what happened, `at` when (monotonic seconds, the same clock for all processes):

| `what` | |
|---|---|
| `started`, `made`, `closing`, `ended` | the process runs; its member is made, and begins to poll; was asked to end; has left |
| `assigned`, `revoked`, `lost` | the listener was called, with `partitions` and the `generation` then |
| `read` | `rows` of (partition, offset, digest), and the `generation` |
| `committing`, `committed` | before and after a commit of everything that was read |
| `error` | what a call raised |
| `starved` | the process did not get the processor `since` then |
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Iterable
from typing import Any, Protocol

__all__ = ["COMMIT", "MOST", "POLL", "Member", "Row", "digest", "note"]

Row = tuple[int, int, int]  # partition, offset, digest
POLL, COMMIT = 0.5, 10.0  # seconds
MOST = 500  # records a poll returns


def digest(key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]], timestamp: int) -> int:
    """A checksum of what a record carries, apart from where it lies."""
    return zlib.crc32(repr((key, value, tuple((name, text) for name, text in headers), timestamp)).encode())


def note(what: str, **details: Any) -> None:
    """One line, written at once."""
    os.write(1, json.dumps({"what": what, "at": time.monotonic(), **details}, separators=(",", ":")).encode() + b"\n")


class Member(Protocol):
    """What each client library has."""

    def poll(self) -> list[Row]:
        """Records, or nothing after a while."""

    def commit(self) -> None:
        """Commit what was polled; returns when it is stored."""

    def close(self) -> None:
        """Leave the group."""

    def wake(self) -> None:
        """End a poll in progress, where the library can; called from a signal handler."""

    def generation(self) -> int | None:
        """The generation or member epoch, where the library tells."""
