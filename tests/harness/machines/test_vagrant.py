"""Machines made by Vagrant: the real commands work on them, provisioning twice changes nothing, and faults cost no record."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socketserver
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from docker.errors import APIError

from integration.cluster import Cluster, State
from integration.docker.engine import Engine
from integration.host import prerequisites
from integration.host.ward import Ward
from integration.kafka.jars import kafka_jars
from integration.kafka.settings import BROKER
from integration.vagrant import containers as vagrant_containers
from integration.vagrant.__main__ import by_hand
from integration.vagrant.cluster import LOG, VagrantCluster, write_settings
from integration.vagrant.containers import Containers
from integration.vagrant.machines import NODE
from integration.vagrant.tool import Vagrant, VagrantFailed, fixed
from integration.vagrant.virtual import Virtual
from integration.waiting import until
from integration.workload.load import Load, judge
from pykafka4 import Producer

ROOT = Path(__file__).parents[3]
VAGRANT = ROOT / "integration" / "vagrant"
COMMAND = 300.0
UNKNOWN = "no-such/machine:latest"
ELSEWHERE = ("127.0.0.1", 19_092)
MACHINE_FILES = "find /opt/kafka /etc/kafka /etc/init.d/kafka /etc/rc?.d /etc/passwd -printf '%p %T@ %s\\n' | sort"

VIRTUALBOX = '#!/bin/sh\nif [ "$1" = --version ]; then echo 7.0.20r163906; fi\n'

needs_vagrant = pytest.mark.skipif(
    not shutil.which("vagrant"), reason="vagrant is not installed; apt-get install -y --no-install-recommends vagrant"
)

OWNER = """
import sys
from integration.vagrant.cluster import VagrantCluster
cluster = VagrantCluster(brokers=1)
cluster.up()
print(cluster.machines.name(1), flush=True)
sys.stdin.read()
"""

# By hand: what a person would do with the printed addresses.
SEND = """
import os
from pykafka4 import Producer
with Producer(bootstrap_servers=os.environ["KAFKA_BOOTSTRAP"]) as producer:
    offset = producer.send("by-hand", b"1").result(60).offset
print(os.environ["KAFKA_BOOTSTRAP"], os.environ["KAFKA_NAME"], offset)
"""


# -- files, without any machine ------------------------------------------------------------------------------------------------


def test_machines_made_by_hand_have_the_settings_of_every_other_backend(tmp_path: Path) -> None:
    assert str(BROKER.relative_to(ROOT / "integration")) == "kafka/broker"
    assert 'File.join(HERE, "kafka", "broker")' in (ROOT / "Vagrantfile").read_text()
    write_settings(tmp_path, 3)
    assert sorted(made.name for made in tmp_path.iterdir()) == ["broker.properties", "jvm.options", "log4j2.yaml"]
    for made in tmp_path.iterdir():
        assert made.read_text().splitlines() == [line for line in (BROKER / made.name).read_text().splitlines() if line[0] != "#"]


@pytest.mark.parametrize("script", sorted((ROOT / "integration").rglob("*.sh")), ids=lambda path: path.name)
def test_a_script_is_executable_and_bash_can_read_it(script: Path) -> None:
    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", script], capture_output=True, text=True, timeout=10, check=False).stderr == ""


def validated(provider: str, folder: Path, place: Path = ROOT, **settings: str) -> subprocess.CompletedProcess[str]:
    """By the real Vagrant, the Vagrantfile at `place`; nothing is made."""
    stub = folder / "VBoxManage"
    stub.write_text(VIRTUALBOX)
    stub.chmod(0o755)
    home = {"VAGRANT_HOME": str(folder / "home"), "VAGRANT_DEFAULT_PROVIDER": provider, "PATH": f"{folder}:{os.environ['PATH']}"}
    environment = {**os.environ, **fixed(folder / "state"), "VAGRANT_CWD": str(place), **home, **settings}
    told = subprocess.run(["vagrant", "validate"], env=environment, capture_output=True, text=True, timeout=60, check=False)
    if provider == "libvirt" and "could not be found" in told.stderr:
        pytest.skip("vagrant-libvirt is not installed; apt-get install -y --no-install-recommends vagrant-libvirt")
    return told


@needs_vagrant
@pytest.mark.vagrant
@pytest.mark.smoke
@pytest.mark.parametrize("provider", ["virtualbox", "libvirt"])
def test_the_vagrantfile_is_valid_for_a_provider_of_virtual_machines(provider: str, tmp_path: Path) -> None:
    told = validated(provider, tmp_path)
    assert "validated successfully" in told.stdout, told.stderr


@needs_vagrant
@pytest.mark.vagrant
@pytest.mark.smoke
@pytest.mark.parametrize("provider", ["virtualbox", "libvirt"])
def test_a_setting_that_the_provider_has_not_got_is_refused(provider: str, tmp_path: Path) -> None:
    """Or else that a Vagrantfile is valid would say nothing about the provider's own block."""
    place = tmp_path / "misspelt"
    place.mkdir()
    (place / "integration").symlink_to(ROOT / "integration")
    (place / "Vagrantfile").write_text((ROOT / "Vagrantfile").read_text().replace("box.cpus", "box.cpuz"))
    refused = validated(provider, tmp_path, place)
    assert refused.returncode != 0
    assert "cpuz" in refused.stderr


