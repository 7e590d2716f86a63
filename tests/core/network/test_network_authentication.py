"""Network: connections that authenticate themselves, what refusals lead to, and how many steps are under way."""

from __future__ import annotations

import gc
import ssl
import weakref
from typing import Any

import pytest

from pykafka4.core import ANY, Connect, Threads
from pykafka4.core.network import jobs as jobs_module
from pykafka4.core.network.authentication import Authentication
from pykafka4.core.network.connection import Connection, ConnectionState
from pykafka4.core.network.network import via
from pykafka4.core.network.refusals import DOUBT_S
from pykafka4.core.network.secret_filter import SecretFilter
from pykafka4.errors import AuthenticationError, ConnectionLost
from pykafka4.net.tls import explain_tls
from pykafka4.records import Written
from pykafka4.wire.protocol.messages_sasl import SaslAuthenticateResponse
from tests.core.network.sasl_harness import SETUP_S, Cluster, Puppet, accepted, refusal, shaken
from tests.core.scripted_brokers import config, metadata, versions

# -- one connection


def test_a_node_is_ready_once_it_is_authenticated() -> None:
    cluster = Cluster().placed()
    answers = cluster.submit(1)
    cluster.poll(0.0)
    link = cluster.negotiate(0.0, cluster.connects[-1].link)
    assert len(cluster.jobs) == 1
    assert all(job.threads is Threads.CREDENTIALS for job in cluster.jobs)
    cluster.do(0.0)
    cluster.poll(0.0)
    assert cluster.kinds(link) == ["SaslHandshake"]
    cluster.answer(0.0, link, shaken())
    assert cluster.kinds(link) == ["SaslAuthenticate"]
    assert not cluster.network.ready(1)
    cluster.answer(0.0, link, accepted())
    assert cluster.network.ready(1)
    assert cluster.kinds(link) == ["Metadata"], "in the same turn"
    cluster.answer(1.0, link, metadata({}))
    assert answers.reply.node == 1


def test_a_refused_connection_fails_what_waits_for_it() -> None:
    cluster = Cluster().placed()
    answers = cluster.submit(1)
    cluster.refuse(0.0, 1)
    assert answers.failure.written is Written.NO
    assert isinstance(answers.failure.reason, AuthenticationError)
    assert cluster.network.why_down(1) == "h1:1 SASL PLAIN: the broker refused the credentials: 'wrong password'"


def test_a_mechanism_is_made_for_the_host_of_its_connection() -> None:
    hosts: list[str] = []
    cluster = Cluster(for_host=hosts.append).placed()
    for node in (2, 3):
        cluster.submit(node)
        cluster.poll(0.0)
        cluster.negotiate(0.0, cluster.connects[-1].link)
        cluster.do(0.0)
    assert hosts == ["h2", "h3"]


def test_who_waits_for_the_kerberos_library_is_told_so() -> None:
    exchange = Authentication("GSSAPI", "b1:1", Puppet, SecretFilter(config()))
    waiting = "b1:1: SASL GSSAPI: the Kerberos library has not returned in time (socket_connection_setup_timeout_ms)"
    assert str(exchange.timed_out()) == waiting
    exchange.step(exchange.begin())
    assert callable(exchange.step(SaslAuthenticateResponse(auth_bytes=b"slow")))
    assert str(exchange.timed_out()) == waiting


# -- again


def again(lifetime: float = 100.0) -> tuple[Cluster, int, float]:
    """A READY connection to node 1 with an exchange under way."""
    cluster = Cluster().placed()
    link = cluster.open(0.0, 1, lifetime)
    now = 0.85 * lifetime
    assert cluster.effects.wake_at <= now
    assert not cluster.jobs
    cluster.poll(now)
    assert len(cluster.jobs) == 1
    return cluster, link, now


