"""Virtual machines' state and networks, with a fake `vagrant` that records its calls: every run finds the machines that it made."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.host.cache import cache
from integration.host.prerequisites import MissingPrerequisite
from integration.host.ward import Ward
from integration.vagrant.cluster import VagrantCluster
from integration.vagrant.tool import Vagrant, VagrantFailed
from integration.vagrant.virtual import Virtual, left

# `up` leaves what the real one does: a folder for each machine; anything fails while there is a file `broken`.
VAGRANT = """#!/bin/bash
echo "$1 $KAFKA_NODES ${VAGRANT_DOTFILE_PATH#$PYKAFKA4_CACHE/}" >>"$PYKAFKA4_CACHE/calls"
[ ! -e "$PYKAFKA4_CACHE/broken" ] || { echo "the hypervisor is not there" >&2; exit 1; }
[ "$1" != up ] || for node in $(seq "$KAFKA_NODES"); do mkdir -p "$VAGRANT_DOTFILE_PATH/machines/kafka$node/virtualbox"; done
"""
FIRST, SECOND = Virtual.NETS[:2]


@pytest.fixture(autouse=True)
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache, and a vagrant, of this test's own."""
    for name in ("bin", "cache"):
        (tmp_path / name).mkdir()
    for name, script in {"vagrant": VAGRANT, "ssh-keygen": "#!/bin/sh\n"}.items():
        (tmp_path / "bin" / name).write_text(script)
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("PYKAFKA4_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KAFKA_NODES", raising=False)


@pytest.fixture
def ward(tmp_path: Path) -> Iterator[Ward]:
    guardian = Ward(tmp_path / "scratch")
    yield guardian
    guardian.close()


def made(ward: Ward, nodes: int) -> Virtual:
    """That many virtual machines."""
    machines = Virtual()
    settings = {**machines.open(), "KAFKA_NODES": str(nodes)}
    machines.vagrant = Vagrant(machines.home(Path(os.devnull)), ward, "virtualbox", settings)
    machines.vagrant.run("up", timeout=30)
    return machines


def killed(machines: Virtual) -> None:
    """What SIGKILL leaves of a run: its lock is given back, and nothing else is done."""
    assert machines.lock is not None
    machines.lock.close()
    machines.lock = None


def calls() -> list[str]:
    """Those since the last time this was asked: the command, the number of nodes, and where the state is."""
    file = cache() / "calls"
    told = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return told


def state(net: str) -> Path:
    return cache() / "vagrant" / net / "state"


def test_each_run_has_a_network_of_its_own_and_gives_it_back() -> None:
    runs = [Virtual() for _ in Virtual.NETS]
    assert [run.open()["KAFKA_NET"] for run in runs] == list(Virtual.NETS)
    with pytest.raises(RuntimeError, match=f"{FIRST}.*locks in"):
        Virtual().open()
    runs[1].close()
    last = Virtual()
    assert last.open()["KAFKA_NET"] == SECOND
    for run in (*runs, last):
        run.close()
    assert calls() == [], "no machine was made, so none is destroyed"


def test_closing_destroys_the_machines_once_and_forgets_them(ward: Ward) -> None:
    machines = made(ward, 5)
    machines.close()
    machines.close()
    assert calls() == [f"up 5 vagrant/{FIRST}/state", f"destroy 5 vagrant/{FIRST}/state"]
    assert not state(FIRST).exists()


def test_machines_that_closing_could_not_destroy_are_found_by_a_later_run(ward: Ward) -> None:
    machines = made(ward, 3)
    (cache() / "broken").touch()
    with pytest.raises(VagrantFailed, match="hypervisor"):
        machines.close()
    (cache() / "broken").unlink()
    assert list(left()) == [FIRST]
    assert not state(FIRST).exists()


def test_all_machines_of_a_killed_run_are_destroyed_and_those_of_a_living_one_are_not(ward: Ward) -> None:
    gone, alive = made(ward, 5), made(ward, 2)
    killed(gone)
    calls()
    assert VagrantCluster.clean() == [f"virtual machines on {FIRST}"]
    assert calls() == [f"destroy 5 vagrant/{FIRST}/state"], "the Vagrantfile knows three machines unless it is told how many"
    assert [state(net).exists() for net in (FIRST, SECOND)] == [False, True]
    assert VagrantCluster.clean() == []
    alive.close()


def test_a_run_that_reuses_the_network_of_a_killed_run_destroys_its_machines_first(ward: Ward) -> None:
    killed(made(ward, 5))
    calls()
    machines = made(ward, 3)
    assert calls() == [f"destroy 5 vagrant/{FIRST}/state", f"up 3 vagrant/{FIRST}/state"]
    assert len(list((state(FIRST) / "machines").iterdir())) == 3
    machines.close()


def test_machines_that_cannot_be_destroyed_are_named_with_the_reason_and_stay_known_and_others_go(ward: Ward) -> None:
    for machines in [made(ward, 1), made(ward, 1)]:
        killed(machines)
    (cache() / "broken").touch()
    with pytest.raises(VagrantFailed, match=f"(?s){state(FIRST)}:.*hypervisor.*{state(SECOND)}:.*hypervisor"):
        VagrantCluster.clean()
    assert state(FIRST).exists()
    (cache() / "broken").unlink()
    assert len(VagrantCluster.clean()) == 2


def test_without_vagrant_what_is_missing_is_named_and_the_state_stays(ward: Ward, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert VagrantCluster.clean() == []
    killed(made(ward, 1))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingPrerequisite, match=r"vagrant is missing.*apt-get install"):
        VagrantCluster.clean()
    assert state(FIRST).exists()