@needs_vagrant
@pytest.mark.vagrant
@pytest.mark.smoke
def test_a_number_of_machines_that_is_none_is_refused_by_name(tmp_path: Path) -> None:
    refused = validated("virtualbox", tmp_path, KAFKA_NODES="three")
    assert refused.returncode != 0
    assert "three" in refused.stderr


def test_a_provider_or_a_release_that_no_machine_can_be_is_refused_before_anything_is_made() -> None:
    with pytest.raises(ValueError, match="docker, virtualbox, libvirt"):
        VagrantCluster(provider="hyperv")
    with pytest.raises(ValueError, match="or newer"):
        VagrantCluster(version="2.8.2")


# -- machines ------------------------------------------------------------------------------------------------------------------


def can_make_machines() -> None:
    missing = prerequisites.check() + Containers().missing()
    if missing:
        pytest.skip("; ".join(missing))


@pytest.fixture(scope="module")
def machines(request: pytest.FixtureRequest) -> Iterator[VagrantCluster]:
    """Three machines: the session's where it runs on them anyway."""
    if request.config.getoption("--cluster") == "vagrant":
        yield request.getfixturevalue("cluster")
        return
    can_make_machines()
    with VagrantCluster(provider="docker") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def single() -> Iterator[VagrantCluster]:
    """One machine that advertises another address."""
    can_make_machines()
    with VagrantCluster(brokers=1, advertised={1: ELSEWHERE}, properties={"message.max.bytes": "2000000"}, provider="docker") as cluster:
        yield cluster


def vagrant(cluster: VagrantCluster, *arguments: str) -> str:
    tool = cluster.opened().vagrant
    assert tool is not None
    return tool.run(*arguments, timeout=COMMAND)


def sh(cluster: VagrantCluster, node: int, script: str) -> str:
    """What a script prints in the machine; by way of a file, because an engine now and then loses what a command printed."""
    code, _ = cluster.opened().run(node, "bash", "-c", f"{{ {script}; }} >/tmp/told 2>&1")
    told = (cluster.opened().fetch(node, "/tmp/told") or b"").decode()
    assert code == 0, told
    return told


def broker(cluster: VagrantCluster, node: int) -> str:
    """The broker's process and when it began, as its machine says."""
    return sh(cluster, node, "ps -o pid=,lstart= -C java")


@pytest.mark.vagrant
def test_provisioning_again_changes_nothing(machines: VagrantCluster) -> None:
    before = [(sh(machines, node, MACHINE_FILES), broker(machines, node)) for node in machines.nodes]
    told = vagrant(machines, "provision")
    assert told.count("nothing to change") == 3
    assert "changed:" not in told
    assert [(sh(machines, node, MACHINE_FILES), broker(machines, node)) for node in machines.nodes] == before