def test_while_it_authenticates_again_a_node_is_not_ready_and_then_machines_are_polled_again() -> None:
    cluster, link, now = again()
    assert cluster.network.ready(1), "nothing has been sent yet"
    cluster.do(now)
    assert not cluster.network.ready(1), "before the machines' next turn"
    cluster.poll(now)
    assert cluster.kinds(link) == ["SaslHandshake"]
    assert cluster.effects.wake_at > now, "no busy loop"
    first, second = cluster.submit(1, now), cluster.submit(1, now)
    cluster.poll(now)
    assert cluster.effects.wake_at > now
    cluster.answer(now, link, shaken())
    assert cluster.kinds(link) == ["SaslAuthenticate"]
    assert not cluster.network.ready(1)
    changes = cluster.network.changes
    cluster.answer(now, link, accepted(100.0))
    assert cluster.network.ready(1)
    assert cluster.network.changes > changes
    assert cluster.effects.wake_at == now, "machines were polled before"
    assert cluster.kinds(link) == ["Metadata", "Metadata"]
    for answers in (first, second):
        cluster.answer(now, link, metadata({}))
        assert answers.reply.node == 1
    cluster.poll(now)
    assert cluster.effects.wake_at <= now + 85.0, "for the next time"


def test_an_idle_connection_authenticates_again_and_again_until_it_is_closed_as_unused() -> None:
    cluster = Cluster(connections_max_idle_ms=250_000).placed()
    link, now, times = cluster.open(0.0, 1, 100.0), 0.0, []
    closed: list[int] = []
    while not closed and now < 1000.0:
        now = max(now, cluster.effects.wake_at)
        closed += [close.link for close in cluster.poll(now).close]
        if cluster.jobs:
            times.append(now)
            cluster.begin(now, link)
            cluster.network.written(now, link)
            cluster.answer(now, link, accepted(100.0))
    assert times == pytest.approx([85.0, 170.0])
    assert (closed, now) == ([link], 250.0)


def test_a_connection_whose_authentication_expired_during_a_freeze_is_not_used() -> None:
    """The broker would close it in place of an answer."""
    cluster = Cluster().placed()
    link = cluster.open(0.0, 1, 100.0)
    cluster.network.close_stale(101.0)
    assert not cluster.network.ready(1)
    cluster.submit(1, 101.0)
    cluster.poll(101.0)
    assert [close.link for close in cluster.effects.close] == [link]
    assert [connect.host for connect in cluster.effects.connect] == ["h1"]


def test_a_throttle_that_lasts_longer_than_the_exchange_still_counts() -> None:
    cluster, link, now = again()
    cluster.submit(1, now)
    cluster.poll(now)
    cluster.do(now)
    told = metadata({})
    told.throttle_time_ms = 5000
    cluster.answer(now, link, told)
    cluster.poll(now)
    cluster.answer(now, link, shaken())
    cluster.answer(now, link, accepted(100.0))
    assert not cluster.network.ready(1)
    cluster.submit(1, now)
    cluster.poll(now + 4.9)
    assert cluster.kinds(link) == []
    cluster.poll(now + 5.0)
    assert cluster.network.ready(1)
    assert cluster.kinds(link) == ["Metadata"]


def test_requests_for_any_broker_go_to_one_that_is_not_engaged() -> None:
    cluster = Cluster().placed()
    first = cluster.open(0.0, 1, 100.0)
    second = cluster.open(0.0, 2)
    cluster.network._endpoints[1].tie, cluster.network._endpoints[2].tie = 0.0, 1.0
    cluster.poll(85.0)
    cluster.do(85.0)
    cluster.poll(85.0)
    assert cluster.kinds(first) == ["SaslHandshake"]
    for _ in range(3):  # the other one has more in flight
        cluster.submit(2, 85.0)
    cluster.submit(ANY, 85.0)
    cluster.poll(85.0)
    assert cluster.kinds(second) == ["Metadata"] * 4


def test_an_exchange_that_hangs_the_second_time_is_given_up_in_time() -> None:
    cluster, link, now = again()
    cluster.do(now)
    cluster.poll(now)
    waiting = cluster.submit(1, now)
    closed: list[int] = []
    while not closed:
        now = max(now, cluster.effects.wake_at)
        closed += [close.link for close in cluster.poll(now).close]
    assert (closed, now) == ([link], 85.0 + SETUP_S)
    assert waiting.failure.written is Written.NO
    assert not cluster.network.ready(1)
    assert not cluster.network._muted


