"""Network: when it connects to which broker, which requests wait, and that every request is answered exactly once."""

from __future__ import annotations

import timeit
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka4.core import ANY, CONTROLLER
from pykafka4.core.network.network import via
from pykafka4.errors import ConnectionLost
from pykafka4.records import Written
from pykafka4.wire.protocol.messages_produce import ProduceRequest
from tests.core.network.network_harness import HOSTS, NetworkHarness
from tests.core.scripted_brokers import FAR, REFUSED, Answers, PlainRequest, frame, metadata, request

# -- named nodes


def test_a_request_to_a_node_that_is_not_connected_waits_and_goes_out_when_it_is() -> None:
    harness = NetworkHarness().placed()
    answers = harness.submit(2)
    harness.poll(0.0)
    assert [(c.host, c.port) for c in harness.connects] == [("h2", 2)]
    assert not harness.network.ready(2)
    link = harness.accept(0.0)
    assert harness.network.ready(2)
    assert harness.network.in_flight(2) == 1
    harness.answer(1.0, link)
    assert answers.reply.node == 2
    assert harness.network.in_flight(2) == 0


def test_a_turn_that_only_sends_asks_for_no_other_at_once() -> None:
    harness = NetworkHarness().placed()
    harness.open(2)
    harness.submit(2, 1.0)
    effects = harness.poll(1.0)
    assert effects.write
    assert effects.wake_at > 1.0


def test_a_failed_attempt_fails_exactly_the_requests_to_this_node() -> None:
    harness = NetworkHarness().placed()
    two, three = harness.submit(2), harness.submit(3)
    harness.poll(0.0)
    link = next(c.link for c in harness.connects if c.host == "h2")
    harness.network.lost(1.0, link, REFUSED)
    assert two.failure.reason is REFUSED
    assert two.failure.written is Written.NO
    assert not three.outcomes


def test_an_unknown_node_is_an_answer_not_a_wait_and_never_from_inside_submit() -> None:
    harness = NetworkHarness().placed()
    answers = harness.submit(9)
    assert not answers.outcomes
    effects = harness.poll(0.0)
    assert "broker 9 is not (or no longer) in the cluster" in str(answers.failure.reason)
    assert effects.wake_at == 0.0, "whoever asked may ask again at once"


def test_a_wanted_connection_is_retried_with_a_growing_back_off() -> None:
    harness = NetworkHarness(reconnect_backoff_ms=50, reconnect_backoff_max_ms=1000).placed()
    harness.network.want(2)
    times = [when for when, _ in harness.outage(0.0, 8.0)]
    pauses = [b - a for a, b in pairwise(times)]
    assert pauses[0] <= 0.06
    assert 0.8 <= max(pauses) <= 1.2
    assert pauses[-1] >= 0.8


def test_an_answer_resets_the_back_off() -> None:
    harness = NetworkHarness(reconnect_backoff_ms=50, reconnect_backoff_max_ms=1000).placed()
    endpoint = harness.network._endpoints[2]
    endpoint.backoff.attempts = 10
    link = harness.open(2)
    harness.submit(2)
    harness.poll(0.5)
    harness.answer(0.5, link)
    harness.network.lost(1.0, link, REFUSED)
    assert endpoint.not_before <= 1.06


def test_a_broker_whose_every_answer_is_broken_is_connected_to_ever_less_often_and_named(caplog: pytest.LogCaptureFixture) -> None:
    harness = NetworkHarness(reconnect_backoff_ms=50, reconnect_backoff_max_ms=1000).placed()
    now, times = 0.0, []
    while now < 10.0:
        answers = harness.submit(2, now)
        while not harness.poll(now).connect:
            now = max(now, harness.effects.wake_at)
        times.append(now)
        link = harness.accept(now)
        ((_, header, _),) = [u for u in harness.unanswered if u[0] == link]
        harness.network.receive(now, link, frame(metadata({}), header.version, header.correlation_id)[:-1])
        assert "cannot decode the response" in str(answers.failure.reason)
    assert len(times) <= 20
    assert times[-1] - times[-2] >= 0.8
    (line,) = [record for record in caplog.records if "cannot decode the response" in record.getMessage()]
    assert line.levelname == "WARNING"


def test_a_silent_address_is_given_up_at_the_setup_timeout_which_grows_to_its_maximum() -> None:
    harness = NetworkHarness(socket_connection_setup_timeout_ms=10_000, socket_connection_setup_timeout_max_ms=30_000).placed()
    harness.network.want(2)
    began: list[float] = []
    gave_up: list[float] = []
    now = 0.0
    while len(gave_up) < 5:
        effects = harness.poll(now)
        began += [now] * len(effects.connect)
        gave_up += [now] * len(effects.close)
        now = max(now, effects.wake_at)
    waits = [b - a for a, b in zip(began, gave_up)]
    assert 8 <= waits[0] <= 12
    assert 16 <= waits[1] <= 24
    assert all(24 <= wait <= 36 for wait in waits[2:])


