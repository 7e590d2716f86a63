"""Drives virtual machines through ssh. Invariant: their state stays in the cache until they are destroyed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from integration.host import prerequisites
from integration.host.cache import cache, taken
from integration.vagrant.machines import ORDER_S, Machines, Off
from integration.vagrant.tool import PROGRAMS, Vagrant, VagrantFailed, fixed

__all__ = ["Virtual", "left"]

POWER_S, DESTROY_S = 180.0, 300.0
UNREACHABLE = 255  # ssh's own failure


class Remote(Machines):
    """Machines that are driven through ssh, over one connection for each, which stays open."""

    def config(self, vagrant: Vagrant) -> Path:
        """Return the configuration of ssh, for which Vagrant is called once, because a call takes seconds."""
        file = vagrant.folder / "ssh"
        if not file.exists():
            shared = f"Host *\n  ControlMaster auto\n  ControlPersist yes\n  ControlPath {vagrant.folder}/%h-%p\n  ConnectTimeout 5\n"
            file.write_text(shared + vagrant.run("ssh-config", timeout=POWER_S))
        return file

    def ssh(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        if self.vagrant is None:
            raise Off("the machines are not made yet")
        command = ["ssh", "-F", str(self.config(self.vagrant)), *arguments]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=ORDER_S, check=False)

    def run(self, node: int, *command: str) -> tuple[int, str]:
        done = self.ssh(f"kafka{node}", "sudo " + shlex.join(command))
        told = (done.stdout + done.stderr).decode(errors="replace")
        if done.returncode == UNREACHABLE:
            raise Off(f"machine {self.name(node)} cannot be reached: {told.strip()}")
        return done.returncode, told

    def fetch(self, node: int, path: str) -> bytes | None:
        done = self.ssh(f"kafka{node}", "sudo cat " + shlex.quote(path))
        return done.stdout if done.returncode == 0 else None

    def hang_up(self, node: int) -> None:
        """End the open connection to a machine, which would otherwise outlive the machine."""
        self.ssh("-O", "exit", f"kafka{node}")

    def power_off(self, node: int) -> None:
        self.run_vagrant("halt", "--force", f"kafka{node}")
        self.hang_up(node)

    def power_on(self, node: int) -> None:
        self.run_vagrant("up", "--no-provision", f"kafka{node}")
        self.unplugged.discard(node)

    def run_vagrant(self, *arguments: str) -> None:
        if self.vagrant is not None:
            self.vagrant.run(*arguments, timeout=POWER_S)

    def disconnect(self, node: int) -> None:
        """Take the interface with the address down; ssh uses another one."""
        self.link(node, "down")
        self.unplugged.add(node)

    def reconnect(self, node: int) -> None:
        if node in self.unplugged:
            self.link(node, "up")
            self.unplugged.remove(node)

    def link(self, node: int, way: str) -> None:
        find = f"ip -o -4 address show to {self.address(node)} | awk '{{print $2}}'"
        code, told = self.run(node, "sh", "-c", f"ip link set dev $({find}) {way}")
        if code != 0:
            raise RuntimeError(f"the interface of {self.name(node)} was not set {way}: {told.strip()}")

    def name(self, node: int) -> str:
        return f"kafka{node}"


class Virtual(Remote):
    """The machines' state is in the cache until they are destroyed: a later run finds the machines of a killed one."""

    NETS = tuple(f"192.168.{third}" for third in range(58, 64))  # VirtualBox allows these; 56 is its own, 57 is for work by hand

    def __init__(self) -> None:
        super().__init__()
        self.lock: IO[str] | None = None

    def open(self) -> Mapping[str, str]:
        for net in self.NETS:
            self.net, self.lock = net, hold(net)
            if self.lock is not None:
                if (state(net) / "state").exists():  # left by a run that was killed
                    destroy(state(net) / "state")
                return {"KAFKA_NET": net}
        raise RuntimeError(f"every network from {self.NETS[0]} to {self.NETS[-1]} is another run's; locks in {cache() / 'vagrant'}")

    def home(self, scratch: Path) -> Path:
        return state(self.net)

    def close(self) -> None:
        lock, self.lock = self.lock, None
        if lock is None:
            return
        with lock:
            if self.vagrant is not None:
                self.vagrant.run("destroy", "--force", timeout=DESTROY_S)
                shutil.rmtree(self.vagrant.folder / "state", ignore_errors=True)


def left() -> Iterator[str]:
    """Destroy the virtual machines of killed runs, and yield their networks. At the end raises VagrantFailed with those that stay."""
    failures = []
    for net in Virtual.NETS:
        lock = hold(net) if (cache() / "vagrant" / net / "state").exists() else None
        if lock is None:
            continue
        with lock:
            try:
                destroy(state(net) / "state")
            except VagrantFailed as error:
                failures.append(str(error))
                continue
        yield net
    if failures:
        raise VagrantFailed(os.linesep.join(failures))


def destroy(folder: Path) -> None:
    """Destroy the machines whose state is in `folder`, then remove the state. The caller holds the lock of their network."""
    prerequisites.require(*prerequisites.missing(PROGRAMS))
    # By default the Vagrantfile has three nodes, and Vagrant destroys no node that the Vagrantfile lacks.
    numbers = [int(path.name.removeprefix("kafka")) for path in folder.glob("machines/kafka*")]
    environment = {**os.environ, **fixed(folder), "KAFKA_NODES": str(max(numbers, default=1))}
    command = ["vagrant", "destroy", "--force"]
    try:
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=DESTROY_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise VagrantFailed(f"`{' '.join(command)}` did not end in {DESTROY_S:.0f} s; the machines' state stays in {folder}") from error
    if done.returncode != 0:
        told = (done.stdout + done.stderr).decode(errors="replace").strip()
        raise VagrantFailed(f"`{' '.join(command)}` failed ({done.returncode}), the machines' state stays in {folder}:{os.linesep}{told}")
    shutil.rmtree(folder)


def state(net: str) -> Path:
    folder = cache() / "vagrant" / net
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def hold(net: str) -> IO[str] | None:
    """Return the locked lock file of a network; None if another run holds the lock."""
    lock = (state(net) / "lock").open("w")
    if taken(lock.fileno()):
        return lock
    lock.close()
    return None
