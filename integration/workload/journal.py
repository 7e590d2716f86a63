"""Defines the journal that a member's process writes. Invariant: a record counts as read only if it has a line, and is committed only then.

A journal has one JSON object per line; `what` is the kind of event, `at` its time (monotonic seconds, the same clock for all processes):

| `what` | |
|---|---|
| `started`, `made`, `closing`, `ended` | the process runs; its member exists, and begins to poll; it was asked to end; it has left |
| `assigned`, `revoked`, `lost` | the listener was called, with `partitions` and the current `generation` |
| `read` | `rows` of (partition, offset, digest), and the `generation` |
| `committing`, `committed` | before and after a commit of all records read |
| `error` | the exception of a call |
| `starved` | the process did not get the processor between `since` and `at` |
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Iterable
from typing import Any, Protocol

__all__ = ["COMMIT_S", "MOST", "POLL_S", "Member", "Row", "digest", "note"]

Row = tuple[int, int, int]  # partition, offset, digest
POLL_S, COMMIT_S = 0.5, 10.0  # seconds
MOST = 500  # limit of the records of a poll


def digest(key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]], timestamp: int) -> int:
    """Return a checksum of a record's content, without its partition and offset."""
    return zlib.crc32(repr((key, value, tuple((name, text) for name, text in headers), timestamp)).encode())


def note(what: str, **details: Any) -> None:
    os.write(1, json.dumps({"what": what, "at": time.monotonic(), **details}, separators=(",", ":")).encode() + b"\n")


class Member(Protocol):
    """A group member of any client library."""

    def poll(self) -> list[Row]:
        """Return records; after a while an empty list."""

    def commit(self) -> None:
        """Commit the polled records; returns when their offsets are stored."""

    def close(self) -> None:
        """Leave the group."""

    def wake(self) -> None:
        """End a poll in progress, if the library can. A signal handler calls this method."""

    def generation(self) -> int | None:
        """Return the generation or member epoch; None if the library does not return it."""
