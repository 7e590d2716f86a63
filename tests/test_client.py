"""Client: one loop for many users, errors that name address and cause, and ends that are clean however they come."""

from __future__ import annotations

import pickle
import socket
import subprocess
import sys
import threading
import time
from typing import Any

import attrs
import pytest

from pykafka4 import Consumer, Producer
from pykafka4.client.client import BrokerAdded, Client, MetadataChanged, PartitionOffline, PartitionOnline
from pykafka4.client.runtime import Runtime
from pykafka4.client.status import look_at_machines
from pykafka4.core import Effects, Job
from pykafka4.errors import AuthorizationError, ClosedError, ConfigError, KafkaError, KafkaTimeoutError, broker_error
from pykafka4.options.config import ClientConfig
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from pykafka4.wire.protocol.messages_cluster import MetadataRequest
from tests.inspection import inspect
from tests.net.net_helpers import SECONDS, closed_port, in_child, python, serving, until

pytestmark = pytest.mark.model(topics={"orders": 6})


class User:
    """A producer or consumer, as far as the runtime of its client knows."""

    kind = "user"

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.closed_with: list[float | None] = []
        runtime.attach(self)

    def close(self, timeout: float | None = None) -> None:
        self.closed_with.append(timeout)
        self.runtime.detach(self)

    def drain(self, timeout: float) -> None:
        self.close(timeout)


# -- asking the cluster


def test_partitions_of_a_topic_are_looked_up(client: Client) -> None:
    assert client.partitions_for("orders", SECONDS) == [0, 1, 2, 3, 4, 5]


def test_a_topic_created_during_a_wait_is_found(server: ModelServer, client: Client) -> None:
    timer = threading.Timer(0.3, server.create_topic, ("late", 2))
    timer.start()
    assert client.partitions_for("late", SECONDS) == [0, 1]
    timer.join()


def test_looking_a_topic_up_does_not_create_it(server: ModelServer, client: Client) -> None:
    listeners = list(inspect(client).engine.cluster.on_change)
    with pytest.raises(KafkaTimeoutError, match=r"looking up topic nope: not done within 0\.3 s"):
        client.partitions_for("nope", 0.3)
    assert server.do(lambda cluster: "nope" not in cluster.topics)
    assert inspect(client).loop.ask(lambda now: inspect(client).engine.cluster.on_change == listeners, SECONDS), "nobody waits any more"


def test_a_permanent_error_is_raised_at_once(server: ModelServer, client: Client) -> None:
    server.do(lambda cluster: cluster.push_error(MetadataRequest, "TOPIC_AUTHORIZATION_FAILED", topic="secret", times=100))
    with pytest.raises(AuthorizationError, match="topic secret: TOPIC_AUTHORIZATION_FAILED"):
        client.partitions_for("secret", SECONDS)


@pytest.mark.parametrize("name", ["", "a b", "..", "x" * 250])
def test_an_illegal_topic_name_is_refused_without_asking(client: Client, name: str) -> None:
    with pytest.raises(ConfigError):
        client.partitions_for(name, SECONDS)


def test_refreshing_finds_new_partitions(server: ModelServer, client: Client) -> None:
    client.partitions_for("orders", SECONDS)
    server.do(lambda cluster: cluster.add_partitions("orders", 8))
    client.refresh_metadata(["orders"], SECONDS)
    assert len(client.partitions_for("orders", SECONDS)) == 8
    client.refresh_metadata(timeout=SECONDS)
    with pytest.raises(ConfigError, match="takes a list of topic names"):
        client.refresh_metadata("orders")


def test_the_status_says_how_old_the_metadata_is_and_a_producer_refreshes_it(server: ModelServer, client: Client) -> None:
    with Producer(client) as producer:
        producer.partitions_for("orders", SECONDS)
        server.do(lambda cluster: cluster.add_partitions("orders", 8))
        producer.refresh_metadata(["orders"], SECONDS)
        metadata = producer.status()["metadata"]
        assert 0 <= metadata["age"] <= metadata["changed"] < SECONDS
        producer.refresh_metadata(timeout=SECONDS)  # finds nothing new
        metadata = producer.status()["metadata"]
        assert 0 <= metadata["age"] < metadata["changed"]