def test_a_deadline_counts_for_a_request_that_waits_for_a_backing_off_node() -> None:
    harness = NetworkHarness(reconnect_backoff_ms=10_000, reconnect_backoff_max_ms=10_000).placed()
    harness.network.want(2)
    harness.poll(0.0)
    harness.network.lost(0.0, harness.connects[0].link, REFUSED)
    answers = harness.submit(2, deadline=3.0)
    assert harness.poll(0.0).wake_at <= 3.0
    harness.poll(3.0)
    assert "connection refused" in str(answers.failure.reason)
    assert answers.failure.written is Written.NO


@pytest.mark.parametrize("node", [2, ANY])
def test_the_time_to_answer_begins_when_a_request_is_written(node: int) -> None:
    """Otherwise a client with a slow network and a short request_timeout_ms closes each connection as soon as it is ready, for ever."""
    harness = NetworkHarness(bootstrap_servers="h2:1").placed()
    answers, slow = harness.submit(node, deadline=5.0), harness.submit(node, deadline=5.0)
    harness.poll(0.0)
    link = harness.accept(4.0)
    harness.poll(7.5)
    assert harness.closed == []
    harness.answer(7.5, link)  # from here the second one has its time
    assert answers.reply
    harness.poll(12.4)
    assert harness.closed == []
    harness.poll(12.5)
    assert harness.closed == [link]
    assert (slow.failure.written, str(slow.failure.reason)) == (
        Written.MAYBE,
        "MetadataRequest: no response within its timeout (usually request_timeout_ms)",
    )


def test_versions_are_those_of_ready_nodes_only() -> None:
    harness = NetworkHarness().placed()
    assert harness.network.version(2, ProduceRequest.api_key) is None
    harness.open(2)
    assert harness.network.version(2, ProduceRequest.api_key) == 13
    assert harness.network.version(2, 9999) is None


def test_the_number_of_a_connection_is_that_of_a_ready_one_and_another_after_a_loss() -> None:
    harness = NetworkHarness().placed()
    assert harness.network.link(2) is None
    first = harness.open(2)
    assert harness.network.link(2) == first
    harness.network.lost(1.0, first, REFUSED)
    assert harness.network.link(2) is None


def test_changes_count_every_ready_and_every_loss() -> None:
    harness = NetworkHarness().placed()
    before = harness.network.changes
    link = harness.open(2)
    assert harness.network.changes == before + 1
    harness.network.lost(0.0, link, REFUSED)
    assert harness.network.changes == before + 2


def test_after_a_broken_answer_the_node_is_not_ready_when_the_requests_owner_hears_of_it() -> None:
    harness = NetworkHarness().placed()
    link = harness.open(2)
    seen: list[bool] = []
    asked, _ = request(2)
    asked = PlainRequest(2, asked.message, FAR, answers=lambda now, outcome: seen.append(harness.network.ready(2)))
    harness.network.submit(0.0, asked)
    harness.poll(0.0)
    harness.network.receive(0.0, link, b"nonsense")
    assert seen == [False]
    assert link in [close.link for close in harness.poll(0.0).close]


def test_events_of_closed_links_are_ignored() -> None:
    harness = NetworkHarness().placed()
    link = harness.open(2)
    harness.network.lost(0.0, link, REFUSED)
    harness.network.lost(0.0, link, REFUSED)
    harness.network.receive(0.0, link, b"late")
    harness.network.connected(0.0, link)
    assert not harness.network.written(0.0, link)


def test_a_throttled_node_is_not_ready_until_its_time_is_over() -> None:
    harness = NetworkHarness().placed()
    link = harness.open(2)
    harness.submit(2)
    harness.poll(0.0)
    (at, header, _), *_ = [u for u in harness.unanswered if u[0] == link]
    told = metadata({})
    told.throttle_time_ms = 2_000
    harness.network.receive(1.0, at, frame(told, header.version, header.correlation_id))
    assert not harness.network.ready(2)
    changes = harness.network.changes
    assert harness.poll(1.0).wake_at <= 3.0
    assert not harness.network.ready(2)
    assert harness.poll(3.0).wake_at == 3.0, "machines look again at once"
    assert harness.network.ready(2)
    assert harness.network.changes > changes


def throttled(harness: NetworkHarness, now: float) -> dict[int, float]:
    """By node, as `status` shows it."""
    return {row.node: row.throttled_ms for row in harness.network.status(now) if row.node > 0}


