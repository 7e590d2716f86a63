"""Guardian. Rule: whatever way its owner ends, SIGKILL included, no broker and no scratch folder outlives it.

A process of its own, the parent of the brokers. It dies with its owner by two wires, the end of its standard input and the
owner's process descriptor (a forked child of the owner keeps the pipe open, but never that one), and its children die with it:
the kernel sends them SIGKILL when their parent ends (PR_SET_PDEATHSIG). The brokers are not started by the owner itself because
that signal follows the *thread* that started a child, and a test may start a broker from a thread that ends.
Started by path with nothing but the standard library; speaks JSON lines. SIGKILL ends stopped processes as well as running ones.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
GONE = 10.0  # seconds a killed process gets to be reaped


def die_with_parent() -> None:
    """In the child, before exec: be killed when the guardian ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Guardian:
    """The children by name, and the folder that goes with them."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, argv: list[str], log: str, cwd: str) -> int:
        with Path(log).open("ab") as out:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        self.children[name] = child
        return child.pid

    def signal(self, name: str, number: int) -> bool:
        """Send it; False when that child has ended (Popen looks first, so a pid used again is never hit)."""
        child = self.children[name]
        child.send_signal(number)
        return child.poll() is None

    def status(self) -> dict[str, list[Any]]:
        return {name: [child.pid, child.poll(), stopped(child.pid)] for name, child in self.children.items()}

    def close(self) -> None:
        for child in self.children.values():
            child.kill()
        for child in self.children.values():
            child.wait(GONE)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def serve(self, owner: int) -> None:
        """Obey until the owner is gone or says `close`."""
        selector = selectors.DefaultSelector()
        selector.register(0, selectors.EVENT_READ)
        if hasattr(os, "pidfd_open"):
            selector.register(os.pidfd_open(owner), selectors.EVENT_READ)
        pending = b""
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if ready != {0}:
                return
            data = os.read(0, 65536)
            if not data:
                return
            *lines, pending = (pending + data).split(b"\n")
            if not all(self.answer(json.loads(line)) for line in lines):
                return

    def answer(self, order: dict[str, Any]) -> bool:
        """Carry out one order; False when it was the last."""
        verb = order.pop("do")
        try:
            answer = {"result": getattr(self, verb)(**order)}
        except (OSError, KeyError, subprocess.SubprocessError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        os.write(1, json.dumps(answer).encode() + b"\n")
        return bool(verb != "close")


def stopped(pid: int) -> bool:
    """Whether the process is stopped by a signal; False where /proc is missing."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def main(owner: int, scratch: Path) -> None:
    for number in (signal.SIGINT, signal.SIGHUP):  # a Ctrl-C is the owner's to handle
        signal.signal(number, signal.SIG_IGN)
    guardian = Guardian(scratch)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        guardian.serve(owner)
    except (BrokenPipeError, ProcessLookupError):  # the owner went while it was being answered, or before it could be watched
        pass
    finally:
        guardian.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