def test_status_shows_brokers_topics_and_offline_partitions(client: Client) -> None:
    client.partitions_for("orders", SECONDS)
    tp, why = TopicPartition("orders", 3), broker_error(6, "orders-3")

    def fail(now: float) -> None:
        inspect(client).engine.cluster.want("missing", "the test")
        inspect(client).engine.cluster.want("orders", "the test")
        inspect(client).engine.recovery.offline.clear()
        inspect(client).engine.recovery.report(now, tp, why)

    look = inspect(client).loop.ask(lambda now: (fail(now), look_at_machines(inspect(client).engine, now + 2.5))[1], SECONDS)
    shown = {**look.shown, "offline": look.offline(), "topics": client.status()["topics"]}
    assert shown["state"] == "connected"
    assert shown["cluster_id"] == "model-cluster"
    assert {broker["node"] for broker in shown["brokers"] if broker["node"] > 0} == {1, 2, 3}
    assert shown["offline"] == {"orders-3": {"since": pytest.approx(2.5), "reason": "orders-3: NOT_LEADER_OR_FOLLOWER"}}
    assert "missing" in shown["topics"]
    assert client.status()["state"] == "connected"


def test_events_tell_of_brokers_metadata_and_partitions(server: ModelServer, client: Client) -> None:
    heard: list[Any] = []
    client.events(heard.append)
    inspect(client).loop.call(lambda now: inspect(client).engine.cluster.want("orders", "the test"))
    client.partitions_for("orders", SECONDS)
    tp, why = TopicPartition("orders", 3), broker_error(6, "orders-3")
    inspect(client).loop.call(lambda now: inspect(client).engine.recovery.report(now, tp, why))
    until(lambda: PartitionOnline(tp) in heard)
    assert PartitionOffline(tp, why) in heard
    server.do(lambda cluster: cluster.stop_broker(3))
    client.refresh_metadata(timeout=SECONDS)
    server.do(lambda cluster: cluster.start_broker(3))
    client.refresh_metadata(timeout=SECONDS)
    until(lambda: [event for event in heard if isinstance(event, BrokerAdded) and event.node == 3])
    assert [event for event in heard if isinstance(event, MetadataChanged)]


def test_the_client_finds_the_cluster_again_after_every_broker_was_down(server: ModelServer, client: Client) -> None:
    client.partitions_for("orders", SECONDS)
    for node in (1, 2, 3):
        server.do(lambda cluster, node=node: cluster.stop_broker(node))
    until(lambda: client.status()["state"] == "unreachable")
    for node in (1, 2, 3):
        server.do(lambda cluster, node=node: cluster.start_broker(node))
    client.refresh_metadata(timeout=SECONDS)
    assert client.status()["state"] == "connected"


# -- no broker there


def test_with_no_broker_in_reach_operations_end_in_time_and_list_every_address() -> None:
    one, two = closed_port(), closed_port()
    with Client(bootstrap_servers=f"127.0.0.1:{one},localhost:{two}") as client:
        until(lambda: inspect(client).engine.network.why_unreachable().count("refused") >= 2)
        began = time.monotonic()
        for ask in (lambda: client.partitions_for("t", 0.3), lambda: client.refresh_metadata(timeout=0.3)):
            with pytest.raises(KafkaTimeoutError) as caught:
                ask()
            assert f"127.0.0.1:{one} connection refused" in str(caught.value)
            assert f"localhost:{two} connection refused" in str(caught.value)
        assert time.monotonic() - began < 0.6 + 2.0
        assert client.status()["state"] == "unreachable"


def test_one_good_address_among_bad_ones_is_enough(server: ModelServer) -> None:
    servers = f"127.0.0.1:{closed_port()},no-such-host.invalid:9092,{server.bootstrap_servers}"
    with Client(bootstrap_servers=servers) as client:
        assert len(client.partitions_for("orders", SECONDS)) == 6


