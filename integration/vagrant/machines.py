"""Machines. Rule: what a cluster does to a machine is done by the shortest way its provider has; Vagrant only makes and ends them.

Containers are reached by the engine, every other machine by ssh.
"""

from __future__ import annotations

import abc
import contextlib
import io
import os
import re
import secrets
import shlex
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from docker.errors import APIError, NotFound
from docker.types import IPAMConfig, IPAMPool

from integration.docker.engine import Engine, EngineFailed
from integration.docker.no_registry import box
from integration.docker.no_registry.dockerd import TROUBLE, purge
from integration.docker.place import free_subnets
from integration.host import prerequisites
from integration.kafka.jars import cache, taken
from integration.vagrant.tool import Vagrant, VagrantFailed, fixed
from integration.waiting import until

__all__ = ["NODE", "PROVIDERS", "Containers", "Machines", "Off", "Remote", "Virtual", "left"]

NODE = "/opt/kafka/kafka-node"
ORDER, POWER, DESTROY = 60.0, 180.0, 300.0
CLUSTER = "pykafka4.cluster"
NOT_RUNNING, NOT_ATTACHED = 409, 404
NET_TAKEN = re.compile(r"overlaps|already exists|same bridge name|already in use", re.IGNORECASE)
UNREACHABLE = 255  # ssh's own failure


class Off(RuntimeError):
    """The machine does not run, or nobody reaches it."""


class Machines(abc.ABC):
    """The machines kafka1, … of one cluster, from `open` to `close`. `net`: the first three bytes of their addresses."""

    net = ""
    vagrant: Vagrant | None = None  # what makes them, from before they are made

    def __init__(self) -> None:
        self.unplugged: set[int] = set()

    def missing(self) -> list[str]:
        """All that this machine lacks to make them, a line each."""
        return prerequisites.vagrant()

    def home(self, scratch: Path) -> Path:
        """Where Vagrant keeps what it knows of them; `scratch` goes with this process."""
        return scratch

    def address(self, node: int) -> str:
        return f"{self.net}.{10 + node}"

    @abc.abstractmethod
    def open(self) -> Mapping[str, str]:
        """Take what must be there before the machines are made; what the Vagrantfile shall be told of it."""

    @abc.abstractmethod
    def run(self, node: int, *command: str) -> tuple[int, str]:
        """Exit status and output of a command, as root; `Off` when the machine does not run."""

    @abc.abstractmethod
    def fetch(self, node: int, path: str) -> bytes | None:
        """A file of the machine; None when there is none, or no way to read it now."""

    @abc.abstractmethod
    def power_off(self, node: int) -> None:
        """Pull the plug: nothing in it is asked, nothing is written back."""

    @abc.abstractmethod
    def power_on(self, node: int) -> None:
        """Let it boot; returns when it does."""

    @abc.abstractmethod
    def disconnect(self, node: int) -> None:
        """Off the network of the brokers and their clients."""

    @abc.abstractmethod
    def reconnect(self, node: int) -> None:
        """On it again, with the same address."""

    @abc.abstractmethod
    def close(self) -> None:
        """Destroy them and give back what `open` took; works twice, and for machines that were never made."""

    @abc.abstractmethod
    def name(self, node: int) -> str:
        """For a person who looks for it."""


