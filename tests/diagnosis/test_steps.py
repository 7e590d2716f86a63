"""Diagnoses of model clusters: each fault is found with its way out, and what follows from it is hidden."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from pykafka4.diagnosis.steps import STEPS
from pykafka4.diagnosis.values import Outcome
from pykafka4.errors import ConfigError
from pykafka4.testing import ModelCluster, ModelServer
from tests.diagnosis.looking import SLACK_S, closed, findings, of, outcomes, wrong

THREE = pytest.mark.model(brokers=3, topics={"t": 3})


def parts(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


@THREE
def test_a_sound_cluster_is_fine_in_every_step(server: ModelServer) -> None:
    found = findings(server.bootstrap_servers)
    assert list(outcomes(found)) == ["names", "ports", "login", "brokers", "listeners", "controller", "leaders", "replicas"]
    assert {one.outcome for one in found} == {Outcome.FINE}
    assert [one.about for one in of(found, "listeners")] == [
        f"broker {node} at {address}" for node, address in enumerate(server.bootstrap_servers.split(","), 1)
    ]


def test_options_that_no_client_takes_are_refused() -> None:
    with pytest.raises(ConfigError):
        findings("127.0.0.1:9092", security_protocol="SSL", ssl_cafile="/nowhere.pem")


@pytest.mark.model(brokers=1)
def test_an_option_that_needs_a_package_is_refused_when_a_client_is_made(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigError, match="gssapi"):
        findings(server.bootstrap_servers, security_protocol="SASL_PLAINTEXT", sasl_mechanism="GSSAPI")


@THREE
def test_a_stopped_broker_is_told_before_the_replicas_that_are_behind(server: ModelServer) -> None:
    server.do(lambda cluster: cluster.stop_broker(1))
    found = findings(server.bootstrap_servers)
    assert wrong(found) == [("ports", server.bootstrap_servers.split(",")[0]), ("replicas", "")]
    assert of(found, "replicas")[-1].way_out == "start broker 1"


# name: what a test does to the cluster, the step that finds it, words of the way out
FAULTS: dict[str, tuple[Callable[[ModelCluster], Any], str, str]] = {
    "no leader": (lambda c: c.orphan("t", 1, 60.0), "leaders", "controllers elect leaders"),
    "a follower behind": (lambda c: c.shrink_isr("t", 1, 60.0), "replicas", "replica.lag.time.max.ms"),
    "an address that nobody listens at": (lambda c: c.move_address(2, *parts(closed())), "ports", "advertised.listeners"),
    "an address that no host has": (lambda c: c.move_address(2, "kafka.invalid", 9092), "names", "advertised.listeners"),
}


@THREE
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_cluster_is_found(server: ModelServer, fault: str) -> None:
    act, step, words = FAULTS[fault]
    bootstrap = server.bootstrap_servers.split(",")[0]
    server.do(act)
    (bad,) = [one for one in findings(bootstrap) if one.outcome is Outcome.WRONG]
    assert bad.step == step
    assert words in bad.way_out


@THREE
def test_a_host_that_may_not_be_connected_to_is_told(server: ModelServer) -> None:
    bootstrap = server.bootstrap_servers.split(",")[0]
    server.do(lambda cluster: cluster.move_address(2, "elsewhere.invalid", 9092))
    assert wrong(findings(bootstrap, allowed_hosts="127.0.0.1")) == [("listeners", "broker 2 at elsewhere.invalid:9092")]


def test_servers_of_different_clusters_are_told(server: ModelServer) -> None:
    with ModelServer() as other:
        other.do(lambda cluster: setattr(cluster, "cluster_id", "other"))
        found = findings(f"{server.bootstrap_servers},{other.bootstrap_servers}")
    assert ("login", "") in wrong(found)
    assert "is of other" in of(found, "login")[-1].evidence


@THREE
def test_a_diagnosis_ends_in_time_while_all_brokers_are_frozen(server: ModelServer) -> None:
    for node in (1, 2, 3):
        server.do(lambda cluster, node=node: cluster.freeze(node, 60.0))
    began = time.monotonic()
    found = findings(server.bootstrap_servers, timeout=1.0)
    assert time.monotonic() - began < 1.5 + SLACK_S
    assert wrong(found) == [("login", address) for address in server.bootstrap_servers.split(",")]


@THREE
def test_a_step_that_would_begin_too_late_is_wrong(server: ModelServer) -> None:
    found = findings(server.bootstrap_servers, timeout=0.001)
    assert wrong(found) == [("names", "")]
    assert found[0].what == "comes too late, as do the steps after it"


def test_each_step_has_a_limit() -> None:
    assert all(0 < step.seconds <= 12 for step in STEPS)
