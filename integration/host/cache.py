"""Keeps downloads and other files that are made once, in one folder outside the source tree. Invariant: other processes see a folder only
when it is complete.

A folder is filled under a temporary name and then renamed, under a lock: processes that need it at the same time wait for one download.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from integration.waiting import until

__all__ = ["cache", "install", "locked", "taken"]

MAKING_S = 900.0  # seconds: a cold Maven repository over a slow connection


def cache() -> Path:
    """`$PYKAFKA4_CACHE`, otherwise `~/.cache/pykafka4`."""
    chosen = os.environ.get("PYKAFKA4_CACHE")
    folder = Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "pykafka4"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def install(folder: Path, fill: Callable[[Path], None]) -> Path:
    """If `folder` does not exist, `fill(temporary folder)` makes it. Safe for several processes at once."""
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.parent / f".{folder.name}.lock", MAKING_S):
        if not folder.is_dir():
            sweep(folder)
            make(folder, fill)
    return folder


def sweep(folder: Path) -> None:
    """Remove temporary folders of processes that were killed while they filled `folder`.

    Their names have eight characters after the name of `folder`, so they belong to no other folder.
    """
    for left in folder.parent.glob(f".{folder.name}-????????"):
        shutil.rmtree(left)


def make(folder: Path, fill: Callable[[Path], None]) -> None:
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        fill(temporary)
        temporary.chmod(0o755)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def locked(path: Path, timeout: float) -> Iterator[None]:
    """The system releases the lock of a process that dies."""
    with path.open("w") as file:
        until(lambda: taken(file.fileno()), timeout, f"the lock {path}: another process holds it")
        yield


def taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
