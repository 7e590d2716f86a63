"""What a machine lacks to make Vagrant machines is named all at once, with the commands that install it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.docker.no_registry import box, missing_for_machines
from integration.host import prerequisites
from integration.host.prerequisites import MissingPrerequisite
from integration.vagrant import containers, tool
from integration.vagrant.__main__ import main
from integration.vagrant.cluster import VagrantCluster
from integration.vagrant.containers import Containers
from integration.vagrant.virtual import Virtual

ROOT = Path(__file__).parents[3]
ROWS: list[tuple[Callable[[], list[str]], list[str]]] = [
    (lambda: prerequisites.missing(tool.PROGRAMS), ["vagrant", "ssh-keygen"]),
    (lambda: prerequisites.missing(containers.PROGRAMS), ["docker"]),
    (missing_for_machines, ["debootstrap"]),
]


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing but a Java and Maven, where we are root; the folder of its programs."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("java", "javac", "mvn"):
        program(programs, name, "echo 'openjdk version \"17.0.1\"' >&2\n")
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("PYKAFKA4_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(prerequisites.os, "geteuid", lambda: 0)
    found = prerequisites.shutil.which  # programs of the system's own folders count as missing, too
    monkeypatch.setattr(prerequisites.shutil, "which", lambda name, path=None: found(name, path=str(programs)))
    return programs


def program(folder: Path, name: str, does: str = "") -> None:
    (folder / name).write_text(f"#!/bin/sh\n{does}")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(("probe", "names"), ROWS, ids=["vagrant", "containers", "machine"])
def test_a_missing_program_is_one_line_with_the_command_that_installs_it_until_it_is_there(
    bare: Path, probe: Callable[[], list[str]], names: list[str]
) -> None:
    lines = probe()
    assert [line.split()[0] for line in lines] == names
    assert all("is missing: " in line and "apt-get install -y" in line and "\n" not in line for line in lines)
    for name in names:
        program(bare, name)
    assert probe() == []


def test_a_user_other_than_root_gets_the_reason_why_root_is_needed(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bare, "debootstrap")
    monkeypatch.setattr(prerequisites.os, "geteuid", lambda: 1000)
    assert missing_for_machines() == ["not root: only root can bootstrap a system for the machines; sudo"]


def test_a_cluster_of_containers_names_all_that_is_missing_at_once(bare: Path) -> None:
    (bare / "mvn").unlink()
    with pytest.raises(MissingPrerequisite) as caught:
        VagrantCluster(provider="docker").up()
    told = str(caught.value).split("; ")
    names = [line.split()[0] for line in told if "is missing" in line]
    assert names[:4] == ["mvn", "vagrant", "ssh-keygen", "docker"]
    assert names[-1] == "debootstrap"
    assert "dockerd" in names


def test_virtual_machines_need_no_engine_and_no_system_of_ours(bare: Path) -> None:
    assert [line.split()[0] for line in Virtual().missing()] == ["vagrant", "ssh-keygen"]


def test_a_named_engine_and_a_system_in_the_cache_need_nothing_more(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box.place(box.suite()).mkdir(parents=True)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    for name in ("vagrant", "ssh-keygen"):
        program(bare, name)
    assert [line.split()[0] for line in Containers().missing()] == ["docker"]


def test_the_shell_for_work_by_hand_names_all_of_it(bare: Path) -> None:
    with pytest.raises(MissingPrerequisite) as caught:
        main(["--prepare"])
    assert all(f"{name} is missing" in str(caught.value) for name in ("vagrant", "ssh-keygen", "docker", "dockerd", "debootstrap"))


@pytest.mark.parametrize(("provider", "prepared"), [("", True), ("docker", True), ("virtualbox", False), ("libvirt", False)])
def test_containers_are_prepared_for_their_provider_only(provider: str, prepared: bool) -> None:
    """Virtual machines need neither root nor an engine nor debootstrap, so `make test-vagrant` must not ask for them."""
    environment = {**os.environ, "VAGRANT_DEFAULT_PROVIDER": provider}
    command = ["make", "--no-print-directory", "-s", "-o", "kafka", "PY=echo", "test-vagrant"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert ("integration.vagrant --prepare" in done.stdout) == prepared
    assert "pytest --cluster=vagrant" in done.stdout
