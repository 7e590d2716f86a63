"""Starts and ends our own Docker engine. Invariant: the engine shares nothing with another engine on the machine, and its leftovers can be
removed without it.

The engine runs in a process and a mount namespace of its own (`cell.py`): no mount is visible outside, and when process 1 there dies, the
kernel kills dockerd, containerd, shims and the processes in containers. Bridges and control groups outlive this death. They have the name
of the `Place`, or an entry in the engine's database; `sweep` removes exactly these. Process ids in the engine's answers belong to the
namespace.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docker.errors import DockerException

from integration.docker.client import TROUBLE, EngineFailed, connect, purge
from integration.docker.no_registry.obstacles import everywhere
from integration.docker.place import Place, free_subnets
from integration.host.guardian import die_with_parent
from integration.host.ward import tail
from integration.waiting import until

__all__ = ["Dockerd"]

CELL = Path(__file__).with_name("cell.py")
READY_S, STOP_S, GONE_S = 60.0, 20.0, 20.0
NETWORKS = Path("/sys/class/net")
BRIDGE_IN_DATABASE = re.compile(rb'"BridgeName":"(br-[0-9a-f]{12})"')
PROGRAMS = ("dockerd", "containerd", "unshare", "docker-proxy")


class Dockerd:
    """The engine of one `Place`. The kernel kills it when the process that started it ends."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Also remove the leftovers of a crash, and the containers of the last run."""
        self.sweep()
        self.place.run.mkdir(mode=0o700)
        self.place.data.mkdir(parents=True, exist_ok=True)
        self.place.config.write_text(json.dumps(self.config(), indent=2))
        self.add_bridge()
        with self.place.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, "PATH": everywhere()},
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        until(self.answers, READY_S, lambda: f"dockerd to answer{tail(self.place.log)}", forgive=(OSError, DockerException))
        with contextlib.closing(connect(self.place.host)) as client:
            purge(client)

    def command(self) -> list[str]:
        cell = ["unshare", "--pid", "--mount-proc", "--fork", "--kill-child", "--", sys.executable, "-I", "-S", str(CELL)]
        return [*cell, "dockerd", "--config-file", str(self.place.config)]

    def config(self) -> dict[str, Any]:
        """The settings are in a file of our own, so that the machine's daemon.json does not apply.

        There are no firewall rules and no forwarding: containers reach no other network.
        """
        return {
            "hosts": [self.place.host],
            "data-root": str(self.place.data),
            "exec-root": str(self.place.run / "exec"),
            "pidfile": str(self.place.run / "docker.pid"),
            "bridge": self.place.bridge,
            "iptables": False,
            "ip6tables": False,
            "ip-masq": False,
            "ip-forward": False,
            "cgroup-parent": f"/{self.place.name}",
            "exec-opts": ["native.cgroupdriver=cgroupfs"],  # systemd would get process ids of another namespace
            "shutdown-timeout": 5,
            "log-level": "warn",
        }

    def add_bridge(self) -> None:
        subnet = next(free_subnets())
        ip("link", "add", self.place.bridge, "type", "bridge")
        ip("address", "add", f"{subnet[1]}/{subnet.prefixlen}", "dev", self.place.bridge)
        ip("link", "set", self.place.bridge, "up")

    def answers(self) -> bool:
        """Raises EngineFailed if the engine has ended."""
        if not self.alive():
            raise EngineFailed(f"dockerd ended while it was starting{tail(self.place.log)}")
        with contextlib.closing(connect(self.place.host)) as client:
            return bool(client.ping())

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self) -> None:
        """Remove all containers and networks, end the engine if it still runs, and leave nothing but its folder."""
        if self.alive():
            with contextlib.suppress(*TROUBLE), contextlib.closing(connect(self.place.host)) as client:
                purge(client)
        process, self.process = self.process, None
        if process is not None:
            end(process)
        self.sweep()

    # -- leftovers ---------------------------------------------------------------------------------------------------------

    def sweep(self) -> list[str]:
        """Returns a line for each kind of leftover that was there."""
        removed = self.kill()
        for name in list(self.bridges()):
            for port in [*ports(name), name]:
                ip("link", "delete", port, check=False)
            removed.append(f"removed the bridge {name}")
        removed += [f"removed the control group {folder}" for folder in self.groups() if gone(folder)]
        if self.place.run.exists():
            shutil.rmtree(self.place.run)
            removed.append(f"removed {self.place.run}")
        return removed

    def kill(self) -> list[str]:
        """End every process of the engine, and wait until none is left.

        Processes of a namespace whose process 1 has died end by themselves, unless they are paused: in control groups of version 1 a frozen
        process does not even die of SIGKILL before it is thawed.
        """
        found: dict[int, str] = {}

        def none_left() -> bool:
            remains = dict(self.remains())
            found.update(remains)
            self.thaw()
            for pid in remains:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not remains

        until(none_left, GONE_S, lambda: f"the engine's processes to end: {found}")
        return [f"killed {name} (pid {pid})" for pid, name in found.items()]

    def thaw(self) -> None:
        for state in (state for group in self.groups() for state in group.rglob("freezer.state")):
            with contextlib.suppress(OSError):  # the topmost group of a hierarchy cannot be frozen
                state.write_text("THAWED")

    def remains(self) -> Iterator[tuple[int, str]]:
        """Find processes in our control group, and the engine's own programs with our folder among their arguments."""
        for folder in Path("/proc").iterdir():
            if not folder.name.isdecimal():
                continue
            try:
                arguments = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
                groups = (folder / "cgroup").read_text()
            except OSError:  # the process has just ended
                continue
            program = Path(arguments[0]).name
            ours = program.startswith(PROGRAMS) or str(CELL) in arguments
            named = any(str(self.place.run) in argument for argument in arguments)
            if program and (f"/{self.place.name}/" in groups or (ours and named)):
                yield int(folder.name), program

    def bridges(self) -> Iterator[str]:
        """Find the bridges with our name, and the bridges of networks in the engine's database."""
        database = self.place.data / "network" / "files" / "local-kv.db"
        known = {name.decode() for name in BRIDGE_IN_DATABASE.findall(database.read_bytes())} if database.exists() else set()
        for folder in NETWORKS.iterdir():
            if (folder / "bridge").exists() and (folder.name in known or folder.name.startswith(f"{self.place.name}-")):
                yield folder.name

    def groups(self) -> list[Path]:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
        roots = [Path(fields[1]) for fields in mounts if fields[2] in ("cgroup", "cgroup2")]
        return [root / self.place.name for root in roots if (root / self.place.name).is_dir()]


def ports(bridge: str) -> list[str]:
    try:
        return [port.name for port in (NETWORKS / bridge / "brif").iterdir()]
    except OSError:
        return []


def gone(group: Path) -> bool:
    """Remove a control group and all groups in it; a process that was just killed holds the group for a moment."""

    def removed() -> bool:
        for folder, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(FileNotFoundError):
                Path(folder).rmdir()
        return not group.exists()

    return until(removed, GONE_S, f"the control group {group} to be empty", forgive=(OSError,))


def end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(GONE_S)


def ip(*arguments: str, check: bool = True) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=10, check=False)
    if check and done.returncode != 0:
        raise EngineFailed(f"ip {' '.join(arguments)} failed: {done.stderr.strip()}")