@pytest.mark.vagrant
def test_provisioning_mends_what_was_changed_and_restarts_only_then(machines: VagrantCluster) -> None:
    others = [broker(machines, node) for node in (1, 3)]
    sh(machines, 2, "echo num.partitions=7 >>/etc/kafka/server.properties")
    told = vagrant(machines, "provision", "kafka2")
    assert [line.split("changed: ")[1] for line in told.splitlines() if "changed:" in line] == [
        "/etc/kafka/server.properties",
        "broker started",
    ]
    machines.wait_full_isr()
    assert [broker(machines, node) for node in (1, 3)] == others


@pytest.mark.vagrant
def test_the_commands_of_vagrant_work_on_the_machines(machines: VagrantCluster, topic: str) -> None:
    machines.create_topic(topic, 3)
    assert vagrant(machines, "status").count("running (docker)") == 3
    vagrant(machines, "halt", "kafka2")
    assert machines.state(2) is State.DOWN
    assert vagrant(machines, "status").count("running (docker)") == 2
    machines.wait_leader(topic, other_than=2)
    vagrant(machines, "up", "kafka2")
    machines.wait_full_isr([topic])
    vagrant(machines, "reload", "kafka3")
    machines.wait_full_isr([topic])
    assert "running" in vagrant(machines, "ssh", "kafka1", "--command", f"sudo {NODE} status")
    assert machines.broken() == []


@pytest.mark.vagrant
def test_destroy_of_a_healthy_cluster_leaves_no_machine() -> None:
    can_make_machines()
    with VagrantCluster(provider="docker") as cluster:
        vagrant(cluster, "destroy", "--force")
        assert vagrant(cluster, "status").count("not created (docker)") == 3
        assert cluster.state(1) is State.DOWN


def kill(cluster: VagrantCluster, victim: int) -> Callable[[], None]:
    cluster.kill(victim)
    return lambda: cluster.start(victim)


def freeze(cluster: VagrantCluster, victim: int) -> Callable[[], None]:
    cluster.freeze(victim)
    return lambda: cluster.thaw(victim)


def unplug(cluster: VagrantCluster, victim: int) -> Callable[[], None]:
    cluster.disconnect(victim)
    return lambda: cluster.reconnect(victim)


def power(cluster: VagrantCluster, victim: int) -> Callable[[], None]:
    cluster.cut_power(victim)
    return lambda: cluster.start(victim)


@pytest.mark.vagrant
@pytest.mark.parametrize("fault", [kill, freeze, unplug, power])
def test_a_fault_of_the_leaders_machine_neither_loses_nor_repeats(
    machines: VagrantCluster, topic: str, fault: Callable[[VagrantCluster, int], Callable[[], None]]
) -> None:
    with loaded(machines, topic) as load:
        until(lambda: load.last_ack[0], 30, "the first acknowledgement")
        victim = machines.leader(topic, 0)
        mend = fault(machines, victim)
        machines.wait_fenced(victim) if fault is not freeze else machines.wait_leader(topic, 0, other_than=victim)
        elected = time.monotonic()
        until(lambda: load.last_ack[0] > elected, 30, "an acknowledgement from the new leader")
        mend()
        machines.wait_full_isr([topic])


@pytest.mark.vagrant
def test_a_rolling_restart_by_the_machines_own_way_neither_loses_nor_repeats(machines: VagrantCluster, topic: str) -> None:
    with loaded(machines, topic) as load:
        for node in machines.nodes:
            machines.restart(node)
            back = time.monotonic()
            machines.wait_full_isr([topic])
            until(lambda back=back: min(load.last_ack) > back, 30, f"acknowledgements from every partition after broker {node} is back")


@pytest.mark.vagrant
def test_a_stop_without_a_quorum_ends_in_a_kill_soon_and_says_so(machines: VagrantCluster) -> None:
    machines.kill(1)
    machines.kill(2)
    began = time.monotonic()
    with pytest.raises(AssertionError, match="it was killed"):
        machines.stop(3)
    assert time.monotonic() - began < 15
    assert machines.state(3) is State.DOWN
    machines.start_all()
    machines.wait_full_isr()


