"""Producer: what was accepted gets its outcome, and nothing waits without an end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pykafka4 import (
    BufferFull,
    Client,
    ClosedError,
    ConfigError,
    Consumer,
    DeliveryFailed,
    ForkedClientError,
    KafkaError,
    KafkaTimeoutError,
    Producer,
)
from pykafka4.error_table import Written
from pykafka4.producer import _Core
from pykafka4.testing import ModelServer
from pykafka4.wire.hot import Delivery

sys.path.insert(0, str(Path(__file__).parent / "net"))
from net_talk import SECONDS, python, until

Maker = Callable[..., Producer]
FEW = {"buffer_memory": 65_536, "max_partition_bytes": 65_536, "linger_ms": 0}  # soon full
UNCLOSED = "no close here waits for as long as that"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """Three brokers, topic `t` with three partitions."""
    with ModelServer() as brokers:
        brokers.create_topic("t", 3)
        yield brokers


@pytest.fixture
def make(server: ModelServer) -> Iterator[Maker]:
    """Makes producers, and closes them in the end."""
    made: list[Producer] = []

    def producer(**options: Any) -> Producer:
        made.append(Producer(bootstrap_servers=server.bootstrap_servers, **options))
        return made[-1]

    yield producer
    for one in made:
        one.close(0)


def stop_all(server: ModelServer) -> None:
    server.do(lambda cluster: [cluster.stop_broker(node) for node in cluster.brokers])


def start_all(server: ModelServer) -> None:
    server.do(lambda cluster: [cluster.start_broker(node) for node in cluster.brokers])


def values(server: ModelServer) -> list[bytes]:
    return sorted(record.value or b"" for record in server.records("t"))


def balanced(producer: Producer) -> bool:
    """Whether every record has its outcome."""
    stats = producer.stats()
    return stats.queued == stats.in_flight == 0 and stats.accepted == stats.acked + stats.lost


def knowing(producer: Producer) -> Producer:
    """`producer`, when it knows the topic."""
    producer.send("t", b"first", partition=0)
    producer.flush(SECONDS)
    return producer


@contextlib.contextmanager
def out_of_reach(server: ModelServer) -> Iterator[None]:
    """A block in which no topic can become known."""
    stop_all(server)
    yield
    start_all(server)


@contextlib.contextmanager
def ctrl_c(when: Callable[[], object]) -> Iterator[None]:
    """KeyboardInterrupt in this thread as soon as `when()` holds."""
    me = threading.get_ident()

    def press() -> None:
        until(when, "the wait to interrupt")
        signal.pthread_kill(me, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background ignores it
    thread = threading.Thread(target=press, daemon=True)
    try:
        with pytest.raises(KeyboardInterrupt):
            thread.start()
            yield
    finally:
        signal.signal(signal.SIGINT, before)
        thread.join(SECONDS)


class Sending(threading.Thread):
    """A thread that sends until it is refused."""

    def __init__(self, producer: Producer, topic: str = "t", **how: Any) -> None:
        super().__init__(daemon=True)
        self.sent: list[Delivery] = []
        self.error: KafkaError | None = None
        self._send = lambda: producer.send(topic, b"y" * 5000, **how)
        self.start()
        until(lambda: producer._core.gate.waiting, "the buffer to be full")

    def run(self) -> None:
        try:
            while True:
                self.sent.append(self._send())
        except KafkaError as error:
            self.error = error

    def refused(self) -> KafkaError:
        self.join(SECONDS)
        assert self.error is not None, "it is still blocked"
        return self.error


# -- records go out


def test_leaving_the_block_delivers_everything(server: ModelServer, make: Maker) -> None:
    with make(linger_ms=60_000) as producer:
        for n in range(100):
            producer.send("t", b"%02d" % n)
    assert values(server) == [b"%02d" % n for n in range(100)]
    assert balanced(producer)


def test_flush_waits_for_what_lingers_and_for_its_callbacks(make: Maker) -> None:
    producer, called = make(linger_ms=60_000), list[Delivery]()
    sent = [producer.send("t", b"v", on_delivery=called.append) for _ in range(10)]
    producer.flush(SECONDS)
    assert len(called) == 10
    assert all(delivery.exception(0) is None for delivery in sent)


def test_flush_that_takes_too_long_says_how_much_is_left(server: ModelServer, make: Maker) -> None:
    producer = knowing(make())
    stop_all(server)
    for _ in range(3):
        producer.send("t", b"v")
    producer.send("unknown", b"v")
    with pytest.raises(KafkaTimeoutError, match=r"flush: 4 records have no outcome after 0\.05 s; status\(\) says"):
        producer.flush(0.05)


def test_a_delivery_can_be_awaited_before_and_after_its_outcome(make: Maker) -> None:
    async def main() -> list[int]:
        delivery = producer.send("t", b"v", partition=0)
        return [(await delivery).offset, (await delivery).offset]

    producer = make()
    assert asyncio.run(main()) == [0, 0]


def test_partitions_are_looked_up(make: Maker) -> None:
    assert make().partitions_for("t", SECONDS) == [0, 1, 2]


def test_stats_and_status_tell_where_every_record_is(server: ModelServer, make: Maker) -> None:
    producer = knowing(make())
    stop_all(server)
    producer.send("t", b"v")
    producer.send("unknown", b"v")
    shown = producer.status()["producer"]
    assert (shown["accepted"], shown["acked"], shown["queued"] + shown["in_flight"]) == (3, 1, 2)
    producer.close(0)
    stats = producer.stats()
    assert (stats.accepted, stats.acked, stats.lost, stats.queued, stats.buffered_bytes) == (3, 1, 2, 0, 0)
    assert producer.status()["state"] == "closed"


# -- records fail


def test_a_partition_that_is_not_there_fails_the_first_send_to_its_topic_aloud(server: ModelServer, make: Maker) -> None:
    producer = make()
    with pytest.raises(DeliveryFailed, match="t: partition=99 but the topic has 3 partitions, 0 to 2"), producer, out_of_reach(server):
        lost = producer.send("t", b"lost", partition=99)
        kept = producer.send("t", b"kept", partition=1)
    assert lost.exception(0).record.partition == 99  # type: ignore[union-attr]
    assert kept.exception(0) is None
    assert values(server) == [b"kept"]
    assert balanced(producer)
    assert producer.stats().failed == {("UNKNOWN_TOPIC_OR_PARTITION", Written.NO): 1}


def test_who_waits_for_a_record_without_a_partition_is_woken(server: ModelServer, make: Maker) -> None:
    producer, called = make(linger_ms=60_000), list[Delivery]()
    with out_of_reach(server):
        one = producer.send("t", b"v", partition=99)
        two = producer.send("t", b"v", partition=98, on_delivery=called.append)
    assert isinstance(one.exception(SECONDS), DeliveryFailed)
    producer.flush(SECONDS)
    assert two.settled
    assert len(called) == 1


def test_what_expires_says_which_address_failed_and_why(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(delivery_timeout_ms=500, linger_ms=0, reconnect_backoff_ms=10))
    stop_all(server)
    until(lambda: producer.status()["state"] == "unreachable")
    failure = producer.send("t", b"v", partition=0).exception(SECONDS)
    assert isinstance(failure, DeliveryFailed)
    assert (failure.code, failure.written) == ("TIMED_OUT", Written.NO)
    for address in server.bootstrap_servers.split(","):
        assert f"{address} connection refused" in str(failure)


def test_a_scope_raises_the_first_failure_of_its_own(server: ModelServer, make: Maker) -> None:
    producer = make()
    with pytest.raises(DeliveryFailed, match="partition=99"), producer.delivery_scope(SECONDS) as same, out_of_reach(server):
        same.send("t", b"v", partition=99)
        same.send("t", b"v", partition=98)
    with producer.delivery_scope(SECONDS):
        producer.send("t", b"kept")
    assert values(server) == [b"kept"]
    with pytest.raises(DeliveryFailed) as caught:
        producer.raise_failures()
    assert caught.value.__notes__ == ["2 records failed in all"]
    producer.raise_failures(since=producer.stats().lost)
    with pytest.raises(DeliveryFailed) as caught:
        producer.raise_failures()
    assert caught.value.__notes__ == ["2 records failed in all"], "told anew each time"


def test_a_scope_whose_block_raises_raises_that(make: Maker) -> None:
    producer = make(linger_ms=60_000)
    with pytest.raises(ZeroDivisionError), producer.delivery_scope():
        producer.send("t", b"v")
        raise ZeroDivisionError


def test_a_scope_that_takes_too_long_says_so(server: ModelServer, make: Maker) -> None:
    producer = knowing(make())
    stop_all(server)
    with pytest.raises(KafkaTimeoutError, match="flush: 1 records"), producer.delivery_scope(0.05):
        producer.send("t", b"v")


def test_an_error_in_the_block_is_told_what_was_not_delivered(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(delivery_timeout_ms=300))
    with pytest.raises(ZeroDivisionError) as caught, producer:
        stop_all(server)
        producer.send("t", b"v")
        raise ZeroDivisionError
    assert caught.value.__notes__ == ["pykafka4: 1 records were not delivered when the producer closed"]


# -- no room


def test_a_send_waits_for_room_and_goes_on(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(**FEW))
    stop_all(server)
    sending = Sending(producer, partition=0)
    blocked = len(sending.sent)
    start_all(server)
    until(lambda: len(sending.sent) > blocked + 20)
    stop_all(server)
    producer.close(0)
    sending.refused()


def test_a_send_that_finds_no_room_in_time_names_what_is_full(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(**FEW, max_block_ms=50))
    stop_all(server)
    with pytest.raises(BufferFull, match=r"buffer_memory=65536 .* t-0 needs \d+ more; no room within max_block_ms=50"):
        while True:
            producer.send("t", b"y" * 5000, partition=0)
    accepted = producer.stats().accepted
    with pytest.raises(BufferFull, match="unknown needs"):
        producer.send("unknown", b"y" * 60_000)
    assert producer.stats().accepted == accepted


def test_a_callback_that_finds_no_room_is_told_at_once(server: ModelServer, make: Maker) -> None:
    producer, caught = knowing(make(**FEW)), list[BaseException]()

    def forward(_: Delivery) -> None:
        try:
            while True:
                producer.send("t", b"y" * 5000, partition=0)
        except BufferFull as error:
            caught.append(error)

    server.do(lambda cluster: cluster.orphan("t", 0, 600.0))
    producer.send("t", b"v", partition=1, on_delivery=forward)
    until(lambda: caught, "the callback")
    assert "a callback cannot wait for it" in str(caught[0])


def test_ctrl_c_ends_a_send_that_waits_for_room_and_nothing_is_accepted(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(**FEW))
    stop_all(server)
    with ctrl_c(lambda: producer._core.gate.waiting):
        while True:
            producer.send("t", b"y" * 5000, partition=0)
    accepted = producer.stats().accepted
    assert producer._core.acc.waiters == producer._core.gate.waiting == 0
    assert len(producer.close(0)) == accepted - 1


# -- callbacks and their executor


@pytest.mark.parametrize("wrong", ["threads", ThreadPoolExecutor, 5])
def test_what_is_no_executor_is_refused_when_it_is_given(wrong: Any) -> None:
    for kind in (Client, Producer, Consumer):
        with pytest.raises(ConfigError, match=r"callback_executor=.*must be a concurrent\.futures\.Executor"):
            kind(bootstrap_servers="127.0.0.1:1", callback_executor=wrong)


def test_callbacks_run_on_the_executor_that_was_given(make: Maker) -> None:
    names: list[str] = []
    with ThreadPoolExecutor(1, "mine") as executor:
        producer = make(callback_executor=executor)
        producer.send("t", b"v", on_delivery=lambda _: names.append(threading.current_thread().name))
        producer.flush(SECONDS)
    assert names[0].startswith("mine")


def test_callbacks_that_the_executor_dropped_keep_nobody_waiting(make: Maker) -> None:
    executor, go, called = ThreadPoolExecutor(1), threading.Event(), list[Delivery]()
    executor.submit(go.wait, SECONDS)
    producer = make(callback_executor=executor)
    producer.send("t", b"v", on_delivery=called.append).result(SECONDS)
    until(lambda: executor._work_queue.qsize() == 1)
    executor.shutdown(wait=False, cancel_futures=True)
    began = time.monotonic()
    assert producer.close() == []
    assert time.monotonic() - began < SECONDS, UNCLOSED
    assert len(called) == 1
    go.set()


def test_a_callback_that_raises_settles_all_the_same(make: Maker, caplog: pytest.LogCaptureFixture) -> None:
    producer = make()
    producer.send("t", b"v", on_delivery=lambda _: 1 / 0)  # type: ignore[arg-type]
    producer.flush(SECONDS)
    assert "ZeroDivisionError" in caplog.text


def test_on_the_loops_own_thread_nothing_waits(server: ModelServer, make: Maker) -> None:
    """A destructor may run there."""
    producer = knowing(make(**FEW))
    stop_all(server)
    sending = Sending(producer, partition=0)
    loop = producer._core.client.loop
    with pytest.raises(KafkaError, match="flush inside a callback"):
        loop.ask(lambda _: producer.flush(), SECONDS)
    with pytest.raises(BufferFull):
        loop.ask(lambda _: producer.send("t", b"y" * 60_000, partition=0), SECONDS)
    undelivered: list[Any] = []
    with contextlib.suppress(KafkaError):  # the loop ends with its last producer
        loop.ask(lambda _: undelivered.append(producer.close()), SECONDS)
    sending.refused()
    assert len(undelivered[0]) == len(sending.sent)
    assert balanced(producer)


# -- close


@pytest.mark.parametrize("topic", ["t", "unknown"])
def test_close_gives_back_what_it_could_not_deliver_when_its_time_is_over(server: ModelServer, make: Maker, topic: str) -> None:
    producer = knowing(make())
    stop_all(server)
    sent = [producer.send(topic, b"%d" % n, key=b"k", headers=[("h", b"1")], partition=0) for n in range(3)]
    began = time.monotonic()
    undelivered = producer.close(0.1)
    assert 0.1 <= time.monotonic() - began < SECONDS
    assert [(r.topic, r.value, r.key, r.headers, r.written) for r in undelivered] == [
        (topic, b"%d" % n, b"k", (("h", b"1"),), Written.NO) for n in range(3)
    ]
    assert [delivery.exception(0).code for delivery in sent] == ["CLOSED"] * 3  # type: ignore[union-attr]
    assert balanced(producer)
    assert producer.close() is undelivered
    assert not producer._core.client.loop.alive


def test_close_gives_back_what_fails_while_it_waits(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(delivery_timeout_ms=200, linger_ms=0))
    stop_all(server)
    producer.send("t", b"late", partition=0)
    producer.send("unknown", b"later")
    began = time.monotonic()
    assert sorted(record.value or b"" for record in producer.close(SECONDS)) == [b"late", b"later"]
    assert time.monotonic() - began < SECONDS / 2, "all had their outcome"


@pytest.mark.parametrize("topic", ["t", "unknown"])
def test_a_send_that_waits_for_room_is_refused_by_close_and_nothing_is_lost(server: ModelServer, make: Maker, topic: str) -> None:
    producer = knowing(make(**FEW))
    stop_all(server)
    threads = [Sending(producer, topic, partition=0) for _ in range(3)]
    undelivered = producer.close(0.05)
    for sending in threads:
        assert isinstance(sending.refused(), ClosedError)
        assert all(delivery.done() for delivery in sending.sent)
    assert len(undelivered) == sum(len(sending.sent) for sending in threads)
    assert balanced(producer)


@pytest.mark.parametrize("topic", ["t", "unknown"])
def test_a_crash_fails_everything_and_everyone(server: ModelServer, make: Maker, topic: str) -> None:
    producer = knowing(make(**FEW))
    stop_all(server)
    sending = Sending(producer, topic, partition=0)
    closed: list[Any] = []
    closing = threading.Thread(target=lambda: closed.append(producer.close()), daemon=True)
    producer._core.client.loop.call(lambda _: 1 / 0)
    assert "the loop crashed: ZeroDivisionError" in str(sending.refused())
    assert all("the loop crashed" in str(delivery.exception(0)) for delivery in sending.sent)
    closing.start()
    closing.join(SECONDS)
    assert closed == [[]], UNCLOSED
    assert balanced(producer)
    with pytest.raises(KafkaError, match="the loop crashed"):
        producer.flush()


def test_a_crash_ends_a_close_that_waits(server: ModelServer, make: Maker) -> None:
    producer = knowing(make())
    stop_all(server)
    sent = [producer.send(topic, b"v") for topic in ("t", "unknown")]
    closed: list[Any] = []
    closing = threading.Thread(target=lambda: closed.append(producer.close()), daemon=True)
    closing.start()
    until(lambda: producer._core.signal._waiters)
    producer._core.client.loop.call(lambda _: 1 / 0)
    closing.join(SECONDS)
    assert sorted(record.topic for record in closed[0]) == ["t", "unknown"], UNCLOSED
    assert all(delivery.done() for delivery in sent)


def test_a_callback_may_close_and_waits_for_nothing(server: ModelServer, make: Maker) -> None:
    producer, undelivered = knowing(make()), list[Any]()
    server.do(lambda cluster: cluster.orphan("t", 0, 600.0))
    producer.send("t", b"stays", partition=0)
    producer.send("t", b"goes", partition=1, on_delivery=lambda _: undelivered.extend(producer.close()))
    until(lambda: undelivered)
    assert [record.value for record in undelivered] == [b"stays"]
    assert balanced(producer)


def test_a_callback_that_closes_takes_nothing_from_a_close_under_way(server: ModelServer, make: Maker) -> None:
    producer, inside = knowing(make(linger_ms=60_000)), list[Any]()
    server.do(lambda cluster: cluster.orphan("t", 0, 600.0))
    producer.send("t", b"late", partition=0)
    producer.send("t", b"soon", partition=1, on_delivery=lambda _: inside.append(producer.close()))
    closed: list[Any] = []
    closing = threading.Thread(target=lambda: closed.append(producer.close(SECONDS)), daemon=True)
    closing.start()
    until(lambda: inside)
    server.do(lambda cluster: cluster.heal())
    closing.join(SECONDS * 2)
    assert inside == closed == [[]]
    assert values(server) == [b"first", b"late", b"soon"]


def test_closing_a_producer_leaves_a_shared_client_to_the_others(server: ModelServer) -> None:
    with Client(bootstrap_servers=server.bootstrap_servers) as client:
        Producer(client=client).close()
        left = Producer(client=client, linger_ms=60_000)
        left.send("t", b"v")
    assert values(server) == [b"v"]
    assert balanced(left)


@pytest.mark.parametrize("step", ["_wait_settled", "_give_up", "_stop"])
def test_after_ctrl_c_the_next_close_finishes_the_job(server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    producer = knowing(make())
    stop_all(server)
    producer.send("t", b"v", partition=0)

    def interrupted(*args: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(producer._core, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            producer.close(0)
    with pytest.raises(ClosedError):
        producer.send("t", b"v")
    assert [record.value for record in producer.close(0)] == [b"v"]
    assert balanced(producer)
    assert not producer._core.client.loop.alive


def test_ctrl_c_ends_the_wait_of_a_close(server: ModelServer, make: Maker) -> None:
    producer = knowing(make())
    stop_all(server)
    producer.send("t", b"v", partition=0)
    with ctrl_c(lambda: producer._core.signal._waiters):
        producer.close()
    start_all(server)
    assert producer.close(SECONDS) == []
    assert values(server) == [b"first", b"v"]


# -- the interpreter exits, the handle is forgotten


def script(server: ModelServer, *lines: str) -> str:
    """Run `lines` in an interpreter of its own, with a producer of `server`; what it printed and logged."""
    begin = ["import pykafka4.client", "from pykafka4 import Producer", f"servers = {server.bootstrap_servers!r}"]
    done = python("\n".join([*begin, *lines]))
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_leaving_the_interpreter_delivers_what_lingers(server: ModelServer) -> None:
    told = script(server, "p = Producer(bootstrap_servers=servers, linger_ms=60_000)", "for n in range(100): p.send('t', b'v')")
    assert values(server) == [b"v"] * 100
    assert "not delivered" not in told


def test_leaving_the_interpreter_in_vain_says_how_much_was_lost(server: ModelServer) -> None:
    stop_all(server)
    told = script(
        server,
        "pykafka4.client.EXIT_SECONDS = 0.1",
        "p = Producer(bootstrap_servers=servers)",
        "for n in range(3): p.send('t', b'v')",
    )
    assert "3 records were not delivered when the interpreter exited" in told


def test_leaving_the_interpreter_goes_on_where_ctrl_c_ended_a_close(server: ModelServer) -> None:
    script(
        server,
        "import signal, threading",
        "p = Producer(bootstrap_servers=servers, linger_ms=60_000)",
        "real = p._core._wait_settled",
        "def interrupted(*_): p._core._wait_settled = real; raise KeyboardInterrupt",
        "p._core._wait_settled = interrupted",
        "for n in range(3): p.send('t', b'v')",
        "try: p.close()",
        "except KeyboardInterrupt: pass",
    )
    assert values(server) == [b"v"] * 3


def test_a_forgotten_producer_warns_and_closes(server: ModelServer) -> None:
    def forget() -> Any:
        return Producer(bootstrap_servers=server.bootstrap_servers)._core.client.loop._thread

    with pytest.warns(ResourceWarning, match="a Producer was not closed"):
        thread = forget()
    thread.join(SECONDS)
    assert not thread.is_alive()


def test_a_closed_producer_is_forgotten_in_silence(server: ModelServer) -> None:
    producer = Producer(bootstrap_servers=server.bootstrap_servers)
    producer.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del producer
        gc.collect()


# -- fork


def in_child(act: Callable[[], str]) -> str:
    """What `act` says in a forked child, within SECONDS."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # nothing of pytest may run here
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(SECONDS))
        try:
            said = act()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    said = os.read(reader, 10_000).decode()
    os.close(reader)
    return said


