"""The engine on demand: it comes when it is needed, is shared, leaves nothing, and other engines do not notice."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

import psutil
import pytest

from integration.docker.client import EngineFailed, connect
from integration.docker.engine import Engine, clean
from integration.docker.no_registry import missing_for_engine
from integration.docker.no_registry.dockerd import Dockerd
from integration.docker.no_registry.image import load, rootfs
from integration.docker.place import LABEL, Place, free_subnets
from integration.waiting import until
from tests.harness.traces import Traces, alive, keeper_of

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[3]
IMAGE = "pykafka4/sleep:1"
SLEEP = ["sleep", "1000"]
MISSING = "; ".join(missing_for_engine())
needs_engine = pytest.mark.skipif(bool(MISSING), reason=MISSING)

OWNER = """
import json, sys
from integration.docker.engine import Engine
engine = Engine(sys.argv[1] or None)
engine.open()
network = engine.client.networks.create("of-the-owner", labels=engine.labels)
container = engine.client.containers.run(sys.argv[2], ["sleep", "1000"], detach=True, network="of-the-owner", labels=engine.labels)
container.pause()
print(json.dumps({"container": container.id, "network": network.id}), flush=True)
sys.stdin.read()
"""

# A machine whose system runs a containerd: a socket under the name at which every engine looks.
BESIDE = """
import socket, sys
from pathlib import Path
from integration.docker.engine import Engine
Path("/run/containerd").mkdir()
with socket.socket(socket.AF_UNIX) as system:
    system.bind("/run/containerd/containerd.sock")
    system.listen()
    system.setblocking(False)
    with Engine(sys.argv[1]) as engine:
        print(engine.client.version()["Version"])
    try:
        system.accept()
        print("the system's containerd was asked")
    except BlockingIOError:
        print("nobody came")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where an engine of this test's own keeps its data."""
    yield tmp_path / "engine"
    clean(tmp_path / "engine")


def run(engine: Engine | Foreign, **options: Any) -> Any:
    """A container that sleeps, from an image made of this machine's own sleep."""
    program = shutil.which("sleep")
    assert program is not None
    if not engine.client.images.list(IMAGE):
        load(engine.client, IMAGE, rootfs([Path(program)]), [])
    return engine.client.containers.run(IMAGE, SLEEP, detach=True, **{"labels": engine.labels, **options})


def settings() -> dict[str, str]:
    """What a Docker engine usually changes for the whole machine."""
    rules = [["iptables", "-t", table, "-S"] for table in ("filter", "nat")] if shutil.which("iptables") else []
    told = {" ".join(command): subprocess.run(command, capture_output=True, text=True, check=False).stdout for command in rules}
    return {
        **told,
        "forwarding": Path("/proc/sys/net/ipv4/ip_forward").read_text(),
        "/run": " ".join(sorted(map(str, Path("/run").iterdir()))),
    }


def mounts_below(*folders: Path) -> list[str]:
    return [line for line in Path("/proc/mounts").read_text().splitlines() if any(f" {folder}/" in line for folder in folders)]


@needs_engine
@pytest.mark.smoke
def test_an_engine_runs_containers_and_leaves_nothing_but_its_images(folder: Path) -> None:
    before = settings()
    with Engine(folder) as engine:
        engine.client.networks.create("ours", labels=engine.labels)
        run(engine, network="ours")
        run(engine, mem_limit="64m")
        traces = Traces.of(engine)
        names = {psutil.Process(pid).name()[:15] for pid in traces.processes}
        assert {"dockerd", "containerd", "sleep"} <= names  # containerd, too, is our own
        assert len(traces.links) == 4  # two bridges, and a container on each
        assert traces.groups
        assert mounts_below(folder, engine.place.run) == []
        assert settings() == before
        assert "registry" not in engine.place.log.read_text()
    traces.wait_gone()
    assert mounts_below(folder, engine.place.run) == []
    assert settings() == before
    with Engine(folder) as again:
        assert [image.tags for image in again.client.images.list()] == [[IMAGE]]
        assert again.client.containers.list(all=True) == []
        assert again.client.networks.list(filters={"type": "custom"}) == []


@needs_engine
def test_two_users_share_an_engine_and_each_takes_its_own_things_along(folder: Path) -> None:
    with Engine(folder) as first:
        kept = run(first)
        with Engine(folder) as second:
            run(second)
            assert len(first.client.containers.list()) == 2
            assert second.owner != first.owner
        assert [container.id for container in first.client.containers.list(all=True)] == [kept.id]
        traces = Traces.of(first)
    traces.wait_gone()


