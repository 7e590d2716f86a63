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

from integration.backends import BACKENDS
from integration.docker.client import connect
from integration.docker.no_registry import missing_for_engine
from integration.docker.place import Place
from integration.host.cache import cache
from integration.host.ward import PREFIX
from integration.waiting import until
from tests.harness.traces import Traces, alive, keeper_of

ROOT = Path(__file__).parents[2]
TEST = "tests/harness/test_cluster.py::test_a_killed_leader_is_replaced_and_comes_back_in_sync"
UP, RUN = 240.0, 280.0
CURES = ("run", "clean")
NOTHING = "nothing to remove"
MISSING = "; ".join(missing_for_engine())


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
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "", f"--cluster={backend}", TEST]
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


def cleaned(environment: dict[str, str]) -> list[str]:
    """What `python -m integration clean` says."""
    command = [sys.executable, "-m", "integration", "clean"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=RUN, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def cure(how: str, backend: str, environment: dict[str, str]) -> None:
    """The next run, or the command line; what is there twice is removed once."""
    if how == "run":
        assert finished(backend, environment) == 0
        return
    nothing = [f"{name}: {NOTHING}" for name in BACKENDS]
    assert cleaned(environment) != nothing
    assert cleaned(environment) == nothing


@pytest.mark.cluster
@pytest.mark.backend("local")
@pytest.mark.parametrize("how", CURES)
def test_what_a_killed_run_on_local_brokers_left_is_removed(tmp_path: Path, how: str) -> None:
    env = environment(tmp_path)
    scratch = Path(env["TMPDIR"])
    with suite("local", env) as first:
        until(lambda: len(list(scratch.glob(f"{PREFIX}*/broker-*/server.log"))) == 3, UP, "three brokers to be started")
        pids = family(psutil.Process(first.pid))  # the guardian and the brokers among them
        kill(pids)
    (left,) = scratch.glob(f"{PREFIX}*")
    until(lambda: not any(map(alive, pids - {first.pid})), 20, "the killed ones to be gone")
    cure(how, "local", env)
    assert not left.exists()
    assert list(scratch.glob(f"{PREFIX}*")) == []


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("backend", [pytest.param("docker", marks=pytest.mark.docker), pytest.param("vagrant", marks=pytest.mark.vagrant)])
@pytest.mark.parametrize("how", CURES)
def test_what_a_killed_run_on_containers_or_machines_left_is_removed(tmp_path: Path, backend: str, how: str) -> None:
    env = environment(tmp_path)
    place = Place(Path(env["PYKAFKA4_CACHE"]) / "engine")
    with suite(backend, env) as first:
        until(lambda: brokers(place) == 3, UP, "three containers to run", forgive=(DockerException, OSError))
        client = connect(place.host)
        with contextlib.closing(client):
            traces = Traces.seen(client, place, keeper_of(place), place.bridge, place.name)
        kill({*traces.processes, *family(psutil.Process(first.pid))})
    until(lambda: not any(map(alive, traces.processes)), 20, "the killed ones to be gone: who still dies holds its locks")
    assert traces.left() != []
    cure(how, backend, env)
    traces.wait_gone(20)


def brokers(place: Place) -> int:
    """The containers that run in the engine of that place."""
    with contextlib.closing(connect(place.host)) as client:
        return len(client.containers.list())
