"""Keeps a Docker engine running as long as it has users. Invariant: the containers and networks of a user are removed when the user ends,
in any way.

Each `Place` has one keeper process. A user is a connection, together with the process at its other end: the end of either is the end of the
user (a forked child may keep the connection open, but is another process). The first user starts the keeper, and the end of the last one
stops the engine. In an engine that is not ours, the keeper touches only objects with our label.

    python -m integration.docker.keeper FOLDER [HOST]      # without HOST: an engine of our own
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import selectors
import shutil
import signal
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import attrs

from integration.docker.client import TROUBLE, connect, purge
from integration.docker.no_registry import Dockerd
from integration.docker.place import LABEL, OWNER, Place
from integration.host.cache import locked

__all__ = ["Foreign", "Keeper"]

EARLIER_KEEPER_S = 60.0  # seconds to wait for an earlier keeper, which may still be stopping its engine
FIRST_USER_S = 20.0  # seconds for the first user, which started this process, to connect


class Kept(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...


@attrs.frozen
class Foreign:
    place: Place
    host: str

    def start(self) -> None:
        self.sweep()

    def sweep(self) -> list[str]:
        """Remove the leftovers of an earlier keeper, and the files of its users. Returns a line for each."""
        with contextlib.closing(connect(self.host)) as client:
            removed = purge(client, f"{LABEL}={self.place.label}")
        if self.place.run.exists():
            shutil.rmtree(self.place.run)
            removed.append(f"removed {self.place.run}")
        return removed

    def stop(self) -> None:
        with contextlib.suppress(*TROUBLE):
            self.start()


@attrs.frozen(eq=False)
class User:
    """A connection, the process at its other end, and the label of its containers."""

    connection: socket.socket
    process: int  # a descriptor
    owner: str


class Keeper:
    def __init__(self, place: Place, host: str, alive: Callable[[], bool] = lambda: True) -> None:
        self.place, self.host, self.alive = place, host, alive
        self.selector = selectors.DefaultSelector()
        self.users: set[User] = set()
        self.leaving: list[socket.socket] = []
        self.numbers = itertools.count(1)
        self.listener = socket.socket(socket.AF_UNIX)

    def listen(self) -> None:
        self.place.keeper.parent.mkdir(mode=0o700, exist_ok=True)
        self.place.keeper.unlink(missing_ok=True)
        self.listener.bind(str(self.place.keeper))
        self.listener.listen()
        self.selector.register(self.listener, selectors.EVENT_READ, self.welcome)

    def serve(self) -> None:
        """Serve until the last user is gone, no user has come in FIRST_USER_S, or the engine has ended by itself."""
        patience: float | None = FIRST_USER_S
        while ready := self.selector.select(patience):
            for key, _ in ready:
                key.data()
            if not (self.users and self.alive()):
                return
            patience = None
            self.release()

    def welcome(self) -> None:
        connection, _ = self.listener.accept()
        (pid, _, _) = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
        try:
            user = User(connection, os.pidfd_open(pid), f"{self.place.label}-{pid}-{next(self.numbers)}")
            connection.sendall(json.dumps({"host": self.host, "owner": user.owner, "label": self.place.label}).encode() + b"\n")
        except OSError:
            connection.close()
            return
        self.users.add(user)
        for descriptor in (connection, user.process):
            self.selector.register(descriptor, selectors.EVENT_READ, lambda: self.leave(user))

    def leave(self, user: User) -> None:
        """The end of the user's connection shows the user that its objects are gone."""
        if user not in self.users:  # connection and process ended at the same time
            return
        self.users.discard(user)
        for descriptor in (user.connection, user.process):
            self.selector.unregister(descriptor)
        os.close(user.process)
        self.leaving.append(user.connection)
        shutil.rmtree(self.place.scratch(user.owner), ignore_errors=True)
        if self.users:
            with contextlib.suppress(*TROUBLE), contextlib.closing(connect(self.host)) as client:
                purge(client, f"{OWNER}={user.owner}")

    def release(self) -> None:
        """The last user's connection stays open until the engine has ended."""
        for connection in self.leaving:
            with connection, contextlib.suppress(OSError):
                connection.send(b".")
        self.leaving.clear()

    def shut(self) -> None:
        """A new user finds no keeper and starts the next one, which waits for the end of this one."""
        self.place.keeper.unlink(missing_ok=True)
        self.listener.close()
        shutil.rmtree(self.place.scratch(""), ignore_errors=True)
        with contextlib.suppress(OSError):  # not empty for our own engine, which removes the folder when it stops
            self.place.run.rmdir()


def watch(keeper: Keeper, dockerd: Dockerd) -> None:
    assert dockerd.process is not None
    keeper.selector.register(os.pidfd_open(dockerd.process.pid), selectors.EVENT_READ, lambda: None)


def main(folder: Path, host: str | None) -> None:
    for number in (signal.SIGINT, signal.SIGHUP):  # the users handle Ctrl-C, which reaches the keeper, too
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    place = Place(folder)
    with locked(place.life, EARLIER_KEEPER_S):
        dockerd = Dockerd(place)
        kept: Kept = dockerd if host is None else Foreign(place, host)
        keeper = Keeper(place, host or place.host, dockerd.alive if host is None else lambda: True)
        try:
            kept.start()
            keeper.listen()
            if host is None:
                watch(keeper, dockerd)
            keeper.serve()
        finally:
            keeper.shut()
            kept.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
