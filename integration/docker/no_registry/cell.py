"""Runs dockerd in a process namespace, of which this program is process 1. Invariant: the cell ends exactly when dockerd does, and then the
kernel kills all processes of the namespace.

The cell is started by its path, with nothing but the standard library. Its standard input is a pipe, whose end is the order to end dockerd.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

RUN, RESOLVER = Path("/run"), Path("/etc/resolv.conf")


def veil() -> None:
    """Mount an empty /run, only for this cell.

    Engines keep sockets there under fixed names: dockerd would find and use the system's containerd, with the containers of the machine's
    other engine in it. The resolver's file is often there, too, and containers get a copy of it.
    """
    target = RESOLVER.resolve()
    resolver = target.read_bytes() if target.is_relative_to(RUN) and target.exists() else None
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(RUN)], check=True, timeout=10)
    if resolver is not None:
        target.parent.mkdir(parents=True)
        target.write_bytes(resolver)


def obey(child: int) -> None:
    while os.read(0, 4096):
        pass
    os.kill(child, signal.SIGTERM)


def main(command: list[str]) -> int:
    veil()
    quiet = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    child = os.posix_spawnp(command[0], command, os.environ, file_actions=quiet)
    threading.Thread(target=obey, args=(child,), daemon=True).start()
    while True:  # process 1 has to reap orphans
        pid, status = os.wait()
        if pid == child:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    os._exit(code if code >= 0 else 1)
