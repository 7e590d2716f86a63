"""Gives ports to clusters. Invariant: a port belongs to one cluster until the cluster is gone, even while its broker is down.

The ports are below the kernel's range for outgoing connections. A port in that range can lose this race: a client connects again and again
to the port of a dead broker, the kernel gives the client this very port for its own end, the client is connected to itself, and the broker
cannot start.
Each block of ports has a lock file, so that two clusters never choose the same block. The sockets stay bound until just before the start.
"""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path
from typing import IO

from integration.host.cache import cache, taken

__all__ = ["HOST", "Ports"]

HOST = "127.0.0.1"
LOWEST, BLOCK = 10_000, 32
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def highest() -> int:
    """The first port that the kernel gives to outgoing connections, at most 32768."""
    try:
        return min(32_768, int(RANGE.read_text().split()[0]))
    except (OSError, ValueError, IndexError):
        return 32_768


class Ports:
    """`take` returns a port and keeps it bound, `release` unbinds it for its broker, `close` gives the block back."""

    def __init__(self) -> None:
        self.held: dict[int, socket.socket] = {}
        self.lock, self.next, self.end = self.choose()

    @staticmethod
    def choose() -> tuple[IO[str], int, int]:
        """A random free block, which rarely has ports that a crashed test left in TIME_WAIT."""
        folder = cache() / "ports"
        folder.mkdir(exist_ok=True)
        blocks = list(range(max(LOWEST, 1024), max(highest(), LOWEST + BLOCK) - BLOCK + 1, BLOCK))
        for start in random.sample(blocks, len(blocks)):
            file = (folder / str(start)).open("w")
            if taken(file.fileno()):
                return file, start, start + BLOCK
            file.close()
        raise RuntimeError(f"every block of ports between {LOWEST} and {highest()} is held; locks in {folder}")

    def take(self) -> int:
        """The next port of the block that can be bound now; it stays bound until `release`."""
        while self.next < self.end:
            port, self.next = self.next, self.next + 1
            held = socket.socket()  # without SO_REUSEADDR: two sockets with it may both be bound as long as neither listens
            try:
                held.bind((HOST, port))
            except OSError:
                held.close()
                continue
            self.held[port] = held
            return port
        raise RuntimeError(f"no free port is left in the block that ends at {self.end}")

    def release(self, *ports: int) -> None:
        for port in ports:
            with contextlib.suppress(KeyError):
                self.held.pop(port).close()

    def close(self) -> None:
        self.release(*list(self.held))
        self.lock.close()
