"""Network: its log lines, reasons and status."""

from __future__ import annotations

import logging

import pytest

from pykafka4.core import ANY
from pykafka4.core.network.network import via
from pykafka4.errors import ConnectionLost, HostNotAllowed
from tests.core.network.network_harness import NetworkHarness
from tests.core.scripted_brokers import REFUSED


def test_an_outage_is_logged_once_and_its_end_once(caplog: pytest.LogCaptureFixture) -> None:
    harness = NetworkHarness().placed()
    harness.network.want(2)
    with caplog.at_level(logging.INFO, "pykafka4.network"):
        now = 10.0
        assert len(harness.outage(0.0, now)) > 5
        assert len(caplog.records) == 1
        assert "connection refused" in caplog.text
        while not harness.poll(now).connect:
            now = max(now, harness.effects.wake_at)
        harness.accept(now)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_status_has_one_row_for_a_broker_that_is_also_a_bootstrap_address() -> None:
    harness = NetworkHarness(bootstrap_servers="h1:1,h2:2,lb:9")
    assert [row.node for row in harness.network.status(0.0)] == [-1, -2, -3], "no broker is known yet"
    harness.placed()
    assert [row.node for row in harness.network.status(0.0)] == [1, 2, 3]
    harness.network.want(ANY)
    harness.poll(0.0)
    harness.network.lost(0.0, harness.connects[-1].link, REFUSED)
    harness.outage(0.1, 20.0)
    rows = {(row.host, row.port): row.node for row in harness.network.status(20.0)}
    assert rows == {("h1", 1): 1, ("h2", 2): 2, ("h3", 3): 3, ("lb", 9): -3}, "why the bootstrap server cannot be reached"


def bootstrapped(address: str = "b1:1") -> NetworkHarness:
    """A network whose bootstrap address has answered, and told it the addresses h1, h2 and h3."""
    harness = NetworkHarness(bootstrap_servers=address)
    harness.network.want(ANY)
    harness.poll(0.0)
    harness.accept(0.0)
    return harness.placed()


def test_an_advertised_address_that_never_answers_is_explained_by_advertised_listeners() -> None:
    harness = bootstrapped()
    waiting = harness.submit(2)
    harness.outage(0.0, 1.0)
    assert "connection refused; broker 2 advertises this address: see its advertised.listeners" in harness.network.why_down(2)
    assert "advertised.listeners" in str(waiting.failure.reason)
    link = harness.open(1)
    harness.network.lost(1.0, link, REFUSED)
    assert "advertised" not in harness.network.why_down(1), "it has answered"


@pytest.mark.parametrize("connects", [False, True], ids=["the connection times out", "nothing answers on it"])
def test_an_advertised_address_without_an_answer_is_explained_too(connects: bool) -> None:
    harness = bootstrapped()
    harness.network.want(2)
    harness.poll(0.0)
    if connects:
        harness.network.connected(0.0, harness.connects[-1].link)
    harness.poll(60.0)
    assert "advertised.listeners" in harness.network.why_down(2)
    assert harness.network.down_since(2) == 0.0, "since the attempt began"


@pytest.mark.parametrize(
    ("bootstrap", "host", "told"), [("b1:1", "localhost", True), ("b1:1", "::1", True), ("127.0.0.1:1", "127.0.0.2", False)]
)
def test_an_advertised_loopback_address_is_named_where_the_bootstrap_address_is_none(bootstrap: str, host: str, told: bool) -> None:
    harness = bootstrapped(bootstrap)
    harness.network.set_addresses(0.0, {1: (host, 9)})
    harness.network.want(1)
    harness.outage(0.0, 1.0)
    why = harness.network.why_down(1)
    assert "advertised.listeners" in why
    assert ("every machine has for itself" in why) is told


def test_a_host_that_is_not_allowed_is_never_connected_to_and_named() -> None:
    harness = NetworkHarness(bootstrap_servers="b1:1", allowed_hosts=["h3", "10.0.0.0/8"])
    harness.network.want(ANY)
    harness.poll(0.0)
    harness.accept(0.0)
    harness.placed()
    harness.open(3)
    refused = harness.submit(2)
    assert harness.outage(0.0, 5.0) == []
    assert isinstance(refused.failure.reason, HostNotAllowed)
    assert harness.network.why_down(2) == "h2:2 not in allowed_hosts, though broker 2 advertises it"
    harness.network.set_addresses(5.0, {1: ("b1", 7), 2: ("10.7.7.7", 2)})
    for node in (1, 2):
        harness.network.want(node)
    harness.poll(5.0)
    assert [connect.host for connect in harness.connects[-2:]] == ["b1", "10.7.7.7"], "a bootstrap server, and one in the network"


def test_a_connection_that_was_lost_while_nobody_used_it_is_no_outage_until_an_attempt_fails() -> None:
    harness = NetworkHarness().placed()
    harness.network.lost(1.0, harness.open(2), ConnectionLost("closed by the peer: it was idle"))
    harness.poll(600.0)
    assert harness.network.down_since(2) is None
    harness.network.want(2)
    harness.outage(600.0, 601.0)
    assert harness.network.down_since(2) == 600.0


def test_why_down_names_the_address_of_a_node_and_its_error() -> None:
    harness = NetworkHarness(bootstrap_servers="b1:1,h2:2").placed()
    harness.open(1)
    assert harness.network.why_down(2) == "", "nothing has failed"
    harness.network.want(2)
    harness.outage(0.0, 1.0)
    assert harness.network.why_down(2) == "h2:2 connection refused"
    assert harness.network.why_down(1) == ""
    assert harness.network.why_down(9) == "", "nobody knows it"
    now = 1.0
    while not harness.poll(now).connect:
        now = harness.effects.wake_at
    assert harness.network.why_down(2) == "h2:2 connection refused", "the next attempt is under way"
    harness.accept(now)
    assert harness.network.why_down(2) == "", "it is connected again"
    assert {link.node: link.error for link in harness.network.status(0.0)}[2] is None


def test_why_unreachable_tells_the_latest_reason_of_an_address() -> None:
    harness = NetworkHarness(bootstrap_servers="h2:2").placed()
    link = harness.open(via(harness.network.new_lane(), 2))
    harness.network.lost(1.0, link, ConnectionLost("h2:2: the broker closed the connection"))
    harness.network.want(2)
    harness.outage(2.0, 3.0)
    assert harness.network.why_unreachable() == "no broker reachable: h2:2 connection refused"


def test_why_unreachable_names_the_addresses_that_have_not_responded() -> None:
    harness = NetworkHarness(bootstrap_servers="b1:1,b2:2")
    harness.network.want(ANY)
    harness.poll(0.0)
    assert harness.network.why_unreachable() == "no broker reachable: b1:1 has not responded yet; b2:2 has not responded yet"
    harness.network.want(-1)
    harness.poll(0.0)
    harness.network.lost(0.0, harness.connects[-1].link, REFUSED)
    assert "yet" not in harness.network.why_unreachable(), "one that failed says more"


def test_status_names_every_broker_its_state_and_its_last_error() -> None:
    harness = NetworkHarness(bootstrap_servers="b1:1,h2:2").placed()
    harness.open(1)
    harness.network.want(2)
    harness.poll(0.0)
    harness.network.lost(0.0, harness.connects[-1].link, REFUSED)
    shown = {link.node: (link.state, link.error, link.failures) for link in harness.network.status(0.0)}
    assert shown == {1: ("ready", None, 0), 2: ("idle", str(REFUSED), 1), 3: ("idle", None, 0)}
    assert {link.in_flight for link in harness.network.status(0.0)} == {0}
    assert harness.network.why_unreachable() == ""
