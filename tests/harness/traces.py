"""Traces. What a running engine has on this machine, and what is left of it after its end."""

from __future__ import annotations

from pathlib import Path

import attrs
import psutil
from docker import DockerClient

from integration.docker.engine import Engine
from integration.docker.no_registry.dockerd import ports
from integration.docker.place import Place
from integration.waiting import until


@attrs.frozen
class Traces:
    """What an engine in use has on this machine, found by other means than its own."""

    processes: frozenset[int]
    links: frozenset[str]
    groups: frozenset[Path]
    run: Path

    @staticmethod
    def of(engine: Engine) -> Traces:
        return Traces.seen(engine.client, engine.place, keeper_of(engine.place), engine.place.bridge, engine.place.name)

    @staticmethod
    def seen(client: DockerClient, place: Place, first: psutil.Process, default: str, group: str) -> Traces:
        """`first` is the process that all others of the engine come from, `default` its default bridge."""
        bridges = [default, *(f"br-{network.id[:12]}" for network in client.networks.list(filters={"type": "custom"}))]
        links = {*bridges, *(port for bridge in bridges for port in ports(bridge))}
        groups = {path for path in Path("/sys/fs/cgroup").glob(f"**/{group}") if path.is_dir()}
        pids = {first.pid, *(child.pid for child in first.children(recursive=True))}
        return Traces(frozenset(pids), frozenset(links), frozenset(groups), place.run)

    def wait_gone(self, timeout: float = 5) -> None:
        """Until nothing is there; the last act of a keeper is to say that it ends."""
        until(lambda: not self.left(), timeout, lambda: f"the rest to go: {self.left()}")

    def left(self) -> list[str]:
        """Those that are still there."""
        found = [f"process {pid}" for pid in self.processes if alive(pid)]
        found += [f"link {name}" for name in self.links if Path("/sys/class/net", name).exists()]
        found += [f"control group {path}" for path in self.groups if path.exists()]
        return found + [str(self.run)] * self.run.exists()


def keeper_of(place: Place) -> psutil.Process:
    """The process that keeps the engine of that place."""
    (found,) = [process for process in psutil.process_iter(["cmdline"]) if is_keeper(process.info["cmdline"] or [], place)]
    return found


def is_keeper(command: list[str], place: Place) -> bool:
    return "integration.docker.keeper" in command and str(place.folder) in command


def alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
