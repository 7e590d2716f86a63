"""The suite is killed in the middle, guardians and engines too; the next run finds what is left, removes it, and passes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from docker.errors import DockerException
from traces import Traces, alive, keeper_of

from integration import prerequisites
from integration.dockerd import connect
from integration.jars import cache
from integration.local import PREFIX
from integration.place import Place
from integration.waiting import until

ROOT = Path(__file__).parents[2]
TEST = "tests/integration/test_cluster.py::test_a_killed_leader_is_replaced_and_comes_back_in_sync"
UP, RUN = 240.0, 280.0
MISSING = "; ".join(prerequisites.engine())


def environment(tmp_path: Path) -> dict[str, str]:
    """With a cache of its own, so with an engine of its own; what is expensive is linked from the real one."""
    own = tmp_path / "cache"
    own.mkdir()
    for entry in cache().iterdir():
        if not entry.name.startswith("engine"):
            (own / entry.name).symlink_to(entry)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return {**os.environ, "PYKAFKA4_CACHE": str(own), "TMPDIR": str(scratch)}


def suite(backend: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--cluster={backend}", TEST]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)


def finished(backend: str, environment: dict[str, str]) -> int:
    with suite(backend, environment) as run:
        try:
            return run.wait(RUN)
        finally:
            run.kill()


def kill(pids: set[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def family(process: psutil.Process) -> set[int]:
    return {process.pid, *(child.pid for child in process.children(recursive=True))}


@pytest.mark.cluster
@pytest.mark.backend("local")
def test_a_run_on_local_brokers_after_one_that_was_killed(tmp_path: Path) -> None:
    env = environment(tmp_path)
    scratch = Path(env["TMPDIR"])
    with suite("local", env) as first:
        until(lambda: len(list(scratch.glob(f"{PREFIX}*/broker-*/server.log"))) == 3, UP, "three brokers to be started")
        pids = family(psutil.Process(first.pid))  # the guardian and the brokers among them
        kill(pids)
    (left,) = scratch.glob(f"{PREFIX}*")
    until(lambda: not any(map(alive, pids - {first.pid})), 20, "the killed ones to be gone")
    assert finished("local", env) == 0
    assert not left.exists()
    assert list(scratch.glob(f"{PREFIX}*")) == []


@pytest.mark.docker
@pytest.mark.skipif(bool(MISSING), reason=MISSING)
@pytest.mark.timeout(900)
def test_a_run_on_containers_after_one_that_was_killed(tmp_path: Path) -> None:
    env = environment(tmp_path)
    place = Place(Path(env["PYKAFKA4_CACHE"]) / "engine")
    with suite("docker", env) as first:
        until(lambda: brokers(place) == 3, UP, "three containers to run", forgive=(DockerException, OSError))
        client = connect(place.host)
        with contextlib.closing(client):
            traces = Traces.seen(client, place, keeper_of(place), place.bridge, place.name)
        kill({*traces.processes, *family(psutil.Process(first.pid))})
    assert traces.left() != []
    assert finished("docker", env) == 0
    traces.wait_gone(20)


def brokers(place: Place) -> int:
    """The containers that run in the engine of that place."""
    with contextlib.closing(connect(place.host)) as client:
        return len(client.containers.list())
