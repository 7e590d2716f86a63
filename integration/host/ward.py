"""Sends the owner's orders to the guardian, one at a time. Invariant: every answer has a deadline.

A guardian has a scratch folder. If both owner and guardian were killed, the next process that makes a guardian removes the folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, NamedTuple

from integration.host.cache import taken
from integration.waiting import Deadline

__all__ = ["LOCK", "PREFIX", "Child", "Ward", "guard", "sweep", "tail"]

GUARDIAN = Path(__file__).with_name("guardian.py")
PREFIX, LOCK = "pykafka4-cluster-", "owner.lock"
ANSWER_S = 30.0
REMOVAL_S = 180.0  # seconds to reap the children and to remove the scratch folder: thousands of logs on a busy machine


class Child(NamedTuple):
    """`returncode` is None while the child lives, `stopped` is true after SIGSTOP."""

    pid: int
    returncode: int | None
    stopped: bool


class Ward:
    """`keep` are descriptors that the guardian holds open, too: the lock of `scratch`."""

    def __init__(self, scratch: Path, keep: tuple[int, ...] = ()) -> None:
        self.scratch = scratch
        self.lock = threading.Lock()
        self.guardian = subprocess.Popen(
            [sys.executable, "-I", "-S", str(GUARDIAN), str(os.getpid()), str(scratch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=keep,
            start_new_session=True,
            bufsize=0,
        )

    def start(self, name: str, argv: list[str], log: Path, cwd: Path) -> int:
        """The child's output is appended to `log`."""
        return int(self.order("start", name=name, argv=argv, log=str(log), cwd=str(cwd)))

    def signal(self, name: str, number: int) -> bool:
        return bool(self.order("signal", name=name, number=int(number)))

    def status(self) -> dict[str, Child]:
        return {name: Child(*row) for name, row in self.order("status").items()}

    def close(self) -> None:
        """A second call does nothing."""
        if self.guardian.stdin is None or self.guardian.stdin.closed:
            return
        with contextlib.suppress(RuntimeError, OSError):
            self.order("close")
        for pipe in (self.guardian.stdin, self.guardian.stdout):
            if pipe is not None:
                pipe.close()
        self.guardian.wait(REMOVAL_S)

    def order(self, verb: str, **arguments: Any) -> Any:
        with self.lock:
            stdin, stdout = self.guardian.stdin, self.guardian.stdout
            if stdin is None or stdout is None or stdin.closed:
                raise RuntimeError("this cluster is closed")
            stdin.write(json.dumps({"do": verb, **arguments}).encode() + b"\n")
            answer = json.loads(self.line(stdout.fileno(), Deadline(ANSWER_S)))
        if "error" in answer:
            raise RuntimeError(f"the guardian could not {verb} {arguments.get('name', '')}: {answer['error']}")
        return answer["result"]

    def line(self, descriptor: int, deadline: Deadline) -> bytes:
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                data = os.read(descriptor, 65536) if selector.select(deadline.left()) else b""
                if not data:
                    raise RuntimeError(f"the guardian (pid {self.guardian.pid}) does not answer; its brokers are gone or will go with it")
                line += data
        return line


def guard(parent: Path) -> Ward:
    """Start a guardian with a new folder in `parent`, and with the lock of the folder.

    The lock file gets its name only after it is locked. Otherwise another process can sweep between the two steps: it finds the new file
    unlocked, and removes the new folder.
    """
    sweep(parent)
    scratch = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    fresh = scratch / f"{LOCK}.new"
    with fresh.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        fresh.rename(scratch / LOCK)
        return Ward(scratch, keep=(file.fileno(),))


def sweep(parent: Path) -> list[Path]:
    """Remove the scratch folders whose owner and guardian were both killed: no process holds their lock any more."""
    removed = []
    for lock in parent.glob(f"{PREFIX}*/{LOCK}"):
        try:
            with lock.open() as file:
                if taken(file.fileno()):
                    shutil.rmtree(lock.parent, ignore_errors=True)
                    removed.append(lock.parent)
        except OSError:
            continue
    return removed


def tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log, each after a line end."""
    return "".join(f"\n{line}" for line in log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""