def test_an_exchange_behind_a_held_request_is_given_up_in_time_once_that_is_answered() -> None:
    cluster = Cluster().placed()
    link = cluster.open(0.0, 1, 100.0)
    cluster.submit(1, 84.0, deadline=1000.0)
    cluster.poll(84.0)
    now = 85.0
    cluster.poll(now)
    cluster.do(now)
    turns = 0
    while now < 500.0:
        cluster.poll(now)
        now, turns = max(now, cluster.effects.wake_at), turns + 1
        assert turns < 20, "it is looked at all the time"
    cluster.answer(500.0, link, metadata({}))
    assert cluster.effects.wake_at <= 500.0 + SETUP_S
    cluster.poll(500.0 + SETUP_S)
    assert not cluster.network.ready(1)


# -- what refusals lead to


def test_pauses_after_refusals_double_from_half_a_second_to_five() -> None:
    cluster, now, pauses = Cluster().placed(), 0.0, []
    cluster.network.want(1)
    cluster.poll(0.0)
    for _ in range(8):
        link = cluster.connects[-1].link
        cluster.negotiate(now, link)
        cluster.begin(now, link)
        cluster.answer(now, link, refusal())
        when = cluster.next_attempt(now)
        pauses.append(when - now)
        now = when
    assert pauses == pytest.approx([0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0, 5.0])


def test_a_success_ends_the_row_of_refusals() -> None:
    cluster = Cluster().placed()
    for now in (0.0, 10.0, 20.0):
        cluster.cut(now, 1)
    assert cluster.network._endpoints[1].refusals == 3
    link = cluster.open(30.0, 1, 100.0)
    assert cluster.network._endpoints[1].refusals == 3  # a broker that demands SASL completes the handshake without it
    cluster.submit(1, 30.0)
    cluster.poll(30.0)
    cluster.answer(30.0, link, metadata({}))
    assert cluster.network._endpoints[1].refusals == 0
    cluster.network.lost(31.0, link, AuthenticationError("h1:1: refused"))
    assert cluster.network._endpoints[1].not_before == pytest.approx(31.5)


def test_another_failure_ends_the_row_of_refusals() -> None:
    cluster = Cluster().placed()
    cluster.cut(0.0, 1)
    cluster.network.lost(10.0, cluster.attempt(10.0, 1), ConnectionLost("h1:1: reset"))
    assert cluster.network._endpoints[1].refusals == 0


def test_a_broker_that_never_accepted_this_client_is_told_and_one_that_did_is_not() -> None:
    cluster = Cluster().placed()
    link = cluster.open(0.0, 2)
    cluster.submit(2)
    cluster.poll(0.0)
    cluster.answer(0.0, link, metadata({}))
    cluster.network.lost(1.0, link, ConnectionLost("h2:2: reset"))
    wrong = AuthenticationError("h1:1: the broker's certificate is refused")
    cluster.network.lost(10.0, cluster.attempt(10.0, 2), wrong)
    assert cluster.told == []
    cluster.network.lost(20.0, cluster.attempt(20.0, 1), wrong)
    assert cluster.told == [(20.0, 1, wrong)]
    cluster.network.lost(30.0, cluster.attempt(30.0, via(cluster.network.new_lane(), 2)), wrong)
    assert len(cluster.told) == 1, "its lanes are the same broker"


@pytest.mark.parametrize("refused", ["password", "certificate"])
def test_a_running_client_that_is_refused_keeps_what_waits_for_a_broker_that_is_new_to_it(refused: str) -> None:
    """Its credentials were right at another broker, so they are being replaced."""
    cluster = Cluster().placed()

    def refuse(now: float, node: int) -> None:
        if refused == "password":
            cluster.refuse(now, node)
            return
        alert = ssl.SSLError()
        alert.reason = "TLSV1_ALERT_UNKNOWN_CA"
        cluster.network.lost(now, cluster.attempt(now, node), explain_tls("h1:1", alert))

    refuse(0.0, 1)
    assert [broker for _, broker, _ in cluster.told] == [1], "no broker has accepted it yet"
    cluster.told.clear()
    link = cluster.open(5.0, 2)
    cluster.submit(2, 5.0)
    cluster.poll(5.0)
    cluster.answer(5.0, link, metadata({}))
    refuse(10.0, 1)
    assert cluster.told == []