def test_dead_names_that_hang_the_resolver_do_not_keep_a_good_one_waiting(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes up to six seconds: attempts at bootstrap servers follow each other in half-second steps."""
    real, hang = socket.getaddrinfo, threading.Event()

    def resolver(host: str, *args: Any, **options: Any) -> Any:
        if host.startswith("dead"):
            hang.wait(SECONDS)
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return real(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    port = server.bootstrap_servers.split(",")[0].rpartition(":")[2]
    dead = ",".join(f"dead{number}:1" for number in range(12))
    began = time.monotonic()
    try:
        with Client(bootstrap_servers=f"{dead},localhost:{port}") as client:
            client.refresh_metadata(timeout=SECONDS)
            packed = threading.Event()
            inspect(client).loop.call(lambda _: inspect(client).loop._start_job(Job(lambda: None, lambda now, _: packed.set())))
            assert packed.wait(SECONDS)
    finally:
        hang.set()
    assert time.monotonic() - began < 9.0  # attempts for ANY follow each other in half-second steps


def http(connection: socket.socket) -> None:
    connection.recv(1000)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    connection.close()


def tls(connection: socket.socket) -> None:
    connection.recv(1000)
    connection.sendall(b"\x15\x03\x01\x00\x02\x02\x46")  # alert: protocol version
    connection.close()


def silence(connection: socket.socket) -> None:
    while connection.recv(1000):
        pass


@pytest.mark.parametrize(
    ("peer", "text"),
    [
        (http, "the peer speaks HTTP, not Kafka; is the port right?"),
        (tls, "the broker speaks TLS: set security_protocol to SSL or SASL_SSL"),
        (silence, "no ApiVersions response within the setup timeout; is it a Kafka broker?"),
    ],
)
def test_a_port_that_is_no_kafka_broker_is_named_for_what_it_is(peer: Any, text: str) -> None:
    with serving(peer) as port, Client(bootstrap_servers=f"127.0.0.1:{port}", socket_connection_setup_timeout_ms=200) as client:
        until(lambda: text in inspect(client).engine.network.why_unreachable())
        with pytest.raises(KafkaTimeoutError) as caught:
            client.partitions_for("t", 0.05)
        assert text in str(caught.value)
        assert f"127.0.0.1:{port}" in str(caught.value)


@pytest.mark.parametrize(("protocol", "hint"), [("PLAINTEXT", ""), ("SASL_PLAINTEXT", "; is it a Kafka broker?")])
def test_an_address_that_has_answered_another_client_of_the_process_is_not_doubted(protocol: str, hint: str, server: ModelServer) -> None:
    address = server.bootstrap_servers.split(",")[0]
    with Client(bootstrap_servers=address) as client:
        client.refresh_metadata(timeout=SECONDS)
    server.do(lambda cluster: [cluster.freeze(node, 60) for node in cluster.brokers])
    user: Any = {} if protocol == "PLAINTEXT" else {"sasl_mechanism": "PLAIN", "sasl_username": "u", "sasl_password": "p"}
    with Client(bootstrap_servers=address, socket_connection_setup_timeout_ms=200, security_protocol=protocol, **user) as client:
        until(lambda: f"within the setup timeout{hint}" in client.status()["reason"], "the reason")
        assert client.status()["reason"].endswith(f"within the setup timeout{hint}")


# -- users and ends


def test_a_private_client_closes_with_its_last_user(server: ModelServer) -> None:
    runtime = Runtime.private(ClientConfig.parse({"bootstrap_servers": server.bootstrap_servers}))
    one, two = User(runtime), User(runtime)
    one.close()
    runtime.check()
    two.close()
    with pytest.raises(ClosedError):
        runtime.check()


def test_a_shared_client_outlives_its_users_and_closes_those_that_are_left(client: Client) -> None:
    gone, left = User(inspect(client).runtime), User(inspect(client).runtime)
    gone.close()
    inspect(client).runtime.check()
    client.close(SECONDS)
    assert len(left.closed_with) == 1
    assert gone.closed_with == [None]
    client.close()
    assert len(left.closed_with) == 1


def test_a_user_whose_close_breaks_does_not_keep_the_loop_alive(client: Client) -> None:
    class Broken(User):
        def close(self, timeout: float | None = None) -> None:
            raise KeyboardInterrupt

    Broken(inspect(client).runtime)
    with pytest.raises(KeyboardInterrupt):
        client.close(SECONDS)
    assert not inspect(client).thread.is_alive()


def test_after_close_everything_says_so(client: Client) -> None:
    client.close()
    uses = (lambda: client.partitions_for("t", 1), client.refresh_metadata, lambda: client.events(print), client.__enter__)
    for use in (*uses, inspect(client).runtime.check):
        with pytest.raises(ClosedError):
            use()
    with pytest.raises(ClosedError):
        User(inspect(client).runtime)
    assert client.status()["state"] == "closed"


def test_a_user_that_attaches_while_another_detaches_is_not_forgotten(client: Client) -> None:
    """At every bytecode of `detach`, as another thread could."""
    steps = 0

    def at(step: int) -> bool:
        nonlocal steps
        steps = 0
        leaving, coming = User(inspect(client).runtime), object.__new__(User)

        def trace(frame: Any, event: str, argument: object) -> Any:
            nonlocal steps
            frame.f_trace_opcodes = True
            if event == "opcode":
                steps += 1
                if steps == step:
                    inspect(client).runtime.attach(coming)
            return trace

        sys.settrace(trace)
        try:
            inspect(client).runtime.detach(leaving)
        finally:
            sys.settrace(None)
        attached = any(user is coming for user in client_users(client))
        inspect(client).runtime.detach(coming)
        return attached

    step = 0
    while step <= steps:
        step += 1
        assert at(step) or step > steps, f"forgotten at step {step}"
    assert step > 5


def client_users(client: Client) -> list[object]:
    users: Any = inspect(client).runtime._users
    return list(users.values() if isinstance(users, dict) else users)


def test_a_crashed_client_says_why(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(now: float) -> Effects:
        raise ValueError("the cluster broke")

    monkeypatch.setattr(inspect(client).engine.cluster, "poll", broken)
    with pytest.raises(KafkaError, match="the loop crashed: ValueError: the cluster broke"):
        client.partitions_for("t", SECONDS)
    shown = client.status()
    assert shown["state"] == "crashed"
    assert "the cluster broke" in shown["reason"]


def test_a_client_whose_thread_does_not_answer_is_not_called_closed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykafka4.client.status.ANSWER_S", 0.01)
    with Consumer(client=client) as consumer:
        monkeypatch.setattr("pykafka4.consumer.session.LOOP_ANSWER_S", 0.01)
        held, may_go = threading.Event(), threading.Event()
        inspect(client).loop.call(lambda _: (held.set(), may_go.wait(SECONDS)))
        assert held.wait(SECONDS)
        shown, consumers = client.status(), consumer.status()
        may_go.set()
        monkeypatch.undo()
        assert shown["state"] == consumers["consumer"]["state"] == "unresponsive"
        assert "not done within" in shown["reason"]
        assert client.status()["state"] != "unresponsive"


def test_a_client_of_the_parent_process_is_called_forked(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(inspect(client).loop, "forked", True)
        shown = client.status()
    assert shown["state"] == "forked"
    assert "fork" in shown["reason"]


def test_a_client_closes_at_once_with_no_broker_in_reach() -> None:
    client = Client(bootstrap_servers="127.0.0.1:1,no-such-host.invalid:1")
    began = time.monotonic()
    client.close(SECONDS)
    assert time.monotonic() - began < 5


def test_closing_from_a_callback_works(client: Client) -> None:
    done = threading.Event()
    inspect(client).runtime.callbacks.submit(lambda: (client.close(), done.set()))
    assert done.wait(SECONDS)
    with pytest.raises(ClosedError):
        inspect(client).runtime.check()


def test_a_client_cannot_be_pickled_and_says_what_to_send_instead(client: Client) -> None:
    with pytest.raises(TypeError, match="Pass its options"):
        pickle.dumps(client)
    config = client.config
    assert pickle.loads(pickle.dumps(config)) == config


def test_a_forgotten_client_warns_and_ends_its_thread(server: ModelServer) -> None:
    def forget() -> threading.Thread:
        client = Client(bootstrap_servers=server.bootstrap_servers)
        client.partitions_for("orders", SECONDS)
        return inspect(client).thread

    with pytest.warns(ResourceWarning, match="a Client was not closed"):
        thread = forget()
    thread.join(SECONDS)
    assert not thread.is_alive()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_gets_the_fork_error_and_the_parent_goes_on(server: ModelServer, client: Client) -> None:
    client.partitions_for("orders", SECONDS)

    def act() -> str:
        try:
            return str(client.partitions_for("orders", 1))
        finally:
            client.close()

    assert "create a client in this process" in in_child(act)
    client.refresh_metadata(timeout=SECONDS)


def test_a_forked_child_can_make_a_client_of_its_own(server: ModelServer) -> None:
    code = f"""
import os
from pykafka4.client.client import Client
options = {{"bootstrap_servers": "{server.bootstrap_servers}"}}
client = Client(**options)
client.partitions_for("orders", 20)
child = os.fork()
if child == 0:
    with Client(**options) as mine:
        print(len(mine.partitions_for("orders", 20)), flush=True)
else:
    status = os.waitpid(child, 0)[1]
    client.refresh_metadata(timeout=20)
    client.close()
    print("parent", status, flush=True)
"""
    result = python(code)
    assert result.stdout.split() == ["6", "parent", "0"], result


def test_leaving_the_interpreter_drains_the_users_of_open_clients(server: ModelServer) -> None:
    code = f"""
from pykafka4.client.client import Client
client = Client(bootstrap_servers="{server.bootstrap_servers}")
class User:
    def drain(self, timeout):
        print("drained in", round(timeout), "at most;", len(client.partitions_for("orders", 20)))
        client._runtime.detach(self)
client._runtime.attach(User())
"""
    result = python(code)
    assert result.stdout == "drained in 5 at most; 6\n", result


def test_an_interpreter_that_starts_no_more_threads_loses_no_record(server: ModelServer) -> None:
    """Python 3.12 refuses new threads once it shuts down."""
    servers = server.bootstrap_servers.replace("127.0.0.1", "localhost")
    code = f"""
import atexit, threading
from pykafka4 import Producer
producer = Producer(bootstrap_servers="{servers}", compression_type="gzip")
def refuse(thread):
    raise RuntimeError("can't create new thread at interpreter shutdown")
threading.Thread.start = refuse
for number in range(30):
    producer.send("orders", b"%d" % number * 10_000, partition=number % 3, on_delivery=lambda delivery: print(delivery.done()))
"""
    before = len(server.records("orders"))
    result = python(code)
    assert result.stdout.split() == ["True"] * 30, result
    assert len(server.records("orders")) == before + 30


def test_leaving_the_interpreter_with_no_broker_in_reach_takes_no_time() -> None:
    began = time.monotonic()
    result = python("from pykafka4 import Client; Client(bootstrap_servers='127.0.0.1:1'); print('bye')")
    assert result.stdout == "bye\n"
    assert time.monotonic() - began < 20


# -- costs


def turns_and_cpu(client: Client, seconds: float) -> tuple[int, float]:
    """Turns of the loop and its share of a core, over `seconds`."""
    counted = [0]
    turn = inspect(client).loop.engine.turn

    def count(now: float) -> Any:
        counted[0] += 1
        return turn(now)

    inspect(client).loop.engine.turn = count  # type: ignore[method-assign]
    thread = inspect(client).thread.ident
    assert thread is not None
    clock = time.pthread_getcpuclockid(thread)
    before = time.clock_gettime(clock)
    threading.Event().wait(seconds)
    return counted[0], (time.clock_gettime(clock) - before) / seconds


def test_an_idle_client_does_nothing(server: ModelServer, client: Client) -> None:
    client.partitions_for("orders", SECONDS)
    turns, cpu = turns_and_cpu(client, 1.0)
    assert turns <= 2
    assert cpu <= 0.02  # the clock ticks in hundredths of a second


def test_a_client_with_no_broker_in_reach_costs_little() -> None:
    servers = ",".join(f"127.0.0.1:{closed_port()}" for _ in range(3))
    with Client(bootstrap_servers=servers) as client:
        until(lambda: "refused" in inspect(client).engine.network.why_unreachable())
        turns, cpu = turns_and_cpu(client, 2.0)
    assert turns <= 2 * 60
    assert cpu <= 0.05  # measured 0.002; the bound is for a busy machine


def test_a_slow_listener_hears_of_every_partition_and_broker(client: Client) -> None:
    heard: list[object] = []
    busy, go_on = threading.Event(), threading.Event()

    def listener(event: object) -> None:
        heard.append(event)
        busy.set()
        go_on.wait(SECONDS)

    client.events(listener)
    partitions = [PartitionOffline(TopicPartition("orders", n), KafkaError("no leader")) for n in range(3)]
    brokers = [BrokerAdded(node, "h", 9092) for node in (7, 8)]
    inspect(client).runtime.events.emit(MetadataChanged(1))
    assert busy.wait(SECONDS)
    for event in (*partitions, *brokers):
        inspect(client).runtime.events.emit(event)
    go_on.set()
    until(lambda: set(partitions + brokers) <= set(heard), "every event")


def test_users_are_closed_with_what_is_left_of_the_time(client: Client) -> None:
    user = User(inspect(client).runtime)
    client.close(SECONDS)
    (left,) = user.closed_with
    assert left is not None
    assert 0 < left <= SECONDS


def test_close_does_not_wait_longer_for_a_busy_loop_than_it_may(client: Client) -> None:
    busy_now, go_on = threading.Event(), threading.Event()
    inspect(client).loop.call(lambda now: (busy_now.set(), go_on.wait(3.0)))
    assert busy_now.wait(SECONDS)
    client.close(0.05)
    busy = inspect(client).thread.is_alive()
    go_on.set()
    assert busy, "close waited until the loop had ended"


def test_calls_without_a_timeout_take_no_longer_than_a_request_may() -> None:
    with Client(bootstrap_servers=f"127.0.0.1:{closed_port()}", request_timeout_ms=200) as client:
        with pytest.raises(KafkaTimeoutError, match=r"0\.2 s"):
            client.partitions_for("orders")
        with pytest.raises(KafkaTimeoutError, match=r"0\.2 s"):
            client.refresh_metadata()


def test_the_options_of_a_client_are_those_of_its_producers_and_consumers(server: ModelServer) -> None:
    options = {"bootstrap_servers": server.bootstrap_servers, "client_id": "me", "request_timeout_ms": 1_234, "retry_backoff_ms": 56}
    with Client(**options) as client, Producer(client) as producer, Consumer(client) as consumer:  # type: ignore[arg-type]
        for theirs in (inspect(producer).session.config, inspect(consumer).session.config):
            for name in attrs.fields_dict(ClientConfig):
                assert getattr(theirs, name) == getattr(client.config, name), name


@pytest.mark.parametrize(
    ("wanted", "of_others", "messages_of_others"),
    [
        ("Producer", ("consumer", "core.consumer", "core.group"), ("admin", "fetch", "group", "sasl")),
        ("Consumer", ("producer", "core.producer"), ("admin", "produce", "sasl", "txn")),
    ],
)
def test_importing_a_client_loads_nothing_that_only_others_need(
    wanted: str, of_others: tuple[str, ...], messages_of_others: tuple[str, ...]
) -> None:
    ours = ("testing", "wire.protocol.declared", *of_others, *(f"wire.protocol.messages_{name}" for name in messages_of_others))
    needless = ("asyncio", "ssl", *(f"pykafka4.{name}" for name in ours))
    code = f"import sys, pykafka4; pykafka4.{wanted}; print([name for name in {needless} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
