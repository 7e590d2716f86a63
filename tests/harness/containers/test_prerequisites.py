"""What a machine lacks, or forbids, is one line with the way out, printed before anything is started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from integration.docker.engine import Engine
from integration.docker.no_registry import missing_for_engine, obstacles
from integration.docker.no_registry.obstacles import filtered, grouped
from integration.host import prerequisites
from integration.host.prerequisites import MissingPrerequisite

ROOT = Path(__file__).parents[3]
TELL = "from integration.docker.no_registry import missing_for_engine; print(*missing_for_engine(), sep='\\n')"
DOCKER = "-P FORWARD DROP\n-A FORWARD -j DOCKER-USER\n-A FORWARD -o docker0 -j DOCKER\n-A FORWARD -i docker0 ! -o docker0 -j ACCEPT"
MISSING = "; ".join(missing_for_engine())
able = pytest.mark.skipif(bool(MISSING), reason=MISSING)


def stub(folder: Path, name: str, script: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def engine_report(*before: str) -> str:
    """What a process that is started in that way says about engines."""
    command = [*before, sys.executable, "-c", TELL]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout


def test_what_an_engine_lacks_is_named_with_the_command_that_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prerequisites.shutil, "which", lambda name, **_: None if name == "dockerd" else f"/usr/bin/{name}")
    monkeypatch.setattr(prerequisites.os, "geteuid", lambda: 1000)
    with pytest.raises(MissingPrerequisite) as caught:
        Engine(tmp_path / "engine").open()
    assert "not root" in str(caught.value)
    assert "apt-get install -y --no-install-recommends docker.io" in str(caught.value)
    assert "DOCKER_HOST" in str(caught.value)


def test_everything_that_an_engine_lacks_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prerequisites.shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(prerequisites.os, "geteuid", lambda: 0)
    lines = missing_for_engine()
    assert [line.split()[0] for line in lines] == ["dockerd", "ip", "unshare"]
    assert all("apt-get install -y" in line and "DOCKER_HOST" in line and "\n" not in line for line in lines)


def test_a_root_without_capabilities_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub(tmp_path, "unshare", "echo 'unshare: unshare failed: Operation not permitted' >&2; exit 1")
    for name in ("dockerd", "ip"):
        stub(tmp_path, name, "")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(prerequisites.os, "geteuid", lambda: 0)
    line = missing_for_engine()[0]
    assert "unshare failed: Operation not permitted" in line
    assert "DOCKER_HOST=unix:///" in line
    with pytest.raises(MissingPrerequisite, match="not permitted"):
        Engine(tmp_path / "engine").open()


def mounted_at_run() -> list[str]:
    return [line for line in Path("/proc/mounts").read_text().splitlines() if line.split()[1].startswith("/run")]


@able
@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv is missing: apt-get install -y util-linux")
@pytest.mark.parametrize("right", ["net_admin", "sys_admin"])
def test_each_right_that_an_engine_needs_is_tried(right: str) -> None:
    assert "not permitted" in engine_report("setpriv", f"--bounding-set=-{right}")


@able
def test_the_probe_is_quick_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = mounted_at_run()
    monkeypatch.setattr(obstacles, "ACTS", f"{obstacles.ACTS}ip -o link show pk4probe >&2; exit 7")
    quickest = 9.0
    for _ in range(5):
        began = time.monotonic()
        line = obstacles.rights(obstacles.everywhere())
        quickest = min(quickest, time.monotonic() - began)
        assert "pk4probe" in (line or "")
    assert quickest < 0.2
    assert not Path("/sys/class/net/pk4probe").exists()
    assert mounted_at_run() == before


@pytest.mark.parametrize(
    ("mounts", "held"),
    [
        ("cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0", False),
        ("tmpfs /sys/fs/cgroup tmpfs ro 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0", False),
        ("tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/memory cgroup ro,memory 0 0", True),
        ("proc /proc proc rw 0 0", True),
    ],
)
def test_control_groups_that_cannot_be_written_are_named(mounts: str, held: bool) -> None:
    assert bool(grouped(mounts)) is held


@pytest.mark.parametrize(
    ("bridged", "rules", "held"),
    [
        ("1\n", "-P FORWARD ACCEPT\n", False),
        ("1\n", DOCKER, True),
        ("0\n", DOCKER, False),
        ("1\n", "", False),
        ("1\n", "-P FORWARD ACCEPT\n-A FORWARD -i lo -j ACCEPT\n-A FORWARD -j REJECT --reject-with icmp-host-prohibited", True),
        ("1\n", "-P FORWARD DROP\n-A FORWARD -i pk4+ -o pk4+ -j ACCEPT", False),
        ("1\n", "-P FORWARD DROP\n-A FORWARD -j DROP\n-A FORWARD -j ACCEPT", True),
    ],
)
def test_a_firewall_that_keeps_containers_apart_is_named_with_the_way_out(bridged: str, rules: str, held: bool) -> None:
    line = filtered(bridged, rules)
    assert bool(line) is held
    if line:
        assert "DOCKER_HOST=unix:///" in line
        assert "iptables -I FORWARD -i pk4+ -o pk4+ -j ACCEPT" in line


@able
@pytest.mark.skipif(not shutil.which("iptables"), reason="iptables is missing: apt-get install -y iptables")
def test_the_rules_asked_are_those_of_this_machine() -> None:
    """In a network of the test's own, where another engine has been."""
    inside = ["unshare", "--net", "sh", "-ec"]
    bridged = subprocess.run([*inside, f"cat {obstacles.BRIDGED} || true"], capture_output=True, text=True, check=True).stdout
    if bridged != "1\n":
        pytest.skip("no bridge is filtered in a new network of this machine")
    drop = "iptables -P FORWARD DROP"
    assert "-P FORWARD DROP" in engine_report(*inside, f'{drop}; exec "$@"', "sh")
    assert engine_report(*inside, f'{drop}; iptables -I FORWARD -i pk4+ -o pk4+ -j ACCEPT; exec "$@"', "sh") == "\n"