@contextlib.contextmanager
def loaded(cluster: Cluster, topic: str) -> Iterator[Load]:
    """An idempotent producer sends during all that is in the block; after it, each record must be there once and in order."""
    cluster.create_topic(topic, 6)
    stop = threading.Event()
    with Producer(bootstrap_servers=cluster.bootstrap, request_timeout_ms=5_000) as producer:
        load = Load(producer, topic, 500, lambda sent: stop.is_set())
        load.start()
        try:
            yield load
        finally:
            stop.set()
            load.join(60)
    assert load.error is None
    verdict = judge(cluster, topic, load)
    assert not verdict.complaints()
    assert verdict.acked == verdict.sent > 500


# -- one machine ---------------------------------------------------------------------------------------------------------------


@pytest.mark.vagrant
def test_clients_get_the_advertised_address_and_the_judge_bypasses_it(single: VagrantCluster) -> None:
    assert single.bootstrap == "127.0.0.1:19092"
    assert single.listener_address(1) != ELSEWHERE
    assert single.admin.describe_cluster(1).brokers == {1}
    told = sh(single, 1, "cat /etc/kafka/server.properties")
    assert "CLIENT://127.0.0.1:19092" in told
    assert told.splitlines()[-1] == "message.max.bytes=2000000"


@pytest.mark.vagrant
def test_up_again_keeps_the_machine_and_empties_it(single: VagrantCluster, topic: str) -> None:
    single.create_topic(topic, 1)
    name, before = single.opened().name(1), single.admin.describe_cluster(1).cluster_id
    single.freeze(1)
    single.up()
    assert single.opened().name(1) == name
    assert single.admin.describe_cluster(1).cluster_id != before
    assert not single.admin.knows(1, topic)


@pytest.mark.vagrant
def test_ssh_does_what_the_engine_does(single: VagrantCluster) -> None:
    """As with virtual machines, which cannot run here: the same machine by the other way."""
    engine = single.opened()
    assert isinstance(engine, Containers)
    remote = Virtual()
    remote.vagrant, remote.net = engine.vagrant, engine.net
    try:
        for verb, status in {"freeze": 150, "thaw": 0}.items():
            assert remote.run(1, NODE, verb) == (0, "")
            assert remote.run(1, NODE, "status")[0] == engine.run(1, NODE, "status")[0] == status
        assert remote.fetch(1, LOG) == engine.fetch(1, LOG)
        assert remote.fetch(1, "/nowhere") is engine.fetch(1, "/nowhere") is None
        remote.disconnect(1)
        with pytest.raises(OSError):
            single.admin.describe_cluster(1)
        remote.reconnect(1)
        single.wait_ready()
    finally:
        remote.hang_up(1)


@pytest.mark.vagrant
def test_jars_come_from_an_archive_too(single: VagrantCluster, tmp_path: Path) -> None:
    archive = tmp_path / "kafka_2.13-4.4.0.tgz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as file:
        file.add(kafka_jars(), "kafka_2.13-4.4.0/libs")
    vagrant(single, "upload", str(archive), "/tmp/kafka.tgz", "kafka1")
    install = "LIBS=/nowhere UPLOAD=/tmp/elsewhere KAFKA_ARCHIVE=/tmp/kafka.tgz /tmp/elsewhere/provision.sh install"
    vagrant(single, "upload", str(VAGRANT / "provision.sh"), "/tmp/provision.sh", "kafka1")
    prepare = "mkdir -p /tmp/elsewhere; cp /opt/kafka/kafka-node /tmp/elsewhere/kafka-node.sh; cp /tmp/provision.sh /tmp/elsewhere"
    before = sh(single, 1, "cd /opt/kafka/libs && cksum *.jar")
    told = sh(single, 1, f"{prepare}; chmod 755 /tmp/elsewhere/provision.sh; {install}; {install}")
    assert told.count("changed: /opt/kafka/libs from archive") == 1
    assert sh(single, 1, "cd /opt/kafka/libs && cksum *.jar") == before


