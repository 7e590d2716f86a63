"""The cluster keeps its promises: faults really happen, end when asked, and nothing outlives its owner."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from integration.cluster import State
from integration.local import LOCK, PREFIX, LocalCluster
from integration.waiting import until
from pykafka4.errors import BrokerError

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]

OWNER = """
import json, os, sys
from integration.local import LocalCluster
cluster = LocalCluster(brokers=2)
cluster.up()
cluster.freeze(2)
pids = [cluster.pid(node) for node in cluster.nodes]
print(json.dumps({"brokers": pids, "guardian": cluster.ward.guardian.pid, "scratch": str(cluster.folder(1).parent)}), flush=True)
os.fork()  # the child outlives its parent here, and holds the guardian's pipe open
sys.stdin.read()
os._exit(0)
"""


def test_three_brokers_serve_and_agree_on_each_other(cluster: LocalCluster) -> None:
    views = [cluster.admin.describe_cluster(node) for node in cluster.nodes]
    assert all(view.brokers == {1, 2, 3} for view in views)
    assert len({view.cluster_id for view in views}) == 1
    assert cluster.controller() in cluster.nodes
    assert len(set(cluster.bootstrap.split(","))) == 3


def test_a_new_topic_has_leaders_and_full_isr_on_every_broker(cluster: LocalCluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=5, configs={"max.message.bytes": "2000000"})
    cluster.wait_full_isr([topic])
    assert sorted(cluster.partitions(topic)) == [0, 1, 2, 3, 4]
    assert all(len(row.replicas) == 3 for row in cluster.partitions(topic).values())
    cluster.add_partitions(topic, 7)
    assert len(cluster.partitions(topic)) == 7


def test_creating_a_topic_twice_is_refused_by_name(cluster: LocalCluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS"):
        cluster.create_topic(topic, partitions=1)


def test_a_deleted_topic_is_unknown_to_every_broker(cluster: LocalCluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    cluster.delete_topic(topic)
    assert not any(cluster.admin.knows(node, topic) for node in cluster.nodes)
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        cluster.delete_topic(topic)


def test_a_killed_leader_is_replaced_and_comes_back_in_sync(cluster: LocalCluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    old = cluster.leader(topic)
    cluster.kill(old)
    assert cluster.state(old) is State.DOWN
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(cluster.address(old), timeout=5)
    new = cluster.wait_leader(topic, other_than=old)
    assert new != old
    cluster.start(old)
    cluster.wait_full_isr([topic])
    assert set(cluster.partitions(topic)[0].isr) == {1, 2, 3}


def test_a_stopped_broker_hands_over_its_leaders_before_it_ends(cluster: LocalCluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    old = cluster.leader(topic)
    cluster.stop(old)
    assert cluster.wait_leader(topic, other_than=old, timeout=5) != old
    cluster.start(old)
    cluster.wait_full_isr([topic])


def test_a_frozen_broker_accepts_and_is_silent_until_it_is_thawed(cluster: LocalCluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    old = cluster.leader(topic)
    cluster.freeze(old)
    assert cluster.state(old) is State.FROZEN
    with socket.create_connection(cluster.address(old), timeout=5):
        cluster.wait_fenced(old)
    assert cluster.wait_leader(topic, other_than=old) != old
    cluster.thaw(old)
    cluster.wait_full_isr([topic])
    assert cluster.state(old) is State.RUNNING


def test_all_brokers_killed_come_back_together(cluster: LocalCluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    for node in cluster.nodes:
        cluster.kill(node)
    cluster.start_all()
    cluster.wait_full_isr([topic])
    assert cluster.broken() == []


def test_a_leader_moves_where_it_is_told(cluster: LocalCluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=2)
    for to in cluster.nodes:
        cluster.move_leader(topic, 1, to)
        assert cluster.wait_leader(topic, 1) == to


def test_heal_mends_what_a_test_broke(cluster: LocalCluster) -> None:
    cluster.kill(1)
    cluster.freeze(2)
    assert cluster.broken() == ["broker 1 is down", "broker 2 is frozen"]
    cluster.heal()
    assert cluster.broken() == []


def test_a_cluster_takes_other_ports_when_one_is_stolen_at_the_last_moment() -> None:
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


def test_a_folder_left_by_a_killed_guardian_is_swept_and_a_live_one_is_not(cluster: LocalCluster, tmp_path: Path) -> None:
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


def command_line(state: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYKAFKA4_CLUSTER": str(state)}
    command = [sys.executable, "-m", "integration.cluster", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False, **options)


def test_the_command_line_starts_breaks_mends_and_ends_a_cluster(tmp_path: Path) -> None:
    state = tmp_path / "cluster.json"
    try:
        up = command_line(state, "up")
        assert up.returncode == 0, up.stderr
        assert len(up.stdout.strip().split(",")) == 3
        assert "already up" in command_line(state, "up").stdout
        assert command_line(state, "kill", "2").stdout == "broker 2 is down\n"
        told = command_line(state, "status").stdout
        assert "broker 2: down" in told
        assert told.count("running") == 2
        assert command_line(state, "start", "2").stdout == "broker 2 is running\n"
        assert command_line(state, "freeze", "3").stdout == "broker 3 is frozen\n"
        assert command_line(state, "thaw", "3").stdout == "broker 3 is running\n"
        refused = command_line(state, "start", "1")
        assert refused.returncode == 1
        assert "broker 1 is running" in refused.stderr
    finally:
        down = command_line(state, "down")
    assert down.stdout == "down\n", down.stderr
    gone = command_line(state, "status")
    assert gone.returncode == 1
    assert "integration.cluster up" in gone.stderr