@needs_engine
def test_the_containers_of_a_killed_process_are_removed_and_the_engine_with_its_last_user(folder: Path) -> None:
    with Engine(folder) as engine:
        kept = run(engine)
        with owner(folder) as process:
            assert len(engine.client.containers.list(all=True)) == 2
            process.kill()
            until(lambda: [c.id for c in engine.client.containers.list(all=True)] == [kept.id], 20, "the killed process's container to go")
            until(lambda: not engine.client.networks.list(names=["of-the-owner"]), 20, "the killed process's network to go")
    with owner(folder) as process:
        traces = witness(folder)
        process.kill()
        traces.wait_gone(30)


@pytest.mark.parametrize("cure", ["clean", "start"])
@needs_engine
def test_after_a_kill_of_everything_the_rest_is_removed(folder: Path, cure: str) -> None:
    before = settings()
    with Engine(folder) as engine:
        run(engine)
    with owner(folder) as process:
        traces = witness(folder)
        kill_all(process, traces, folder)
    assert traces.left() != []
    if cure == "clean":
        told = clean(folder)
        assert any("bridge" in line for line in told), told
        assert clean(folder) == []
    else:
        with Engine(folder) as engine:
            assert engine.client.containers.list(all=True) == []
            assert engine.client.networks.list(filters={"type": "custom"}) == []
    assert traces.left() == []
    assert mounts_below(folder, traces.run) == []
    assert settings() == before


@needs_engine
def test_a_dockerd_that_dies_ends_everything_and_the_next_user_gets_a_new_one(folder: Path) -> None:
    with Engine(folder) as engine:
        run(engine)
        traces = Traces.of(engine)
        (dockerd,) = [pid for pid in traces.processes if psutil.Process(pid).name() == "dockerd"]
        os.kill(dockerd, signal.SIGKILL)
        traces.wait_gone(30)
    with Engine(folder) as again:
        assert again.client.containers.list(all=True) == []


@needs_engine
def test_an_engine_in_use_is_not_cleaned(folder: Path) -> None:
    with Engine(folder) as engine:
        run(engine)
        assert clean(folder) == []
        assert len(engine.client.containers.list()) == 1


@needs_engine
def test_another_engine_survives_our_start_stop_crash_and_clean(folder: Path, foreign: Foreign) -> None:
    theirs = run(foreign, network=foreign.client.networks.create("theirs").name)
    before = foreign.traces()
    with Engine(folder) as engine:
        run(engine)
    with owner(folder) as process:
        ours = witness(folder)
        kill_all(process, ours, folder)
    assert clean(folder) != []
    assert ours.left() == []
    theirs.reload()
    assert theirs.status == "running"
    assert len(before.left()) == len(before.processes | before.links | before.groups) + 1  # and its folder
    assert foreign.client.networks.list(names=["theirs"])


