"""Network: requests to any broker or to the controller, bootstrap addresses, and avoided brokers."""

from __future__ import annotations

from random import Random

from pykafka4.core import ANY, CONTROLLER
from pykafka4.core.network.network import Network, via
from pykafka4.errors import ConnectionLost
from pykafka4.records import Written
from tests.core.network.network_harness import HOSTS, NetworkHarness
from tests.core.scripted_brokers import config


def test_any_goes_to_the_connected_broker_with_least_to_do() -> None:
    harness = NetworkHarness().placed()
    one, two = harness.open(1), harness.open(2)
    harness.submit(1)
    harness.submit(ANY)
    harness.poll(0.0)
    assert sorted(link for link, _, _ in harness.unanswered) == sorted([one, two])


def test_any_tries_one_address_after_the_other_and_waits_through_failures() -> None:
    harness = NetworkHarness(bootstrap_servers="b1:1,b2:2,b3:3")
    answers = harness.submit(ANY)
    attempts = harness.outage(0.0, 0.03)
    assert sorted(host for _, host in attempts) == ["b1", "b2", "b3"]
    assert not answers.outcomes
    now = 0.03
    while not harness.poll(now).connect:
        now = max(now, harness.effects.wake_at)
    link = harness.accept(now)
    harness.answer(now, link)
    assert answers.reply


def test_bootstrap_servers_are_not_always_tried_in_the_order_given() -> None:
    firsts = set()
    for seed in range(20):
        network = Network(config(bootstrap_servers="b1,b2,b3"), Random(seed))
        network.want(ANY)
        firsts.add(network.poll(0.0).connect[0].host)
    assert len(firsts) == 3


def test_any_fails_at_its_deadline_with_every_address_and_why() -> None:
    harness = NetworkHarness(bootstrap_servers="127.0.0.1:9092,kafka2:9092")
    answers = harness.submit(ANY, deadline=1.0)
    harness.outage(0.0, 1.0, {"kafka2": "host name not found"})
    harness.poll(1.0)
    assert isinstance(answers.failure.reason, ConnectionLost)
    assert str(answers.failure.reason) == "no broker reachable: 127.0.0.1:9092 connection refused; kafka2:9092 host name not found"
    assert answers.failure.written is Written.NO


def test_an_address_that_drops_packets_does_not_delay_the_others() -> None:
    harness = NetworkHarness(bootstrap_servers="black-hole:1,good:2")
    harness.network.want(ANY)
    harness.poll(0.0)
    first = harness.connects[0]
    wake_at = harness.poll(0.0).wake_at
    assert wake_at <= 1.0
    harness.poll(wake_at)
    assert harness.connects[-1] != first


def test_any_avoids_a_broker_that_does_not_answer_while_there_is_another() -> None:
    harness = NetworkHarness().placed()
    harness.open(1)
    harness.submit(1)
    harness.poll(0.0)
    assert not harness.network.reachable(3.0)
    harness.submit(ANY, now=3.0)
    harness.poll(3.0)
    assert harness.connects[-1].host != "h1"


def test_any_takes_a_broker_that_does_not_answer_when_there_is_no_other() -> None:
    harness = NetworkHarness(bootstrap_servers="b1:1")
    harness.network.want(ANY)
    harness.poll(0.0)
    only = harness.accept(0.0)
    harness.submit(ANY)
    harness.poll(0.0)
    assert harness.network.reachable(10.0)
    harness.submit(ANY, now=10.0)
    harness.poll(10.0)
    assert [link for link, _, _ in harness.unanswered] == [only, only]


def asked_by_any(harness: NetworkHarness, now: float) -> int:
    """The link over which a request to ANY leaves; it is answered."""
    harness.submit(ANY, now=now)
    harness.poll(now)
    ((link, _, _),) = harness.unanswered
    harness.answer(now, link)
    return link


def test_any_prefers_other_brokers_for_a_while_to_one_that_is_avoided() -> None:
    harness = NetworkHarness().placed()
    links = {harness.open(node): node for node in (1, 2)}
    first = asked_by_any(harness, 1.0)
    assert asked_by_any(harness, 1.0) == first
    harness.network.avoid(1.0, links[first])
    second = asked_by_any(harness, 1.0)
    assert second != first
    harness.network.avoid(2.0, links[second])
    assert asked_by_any(harness, 2.0) == first, "of two that are avoided, the one whose avoidance began first"
    assert asked_by_any(harness, 11.5) == first, "it is no longer avoided"


def test_avoiding_the_only_connected_broker_connects_to_another_without_waiting_for_it() -> None:
    harness = NetworkHarness().placed()
    only = harness.open(1)
    harness.network.avoid(1.0, 1)
    assert asked_by_any(harness, 1.0) == only
    assert harness.connects[-1].host != "h1"
    attempts = len(harness.connects)
    harness.network.avoid(1.5, 1)
    harness.poll(1.5)
    assert len(harness.connects) == attempts, "one attempt at a time"
    other = harness.accept(2.0)
    assert asked_by_any(harness, 2.0) == other


def test_a_lane_to_the_only_broker_is_no_other_broker_to_ask() -> None:
    harness = NetworkHarness().placed()
    harness.open(1)
    harness.open(via(harness.network.new_lane(), 1))
    harness.network.avoid(1.0, 1)
    harness.poll(1.0)
    assert harness.connects[-1].host != "h1"


def test_a_bootstrap_server_can_be_avoided_while_only_bootstrap_servers_are_connected() -> None:
    harness = NetworkHarness()
    bootstrap = harness.open(-1)
    harness.placed()
    attempts = len(harness.connects)
    harness.network.avoid(1.0, -1)
    assert asked_by_any(harness, 1.0) == bootstrap
    assert len(harness.connects) == attempts + 1