class Containers(Machines):
    """Of the docker provider, in a Docker engine (`integration.docker.engine`), on a network of our own that Vagrant finds by its addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine()
        self.prefix = f"pykafka4-{secrets.token_hex(3)}-"
        self.network: Any = None

    def missing(self) -> list[str]:
        engine = prerequisites.engine() if self.engine.own else []
        system = [] if box.bootstrapped() else prerequisites.machine()
        return [*super().missing(), *prerequisites.containers(), *engine, *system]

    def open(self) -> Mapping[str, str]:
        self.engine.open()
        image = box.build(self.engine.client)
        self.network = self.bridge()
        labels = " ".join(f"--label {key}={value}" for key, value in self.labels.items())
        return {
            "DOCKER_HOST": self.engine.host,
            "VAGRANT_HOME": str(cache() / "vagrant" / "home"),
            "KAFKA_NET": self.net,
            "KAFKA_NAME": self.prefix,
            "KAFKA_IMAGE": image,
            "KAFKA_KEY": str(box.key()),
            "KAFKA_DOCKER": f"{labels} --cap-add NET_ADMIN",
        }

    @property
    def labels(self) -> dict[str, str]:
        return {**self.engine.labels, CLUSTER: self.prefix}

    def bridge(self) -> Any:
        """A network in a range that nothing uses; somebody else may be choosing the same at this moment."""
        for subnet in free_subnets():
            name = self.engine.bridge()
            options = {"com.docker.network.bridge.name": name, "com.docker.network.bridge.enable_ip_masquerade": "false"}
            pool = IPAMPool(subnet=str(subnet), gateway=str(subnet[1]))
            try:
                made = self.engine.client.networks.create(
                    f"{self.prefix}net", driver="bridge", labels=self.labels, options=options, ipam=IPAMConfig(pool_configs=[pool])
                )
            except APIError as error:
                if NET_TAKEN.search(str(error)):
                    continue
                raise
            if not Path("/sys/class/net", name).exists():
                raise EngineFailed(f"the engine at {self.engine.host} has its bridges elsewhere (a virtual machine, rootless)")
            self.net = str(subnet[0]).rpartition(".")[0]
            return made
        raise EngineFailed("every private range that networks are looked for in is used on this machine; see `ip route`")

    def name(self, node: int) -> str:
        return f"{self.prefix}kafka{node}"

    def run(self, node: int, *command: str) -> tuple[int, str]:
        api = self.engine.client.api
        try:
            order = api.exec_create(self.name(node), list(command))["Id"]
            told = api.exec_start(order).decode(errors="replace")
            until(lambda: not api.exec_inspect(order)["Running"], ORDER, f"{' '.join(command)} to end on {self.name(node)}")
            return api.exec_inspect(order)["ExitCode"], told  # what it printed may be lost, its exit status never
        except APIError as error:
            if error.status_code in (NOT_RUNNING, NOT_ATTACHED):
                raise Off(f"machine {self.name(node)} does not run") from error
            raise

    def fetch(self, node: int, path: str) -> bytes | None:
        """Also of a machine that is off."""
        try:
            chunks, _ = self.engine.client.api.get_archive(self.name(node), path)
        except NotFound:
            return None
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
            content = archive.extractfile(archive.next() or "")
            return content.read() if content else None

    def power_off(self, node: int) -> None:
        self.engine.client.containers.get(self.name(node)).kill()

    def power_on(self, node: int) -> None:
        self.engine.client.containers.get(self.name(node)).start()

    def disconnect(self, node: int) -> None:
        if node not in self.unplugged:
            self.network.disconnect(self.name(node))
            self.unplugged.add(node)

    def reconnect(self, node: int) -> None:
        if node in self.unplugged:
            self.network.connect(self.name(node), ipv4_address=self.address(node))
            self.unplugged.remove(node)

    def close(self) -> None:
        """By the engine and at once: Vagrant would ask each broker to stop, and the last one has no quorum for that."""
        if self.network is not None:
            self.network = None
            with contextlib.suppress(*TROUBLE):
                purge(self.engine.client, f"{CLUSTER}={self.prefix}")
        self.engine.close()


class Remote(Machines):
    """By ssh, over one connection for each machine that is kept open."""

    def config(self, vagrant: Vagrant) -> Path:
        """For ssh, asked of Vagrant once: that takes seconds."""
        file = vagrant.folder / "ssh"
        if not file.exists():
            shared = f"Host *\n  ControlMaster auto\n  ControlPersist yes\n  ControlPath {vagrant.folder}/%h-%p\n  ConnectTimeout 5\n"
            file.write_text(shared + vagrant.run("ssh-config", timeout=POWER))
        return file

    def ssh(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        if self.vagrant is None:
            raise Off("the machines are not made yet")
        command = ["ssh", "-F", str(self.config(self.vagrant)), *arguments]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=ORDER, check=False)

    def run(self, node: int, *command: str) -> tuple[int, str]:
        done = self.ssh(f"kafka{node}", "sudo " + shlex.join(command))
        told = (done.stdout + done.stderr).decode(errors="replace")
        if done.returncode == UNREACHABLE:
            raise Off(f"machine {self.name(node)} is not reached: {told.strip()}")
        return done.returncode, told

    def fetch(self, node: int, path: str) -> bytes | None:
        done = self.ssh(f"kafka{node}", "sudo cat " + shlex.quote(path))
        return done.stdout if done.returncode == 0 else None

    def hang_up(self, node: int) -> None:
        """End the connection that is kept open; of a machine that is gone it would stay until its own end."""
        self.ssh("-O", "exit", f"kafka{node}")

    def power_off(self, node: int) -> None:
        self.told("halt", "--force", f"kafka{node}")
        self.hang_up(node)

    def power_on(self, node: int) -> None:
        self.told("up", "--no-provision", f"kafka{node}")
        self.unplugged.discard(node)

    def told(self, *arguments: str) -> None:
        if self.vagrant is not None:
            self.vagrant.run(*arguments, timeout=POWER)

    def disconnect(self, node: int) -> None:
        """The interface that has the address goes down; ssh comes by another one."""
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
    """Virtual machines. Their state lies in the cache until they are destroyed: only by it can a later run find what a killed one left."""

    NETS = tuple(f"192.168.{third}" for third in range(58, 64))  # what VirtualBox allows unasked, without 56 (its own) and 57 (by hand)

    def __init__(self) -> None:
        super().__init__()
        self.lock: IO[str] | None = None

    def open(self) -> Mapping[str, str]:
        for net in self.NETS:
            self.net, self.lock = net, hold(net)
            if self.lock is not None:
                if (state(net) / "state").exists():  # of a run that was killed
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
                self.vagrant.run("destroy", "--force", timeout=DESTROY)
                shutil.rmtree(self.vagrant.folder / "state", ignore_errors=True)


def left() -> Iterator[str]:
    """Destroy the virtual machines of runs that were killed; the networks they had. VagrantFailed at the end names those that stay."""
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
    """The machines whose state lies in `folder`, and that state; it stays when that fails. The caller holds the lock of their network."""
    prerequisites.require(*prerequisites.vagrant())
    # The Vagrantfile has three nodes unless it is told, and those it has not are never destroyed.
    numbers = [int(path.name.removeprefix("kafka")) for path in folder.glob("machines/kafka*")]
    environment = {**os.environ, **fixed(folder), "KAFKA_NODES": str(max(numbers, default=1))}
    command = ["vagrant", "destroy", "--force"]
    try:
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=DESTROY, check=False)
    except subprocess.TimeoutExpired as error:
        raise VagrantFailed(f"`{' '.join(command)}` did not end in {DESTROY:.0f} s; the machines' state stays in {folder}") from error
    if done.returncode != 0:
        told = (done.stdout + done.stderr).decode(errors="replace").strip()
        raise VagrantFailed(f"`{' '.join(command)}` failed ({done.returncode}), the machines' state stays in {folder}:{os.linesep}{told}")
    shutil.rmtree(folder)


def state(net: str) -> Path:
    folder = cache() / "vagrant" / net
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def hold(net: str) -> IO[str] | None:
    """The lock of a network; None when another run has it."""
    lock = (state(net) / "lock").open("w")
    if taken(lock.fileno()):
        return lock
    lock.close()
    return None


PROVIDERS: Mapping[str, Callable[[], Machines]] = MappingProxyType({"docker": Containers, "virtualbox": Virtual, "libvirt": Virtual})