@pytest.mark.vagrant
def test_an_image_that_the_engine_has_not_got_is_an_error_and_no_registry_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an engine of its own asks of the world goes to a listener that counts, its proxy."""
    can_make_machines()
    monkeypatch.setattr(vagrant_containers, "machine_image", lambda client: UNKNOWN)
    with knocks() as (address, count), contextlib.closing(Ward(tmp_path / "scratch")) as ward:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            monkeypatch.setenv(name, address)
        containers = Containers()
        containers.engine = Engine(tmp_path / "engine")
        with contextlib.closing(containers) as machines:
            settings = {**machines.open(), "KAFKA_NODES": "1"}
            with pytest.raises(VagrantFailed, match=f"No such image: {UNKNOWN}"):
                Vagrant(tmp_path, ward, "docker", settings).run("up", timeout=COMMAND)
            assert count() == 0
            with pytest.raises(APIError):
                machines.engine.client.images.pull(UNKNOWN)
            assert count() > 0, "the listener would have been asked"


@contextlib.contextmanager
def knocks() -> Iterator[tuple[str, Callable[[], int]]]:
    """The address of a listener that closes every connection, and how many there were."""
    came: list[None] = []

    class Door(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            came.append(None)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Door) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", lambda: len(came)
        finally:
            server.shutdown()
            thread.join(10)


@pytest.mark.vagrant
def test_a_shell_for_work_by_hand_says_where_its_brokers_are_and_takes_its_machines_along() -> None:
    """Without a formatted folder to begin with, which the suite has: the node formats its own."""
    can_make_machines()
    command = [sys.executable, "-m", "integration.vagrant", "sh", "-ec", f"vagrant up; vagrant status; {sys.executable} -c '{SEND}'"]
    environment = {**os.environ, "KAFKA_NODES": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=COMMAND, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "running (docker)" in done.stdout
    bootstrap, name, offset = done.stdout.splitlines()[-1].split()
    assert f"`vagrant up` starts brokers at {bootstrap}\n" in done.stderr
    assert offset == "0"
    with Engine() as engine:
        assert engine.client.containers.list(all=True, filters={"name": name}) == []


@pytest.mark.vagrant
def test_two_shells_for_work_by_hand_share_neither_state_nor_names_nor_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_NODES", raising=False)
    can_make_machines()
    with contextlib.closing(Containers()) as one, contextlib.closing(Containers()) as other:
        first, second = by_hand(one), by_hand(other)
        own = ("VAGRANT_DOTFILE_PATH", "KAFKA_SETTINGS", "KAFKA_NAME", "KAFKA_NET", "KAFKA_BOOTSTRAP")
        assert all(first[name] != second[name] for name in own)
        assert first["KAFKA_BOOTSTRAP"] == ",".join(f"{first['KAFKA_NET']}.{10 + node}:9092" for node in (1, 2, 3))
        assert Path(first["KAFKA_SETTINGS"], "broker.properties").exists()
    assert not Path(first["KAFKA_SETTINGS"]).exists()


@pytest.mark.vagrant
def test_a_failing_command_says_what_vagrant_said(single: VagrantCluster) -> None:
    with pytest.raises(VagrantFailed, match="kafka9"):
        vagrant(single, "up", "kafka9")


@pytest.mark.vagrant
def test_no_machine_outlives_a_killed_process(single: VagrantCluster) -> None:
    engine = single.opened()
    assert isinstance(engine, Containers)
    with subprocess.Popen([sys.executable, "-c", OWNER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout is not None
            name = owner.stdout.readline().strip()
            containers = engine.engine.client.containers
            assert [one.name for one in containers.list(filters={"name": name})] == [name]
            os.kill(owner.pid, signal.SIGKILL)
            until(lambda: not containers.list(all=True, filters={"name": name}), 30, "the machine to go")
        finally:
            owner.kill()
