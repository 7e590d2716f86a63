"""Network: requests to any broker or to the controller, bootstrap addresses, and avoided brokers."""

from __future__ import annotations

from random import Random

from core_talk import config
from network_talk import HOSTS, Peer

from pykafka4.core import ANY, CONTROLLER
from pykafka4.core.network.network import Network, via
from pykafka4.error_table import Written
from pykafka4.errors import ConnectionLost


def test_any_goes_to_the_connected_broker_with_least_to_do() -> None:
    peer = Peer().placed()
    one, two = peer.open(1), peer.open(2)
    peer.submit(1)
    peer.submit(ANY)
    peer.poll(0.0)
    assert sorted(link for link, _, _ in peer.unanswered) == sorted([one, two])


def test_any_tries_one_address_after_the_other_and_waits_through_failures() -> None:
    peer = Peer(bootstrap_servers="b1:1,b2:2,b3:3")
    answers = peer.submit(ANY)
    attempts = peer.outage(0.0, 0.03)
    assert sorted(host for _, host in attempts) == ["b1", "b2", "b3"]
    assert not answers.outcomes
    now = 0.03
    while not peer.poll(now).connect:
        now = max(now, peer.effects.wake_at)
    link = peer.accept(now)
    peer.answer(now, link)
    assert answers.reply


def test_bootstrap_servers_are_not_always_tried_in_the_order_given() -> None:
    firsts = set()
    for seed in range(20):
        network = Network(config(bootstrap_servers="b1,b2,b3"), Random(seed))
        network.want(ANY)
        firsts.add(network.poll(0.0).connect[0].host)
    assert len(firsts) == 3


def test_any_fails_at_its_deadline_with_every_address_and_why() -> None:
    peer = Peer(bootstrap_servers="127.0.0.1:9092,kafka2:9092")
    answers = peer.submit(ANY, deadline=1.0)
    peer.outage(0.0, 1.0, {"kafka2": "host name not found"})
    peer.poll(1.0)
    assert isinstance(answers.failure.reason, ConnectionLost)
    assert str(answers.failure.reason) == "no broker reachable: 127.0.0.1:9092 connection refused; kafka2:9092 host name not found"
    assert answers.failure.written is Written.NO


def test_an_address_that_swallows_everything_does_not_hold_up_the_others() -> None:
    peer = Peer(bootstrap_servers="black-hole:1,good:2")
    peer.network.want(ANY)
    peer.poll(0.0)
    first = peer.connects[0]
    wake_at = peer.poll(0.0).wake_at
    assert wake_at <= 1.0
    peer.poll(wake_at)
    assert peer.connects[-1] != first


def test_any_avoids_a_broker_that_does_not_answer_while_there_is_another() -> None:
    peer = Peer().placed()
    peer.open(1)
    peer.submit(1)
    peer.poll(0.0)
    assert not peer.network.reachable(3.0)
    peer.submit(ANY, now=3.0)
    peer.poll(3.0)
    assert peer.connects[-1].host != "h1"


def test_any_takes_a_broker_that_does_not_answer_when_there_is_no_other() -> None:
    peer = Peer(bootstrap_servers="b1:1")
    peer.network.want(ANY)
    peer.poll(0.0)
    only = peer.accept(0.0)
    peer.submit(ANY)
    peer.poll(0.0)
    assert peer.network.reachable(10.0)
    peer.submit(ANY, now=10.0)
    peer.poll(10.0)
    assert [link for link, _, _ in peer.unanswered] == [only, only]


def asked_by_any(peer: Peer, now: float) -> int:
    """The link over which a request to ANY leaves; it is answered."""
    peer.submit(ANY, now=now)
    peer.poll(now)
    ((link, _, _),) = peer.unanswered
    peer.answer(now, link)
    return link


def test_any_prefers_other_brokers_for_a_while_to_one_that_is_avoided() -> None:
    peer = Peer().placed()
    links = {peer.open(node): node for node in (1, 2)}
    first = asked_by_any(peer, 1.0)
    assert asked_by_any(peer, 1.0) == first
    peer.network.avoid(1.0, links[first])
    second = asked_by_any(peer, 1.0)
    assert second != first
    peer.network.avoid(2.0, links[second])
    assert asked_by_any(peer, 2.0) == first, "of two that are avoided, the one whose avoidance began first"
    assert asked_by_any(peer, 11.5) == first, "it is no longer avoided"


def test_avoiding_the_only_connected_broker_connects_to_another_without_waiting_for_it() -> None:
    peer = Peer().placed()
    only = peer.open(1)
    peer.network.avoid(1.0, 1)
    assert asked_by_any(peer, 1.0) == only
    assert peer.connects[-1].host != "h1"
    attempts = len(peer.connects)
    peer.network.avoid(1.5, 1)
    peer.poll(1.5)
    assert len(peer.connects) == attempts, "one attempt at a time"
    other = peer.accept(2.0)
    assert asked_by_any(peer, 2.0) == other


def test_a_lane_to_the_only_broker_is_no_other_broker_to_ask() -> None:
    peer = Peer().placed()
    peer.open(1)
    peer.open(via(peer.network.new_lane(), 1))
    peer.network.avoid(1.0, 1)
    peer.poll(1.0)
    assert peer.connects[-1].host != "h1"