async def awaited(delivery: Delivery) -> object:
    return await delivery


USES: dict[str, Callable[[Producer, Delivery], object]] = {
    "send": lambda producer, delivery: producer.send("t", b"v"),
    "send to a new topic": lambda producer, delivery: producer.send("new", b"v"),
    "flush": lambda producer, delivery: producer.flush(),
    "result": lambda producer, delivery: delivery.result(),
    "exception": lambda producer, delivery: delivery.exception(SECONDS),
    "callback": lambda producer, delivery: delivery.add_done_callback(print),
    "await": lambda producer, delivery: asyncio.run(awaited(delivery)),  # type: ignore[arg-type]
    "partitions_for": lambda producer, delivery: producer.partitions_for("t"),
    "delivery_scope": lambda producer, delivery: producer.delivery_scope().__enter__().flush(),
    "with": lambda producer, delivery: producer.__enter__(),
    "stats": lambda producer, delivery: producer.stats(),
    "status": lambda producer, delivery: producer.status(),
}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("use", USES)
def test_a_forked_child_is_told_at_once(server: ModelServer, make: Maker, use: str) -> None:
    producer = knowing(make())
    stop_all(server)
    delivery = producer.send("t", b"v", partition=0)
    assert in_child(lambda: str(USES[use](producer, delivery))).startswith("ForkedClientError: this ")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_closes_in_silence_and_the_parent_goes_on(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(linger_ms=60_000))
    there = producer.send("t", b"there", partition=0)
    producer.flush(SECONDS)
    delivery = producer.send("t", b"v", partition=0)

    def leave() -> str:
        nonlocal producer
        outcome = producer.close(), there.result().offset, delivery.done()
        with pytest.raises(ForkedClientError):
            there.add_done_callback(print)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            _Core.forgotten(producer._core)
        return str(outcome)

    with producer._core.signal._condition, producer._core.gate.lock, producer._core.gate._guard:  # as another thread may have them
        assert in_child(leave) == "([], 1, False)"
    producer.flush(SECONDS)
    assert delivery.result(0).offset == 2
    assert values(server) == [b"first", b"there", b"v"]