def test_a_broker_that_answered_only_the_handshake_has_not_accepted_this_client() -> None:
    cluster = Cluster().placed()
    link = cluster.open(0.0, 1)
    assert not cluster.network.refusals.has_answered(1)
    cluster.network.lost(1.0, link, AuthenticationError("h1:1: refused"))
    assert [broker for _, broker, _ in cluster.told] == [1]


def test_a_guess_about_one_broker_is_never_told() -> None:
    """The others may accept this client, and the network to this one may not work."""
    cluster = Cluster().placed()
    for now in range(0, 100, 10):
        cluster.cut(float(now), 1)
    assert cluster.told == []


def bootstrap(cluster: Cluster, now: float) -> Connect:
    """The next attempt at a bootstrap server."""
    cluster.network.want(ANY)
    cluster.poll(now)
    assert cluster.connects, "a backoff is not over"
    return cluster.connects.pop(0)


def refuse_bootstrap(cluster: Cluster, now: float, error: ConnectionLost) -> str:
    connect = bootstrap(cluster, now)
    cluster.network.lost(now, connect.link, error)
    return connect.host


def test_the_cluster_refuses_this_client_once_every_bootstrap_server_has_failed() -> None:
    cluster = Cluster()
    wrong = AuthenticationError("wrong password")
    one = refuse_bootstrap(cluster, 0.0, wrong)
    assert cluster.told == [], "another one may accept it"
    other = refuse_bootstrap(cluster, 0.2, ConnectionLost("nobody there"))
    assert {one, other} == {"b1", "b2"}
    assert cluster.told == [(0.2, ANY, wrong)]


def test_a_cluster_that_cannot_be_reached_refuses_nobody() -> None:
    cluster = Cluster()
    for now in (0.0, 1.0, 2.0, 3.0, 9.0):
        refuse_bootstrap(cluster, now, ConnectionLost("nobody there"))
    assert cluster.told == []


def guess(guessed_cause: str = "") -> AuthenticationError:
    error = AuthenticationError("closed")
    error.certain, error.guessed_cause = False, guessed_cause
    return error


def test_a_guess_about_the_cluster_is_told_when_every_broker_has_given_reason_for_it_three_times() -> None:
    cluster = Cluster()
    hosts = [refuse_bootstrap(cluster, now, guess()) for now in (0.0, 10.0, 20.0, 30.0, 40.0)]
    assert sorted(map(hosts.count, set(hosts))) == [2, 3]
    assert cluster.told == []
    refuse_bootstrap(cluster, 50.0, guess())
    assert [(when, broker) for when, broker, _ in cluster.told] == [(50.0, ANY)]


def test_a_guess_about_the_cluster_is_not_told_in_the_first_seconds() -> None:
    """A network that begins to work, or a proxy that is starting, closes connections, too."""
    cluster = Cluster()
    told = []
    for attempt in range(24):
        now = attempt * 0.25
        for endpoint in cluster.network._configured:
            endpoint.not_before = 0.0
        refuse_bootstrap(cluster, now, guess())
        told += [now] * bool(cluster.told)
    assert told
    assert min(told) >= DOUBT_S


def test_attempts_that_give_reason_for_different_guesses_are_a_broken_network() -> None:
    for guesses in ([guess("TLS"), guess("TLS"), guess("SASL"), guess("SASL")], [guess("TLS"), guess("SASL")]):  # at each broker; of two
        cluster = Cluster()
        for attempt in range(40):
            refuse_bootstrap(cluster, 10.0 * attempt, guesses[attempt % len(guesses)])
        assert cluster.told == []


def without_credentials() -> AuthenticationError:
    error = guess()
    error.is_local = True
    return error


