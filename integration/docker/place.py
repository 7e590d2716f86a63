"""Names the files, groups and interfaces of a Docker engine. Invariant: each name derives from one folder, so a later run finds everything
that a crash left behind."""

from __future__ import annotations

import hashlib
import ipaddress
import itertools
import json
import random
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import attrs

from integration.host.cache import cache

__all__ = ["CLUSTER", "LABEL", "OWNER", "Place", "free_subnets"]

LABEL = "pykafka4"
OWNER = "pykafka4.owner"
CLUSTER = "pykafka4.cluster"
# Our networks get unused subnets of these ranges; a range is tried only when the range before it has no unused subnet left.
POOLS = ("10.251.0.0/16", "10.201.0.0/16", "172.30.0.0/16", "192.168.192.0/18")


@attrs.frozen
class Place:
    """`folder` caches images, so it remains when the engine stops; `run` is removed. Its path is short, because it contains Unix sockets,
    whose paths Linux limits to 107 bytes.
    """

    folder: Path

    @property
    def key(self) -> str:
        return hashlib.sha256(str(self.folder.resolve()).encode()).hexdigest()[:8]

    @property
    def name(self) -> str:
        """The name of the control group, and the prefix of the names of bridges, which Linux limits to 15 characters."""
        return f"pk4{self.key}"

    @property
    def bridge(self) -> str:
        """The engine's default bridge; not docker0, which may belong to another engine."""
        return f"{self.name}-0"

    @property
    def run(self) -> Path:
        return Path("/tmp") / f"pykafka4-engine-{self.key}"  # not from tempfile: the same path for every process, whatever its TMPDIR

    @property
    def data(self) -> Path:
        return self.folder / "root"

    @property
    def host(self) -> str:
        return f"unix://{self.run / 'docker.sock'}"

    @property
    def config(self) -> Path:
        return self.run / "daemon.json"

    @property
    def keeper(self) -> Path:
        return self.run / "keeper.sock"

    def scratch(self, owner: str) -> Path:
        """The folder for the files of one user of the engine; `owner` is the value of the user's label OWNER."""
        return self.run / "users" / owner

    @property
    def door(self) -> Path:
        """Held while a process connects to the keeper or cleans up, so that two processes never start two keepers."""
        return self.folder / "door.lock"

    @property
    def life(self) -> Path:
        """Held by the keeper as long as it runs; the next keeper waits for its release."""
        return self.folder / "life.lock"

    @property
    def log(self) -> Path:
        return self.folder / "engine.log"

    @property
    def label(self) -> str:
        """With the host name, because machines may share an engine."""
        return f"{socket.gethostname()}-{self.key}"

    @staticmethod
    def own(folder: Path | None = None) -> Place:
        return Place(folder or cache() / "engine")

    @staticmethod
    def at(host: str) -> Place:
        return Place(cache() / f"engine-at-{hashlib.sha256(host.encode()).hexdigest()[:8]}")


def used() -> list[ipaddress.IPv4Network]:
    """The networks in which this machine has an address, or a route other than the default route."""
    told = subprocess.run(["ip", "-j", "-4", "route", "show", "table", "all"], capture_output=True, text=True, timeout=10, check=True)
    targets = (row["dst"] for row in json.loads(told.stdout) if row.get("dst") != "default")
    return [ipaddress.IPv4Network(target, strict=False) for target in targets]


def free_subnets() -> Iterator[ipaddress.IPv4Network]:
    """The unused /24 networks, in random order within each range, so that two processes rarely choose the same one."""
    taken = used()
    for pool in map(ipaddress.IPv4Network, POOLS):
        candidates = list(itertools.islice(pool.subnets(new_prefix=24), 256))
        random.shuffle(candidates)
        yield from (one for one in candidates if not any(one.overlaps(other) for other in taken))