def test_the_status_of_a_broker_says_for_how_long_it_throttles_this_client_still() -> None:
    harness = NetworkHarness().placed()
    link = harness.open(2)
    harness.submit(2)
    harness.poll(0.0)
    assert throttled(harness, 0.0) == {1: 0, 2: 0, 3: 0}
    (at, header, _), *_ = [u for u in harness.unanswered if u[0] == link]
    told = metadata({})
    told.throttle_time_ms = 2_000
    harness.network.receive(1.0, at, frame(told, header.version, header.correlation_id))
    assert throttled(harness, 1.0) == {1: 0, 2: 2_000, 3: 0}
    assert [row.state for row in harness.network.status(1.0) if row.node == 2] == ["ready"]
    assert throttled(harness, 2.5)[2] == 500
    assert throttled(harness, 3.5)[2] == 0, "it is over, although nothing has happened since"
    harness.network.lost(1.5, link, REFUSED)
    assert throttled(harness, 1.5)[2] == 0, "it is the connection that is muted"


# -- the cluster's answer


def test_a_broker_that_moved_is_connected_to_at_its_new_address() -> None:
    harness = NetworkHarness().placed()
    link = harness.open(2)
    answers = harness.submit(2)
    harness.poll(0.0)
    harness.network.set_addresses(1.0, {**HOSTS, 2: ("elsewhere", 9)})
    harness.poll(1.0)
    assert "moved to elsewhere:9" in str(answers.failure.reason)
    assert answers.failure.written is Written.MAYBE
    assert link in harness.closed
    assert (harness.connects[-1].host, harness.connects[-1].port) == ("elsewhere", 9)


@pytest.mark.parametrize("moved", HOSTS)
def test_a_broker_that_moved_begins_without_failures(moved: int) -> None:
    harness = NetworkHarness(bootstrap_servers="b1:1").placed()
    for node in HOSTS:
        harness.network.want(node)
    harness.poll(0.0)
    for connect in list(harness.connects):
        harness.network.lost(0.0, connect.link, REFUSED)
    harness.network.set_addresses(60.0, {**HOSTS, moved: ("elsewhere", 9)})
    for node in HOSTS:
        harness.network._endpoints[node].wanted = False
    harness.submit(ANY, 60.0)
    harness.poll(60.0)
    assert harness.connects[len(HOSTS)].host == "elsewhere", "of those that can be asked it failed least"


def test_a_broker_that_left_finishes_what_it_has_and_is_closed() -> None:
    harness = NetworkHarness().placed()
    link = harness.open(2)
    answers = harness.submit(2)
    harness.poll(0.0)
    harness.network.set_addresses(1.0, {1: HOSTS[1]})
    harness.poll(1.0)
    assert not harness.network.ready(2)
    assert link not in harness.closed
    late = harness.submit(2, now=1.0)
    harness.answer(2.0, link)
    harness.poll(2.0)
    harness.poll(2.0)
    assert answers.reply
    assert late.failure.written is Written.NO
    assert link in harness.closed
    assert harness.network.in_flight(2) == 0


def test_a_broker_that_left_while_connecting_is_given_up_at_once() -> None:
    harness = NetworkHarness().placed()
    answers = harness.submit(2)
    harness.poll(0.0)
    harness.network.set_addresses(1.0, {1: HOSTS[1]})
    harness.poll(1.0)
    assert harness.closed == [harness.connects[0].link]
    assert answers.failure.written is Written.NO


def test_a_broker_that_comes_back_before_it_was_closed_stays() -> None:
    harness = NetworkHarness().placed()
    harness.open(2)
    harness.network.set_addresses(1.0, {1: HOSTS[1]})
    harness.network.set_addresses(1.0, HOSTS)
    harness.poll(1.0)
    assert not harness.closed
    assert harness.network.ready(2)


# -- idle connections


def test_an_unused_connection_is_closed_and_one_in_use_is_not() -> None:
    harness = NetworkHarness(connections_max_idle_ms=60_000).placed()
    idle, used = harness.open(1), harness.open(2)
    harness.submit(2)
    harness.poll(0.0)
    assert harness.poll(59.9).wake_at <= 60.0
    harness.poll(60.0)
    assert idle in harness.closed
    assert used not in harness.closed
    harness.answer(70.0, used)
    harness.poll(70.0)
    harness.poll(129.0)
    assert used not in harness.closed
    harness.poll(130.0)
    assert used in harness.closed


