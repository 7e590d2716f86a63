"""Network: lanes, which are further connections to the same broker."""

from __future__ import annotations

import logging

import pytest

from pykafka4.core import ANY
from pykafka4.core.network.network import via
from pykafka4.errors import ConnectionLost
from tests.core.network.network_harness import HOSTS, NetworkHarness
from tests.core.scripted_brokers import REFUSED


def test_a_lane_is_a_connection_of_its_own_to_the_same_broker() -> None:
    harness = NetworkHarness().placed()
    plain = harness.open(2)
    lane = harness.network.new_lane()
    held = harness.submit(via(lane, 2))
    harness.poll(0.0)
    own = harness.accept(0.0)
    assert own != plain
    assert harness.network.ready(via(lane, 2))
    harness.answer(0.0, own)
    assert held.reply.node == 2, "the broker, not the lane"


def test_lanes_differ_and_end() -> None:
    harness = NetworkHarness().placed()
    one, two = harness.network.new_lane(), harness.network.new_lane()
    first, second = harness.open(via(one, 2)), harness.open(via(two, 2))
    harness.network.drop_lane(one)
    harness.poll(0.0)
    assert first in harness.closed
    assert second not in harness.closed


def test_any_does_not_use_lanes() -> None:
    harness = NetworkHarness().placed()
    harness.open(via(harness.network.new_lane(), 2))
    assert not harness.network.reachable(0.0)
    assert via(5, ANY) == ANY


def test_a_lane_moves_with_its_broker() -> None:
    harness = NetworkHarness().placed()
    lane = harness.network.new_lane()
    harness.open(via(lane, 2))
    harness.network.set_addresses(1.0, {**HOSTS, 2: ("elsewhere", 9)})
    harness.poll(1.0)
    assert harness.connects[-1].host == "elsewhere"


def test_lanes_to_the_same_broker_report_no_change(caplog: pytest.LogCaptureFixture) -> None:
    harness = NetworkHarness().placed()
    lane = via(harness.network.new_lane(), 2)
    with caplog.at_level(logging.INFO, "pykafka4.network"):
        one, two = harness.open(2), harness.open(lane)
        harness.network.lost(1.0, one, REFUSED)
        harness.network.lost(1.0, two, REFUSED)
        harness.network.want(2)
        harness.network.want(lane)
        harness.outage(1.0, 5.0)
    said = [record.getMessage().replace(" (h2:2)", "").split(":")[1].strip() for record in caplog.records]
    assert said == ["connected to broker 2", "broker 2 disconnected", "cannot reach broker 2"]


def test_a_lane_that_was_given_up_is_not_connected_again_when_its_broker_moves() -> None:
    harness = NetworkHarness().placed()
    lane = harness.network.new_lane()
    link = harness.open(via(lane, 2))
    held = harness.submit(via(lane, 2), now=0.0)
    harness.poll(0.0)
    harness.network.drop_lane(lane)
    harness.network.set_addresses(1.0, {**HOSTS, 2: ("elsewhere", 2)})
    attempts = len(harness.connects)
    harness.poll(1.0)
    harness.poll(100.0)
    assert link in harness.closed
    assert isinstance(held.failure.reason, ConnectionLost)
    assert len(harness.connects) == attempts
    assert via(lane, 2) not in harness.network._endpoints