def test_avoiding_brokers_opens_no_connection_while_no_broker_is_connected() -> None:
    harness = NetworkHarness().placed()
    harness.network.avoid(0.0, 1)
    harness.network.avoid(0.0, 9)
    harness.poll(0.0)
    assert not harness.connects


def test_bootstrap_connections_go_when_a_broker_of_the_cluster_is_connected() -> None:
    harness = NetworkHarness()
    bootstrap = harness.open(-1)
    harness.network.set_addresses(0.0, HOSTS)
    harness.poll(0.0)
    assert bootstrap not in harness.closed
    harness.open(2)
    harness.poll(0.0)
    assert bootstrap in harness.closed


def test_bootstrap_addresses_are_tried_again_when_no_known_broker_can_be_reached() -> None:
    harness = NetworkHarness(bootstrap_servers="b1:1").placed()
    harness.network.want(ANY)
    hosts = [host for _, host in harness.outage(0.0, 2.0)]
    assert set(hosts[:3]) == {"h1", "h2", "h3"}, "brokers come first"
    assert "b1" in hosts


def test_the_controller_is_asked_where_it_is_known_and_anyone_where_not() -> None:
    harness = NetworkHarness().placed()
    link = harness.open(2)
    harness.submit(CONTROLLER)
    harness.poll(0.0)
    assert [u[0] for u in harness.unanswered] == [link]
    harness.network.controller = 3
    harness.submit(CONTROLLER)
    harness.poll(0.0)
    assert harness.connects[-1].host == "h3"


# -- unused connections


def test_avoiding_every_broker_opens_no_connection_while_all_are_connected() -> None:
    harness = NetworkHarness().placed()
    for node in HOSTS:
        harness.open(node)
    attempts = len(harness.connects)
    for step in range(200):
        now = 1.0 + step * 0.05
        for node in HOSTS:
            harness.network.avoid(now, node)
        harness.poll(now)
        asked_by_any(harness, now)
    assert len(harness.connects) == attempts


def test_a_request_for_any_gets_out_although_every_broker_holds_back_an_older_one() -> None:
    harness = NetworkHarness().placed()
    links = [harness.open(node) for node in HOSTS]
    for node in HOSTS:
        harness.submit(node)
    harness.poll(0.0)
    assert len(harness.unanswered) == len(HOSTS)
    answers = harness.submit(ANY, now=3.0)
    harness.poll(3.0)
    spare = harness.accept(3.0)
    assert spare not in links
    assert harness.connects[-1].host in {"h1", "h2", "h3"}, "brokers, not the addresses of the configuration"
    harness.answer(3.1, spare)
    assert answers.reply


def test_the_spare_connection_is_kept_while_it_is_used_and_goes_when_it_is_not() -> None:
    harness = NetworkHarness().placed()
    for node in HOSTS:
        harness.open(node)
    stuck = [harness.submit(node) for node in HOSTS]
    harness.poll(0.0)
    attempts = len(harness.connects)
    now = 3.0
    harness.submit(ANY, now=now)
    harness.poll(now)
    spare = harness.accept(now)
    harness.answer(now, spare)
    for _ in range(100):
        now += 1.0
        assert asked_by_spare(harness, now, spare)
        assert spare not in harness.closed
    assert len(harness.connects) == attempts + 1
    while spare not in harness.closed:
        assert harness.poll(now).wake_at < now + 60.0
        now = max(now, harness.effects.wake_at)
    assert not any(answers.outcomes for answers in stuck), "the connections of the brokers are left alone"


def asked_by_spare(harness: NetworkHarness, now: float, spare: int) -> bool:
    answers = harness.submit(ANY, now=now)
    harness.poll(now)
    harness.answer(now, spare)
    return bool(answers.outcomes)


def test_a_frozen_broker_that_takes_the_spare_connection_is_not_waited_for() -> None:
    harness = NetworkHarness().placed()
    for node in HOSTS:
        harness.open(node)
    for node in HOSTS:
        harness.submit(node)
    harness.poll(0.0)
    attempts = len(harness.connects)
    answers, now = harness.submit(ANY, now=3.0), 3.0
    harness.poll(now)
    while len(harness.connects) < attempts + 2:  # there is no answer on the first one
        assert now < 5.0
        now = max(now + 0.01, harness.effects.wake_at)
        harness.poll(now)
    assert harness.connects[-1].host != harness.connects[-2].host
    harness.answer(now, harness.accept(now))
    assert answers.reply


def test_the_connections_of_a_lane_do_not_count_as_ways_to_any_broker() -> None:
    harness = NetworkHarness(bootstrap_servers="b1:1")
    harness.network.set_addresses(0.0, {1: HOSTS[1]})
    harness.open(1)
    lane = harness.network.new_lane()
    harness.network.want(via(lane, 1))
    harness.poll(0.0)
    harness.submit(1)
    harness.poll(0.0)
    answers = harness.submit(ANY, now=3.0)
    harness.poll(3.0)
    assert len(harness.connects) == 3, "the lane's connection is being opened, and it serves nobody else"
    harness.answer(3.0, harness.accept(3.0))
    assert answers.reply


def test_a_request_for_any_is_written_as_soon_as_a_broker_has_answered_what_it_held_back() -> None:
    harness = NetworkHarness(bootstrap_servers="b1:1")
    harness.network.set_addresses(0.0, {1: HOSTS[1]})
    link = harness.open(1)
    harness.submit(1)
    harness.poll(0.0)
    harness.submit(ANY, now=3.0)
    harness.poll(3.0)  # opens a spare connection, which nobody accepts
    assert [at for at, _, _ in harness.unanswered] == [link]
    harness.answer(3.01, link)
    harness.poll(3.01)
    assert [at for at, _, _ in harness.unanswered] == [link], "the request for any broker"
