"""Gives a process a Docker engine: the running engine that DOCKER_HOST names, otherwise one of our own. Invariant: our own engine
leaves nothing behind but its folder, with images and logs.

Processes that use our own engine at the same time share it, and it ends with the last of them (`keeper.py`): so a test suite need not wait
for a cluster that runs by hand. The containers and networks of a process are removed when it ends. Images stay in the cache.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from docker import DockerClient
from docker.errors import DockerException

from integration.docker.client import EngineFailed, connect
from integration.docker.keeper import Foreign
from integration.docker.no_registry import Dockerd, missing_for_engine
from integration.docker.place import LABEL, OWNER, Place
from integration.host import prerequisites
from integration.host.cache import locked, taken
from integration.host.ward import tail
from integration.waiting import until

__all__ = ["Engine", "clean"]

ROOT = Path(__file__).parents[2]
COME_IN_S, GREETING_S, LEAVE_S = 180.0, 30.0, 120.0


class Engine:
    """`host` is the engine's DOCKER_HOST; all objects in it get the `labels`.

    `folder`: the folder for the data of our own engine, by default one in the cache; with it, DOCKER_HOST is ignored. Raises
    `MissingPrerequisite` if no engine can be started, `EngineFailed` if ours does not start, or the named one does not answer.
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        named = os.environ.get("DOCKER_HOST") if folder is None else None
        self.own = not named
        self.place = Place.at(named) if named else Place.own(Path(folder) if folder else None)
        self.host = named or self.place.host
        self.owner = ""
        self.connection: socket.socket | None = None
        self.keeper: subprocess.Popen[bytes] | None = None  # if this process started the keeper
        self.docker: DockerClient | None = None

    # -- coming and going --------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def open(self) -> None:
        """Become a user of the engine; start the engine if it has no user."""
        if self.own:
            prerequisites.require(*missing_for_engine())
        self.place.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.place.door, COME_IN_S):
            self.come_in(COME_IN_S)
        try:
            self.docker = connect(self.host)
        except BaseException:
            self.close()
            raise

    def come_in(self, timeout: float) -> None:
        """Connect to the running keeper. A keeper that is about to end hangs up; then start a new one, which waits for its end."""
        if self.greeted():
            return
        self.keeper = keeper = self.start_keeper()
        try:
            until(lambda: self.greeted() or keeper.poll() is not None, timeout, lambda: f"an engine to come up{tail(self.log)}")
        except BaseException:
            keeper.terminate()
            keeper.wait(LEAVE_S)
            raise
        if self.connection is None:
            raise EngineFailed(f"the engine at {self.host} cannot be used{tail(self.log)}")

    def greeted(self) -> bool:
        """Returns whether the keeper has accepted this user."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(GREETING_S)
        try:
            connection.connect(str(self.place.keeper))
            with connection.makefile("rb") as answer:
                told = json.loads(answer.readline() or b"null")
        except (FileNotFoundError, ConnectionError):
            told = None
        except TimeoutError as error:
            connection.close()
            raise EngineFailed(f"the keeper at {self.place.keeper} does not answer; end it, and its engine ends with it") from error
        except BaseException:
            connection.close()
            raise
        if told is None:
            connection.close()
            return False
        self.connection, self.owner = connection, told["owner"]
        return True

    def start_keeper(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "integration.docker.keeper", str(self.place.folder), *([] if self.own else [self.host])]
        with self.log.open("wb") as log:
            return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    @property
    def log(self) -> Path:
        return self.place.folder / "keeper.log"

    def close(self) -> None:
        """Wait until this user's objects are gone, and the engine, too, if no other user is left. A second call does nothing."""
        docker, self.docker = self.docker, None
        if docker is not None:
            docker.close()
        connection, self.connection = self.connection, None
        if connection is None:
            return
        goes_on = b""
        with connection, contextlib.suppress(ConnectionError):
            connection.settimeout(LEAVE_S)
            connection.shutdown(socket.SHUT_WR)
            goes_on = connection.recv(1)
        keeper, self.keeper = self.keeper, None
        if keeper is not None and goes_on:
            keeper.returncode = 0  # otherwise Popen warns about a child that runs on without this process
        elif keeper is not None and keeper.wait(LEAVE_S) != 0:
            raise EngineFailed(f"the engine at {self.host} did not end in order; python -m integration.docker --clean{tail(self.log)}")

    # -- for those who use it ----------------------------------------------------------------------------------------------

    @property
    def client(self) -> DockerClient:
        if self.docker is None:
            raise RuntimeError("this engine is not open: use it in a with statement")
        return self.docker

    @property
    def labels(self) -> dict[str, str]:
        """The keeper removes containers and networks with these labels when this user leaves, even by SIGKILL."""
        return {LABEL: self.place.label, OWNER: self.owner}

    @property
    def scratch(self) -> Path:
        """A folder for this user's files, removed when the user leaves; the code that needs the folder creates it."""
        return self.place.scratch(self.owner)

    def bridge(self) -> str:
        """An unused interface name for a new bridge, by which a later run finds the bridge after a crash."""
        names = (f"{self.place.name}-{secrets.token_hex(2)[:3]}" for _ in itertools.count())
        return next(name for name in names if not Path("/sys/class/net", name).exists())


def clean(folder: Path | str | None = None) -> list[str]:
    """Remove the leftovers of crashed runs: of our own engine everything outside its folder, in the engine at DOCKER_HOST our objects.

    Returns a line for each. Engines in use are not touched. Raises `EngineFailed` if the named engine does not answer.
    """
    named = os.environ.get("DOCKER_HOST") if folder is None else None
    place = Place.own(Path(folder) if folder else None)
    removed = cleaned_at(named) if named else []
    return removed + (unused(place, Dockerd(place).sweep) if place.folder.exists() else [])


def cleaned_at(host: str) -> list[str]:
    place = Place.at(host)
    place.folder.mkdir(parents=True, exist_ok=True)
    try:
        return unused(place, Foreign(place, host).sweep)
    except (OSError, DockerException) as error:
        raise EngineFailed(f"the engine at {host}, which DOCKER_HOST names, does not answer: {error}") from error


def unused(place: Place, sweep: Callable[[], list[str]]) -> list[str]:
    """An empty list if the place has a user; a new user waits meanwhile."""
    with locked(place.door, COME_IN_S), place.life.open("w") as life:
        return sweep() if taken(life.fileno()) else []