def test_a_callable_that_fails_for_seconds_is_told_whatever_other_servers_did() -> None:
    """There is one for all brokers. Trying those that cannot be reached would not help, and takes long."""
    cluster = Cluster()
    error = without_credentials()
    refuse_bootstrap(cluster, 0.0, error)
    refuse_bootstrap(cluster, 0.2, ConnectionLost("nobody there"))
    cluster.network._configured[0].not_before = cluster.network._configured[1].not_before = 0.0
    refuse_bootstrap(cluster, DOUBT_S - 0.1, error)
    assert cluster.told == []
    cluster.network._configured[0].not_before = cluster.network._configured[1].not_before = 0.0
    refuse_bootstrap(cluster, DOUBT_S, error)
    assert cluster.told == [(DOUBT_S, ANY, error)]


def test_a_callable_that_hangs_is_told_with_the_first_attempt() -> None:
    cluster = Cluster()
    link = bootstrap(cluster, 0.0).link
    cluster.negotiate(0.1, link)
    now = 0.1
    while not cluster.told and now < 60.0:
        now = max(now + 0.01, cluster.effects.wake_at)
        cluster.poll(now)
    ((when, broker, error),) = cluster.told
    assert DOUBT_S <= when < SETUP_S
    assert broker == ANY
    assert "has not returned" in str(error)


def test_a_callable_that_failed_and_works_again_is_no_refusal() -> None:
    cluster = Cluster()
    for now, error in ((0.0, without_credentials()), (1.0, guess()), (2.0, without_credentials()), (6.0, without_credentials())):
        refuse_bootstrap(cluster, now, error)
    assert cluster.told == []


def test_a_running_client_whose_callable_fails_keeps_what_waits_for_a_broker_that_is_new_to_it() -> None:
    cluster = Cluster().placed()
    link = cluster.open(0.0, 2)
    cluster.submit(2)
    cluster.poll(0.0)
    cluster.answer(0.0, link, metadata({}))
    certain = AuthenticationError("the issuer refused the client id")
    certain.is_local = True
    for now in (10.0, 20.0, 30.0):
        cluster.network.lost(now, cluster.attempt(now, 1), certain)
    assert cluster.told == []


def test_a_guess_is_not_told_where_a_broker_failed_otherwise() -> None:
    cluster = Cluster()
    for number in range(12):
        refuse_bootstrap(cluster, 10.0 * number, guess() if number % 2 else ConnectionLost("refused"))
    assert cluster.told == []


def test_a_cluster_that_once_accepted_this_client_does_not_refuse_it() -> None:
    cluster = Cluster()
    link = bootstrap(cluster, 0.0).link
    cluster.negotiate(0.0, link)
    cluster.begin(0.0, link)
    cluster.answer(0.0, link, accepted())
    cluster.submit(-1 if cluster.network.ready(-1) else -2)
    cluster.poll(0.0)
    cluster.answer(0.0, link, metadata({}))
    cluster.network.lost(1.0, link, ConnectionLost("reset"))
    for now in (10.0, 20.0, 30.0, 40.0):
        refuse_bootstrap(cluster, now, AuthenticationError("wrong password"))
    assert cluster.told == []


# -- jobs


