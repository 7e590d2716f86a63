"""Network: lanes, connections of one's own to a broker."""

from __future__ import annotations

import logging

import pytest
from core_talk import REFUSED
from network_talk import HOSTS, Peer

from pykafka4.core import ANY
from pykafka4.core.network.network import via
from pykafka4.errors import ConnectionLost


def test_a_lane_is_a_connection_of_its_own_to_the_same_broker() -> None:
    peer = Peer().placed()
    plain = peer.open(2)
    lane = peer.network.new_lane()
    held = peer.submit(via(lane, 2))
    peer.poll(0.0)
    own = peer.accept(0.0)
    assert own != plain
    assert peer.network.ready(via(lane, 2))
    peer.answer(0.0, own)
    assert held.reply.node == 2, "the broker, not the lane"


def test_lanes_differ_and_end() -> None:
    peer = Peer().placed()
    one, two = peer.network.new_lane(), peer.network.new_lane()
    first, second = peer.open(via(one, 2)), peer.open(via(two, 2))
    peer.network.drop_lane(one)
    peer.poll(0.0)
    assert first in peer.closed
    assert second not in peer.closed


def test_any_does_not_use_lanes() -> None:
    peer = Peer().placed()
    peer.open(via(peer.network.new_lane(), 2))
    assert not peer.network.reachable(0.0)
    assert via(5, ANY) == ANY


def test_a_lane_moves_with_its_broker() -> None:
    peer = Peer().placed()
    lane = peer.network.new_lane()
    peer.open(via(lane, 2))
    peer.network.set_addresses(1.0, {**HOSTS, 2: ("elsewhere", 9)})
    peer.poll(1.0)
    assert peer.connects[-1].host == "elsewhere"


def test_lanes_to_the_same_broker_are_no_news(caplog: pytest.LogCaptureFixture) -> None:
    peer = Peer().placed()
    lane = via(peer.network.new_lane(), 2)
    with caplog.at_level(logging.INFO, "pykafka4.network"):
        one, two = peer.open(2), peer.open(lane)
        peer.network.lost(1.0, one, REFUSED)
        peer.network.lost(1.0, two, REFUSED)
        peer.network.want(2)
        peer.network.want(lane)
        peer.outage(1.0, 5.0)
    said = [record.getMessage().replace(" (h2:2)", "").split(":")[1].strip() for record in caplog.records]
    assert said == ["connected to broker 2", "broker 2 disconnected", "cannot reach broker 2"]


def test_a_lane_that_was_given_up_is_not_connected_again_when_its_broker_moves() -> None:
    peer = Peer().placed()
    lane = peer.network.new_lane()
    link = peer.open(via(lane, 2))
    held = peer.submit(via(lane, 2), now=0.0)
    peer.poll(0.0)
    peer.network.drop_lane(lane)
    peer.network.set_addresses(1.0, {**HOSTS, 2: ("elsewhere", 2)})
    attempts = len(peer.connects)
    peer.poll(1.0)
    peer.poll(100.0)
    assert link in peer.closed
    assert isinstance(held.failure.reason, ConnectionLost)
    assert len(peer.connects) == attempts
    assert via(lane, 2) not in peer.network._endpoints
