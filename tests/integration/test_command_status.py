"""`pykafka4 status` on real brokers: each fault is found with its cause, and a diagnosis ends in time whatever brokers do."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from integration.cluster import Cluster
from integration.local.cluster import LocalCluster
from integration.security.certificates import Authority
from integration.security.settings import Security
from integration.waiting import until
from pykafka4 import AdminClient, Consumer, GroupDescription, NewTopic, Producer, ShareConsumer
from pykafka4.diagnosis import cluster as looks
from pykafka4.diagnosis.values import Outcome
from tests.diagnosis.looking import closed, findings, of, outcomes, wrong
from tests.integration.reading import delete_topics_of

pytestmark = [pytest.mark.cluster, pytest.mark.backend("local")]

IN_TIME_S = 8.0
STEPS = ["names", "ports", "login", "brokers", "listeners", "controller", "clock", "topics", "leaders", "replicas", "groups"]


@pytest.fixture(scope="module")
def guarded() -> Iterator[LocalCluster]:
    """One broker that wants TLS and a password, and allows users nothing."""
    users = {"alice": "alice-secret", "administrator": "secret"}
    security = Security(mechanisms=("SCRAM-SHA-256", "PLAIN"), authorizer=True, users=users, super_users=("administrator",))
    with LocalCluster(1, security=security) as brokers:
        yield brokers


# ---- three brokers


@pytest.fixture
def topic(cluster: Cluster, topic: str) -> Iterator[str]:
    """Deleted at the end: with few replicas it would be without a leader when a later test kills a broker."""
    yield topic
    delete_topics_of(cluster, topic)


def test_a_sound_cluster_is_fine_in_every_step(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1, 3)
    shared = f"{topic}-share"
    with Producer(**cluster.client) as producer, Consumer(**cluster.client, group_id=topic, auto_offset_reset="earliest") as consumer:
        producer.send(topic, b"value").result(30)
        consumer.subscribe([topic])
        assert next(iter(consumer)).value == b"value"
        consumer.commit()
        with ShareConsumer(**cluster.client, group_id=shared) as sharing:
            sharing.subscribe([topic])
            until(lambda: sharing.poll(0.5) or admitted(cluster, shared), 30.0, "a member of the share group")
            found = findings(cluster.bootstrap, 30.0, topics=[topic], groups=[topic, shared], **security(cluster))
    assert {one.outcome for one in found} == {Outcome.FINE}, found
    assert [step for step in outcomes(found) if step != "tls"] == STEPS
    assert [one.evidence.partition(", lag")[0] for one in of(found, "groups") if "member" in one.what] == ["state Stable, 1 member"] * 2


def admitted(cluster: Cluster, group: str) -> bool:
    with AdminClient(**cluster.client) as admin:
        found = admin.describe_groups([group])[group]
    return isinstance(found, GroupDescription) and bool(found.members)


def security(cluster: Cluster) -> dict[str, Any]:
    return {name: value for name, value in cluster.client.items() if name != "bootstrap_servers"}


def test_a_killed_broker_is_told_before_what_lacks_it(cluster: Cluster, topic: str) -> None:
    victim = 3
    with AdminClient(**cluster.client) as admin:
        admin.create_topics([f"{topic}-three"], replication_factor=3, configs={"min.insync.replicas": "3"}, wait=True)
        admin.create_topics([f"{topic}-two"], replication_factor=3, configs={"min.insync.replicas": "2"}, wait=True)
        admin.create_topics({f"{topic}-alone": NewTopic(assignments={0: [victim]})}, wait=True)
    cluster.kill(victim)
    try:
        cluster.wait_fenced(victim)
        found = findings(cluster.bootstrap, topics=[f"{topic}-{name}" for name in ("three", "two", "alone")], **security(cluster))
    finally:
        cluster.start(victim)
    steps = [step for step, _ in wrong(found)]
    assert steps == ["ports", "brokers", "leaders", "replicas", "replicas"], found
    alone, under, behind = (one for one in found if one.step in ("leaders", "replicas"))
    assert alone.evidence.startswith(f"{topic}-alone-0 (replicas {victim}")
    assert (under.evidence.split()[0], behind.evidence.split()[0]) == (f"{topic}-three-0", f"{topic}-two-0")
    assert "acks=all" in under.what
    assert {f"start broker {victim}" in one.way_out for one in (alone, under, behind)} == {True}


def test_a_diagnosis_ends_in_time_with_a_frozen_broker(cluster: Cluster, request: pytest.FixtureRequest) -> None:
    frozen = cluster.bootstrap.split(",")[1]
    cluster.freeze(2)
    request.addfinalizer(lambda: cluster.thaw(2))
    for servers, sound in ((cluster.bootstrap, 2), (frozen, 0)):
        began = time.monotonic()
        found = findings(servers, timeout=IN_TIME_S, **security(cluster))
        assert time.monotonic() - began < IN_TIME_S + 1
        silent = [one for one in found if one.what == "accepts connections, but does not respond"]
        assert [one.about for one in silent] == [frozen]
        assert len([one for one in of(found, "login") if one.outcome is Outcome.FINE]) == sound


def test_a_clock_that_is_off_is_told(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "wall_s", lambda: time.time() - 60.0)
    (clock,) = of(findings(cluster.bootstrap, **security(cluster)), "clock")
    assert clock.outcome is Outcome.WRONG
    assert re.search(r"it is (59\.9|60\.0)", clock.evidence)
    assert "ahead" in clock.evidence


# ---- a guarded broker

TLS = {"security_protocol": "SSL", "sasl_mechanism": None, "sasl_username": None, "sasl_password": None}
PLAIN = {**TLS, "security_protocol": "PLAINTEXT", "ssl_cafile": None}
# name: options in place of those that are right, the step, words of the way out
FAULTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "wrong port": ({"bootstrap_servers": "closed"}, "ports", "check the port"),
    "TLS against plaintext": ({**TLS, "bootstrap_servers": "plain"}, "tls", "security_protocol to PLAINTEXT"),
    "SASL against plaintext": (
        {"security_protocol": "SASL_PLAINTEXT", "ssl_cafile": None, "bootstrap_servers": "plain"},
        "login",
        "no login",
    ),
    "plaintext against TLS": (PLAIN, "login", "set security_protocol to SSL"),
    "TLS without a login": (TLS, "login", "sasl_mechanism"),
    "an authority that is not trusted": ({"ssl_cafile": None, "ssl_ca_pem": Authority().pem.decode()}, "tls", "set ssl_cafile"),
    "wrong password": ({"sasl_password": "wrong"}, "login", "sasl_password"),
    "a mechanism that is not offered": ({"sasl_mechanism": "SCRAM-SHA-512"}, "login", "one that the broker offers"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_who_is_not_let_in_is_told_why(guarded: LocalCluster, fault: str) -> None:
    changes, step, words = FAULTS[fault]
    options = {name: value for name, value in {**guarded.client, **changes}.items() if value is not None}
    plain = "{}:{}".format(*guarded.admin_address(1))
    servers = {"closed": closed(), "plain": plain}.get(options["bootstrap_servers"], guarded.bootstrap)
    found = findings(servers, IN_TIME_S, **{name: value for name, value in options.items() if name != "bootstrap_servers"})
    (bad,) = [one for one in found if one.outcome is Outcome.WRONG]
    assert bad.step == step
    assert words in bad.way_out
    assert "wrong" not in bad.evidence


def test_rights_that_are_missing_are_told_with_how_to_grant_them(guarded: LocalCluster, topic: str) -> None:
    guarded.create_topic(topic, 1, 1)
    options = security(guarded)
    ways = {one.step: one for one in findings(guarded.bootstrap, topics=[topic], groups=["g"], **options) if one.way_out}
    assert {step: one.outcome for step, one in ways.items()} == {
        "controller": Outcome.UNSEEN,
        "topics": Outcome.WRONG,
        "groups": Outcome.WRONG,
    }
    assert all("kafka-acls --add" in one.way_out for one in ways.values())
    guarded.access.grant("alice", "read", "topic", topic)
    notice = of(findings(guarded.bootstrap, topics=[topic], **options), "topics")[0]
    assert (notice.outcome, notice.what) == (Outcome.NOTICE, "this user may not WRITE: producers are refused")


def test_the_command_is_code_1_and_prints_an_object_a_line(guarded: LocalCluster, tmp_path: Any) -> None:
    path = tmp_path / "client.properties"
    names = {"ssl_cafile": "ssl.ca.location"}
    path.write_text("\n".join(f"{names.get(name, name.replace('_', '.'))}={value}" for name, value in guarded.client.items()))
    done = subprocess.run(
        [sys.executable, "-m", "pykafka4", "status", "--config", path, "--group", "g", "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1, done.stderr
    assert [line["step"] for line in lines if line["outcome"] == "wrong"] == ["groups"]
    assert "alice-secret" not in done.stdout + done.stderr