def test_a_bootstrap_server_can_be_avoided_while_only_bootstrap_servers_are_connected() -> None:
    peer = Peer()
    bootstrap = peer.open(-1)
    peer.placed()
    attempts = len(peer.connects)
    peer.network.avoid(1.0, -1)
    assert asked_by_any(peer, 1.0) == bootstrap
    assert len(peer.connects) == attempts + 1


def test_avoiding_brokers_opens_no_connection_while_no_broker_is_connected() -> None:
    peer = Peer().placed()
    peer.network.avoid(0.0, 1)
    peer.network.avoid(0.0, 9)
    peer.poll(0.0)
    assert not peer.connects


def test_bootstrap_connections_go_when_a_broker_of_the_cluster_is_connected() -> None:
    peer = Peer()
    bootstrap = peer.open(-1)
    peer.network.set_addresses(0.0, HOSTS)
    peer.poll(0.0)
    assert bootstrap not in peer.closed
    peer.open(2)
    peer.poll(0.0)
    assert bootstrap in peer.closed


def test_bootstrap_addresses_are_tried_again_when_no_known_broker_can_be_reached() -> None:
    peer = Peer(bootstrap_servers="b1:1").placed()
    peer.network.want(ANY)
    hosts = [host for _, host in peer.outage(0.0, 2.0)]
    assert set(hosts[:3]) == {"h1", "h2", "h3"}, "brokers come first"
    assert "b1" in hosts


def test_the_controller_is_asked_where_it_is_known_and_anyone_where_not() -> None:
    peer = Peer().placed()
    link = peer.open(2)
    peer.submit(CONTROLLER)
    peer.poll(0.0)
    assert [u[0] for u in peer.unanswered] == [link]
    peer.network.controller = 3
    peer.submit(CONTROLLER)
    peer.poll(0.0)
    assert peer.connects[-1].host == "h3"


# -- connections that nobody needs


def test_avoiding_every_broker_opens_no_connection_while_all_are_connected() -> None:
    peer = Peer().placed()
    for node in HOSTS:
        peer.open(node)
    attempts = len(peer.connects)
    for step in range(200):
        now = 1.0 + step * 0.05
        for node in HOSTS:
            peer.network.avoid(now, node)
        peer.poll(now)
        asked_by_any(peer, now)
    assert len(peer.connects) == attempts


def test_a_request_for_any_gets_out_although_every_broker_holds_back_an_older_one() -> None:
    peer = Peer().placed()
    links = [peer.open(node) for node in HOSTS]
    for node in HOSTS:
        peer.submit(node)
    peer.poll(0.0)
    assert len(peer.unanswered) == len(HOSTS)
    answers = peer.submit(ANY, now=3.0)
    peer.poll(3.0)
    spare = peer.accept(3.0)
    assert spare not in links
    assert peer.connects[-1].host in {"h1", "h2", "h3"}, "brokers, not the addresses of the configuration"
    peer.answer(3.1, spare)
    assert answers.reply


def test_the_spare_connection_is_kept_while_it_is_used_and_goes_when_it_is_not() -> None:
    peer = Peer().placed()
    for node in HOSTS:
        peer.open(node)
    stuck = [peer.submit(node) for node in HOSTS]
    peer.poll(0.0)
    attempts = len(peer.connects)
    now = 3.0
    peer.submit(ANY, now=now)
    peer.poll(now)
    spare = peer.accept(now)
    peer.answer(now, spare)
    for _ in range(100):
        now += 1.0
        assert asked_by_spare(peer, now, spare)
        assert spare not in peer.closed
    assert len(peer.connects) == attempts + 1
    while spare not in peer.closed:
        assert peer.poll(now).wake_at < now + 60.0
        now = max(now, peer.effects.wake_at)
    assert not any(answers.outcomes for answers in stuck), "the connections of the brokers are left alone"


def asked_by_spare(peer: Peer, now: float, spare: int) -> bool:
    answers = peer.submit(ANY, now=now)
    peer.poll(now)
    peer.answer(now, spare)
    return bool(answers.outcomes)


def test_a_frozen_broker_that_takes_the_spare_connection_is_not_waited_for() -> None:
    peer = Peer().placed()
    for node in HOSTS:
        peer.open(node)
    for node in HOSTS:
        peer.submit(node)
    peer.poll(0.0)
    attempts = len(peer.connects)
    answers, now = peer.submit(ANY, now=3.0), 3.0
    peer.poll(now)
    while len(peer.connects) < attempts + 2:  # nobody answers on the first one
        assert now < 5.0
        now = max(now + 0.01, peer.effects.wake_at)
        peer.poll(now)
    assert peer.connects[-1].host != peer.connects[-2].host
    peer.answer(now, peer.accept(now))
    assert answers.reply


def test_the_connections_of_a_lane_do_not_count_as_ways_to_any_broker() -> None:
    peer = Peer(bootstrap_servers="b1:1")
    peer.network.set_addresses(0.0, {1: HOSTS[1]})
    peer.open(1)
    lane = peer.network.new_lane()
    peer.network.want(via(lane, 1))
    peer.poll(0.0)
    peer.submit(1)
    peer.poll(0.0)
    answers = peer.submit(ANY, now=3.0)
    peer.poll(3.0)
    assert len(peer.connects) == 3, "the lane's connection is being opened, and it serves nobody else"
    peer.answer(3.0, peer.accept(3.0))
    assert answers.reply