class Hanging:
    """A callable that does not return: the test does not run its jobs."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> Puppet:
        self.calls += 1
        return Puppet()


def test_ten_thousand_attempts_with_a_hanging_callable_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    made: weakref.WeakSet[Connection] = weakref.WeakSet()
    original = Connection.__init__

    class Counted(Connection):
        __slots__ = ("__weakref__",)

        def __init__(self, *args: Any, **named: Any) -> None:
            original(self, *args, **named)
            made.add(self)

    monkeypatch.setattr("pykafka4.core.network.network.Connection", Counted)
    cluster = Cluster(Hanging(), reconnect_backoff_ms=1, reconnect_backoff_max_ms=1).placed()
    cluster.network.want(1)
    attempts, now = 0, 0.0
    while attempts < 10_000:
        cluster.poll(now)
        if cluster.effects.connect:
            attempts += 1
            link = cluster.effects.connect[0].link
            cluster.network.connected(now, link)
            cluster.poll(now)
            cluster.answer(now, link, versions())
            cluster.connects.clear()
            cluster.unanswered.clear()
            cluster.network.lost(now, link, ConnectionLost("h1:1: reset"))
            cluster.network.want(1)
        now = max(now, min(cluster.effects.wake_at, now + 1.0))
    cluster.poll(now)
    assert len(cluster.jobs) == jobs_module.MAX_CONCURRENT_STEPS
    gc.collect()
    assert len(cluster.network._jobs._waiting) == 0
    assert len(made) <= jobs_module.MAX_CONCURRENT_STEPS + 2


def test_a_step_of_a_closed_connection_is_not_begun() -> None:
    callable = Hanging()
    cluster = Cluster(callable).placed()
    link = cluster.attempt(0.0, 1)
    (job,) = cluster.jobs
    cluster.network.lost(1.0, link, ConnectionLost("h1:1: reset"))
    result = job.run()
    assert (callable.calls, result) == (0, None)
    job.then(1.0, result)
    assert cluster.network._jobs._running == 0


def test_a_step_of_a_former_connection_does_not_touch_the_present_one() -> None:
    cluster = Cluster().placed()
    cluster.network.lost(1.0, cluster.attempt(0.0, 1), ConnectionLost("h1:1: reset"))
    (former,) = cluster.jobs
    cluster.jobs.clear()
    link = cluster.attempt(10.0, 1)
    former.then(10.0, Puppet())
    former.then(10.0, ZeroDivisionError())
    cluster.poll(10.0)
    assert not cluster.effects.close
    cluster.begin(10.0, link)
    cluster.answer(10.0, link, accepted())
    assert cluster.network.ready(1)


def test_while_four_steps_hang_the_others_wait_and_begin_as_soon_as_one_is_over() -> None:
    cluster = Cluster().placed()
    lanes = [cluster.network.new_lane() for _ in range(jobs_module.MAX_CONCURRENT_STEPS + 2)]
    links = [cluster.attempt(0.0, via(lane, 1)) for lane in lanes]
    assert len(cluster.jobs) == jobs_module.MAX_CONCURRENT_STEPS
    cluster.poll(0.0)
    assert len(cluster.jobs) == jobs_module.MAX_CONCURRENT_STEPS
    cluster.network.lost(1.0, links[-2], ConnectionLost("h1:1: reset"))
    cluster.network.lost(1.0, links[0], ConnectionLost("h1:1: reset"))
    cluster.poll(1.0)
    cluster.poll(1.5)
    before = len(cluster.jobs)
    cluster.do(2.0)  # that of a connection that is gone: nothing else happens in this turn
    assert cluster.network._wake_at <= 2.0
    cluster.poll(2.0)
    assert len(cluster.jobs) == before
    last = cluster.jobs.pop()
    last.then(2.0, last.run())
    cluster.poll(2.0)
    assert cluster.kinds(links[-1]) == ["SaslHandshake"], "the one before it is gone"


def test_what_a_step_raises_is_a_result_and_the_thread_goes_on() -> None:
    def exits() -> Puppet:
        raise SystemExit

    cluster = Cluster(exits).placed()
    link = cluster.attempt(0.0, 1)
    cluster.do(0.0)
    cluster.poll(0.0)
    assert link in {close.link for close in cluster.effects.close}
    assert "raised SystemExit" in cluster.network.why_down(1)


def test_a_broker_that_leaves_while_it_authenticates_is_left() -> None:
    cluster = Cluster().placed()
    link = cluster.begin(0.0, cluster.attempt(0.0, 1))
    cluster.network.set_addresses(0.0, {2: ("h2", 2)})
    cluster.poll(0.0)
    assert link in {close.link for close in cluster.effects.close}
    cluster.network.receive(0.0, link, b"whatever")
    cluster.poll(1.0)
    assert 1 not in {status.node for status in cluster.network.status(0.0)}


def test_the_state_of_a_connection_is_shown_while_it_authenticates() -> None:
    cluster = Cluster().placed()
    cluster.attempt(0.0, 1)
    assert {link.node: link.state for link in cluster.network.status(0.0)}[1] == ConnectionState.AUTHENTICATING.value
