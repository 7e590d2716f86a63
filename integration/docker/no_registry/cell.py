"""Cell. Rule: process 1 of a namespace: when it ends, the kernel kills everything inside, so it ends exactly when dockerd does.

Started by path with nothing but the standard library, its standard input a pipe: the end of that is the order to end dockerd in order.
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
    """An empty /run, seen only in this cell.

    Engines keep sockets there under fixed names: a system's containerd would be found and used as our own, with the containers of the
    machine's other engine in it. The resolver's file often lies there, too, and is what containers get.
    """
    target = RESOLVER.resolve()
    resolver = target.read_bytes() if target.is_relative_to(RUN) and target.exists() else None
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(RUN)], check=True, timeout=10)
    if resolver is not None:
        target.parent.mkdir(parents=True)
        target.write_bytes(resolver)


def obey(child: int) -> None:
    """Until the pipe ends; then a clean end for dockerd."""
    while os.read(0, 4096):
        pass
    os.kill(child, signal.SIGTERM)


def main(command: list[str]) -> int:
    veil()
    quiet = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    child = os.posix_spawnp(command[0], command, os.environ, file_actions=quiet)
    threading.Thread(target=obey, args=(child,), daemon=True).start()
    while True:  # orphans are ours to reap
        pid, status = os.wait()
        if pid == child:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    os._exit(code if code >= 0 else 1)