@needs_engine
def test_the_containerd_of_the_system_is_not_taken_for_ours(folder: Path) -> None:
    own_run = ["unshare", "--mount", "sh", "-ec", 'mount -t tmpfs tmpfs /run; exec "$@"', "sh"]  # this machine's own is not touched
    command = [*own_run, sys.executable, "-c", BESIDE, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines()[1:] == ["nobody came"], done.stdout + done.stderr


@needs_engine
def test_an_engine_that_the_user_names_is_used_and_only_what_we_made_goes(named: Foreign) -> None:
    foreign, theirs = named, run(named, labels={LABEL: "of another machine"})
    with Engine() as engine:
        assert not engine.own
        assert engine.host == foreign.host
        assert run(engine).labels[LABEL] == engine.place.label
        assert len(foreign.client.containers.list()) == 2
    assert [container.id for container in foreign.client.containers.list(all=True)] == [theirs.id]
    assert foreign.client.ping()
    assert not engine.place.run.exists()


@pytest.mark.parametrize("cure", ["clean", "start"])
@needs_engine
def test_in_an_engine_that_the_user_names_what_a_killed_keeper_left_goes_and_nothing_else(named: Foreign, cure: str) -> None:
    theirs = run(named, labels={LABEL: "of another machine"}, network=named.client.networks.create("theirs").name)
    with owner(None) as process:
        place = Place.at(named.host)
        keeper = keeper_of(place).pid
        assert clean() == []  # in use
        for pid in (keeper, process.pid):
            os.kill(pid, signal.SIGKILL)
        until(lambda: not alive(keeper), 20, "the keeper to be gone")
    assert len(named.client.containers.list(all=True)) == 2
    if cure == "clean":
        container, network, run_folder = clean()
        assert container.startswith("removed the container ")
        assert network == "removed the network of-the-owner"
        assert run_folder == f"removed {place.run}"
        assert clean() == []
    else:
        with Engine():
            pass
    assert not place.run.exists()
    assert [container.id for container in named.client.containers.list(all=True)] == [theirs.id]
    assert [network.name for network in named.client.networks.list(filters={"type": "custom"})] == ["theirs"]


@needs_engine
def test_an_engine_that_the_user_names_and_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYKAFKA4_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(EngineFailed, match=r"nobody\.sock"):
        clean()


@needs_engine
def test_an_engine_that_cannot_start_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place.own(folder)
    monkeypatch.setattr(Dockerd, "config", lambda self: {"hosts": [self.place.host], "no-such-option": True})
    folder.mkdir()
    dockerd = Dockerd(place)
    try:
        with pytest.raises(RuntimeError, match="no-such-option"):
            dockerd.start()
    finally:
        dockerd.stop()
    assert not place.run.exists()


@needs_engine
def test_free_subnets_are_free(folder: Path) -> None:
    with Engine(folder) as engine:
        told = subprocess.run(["ip", "-4", "-o", "address", "show", engine.place.bridge], capture_output=True, text=True, check=True).stdout
        network = told.split("inet ")[1].split()[0].rpartition(".")[0] + ".0/24"
        assert network not in map(str, free_subnets())
    assert network in map(str, free_subnets())


@contextlib.contextmanager
def owner(folder: Path | None) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a paused container of its own in the engine at `folder`, or the one DOCKER_HOST names, which has the image."""
    command = [sys.executable, "-c", OWNER, str(folder or ""), IMAGE]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["container"]
            yield process
        finally:
            process.kill()


def witness(folder: Path) -> Traces:
    """The traces of an engine that another process uses; nothing is asked through the keeper."""
    engine = Engine(folder)
    engine.docker = connect(engine.host)
    with contextlib.closing(engine.docker):
        return Traces.of(engine)


def kill_all(process: subprocess.Popen[bytes], traces: Traces, folder: Path) -> None:
    """SIGKILL for the owner and all of its engine; a keeper that is still dying holds what says that the engine is in use."""
    keeper = keeper_of(Place.own(folder)).pid
    for pid in (process.pid, *sorted(traces.processes)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(keeper), 20, "the keeper to be gone")


class Foreign(Dockerd):
    """Another engine of this machine, with the names that engines usually have: docker0, a control group `docker`."""

    labels: ClassVar[dict[str, str]] = {}

    def __init__(self, folder: Path) -> None:
        super().__init__(Place(folder))
        self.host = self.place.host
        self.bridge = "none" if Path("/sys/class/net/docker0").exists() else "docker0"

    def config(self) -> dict[str, Any]:
        usual = {key: value for key, value in super().config().items() if key not in ("bridge", "cgroup-parent")}
        subnet = next(free_subnets())
        return {**usual, **({"bip": f"{subnet[1]}/24"} if self.bridge == "docker0" else {"bridge": "none"})}

    def add_bridge(self) -> None:
        """It makes its own."""

    def traces(self) -> Traces:
        assert self.process is not None
        return Traces.seen(self.client, self.place, psutil.Process(self.process.pid), self.bridge, "docker")

    def __enter__(self) -> Self:
        self.start()
        self.client = connect(self.host)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.stop()
        if self.bridge == "docker0":
            subprocess.run(["ip", "link", "delete", "docker0"], check=True)


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[Foreign]:
    groups = {path for path in Path("/sys/fs/cgroup").glob("**/docker") if path.is_dir()}
    with Foreign(tmp_path / f"foreign-{uuid.uuid4().hex[:6]}") as engine:
        yield engine
    for path in {path for path in Path("/sys/fs/cgroup").glob("**/docker") if path.is_dir()} - groups:
        path.rmdir()


@pytest.fixture
def named(foreign: Foreign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Foreign:
    """One that the user names; what is kept about it goes with the test."""
    monkeypatch.setenv("PYKAFKA4_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DOCKER_HOST", foreign.host)
    return foreign
