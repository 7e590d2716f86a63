"""Starts brokers for their owner, and ends them with it. Invariant: no broker and no scratch folder outlives the owner, even after SIGKILL
of the owner.

The guardian is a process of its own, the parent of the brokers. It learns of its owner's end in two ways: by the end of its standard input,
and by the owner's process descriptor (a forked child keeps the pipe open, but does not keep the owner alive). Its children die with it: the
kernel sends them SIGKILL when their parent ends (PR_SET_PDEATHSIG). The owner does not start the brokers itself, because this signal comes
at the end of the *thread* that started a child, and a test may start a broker on a thread that ends. The guardian is started by its path,
with nothing but the standard library, and speaks JSON lines. SIGKILL ends stopped processes, too.
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
GONE_S = 10.0  # seconds until a killed process has to be reaped


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends. This runs in the child, before exec."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Guardian:
    """The folder `scratch` is removed with the children."""

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
        """Returns False if the child has ended: Popen checks first, and so never hits a process id used again."""
        child = self.children[name]
        child.send_signal(number)
        return child.poll() is None

    def status(self) -> dict[str, list[Any]]:
        return {name: [child.pid, child.poll(), stopped(child.pid)] for name, child in self.children.items()}

    def close(self) -> None:
        for child in self.children.values():
            child.kill()
        for child in self.children.values():
            child.wait(GONE_S)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def serve(self, owner: int) -> None:
        """Carry out orders until the owner is gone or sends `close`."""
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
        """Returns False after the last order."""
        verb = order.pop("do")
        try:
            answer = {"result": getattr(self, verb)(**order)}
        except (OSError, KeyError, subprocess.SubprocessError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        os.write(1, json.dumps(answer).encode() + b"\n")
        return bool(verb != "close")


def stopped(pid: int) -> bool:
    """Whether a signal has stopped the process; False without /proc."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def main(owner: int, scratch: Path) -> None:
    for number in (signal.SIGINT, signal.SIGHUP):  # the owner handles Ctrl-C, which reaches the guardian, too
        signal.signal(number, signal.SIG_IGN)
    guardian = Guardian(scratch)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        guardian.serve(owner)
    except (BrokenPipeError, ProcessLookupError):  # the owner ended during an answer, or before the guardian could watch it
        pass
    finally:
        guardian.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
