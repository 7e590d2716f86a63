"""Brokers in containers: each fault is the engine's own, and through all of them an idempotent producer loses and doubles nothing."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from docker.errors import APIError, ImageNotFound
from docker.models.images import ImageCollection

from integration.admin import Connection
from integration.cluster import State
from integration.docker import cluster as docker_cluster
from integration.docker.cluster import CLIENT, DockerCluster, environment
from integration.docker.engine import Engine
from integration.docker.no_registry import image, missing_for_engine
from integration.docker.no_registry.image import build
from integration.docker.place import CLUSTER
from integration.kafka.jars import KAFKA
from integration.kafka.settings import expand
from integration.waiting import until
from integration.workload.load import Load, judge
from pykafka4 import Consumer, Producer, TopicPartition
from pykafka4.wire.protocol.messages_cluster import MetadataRequest
from tests.integration.reading import produce, read, values

OWN_MISSING = "; ".join(missing_for_engine())
MISSING = "" if os.environ.get("DOCKER_HOST") else OWN_MISSING
pytestmark = [pytest.mark.docker, pytest.mark.skipif(bool(MISSING), reason=MISSING)]

ROOT = Path(__file__).parents[3]
RATE = 500  # records a second
LISTENERS = "listener.security.protocol.map"
READERS = 6  # each sends metadata requests to another broker, one or two to the stale one
FROM_THE_START = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "group_id": None}
ODD = {"some.property-with_all": "a=b, c"}

OWNER = """
import json, sys
from integration.docker.cluster import DockerCluster
cluster = DockerCluster(brokers=1)
cluster.up()
cluster.freeze(1)
print(json.dumps({"name": cluster.name, "scratch": str(cluster.server_log(1).parent)}), flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine() as running:
        yield running


@pytest.fixture(scope="module")
def brokers(engine: Engine) -> Iterator[DockerCluster]:
    """Three brokers for all tests of this file."""
    with DockerCluster(engine=engine, properties=ODD) as running:
        yield running


@pytest.fixture
def containers(brokers: DockerCluster, request: pytest.FixtureRequest) -> Iterator[DockerCluster]:
    """The same, found whole by every test and left whole or healed."""
    yield brokers
    left = brokers.broken()
    if left:
        brokers.keep_logs(ROOT / "build" / "logs" / "test_docker" / request.node.name)
        brokers.heal()
        pytest.fail(f"this test left {', '.join(left)}; the cluster was healed for the next one")


@attrs.define
class Line:
    """What leads to the registries, as the engine believes: a port of ours that counts knocks and hangs up."""

    listener: socket.socket
    knocks: int = 0

    def serve(self) -> None:
        with contextlib.suppress(OSError):  # the end of the test
            while True:
                self.listener.accept()[0].close()
                self.knocks += 1


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    """Before an engine starts, because that takes its proxies from the environment."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for name in ("HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{listener.getsockname()[1]}")
            monkeypatch.delenv(name.lower(), raising=False)
        for name in ("NO_PROXY", "no_proxy", "KAFKA_DOCKER_IMAGE"):
            monkeypatch.delenv(name, raising=False)
        counted = Line(listener)
        thread = threading.Thread(target=counted.serve)
        thread.start()
        yield counted
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


@contextlib.contextmanager
def load(cluster: DockerCluster, topic: str, bootstrap: str | None = None) -> Iterator[Load]:
    """An idempotent producer sends all the time; at the end the logs must hold every record once, in order, at its acknowledged offset."""
    cluster.create_topic(topic, 6)
    stop = threading.Event()
    with Producer(bootstrap_servers=bootstrap or cluster.bootstrap) as producer:
        running = Load(producer, topic, RATE, lambda _: stop.is_set())
        running.start()
        try:
            acknowledged(running)
            yield running
        finally:
            stop.set()
            running.join(60)
    verdict = judge(cluster, topic, running)
    assert running.error is None
    assert verdict.complaints() == []
    assert verdict.acked == verdict.sent > RATE


def acknowledged(running: Load) -> None:
    """Until every partition acknowledged a record from now on."""
    before = list(running.last_ack)
    until(lambda: all(now > then for now, then in zip(running.last_ack, before)), 60, "acknowledgements from every partition")


def fail_over(cluster: DockerCluster, running: Load, victim: int) -> None:
    """Until all partitions are led by others, and acknowledge."""
    for partition in range(6):
        assert cluster.wait_leader(running.topic, partition, other_than=victim) != victim
    acknowledged(running)


def whole_again(cluster: DockerCluster, running: Load) -> None:
    cluster.wait_ready()
    cluster.wait_full_isr([running.topic])
    assert cluster.broken() == []
    acknowledged(running)


def refused(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def told_leaders(address: str, topic: str) -> set[int]:
    """The leaders that the broker at `address` believes in."""
    host, _, port = address.partition(":")
    with contextlib.closing(Connection((host, int(port)))) as connection:
        answer = connection.request(MetadataRequest(topics=[MetadataRequest.Topic(name=topic)]))
    return {row.leader_id for row in answer.topics[0].partitions}


def test_a_container_gets_its_settings_by_its_environment(containers: DockerCluster) -> None:
    """Dots, dashes and underscores survive the way through names of variables, as in the image apache/kafka."""
    assert environment(ODD)["KAFKA_SOME_PROPERTY___WITH__ALL"] == "a=b, c"
    for node, member in containers.members.items():
        code, printed = member.container.exec_run(["cat", "/opt/kafka/server.properties"])
        assert code == 0
        found = dict(line.split("=", 1) for line in printed.decode().splitlines())
        assert found == containers.settings(node, member.advertised)
        assert found["some.property-with_all"] == "a=b, c"
        usual = {key: value for key, value in expand(3).items() if key != LISTENERS}
        assert {key: found[key] for key in usual} == usual
        assert (found["broker.session.timeout.ms"], found["broker.heartbeat.interval.ms"]) == ("2000", "400")
        assert found[LISTENERS] == f"{expand(3)[LISTENERS]},DIRECT:PLAINTEXT"


def test_brokers_agree_and_are_reached_published_and_directly(containers: DockerCluster, topic: str) -> None:
    containers.create_topic(topic, 6)
    views = [containers.admin.describe_cluster(node) for node in containers.nodes]
    assert [view.brokers for view in views] == [{1, 2, 3}] * 3
    assert containers.controller() in containers.nodes
    for bootstrap in (containers.bootstrap, containers.direct_bootstrap):
        assert [told_leaders(address, topic) for address in bootstrap.split(",")] == [{1, 2, 3}] * 3
    for node, member in containers.members.items():
        told = containers.inspect(node)
        assert told["HostConfig"]["Memory"] == 768 << 20
        assert told["NetworkSettings"]["Ports"] == {f"{CLIENT}/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(member.port)}]}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_brokers_have_what_every_codec_needs(containers: DockerCluster, topic: str, codec: str) -> None:
    """Libraries that jars unpack when they are used look for others in the image; the brokers compress again, to gzip and back."""
    for name, kept in ((topic, "producer"), (f"{topic}-again", "gzip" if codec != "gzip" else "zstd")):
        containers.create_topic(name, 1, configs={"compression.type": kept})
        with Producer(bootstrap_servers=containers.bootstrap, compression_type=codec) as producer:
            for n in range(100):
                producer.send(name, b"%d" % n)
        assert [record.value for record in containers.log(name)[0]] == [b"%d" % n for n in range(100)]


@pytest.mark.smoke
def test_a_killed_leader_loses_and_doubles_nothing(containers: DockerCluster, topic: str) -> None:
    with load(containers, topic) as running:
        victim = containers.wait_leader(topic)
        containers.kill(victim)
        assert containers.state(victim) is State.DOWN
        assert refused(containers.address(victim))
        fail_over(containers, running, victim)
        containers.start(victim)
        whole_again(containers, running)
    assert "INFO" not in containers.server_log(victim).read_text()


def test_a_frozen_leader_is_silent_and_loses_and_doubles_nothing(containers: DockerCluster, topic: str) -> None:
    with load(containers, topic) as running:
        victim = containers.wait_leader(topic)
        containers.freeze(victim)
        assert containers.state(victim) is State.FROZEN
        with pytest.raises(TimeoutError):
            Connection(containers.address(victim), timeout=0.5)
        fail_over(containers, running, victim)
        containers.thaw(victim)
        whole_again(containers, running)


def test_a_frozen_broker_can_be_killed(containers: DockerCluster) -> None:
    containers.freeze(2)
    containers.kill(2)
    assert containers.state(2) is State.DOWN
    containers.start(2)
    containers.wait_full_isr()


@pytest.mark.smoke
def test_a_disconnected_leader_loses_and_doubles_nothing(containers: DockerCluster, topic: str) -> None:
    with load(containers, topic) as running:
        victim = containers.wait_leader(topic)
        addresses = [network.address(victim) for network in containers.networks]
        containers.disconnect(victim)
        assert containers.broken() == [f"broker {victim} is disconnected"]
        assert containers.state(victim) is State.RUNNING
        assert refused(containers.address(victim))
        fail_over(containers, running, victim)
        containers.reconnect(victim)
        whole_again(containers, running)
        told = containers.inspect(victim)["NetworkSettings"]["Networks"]
        assert [told[network.name]["IPAddress"] for network in containers.networks] == addresses
        assert all(f"kafka{victim}" in told[network.name]["Aliases"] for network in containers.networks)


@pytest.mark.parametrize("way", ["direct", "published"])
def test_a_leader_cut_off_from_the_others_is_still_reached_and_nothing_is_lost_or_doubled(
    containers: DockerCluster, topic: str, way: str
) -> None:
    """The old leader still acts as leader, and its clients reach it: only metadata of other brokers can move them."""
    bootstrap = containers.direct_bootstrap if way == "direct" else containers.bootstrap
    with load(containers, topic, bootstrap) as running:
        victim = containers.wait_leader(topic)
        containers.cut(victim)
        assert containers.broken() == [f"broker {victim} is cut off from the others"]
        fail_over(containers, running, victim)
        for address in (containers.direct_bootstrap.split(",")[victim - 1], containers.bootstrap.split(",")[victim - 1]):
            assert victim in told_leaders(address, topic)
        containers.mend(victim)
        whole_again(containers, running)
    others = set(containers.nodes) - {victim}
    addresses = containers.direct_bootstrap.split(",")
    until(lambda: all(told_leaders(address, topic) == others for address in addresses), 10, "the old leader to learn that it is none")


def test_consumers_leave_a_leader_that_is_cut_off_whichever_broker_answers_metadata(containers: DockerCluster, topic: str) -> None:
    """It answers them all the time: that it leads, and that there is nothing new."""
    containers.create_topic(topic, 6)
    tps = [TopicPartition(topic, p) for p in range(6)]
    victim = containers.wait_leader(topic)
    with contextlib.ExitStack() as stack:
        readers = [
            stack.enter_context(Consumer(bootstrap_servers=containers.direct_bootstrap, metadata_max_age_ms=1_000, **FROM_THE_START))
            for _ in range(READERS)
        ]
        for reader in readers:
            reader.assign(tps)
        produce(containers, topic, 0, 60)
        assert [values(read(reader, 60)) for reader in readers] == [list(range(60))] * READERS
        containers.cut(victim)
        for partition in range(6):
            containers.wait_leader(topic, partition, other_than=victim)
        produce(containers, topic, 60, 120)
        assert [values(read(reader, 60)) for reader in readers] == [list(range(60, 120))] * READERS
        containers.mend(victim)
        containers.wait_full_isr([topic])


def test_a_rolling_restart_loses_and_doubles_nothing(containers: DockerCluster, topic: str) -> None:
    with load(containers, topic) as running:
        for node in containers.nodes:
            containers.restart(node)
            whole_again(containers, running)


def test_all_brokers_killed_come_back_together(containers: DockerCluster, topic: str) -> None:
    with load(containers, topic) as running:
        for node in containers.nodes:
            containers.kill(node)
        containers.start_all()
        whole_again(containers, running)


def test_what_a_test_breaks_is_named_and_healed(containers: DockerCluster) -> None:
    containers.disconnect(1)
    containers.kill(1)
    containers.freeze(2)
    containers.cut(3)
    assert containers.broken() == [
        "broker 1 is down",
        "broker 2 is frozen",
        "broker 1 is disconnected",
        "broker 3 is cut off from the others",
    ]
    containers.heal()
    assert containers.broken() == []


def test_the_ends_of_faults_do_nothing_to_a_whole_broker(containers: DockerCluster) -> None:
    for end in (containers.thaw, containers.mend, containers.reconnect):
        end(1)
    assert containers.broken() == []
    with pytest.raises(RuntimeError, match="running"):
        containers.start(1)


def test_other_ports_are_used_when_one_is_taken_at_the_last_moment(engine: Engine) -> None:
    thieves: list[socket.socket] = []

    class Robbed(DockerCluster):
        def launch(self, node: int) -> None:
            if not thieves and self.ports is not None:
                port = self.members[node].port
                self.ports.release(port)
                thieves.append(stack.enter_context(socket.create_server(("127.0.0.1", port))))
            super().launch(node)

    with contextlib.ExitStack() as stack, Robbed(brokers=1, engine=engine) as robbed:
        assert robbed.address(1)[1] != thieves[0].getsockname()[1]
        assert robbed.admin.describe_cluster(1).brokers == {1}
        name = robbed.name
    assert engine.client.containers.list(all=True, filters={"label": f"{CLUSTER}={name}"}) == []
    assert engine.client.networks.list(filters={"label": f"{CLUSTER}={name}"}) == []


def test_a_broker_that_ends_by_itself_says_why(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    wrong = {"num.io.threads": "none"}
    with pytest.raises(RuntimeError, match=r"num\.io\.threads") as caught, DockerCluster(1, properties=wrong, engine=engine):
        pass
    assert any(f"logs are kept in {tmp_path}" in note for note in caught.value.__notes__)


def test_the_containers_of_a_killed_process_are_removed(engine: Engine) -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        try:
            assert owner.stdout is not None
            told = json.loads(owner.stdout.readline())
            found = {"label": f"{CLUSTER}={told['name']}"}
            assert len(engine.client.containers.list(all=True, filters=found)) == 1
            owner.kill()
            until(lambda: not engine.client.containers.list(all=True, filters=found), 30, "the containers to go")
            until(lambda: not engine.client.networks.list(filters=found), 30, "the networks to go")
        finally:
            owner.kill()
    assert not Path(told["scratch"]).exists()


def test_an_image_that_the_user_names_is_run_and_pulled_only_when_it_is_not_there(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def pull(_images: ImageCollection, name: str) -> None:
        asked.append(name)
        raise ImageNotFound(f"no {name} anywhere")

    monkeypatch.setattr(ImageCollection, "pull", pull)
    mine = f"{image.REPOSITORY}-mine:1"
    engine.client.images.get(build(engine.client)).tag(mine)
    with DockerCluster(1, image=mine, engine=engine) as named:
        assert named.admin.describe_cluster(1).brokers == {1}
        assert named.inspect(1)["Config"]["Image"] == mine
    assert asked == []
    engine.client.images.remove(mine)
    monkeypatch.setenv("KAFKA_DOCKER_IMAGE", mine)
    with pytest.raises(ImageNotFound, match=mine):
        DockerCluster(1, engine=engine).up()
    assert asked == [mine]


@pytest.mark.skipif(bool(OWN_MISSING), reason=OWN_MISSING)
def test_no_registry_is_asked_by_an_empty_engine_unless_an_image_is_named(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engine(tmp_path / "engine") as fresh:
        with DockerCluster(1, engine=fresh) as cluster:
            assert cluster.admin.describe_cluster(1).brokers == {1}
        monkeypatch.setattr(docker_cluster, "broker_image", lambda *_: "no-such/image:1")
        with pytest.raises(ImageNotFound), DockerCluster(1, engine=fresh):
            pass
        assert line.knocks == 0
        with pytest.raises(APIError), DockerCluster(1, image="no-such/image:1", engine=fresh):
            pass
        assert line.knocks > 0


def test_the_image_is_made_once(engine: Engine) -> None:
    tag = build(engine.client)
    before = engine.client.images.get(tag).id
    assert build(engine.client) == tag
    assert engine.client.images.get(tag).id == before


def test_images_of_older_recipes_go_but_not_those_of_other_versions(engine: Engine) -> None:
    tag = build(engine.client)
    older, other = f"{image.REPOSITORY}:{KAFKA}-older", f"{image.REPOSITORY}:0.0-test"
    for name in (older, other):
        image.load(engine.client, name, [("etc/name", name.encode())], [])
    image.prune(engine.client, tag, f"{image.REPOSITORY}:{KAFKA}-")
    left = {name for found in engine.client.images.list() for name in found.tags}
    engine.client.images.remove(other)
    assert {tag, other} <= left
    assert older not in left
