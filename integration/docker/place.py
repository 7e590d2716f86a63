"""Place. Rule: all that an engine leaves on a machine bears a name that follows from one folder: it is found after any crash."""

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
# Where networks of ours are looked for; the first that nothing on the machine uses is taken.
POOLS = ("10.251.0.0/16", "10.201.0.0/16", "172.30.0.0/16", "192.168.192.0/18")


@attrs.frozen
class Place:
    """`folder` stays (images are kept there); `run` is short enough for sockets, and goes with the engine."""

    folder: Path

    @property
    def key(self) -> str:
        return hashlib.sha256(str(self.folder.resolve()).encode()).hexdigest()[:8]

    @property
    def name(self) -> str:
        """Of the control group, and the beginning of the names of bridges, which have 15 characters at most."""
        return f"pk4{self.key}"

    @property
    def bridge(self) -> str:
        """The engine's default bridge: never docker0, which may be another engine's."""
        return f"{self.name}-0"

    @property
    def run(self) -> Path:
        return Path("/tmp") / f"pykafka4-engine-{self.key}"  # not tempfile's: two users of one folder must meet here

    @property
    def data(self) -> Path:
        return self.folder / "root"

    @property
    def host(self) -> str:
        """As DOCKER_HOST wants it."""
        return f"unix://{self.run / 'docker.sock'}"

    @property
    def config(self) -> Path:
        return self.run / "daemon.json"

    @property
    def keeper(self) -> Path:
        """The socket of the process that keeps the engine."""
        return self.run / "keeper.sock"

    def scratch(self, owner: str) -> Path:
        """The folder of one user's files."""
        return self.run / "users" / owner

    @property
    def door(self) -> Path:
        """Held by whoever is coming in: one at a time, so that one keeper is started and not two."""
        return self.folder / "door.lock"

    @property
    def life(self) -> Path:
        """Held by the keeper from its first act to its last."""
        return self.folder / "life.lock"

    @property
    def log(self) -> Path:
        return self.folder / "engine.log"

    @property
    def label(self) -> str:
        """The value of the label `pykafka4` on all that is made through this place; other machines may use the same engine."""
        return f"{socket.gethostname()}-{self.key}"

    @staticmethod
    def own(folder: Path | None = None) -> Place:
        """Of an engine that we start ourselves."""
        return Place(folder or cache() / "engine")

    @staticmethod
    def of(host: str) -> Place:
        """Of an engine that somebody else runs."""
        return Place(cache() / f"engine-at-{hashlib.sha256(host.encode()).hexdigest()[:8]}")


def used() -> list[ipaddress.IPv4Network]:
    """Every network this machine has a route or an address in; the default route is not one."""
    told = subprocess.run(["ip", "-j", "-4", "route", "show", "table", "all"], capture_output=True, text=True, timeout=10, check=True)
    targets = (row["dst"] for row in json.loads(told.stdout) if row.get("dst") != "default")
    return [ipaddress.IPv4Network(target, strict=False) for target in targets]


def free_subnets() -> Iterator[ipaddress.IPv4Network]:
    """Networks of 254 addresses that nothing on this machine uses now; random, so that two who look at once rarely want the same."""
    taken = used()
    for pool in map(ipaddress.IPv4Network, POOLS):
        candidates = list(itertools.islice(pool.subnets(new_prefix=24), 256))
        random.shuffle(candidates)
        yield from (one for one in candidates if not any(one.overlaps(other) for other in taken))
