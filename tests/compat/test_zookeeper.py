"""Old brokers as a backend: their ZooKeeper starts and ends with them, and operations that they do not support are refused."""

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

from integration.kafka.releases import Kind
from integration.local import cluster as local
from integration.local.cluster import LocalCluster
from integration.local.quorum import Node
from integration.local.zookeeper import NAME, ZooKeeper
from integration.waiting import until
from pykafka4 import UnsupportedVersion
from tests.compat.old_releases import marks, on

pytestmark = marks

ROOT = Path(__file__).parents[2]
OWNER = """
import json, sys
from integration.local.cluster import LocalCluster
cluster = LocalCluster(1, "2.1.1")
cluster.up()
pids = [child.pid for child in cluster.guarded().status().values()]
print(json.dumps({"pids": pids, "folder": str(cluster.folder(1).parent)}), flush=True)
sys.stdin.read()
"""


def test_a_killed_owner_ends_broker_and_zookeeper_and_removes_the_folder() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        told = json.loads(owner.stdout.readline())
        processes = [psutil.Process(pid) for pid in told["pids"]]
        assert len(processes) == 2
        os.kill(owner.pid, signal.SIGKILL)
        until(lambda: not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes), 20, "both JVMs to end")
        until(lambda: not Path(told["folder"]).exists(), 20, "the folder to go")


def test_another_port_is_tried_when_zookeepers_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    thieves: list[socket.socket] = []

    class Robbed(ZooKeeper):
        def begin(self, members: dict[int, Node]) -> None:  # type: ignore[override]
            if not thieves:
                self.site.ports.release(self.port)
                thieves.append(stack.enter_context(socket.create_server(("127.0.0.1", self.port))))
            super().begin(members)

    with contextlib.ExitStack() as stack:
        monkeypatch.setattr(local, "QUORUMS", {Kind.ZOOKEEPER: Robbed})
        other = stack.enter_context(LocalCluster(1, "2.1.1"))
        assert isinstance(other.quorum, ZooKeeper)
        assert other.quorum.port != thieves[0].getsockname()[1]
        assert other.quorum.registered() == {1}


@on("2.1.1")
def test_a_killed_broker_starts_again_when_its_session_is_over(cluster: LocalCluster) -> None:
    """It would end itself if it came back while ZooKeeper still holds its place."""
    assert isinstance(cluster.quorum, ZooKeeper)
    cluster.kill(1)
    assert cluster.quorum.registered() == {1}
    cluster.start(1)
    assert cluster.controller() == 1
    assert cluster.quorum.registered() == {1}


@on("2.1.1")
def test_what_a_release_does_not_support_is_refused_at_once(cluster: LocalCluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    with pytest.raises(UnsupportedVersion, match="AlterPartitionReassignmentsRequest"):
        cluster.move_leader(topic, 0, 1)


@on("2.1.1", "0.10.2.2")
def test_a_metadata_request_does_not_create_its_topic(cluster: LocalCluster, topic: str) -> None:
    assert not cluster.admin.knows(1, topic)
    cluster.create_topic(topic, 2)
    assert cluster.admin.knows(1, topic)
    cluster.delete_topic(topic)
    assert not cluster.admin.knows(1, topic)


def test_a_zookeeper_that_died_is_named() -> None:
    with LocalCluster(1, "2.1.1") as other:
        other.kill(1)
        other.guarded().signal(NAME, signal.SIGKILL)
        with pytest.raises(RuntimeError, match="ZooKeeper ended"):
            other.start(1, timeout=30)
        other.close()
