"""LocalCluster: ports that are taken, owners and guardians that are killed, folders that stay behind: nothing outlives its owner."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from integration.cluster import Cluster
from integration.host.ward import LOCK, PREFIX
from integration.local.cluster import LocalCluster
from integration.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.backend("local")]

ROOT = Path(__file__).parents[2]

OWNER = """
import json, os, sys
from integration.local.cluster import LocalCluster
cluster = LocalCluster(brokers=2)
cluster.up()
cluster.freeze(2)
pids = [cluster.pid(node) for node in cluster.nodes]
print(json.dumps({"brokers": pids, "guardian": cluster.ward.guardian.pid, "scratch": str(cluster.folder(1).parent)}), flush=True)
os.fork()  # the child outlives its parent here, and holds the guardian's pipe open
sys.stdin.read()
os._exit(0)
"""


def test_three_brokers_are_ready_in_30_seconds(cluster: Cluster) -> None:
    assert 0 < cluster.ready_after <= 30


def test_a_cluster_takes_other_ports_when_one_is_taken_at_the_last_moment() -> None:
    thieves: list[socket.socket] = []

    class Robbed(LocalCluster):
        def launch(self, node: int) -> None:
            if not thieves and self.ports is not None:
                port = self.members[node].client
                self.ports.release(port)
                thieves.append(stack.enter_context(socket.create_server(("127.0.0.1", port))))
            super().launch(node)

    with contextlib.ExitStack() as stack, Robbed(brokers=1) as robbed:
        assert robbed.address(1)[1] != thieves[0].getsockname()[1]
        assert robbed.admin.describe_cluster(1).brokers == {1}


def test_a_folder_left_by_a_killed_guardian_is_swept_and_a_live_one_is_not(cluster: Cluster, tmp_path: Path) -> None:
    assert isinstance(cluster, LocalCluster)
    dead, live = tmp_path / f"{PREFIX}dead", cluster.folder(1).parent
    dead.mkdir()
    (dead / LOCK).touch()
    with LocalCluster(brokers=1, scratch=tmp_path):
        assert not dead.exists()
    assert list(tmp_path.iterdir()) == []
    assert live.exists()


@pytest.mark.parametrize("victim", ["owner", "guardian"])
def test_no_broker_outlives_a_killed_process(victim: str) -> None:
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        try:
            assert owner.stdout is not None
            told = json.loads(owner.stdout.readline())
            brokers = [psutil.Process(pid) for pid in told["brokers"]]
            assert brokers[1].status() == psutil.STATUS_STOPPED
            os.kill(owner.pid if victim == "owner" else told["guardian"], signal.SIGKILL)
            until(lambda: not any(alive(broker) for broker in brokers), 20, "the brokers to end")
        finally:
            owner.kill()
    if victim == "owner":
        until(lambda: not Path(told["scratch"]).exists(), 20, "the scratch folder to go")
    else:  # its own end is not seen by anybody: the next cluster sweeps
        with LocalCluster(brokers=1):
            assert not Path(told["scratch"]).exists()


def alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
