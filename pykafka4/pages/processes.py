"""Lists the pages of this process in a file, where `pykafka4 watch` finds them.

Invariant: files are written and read only in a folder that belongs to the user alone (0700; not checked on Windows).
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

import attrs

from pykafka4.logs import get_log
from pykafka4.pages.watcher import program

__all__ = ["Process", "add", "folder", "forget", "remove", "serving"]

log = get_log("pykafka4.pages")

_pages: dict[str, dict[str, str]] = {}  # the pages of this process, by URL
_lock = threading.Lock()
_MOST_BYTES: Final = 1 << 20


@attrs.frozen
class Process:
    """A process that serves pages. Each page has `url`, `kind` and `client_id`. `since` is the epoch time of the last change of `pages`."""

    pid: int
    program: str
    since: float
    pages: tuple[dict[str, str], ...]


def folder() -> Path:
    """`$XDG_RUNTIME_DIR/pykafka4`, or this user's folder in the temporary directory."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime) / "pykafka4"
    return Path(tempfile.gettempdir()) / f"pykafka4-{os.getuid() if hasattr(os, 'getuid') else 'user'}"


def add(url: str, kind: str, client_id: str) -> None:
    with _lock:
        _pages[url] = {"url": url, "kind": kind, "client_id": client_id}
        _write(client_id)


def remove(url: str) -> None:
    with _lock:
        entry = _pages.pop(url, None)
        if entry is not None:
            _write(entry["client_id"])


def forget() -> None:
    """Forget all pages in a forked child: they belong to its parent."""
    global _lock
    _lock = threading.Lock()  # a thread of the parent may have held the lock
    _pages.clear()


def serving() -> list[Process]:
    """Return the processes that have a file in `folder()`, and remove the files of dead processes (not on Windows)."""
    found = []
    home = folder()
    for path in sorted(home.glob("*.json")) if _is_private(home) else ():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            process = _read(path)
            if _lives(process.pid):
                found.append(process)
            else:
                path.unlink()
    return found


def _write(client_id: str) -> None:
    home = folder()
    path = home / f"{os.getpid()}.json"
    try:
        home.mkdir(mode=0o700, parents=False, exist_ok=True)
        if not _is_private(home):
            log.warning("%s: %s is not a folder of this user alone (0700): pykafka4 watch will not find this process", client_id, home)
            return
        if not _pages:
            path.unlink(missing_ok=True)
            return
        data = {"pid": os.getpid(), "program": program(), "since": time.time(), "pages": list(_pages.values())}
        # The new file is put in place in one step, so `serving` in another process never reads half of it.
        temporary = path.with_suffix(".new")
        temporary.unlink(missing_ok=True)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump(data, file)
        temporary.replace(path)
    except OSError as error:
        log.warning("%s: %s cannot be written (%s): pykafka4 watch will miss a change of this process's pages", client_id, path, error)


def _read(path: Path) -> Process:
    with path.open("rb") as file:
        data: dict[str, Any] = json.loads(file.read(_MOST_BYTES))
    pages = tuple({name: str(page[name]) for name in ("url", "kind", "client_id")} for page in data["pages"])
    return Process(int(data["pid"]), str(data["program"]), float(data["since"]), pages)


def _is_private(home: Path) -> bool:
    try:
        found = home.lstat()  # in the temporary directory another user may have put a link under this name
    except OSError:
        return False
    if sys.platform == "win32":
        return stat.S_ISDIR(found.st_mode)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _lives(pid: int) -> bool:
    if sys.platform == "win32":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