def test_closing_an_unused_connection_is_no_failure() -> None:
    harness = NetworkHarness(connections_max_idle_ms=60_000).placed()
    lost: list[int] = []
    harness.network.on_lost.append(lambda now, node: lost.append(node))
    harness.open(1)
    harness.poll(60.0)
    assert not lost
    effects = harness.poll(200.0)
    assert not effects.connect, "nobody wants it"


# -- costs


def test_thousands_of_polls_with_nothing_due_cost_about_a_microsecond_each() -> None:
    harness = NetworkHarness().placed()
    for node in HOSTS:
        harness.open(node)
    harness.poll(0.0)
    best = min(timeit.repeat(lambda: harness.network.poll(1.0), number=2_000, repeat=5)) / 2_000
    assert best < 10e-6  # measured 0.3 µs; the bound is for a busy machine


# -- exactly once, whatever happens


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data())
def test_every_request_is_answered_exactly_once(data: st.DataObject) -> None:
    harness = NetworkHarness(request_timeout_ms=1000, reconnect_backoff_ms=10).placed()
    network, now = harness.network, 0.0
    every: list[Answers] = []
    opened: set[int] = set()
    for _ in range(data.draw(st.integers(5, 40))):
        act = data.draw(st.sampled_from(["submit", "any", "answer", "lose", "accept", "garbage", "place", "wait", "wait"]))
        links = list(network._links)
        if act in ("submit", "any"):
            node = ANY if act == "any" else data.draw(st.sampled_from([1, 2, 3, 9, via(1, 2)]))
            every.append(harness.submit(node, now, deadline=now + 1.0))
        elif act == "wait":
            now += data.draw(st.floats(0, 2))
        elif act == "place":
            kept = data.draw(st.sets(st.sampled_from([1, 2, 3])))
            network.set_addresses(now, {node: HOSTS[node] for node in kept})
        elif links:
            link = data.draw(st.sampled_from(links))
            if act == "lose":
                network.lost(now, link, REFUSED)
            elif act == "garbage" and link in opened:
                network.receive(now, link, b"garbage")
            elif act == "accept" and link not in opened:
                opened.add(link)
                harness.accept(now, link)
            elif act == "answer" and any(u[0] == link for u in harness.unanswered):
                harness.answer(now, link)
        harness.poll(now)
    for _ in range(200):
        now += 0.5
        harness.poll(now)
    assert [len(answers.outcomes) for answers in every] == [1] * len(every)


@pytest.mark.parametrize("client_id", ["x" * 40_000, "\udc80"])
def test_a_handshake_that_cannot_be_encoded_ends_the_connection_and_says_why(client_id: str) -> None:
    harness = NetworkHarness(bootstrap_servers="b1:1")
    object.__setattr__(harness.network._config, "client_id", client_id)  # the configuration refuses it
    answers = harness.submit(ANY, deadline=5.0)
    harness.poll(0.0)
    harness.network.connected(0.0, harness.connects[-1].link)
    harness.poll(0.0)
    assert harness.closed == [harness.connects[0].link]
    assert "b1:1 ApiVersions v4 cannot be encoded" in harness.network.why_unreachable()
    while harness.effects.wake_at <= 5.0:
        now = harness.effects.wake_at
        harness.poll(now)
        for connect in harness.effects.connect:
            harness.network.connected(now, connect.link)
    assert "cannot be encoded" in str(answers.failure.reason)
    assert len(harness.connects) < 30, "after growing pauses"


@pytest.mark.parametrize("place", [ANY, CONTROLLER])
def test_a_place_that_is_no_broker_has_the_number_of_none(place: int) -> None:
    """Brokers number from 0, bootstrap servers from -1 downwards."""
    assert place < -1_000_000
    assert ANY != CONTROLLER


@pytest.mark.parametrize(("others", "least", "most"), [(True, 0.0, 2.0), (False, 7.5, 60.0)], ids=["another answers", "none answers"])
def test_a_new_broker_that_closes_connections_is_tried_as_often_as_any_once_another_has_answered(
    others: bool, least: float, most: float
) -> None:
    """Listeners of one cluster demand the same: if one broker answers without SASL, the other one is only restarting."""
    harness = NetworkHarness(reconnect_backoff_ms=10, reconnect_backoff_max_ms=1_000).placed()
    if others:
        link = harness.open(1)
        harness.submit(1)
        harness.poll(0.0)
        harness.answer(0.0, link)
    now = 0.0
    for _ in range(5):
        link = harness.open(2, now)
        harness.submit(2, now)
        harness.poll(now)
        harness.network.lost(now, link, ConnectionLost("h2:2: the broker closed the connection"))
        harness.connects.clear()
        harness.network.want(2)
        while not harness.connects:
            now += 0.01
            harness.poll(now)
    assert least <= now <= most
