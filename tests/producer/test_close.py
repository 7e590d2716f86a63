"""Ends of a producer: close from any thread, Ctrl-C, a crash, the exit of the interpreter, a producer that is not closed."""

from __future__ import annotations

import gc
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pykafka4 import BatchOutcome, Client, ClosedError, KafkaError, Producer, ProducerHooks
from pykafka4.producer import forgotten
from pykafka4.records import Written
from pykafka4.testing import ModelServer
from tests.inspection import inspect
from tests.net.net_helpers import SECONDS, python, until
from tests.producer.producing import FEW, HUNG, Maker, Sending, balanced, ctrl_c, knowing, start_all, stop_all, values

# -- close


@pytest.mark.parametrize("topic", ["t", "unknown"])
def test_close_gives_back_what_it_could_not_deliver_when_its_time_is_over(server: ModelServer, make: Maker, topic: str) -> None:
    producer = knowing(make())
    stop_all(server)
    until(lambda: producer.status()["state"] != "connected", "the client to notice")
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
    assert not inspect(producer).loop.alive


@pytest.mark.parametrize("topic", ["t", "unknown"])
def test_close_gives_back_each_partition_in_the_order_of_sending(server: ModelServer, make: Maker, topic: str) -> None:
    """In many batches, of which some were in flight."""
    producer = knowing(make(batch_size=1_024, linger_ms=0))
    stop_all(server)
    for n in range(2_000):
        producer.send(topic, b"%d" % n + bytes(50), partition=n % 2)
    found = [int((record.value or b"-1").rstrip(b"\0")) for record in producer.close(0)]
    assert [n for n in found if n % 2 == 0] == list(range(0, 2_000, 2))
    assert [n for n in found if n % 2] == list(range(1, 2_000, 2))


def test_close_gives_back_what_fails_while_it_waits(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(delivery_timeout_ms=200, linger_ms=0))
    stop_all(server)
    producer.send("t", b"late", partition=0)
    producer.send("unknown", b"later")
    began = time.monotonic()
    assert sorted(record.value or b"" for record in producer.close(SECONDS)) == [b"late", b"later"]
    assert time.monotonic() - began < SECONDS / 2, "all had their outcome"


def test_close_does_not_give_back_what_had_failed_before_while_its_callback_runs(server: ModelServer, make: Maker) -> None:
    producer, go_on, called = knowing(make()), threading.Event(), threading.Event()

    def hold(_: Any) -> None:
        called.set()
        go_on.wait(SECONDS)

    server.fail("Produce", "INVALID_RECORD")
    refused = producer.send("t", b"refused", partition=0, on_delivery=hold)
    assert refused.exception(SECONDS) is not None
    assert called.wait(SECONDS)
    closing: list[Any] = []
    thread = threading.Thread(target=lambda: closing.extend(producer.close(SECONDS)), daemon=True)
    thread.start()
    until(lambda: inspect(producer).session.pending is not None)
    go_on.set()
    thread.join(SECONDS)
    assert not thread.is_alive()
    assert closing == [], "its outcome was known before"


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


def crash_loop(producer: Producer) -> None:
    inspect(producer).loop._post(lambda _: 1 / 0)


def crash_sender(producer: Producer) -> None:
    inspect(producer).loop.call(lambda _: 1 / 0, inspect(producer).machine)


@pytest.mark.parametrize(
    ("crash", "said"), [(crash_loop, "the loop crashed: ZeroDivisionError"), (crash_sender, "stopped this producer: ZeroDivisionError")]
)
@pytest.mark.parametrize("topic", ["t", "unknown"])
def test_a_crash_fails_everything_and_everyone(
    server: ModelServer, make: Maker, topic: str, crash: Callable[[Producer], None], said: str
) -> None:
    producer = knowing(make(**FEW))
    stop_all(server)
    sending = Sending(producer, topic, partition=0)
    closed: list[Any] = []
    closing = threading.Thread(target=lambda: closed.append(producer.close()), daemon=True)
    crash(producer)
    assert said in str(sending.refused())
    assert all(said in str(delivery.exception(0)) for delivery in sending.sent)
    assert producer.status()["state"] == "crashed"
    assert said in producer.status()["reason"]
    closing.start()
    closing.join(SECONDS)
    assert closed == [[]], HUNG
    assert balanced(producer)
    with pytest.raises(KafkaError, match=said):
        producer.flush()


@pytest.mark.parametrize("crash", [crash_loop, crash_sender])
def test_a_crash_ends_a_close_that_waits(server: ModelServer, make: Maker, crash: Callable[[Producer], None]) -> None:
    producer = knowing(make())
    stop_all(server)
    sent = [producer.send(topic, b"v") for topic in ("t", "unknown")]
    closed: list[Any] = []
    closing = threading.Thread(target=lambda: closed.append(producer.close()), daemon=True)
    closing.start()
    until(lambda: inspect(producer).session.signal.waiting)
    crash(producer)
    closing.join(SECONDS)
    assert sorted(record.topic for record in closed[0]) == ["t", "unknown"], HUNG
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


@pytest.mark.parametrize("step", ["_wait_settled", "_give_up", "disconnect"])
def test_after_ctrl_c_the_next_close_finishes_the_job(server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    producer = knowing(make())
    stop_all(server)
    producer.send("t", b"v", partition=0)

    def interrupted(*args: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(inspect(producer).session, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            producer.close(0)
    with pytest.raises(ClosedError):
        producer.send("t", b"v")
    assert [record.value for record in producer.close(0)] == [b"v"]
    assert balanced(producer)
    assert not inspect(producer).loop.alive


def test_ctrl_c_ends_the_wait_of_a_close(server: ModelServer, make: Maker) -> None:
    producer = knowing(make())
    stop_all(server)
    producer.send("t", b"v", partition=0)
    with ctrl_c(lambda: inspect(producer).session.signal.waiting):
        producer.close()
    start_all(server)
    assert producer.close(SECONDS) == []
    assert values(server) == [b"first", b"v"]


# -- the interpreter exits, the handle is forgotten


def script(server: ModelServer, *lines: str) -> str:
    """Run `lines` in an interpreter of its own, with a producer of `server`; what it printed and logged."""
    begin = ["import pykafka4.client.runtime", "from pykafka4 import Producer", f"servers = {server.bootstrap_servers!r}"]
    done = python("\n".join([*begin, *lines]))
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_leaving_the_interpreter_delivers_what_lingers(server: ModelServer) -> None:
    told = script(server, "p = Producer(bootstrap_servers=servers, linger_ms=60_000)", "for n in range(100): p.send('t', b'v')")
    assert values(server) == [b"v"] * 100
    assert "not delivered" not in told


def test_daemon_threads_that_use_a_client_when_the_interpreter_exits_print_nothing(server: ModelServer) -> None:
    code = [
        "import atexit, threading",
        "threads = []",
        "atexit.register(lambda: [thread.join(10) for thread in threads])  # before the import: runs after the clients are closed",
        "from pykafka4 import Consumer, Producer, ShareConsumer",
        f"servers = {server.bootstrap_servers!r}",
        "where = {'bootstrap_servers': servers, 'group_id': 'g'}",
        "producer, consumers, shares = Producer(bootstrap_servers=servers), [Consumer(**where), Consumer(**where)], ShareConsumer(**where)",
        "for consumer in [*consumers, shares]: consumer.subscribe(['t'])",
        "begun = threading.Barrier(5)",
        "def again(call):",
        "    begun.wait()",
        "    while True: call()",
        "for call in (",
        "    lambda: producer.send('t', b'v', partition=0).result(timeout=10),",
        "    lambda: consumers[0].poll(timeout=1),",
        "    lambda: [None for record in consumers[1]],",
        "    lambda: shares.poll(timeout=1),",
        "): threads.append(threading.Thread(target=again, args=(call,), daemon=True))",
        "for thread in threads: thread.start()",
        "begun.wait()",
        "atexit.register(lambda: print(*(thread.is_alive() for thread in threads)))",
    ]
    done = python("\n".join(code))
    assert (done.stdout, done.stderr) == ("True True True True\n", "")


def test_exiting_the_interpreter_without_delivery_logs_how_much_was_lost(server: ModelServer) -> None:
    stop_all(server)
    told = script(
        server,
        "pykafka4.client.runtime.EXIT_S = 0.1",
        "p = Producer(bootstrap_servers=servers)",
        "for n in range(3): p.send('t', b'v')",
    )
    assert "records not delivered when the interpreter exited: 3" in told


def test_records_of_a_cancelled_close_are_told_once_when_the_interpreter_exits(server: ModelServer) -> None:
    stop_all(server)
    told = script(
        server,
        "import asyncio, gc",
        "from pykafka4 import aio",
        "pykafka4.client.runtime.EXIT_S = 0.1",
        "async def main():",
        "    async with asyncio.timeout(0.1), aio.Producer(bootstrap_servers=servers) as p: await p.send('t', b'v')",
        "try: asyncio.run(main())",
        "except TimeoutError: pass",
        "gc.collect()",
    )
    assert [line.split("pykafka4: ")[1] for line in told.splitlines() if "record" in line or "closed" in line] == [
        "records not delivered when the interpreter exited: 1; close the producer before it exits"
    ]


def test_leaving_the_interpreter_goes_on_where_ctrl_c_ended_a_close(server: ModelServer) -> None:
    script(
        server,
        "import signal, threading",
        "p = Producer(bootstrap_servers=servers, linger_ms=60_000)",
        "real = p._session._wait_settled",
        "def interrupted(*_): p._session._wait_settled = real; raise KeyboardInterrupt",
        "p._session._wait_settled = interrupted",
        "for n in range(3): p.send('t', b'v')",
        "try: p.close()",
        "except KeyboardInterrupt: pass",
    )
    assert values(server) == [b"v"] * 3


def test_a_producer_that_is_not_closed_warns_and_closes(server: ModelServer) -> None:
    def forget() -> Any:
        return inspect(Producer(bootstrap_servers=server.bootstrap_servers)).thread

    with pytest.warns(ResourceWarning, match="a Producer was not closed"):
        thread = forget()
    thread.join(SECONDS)
    assert not thread.is_alive()


@pytest.mark.filterwarnings("ignore:a Producer was not closed")
def test_a_forgotten_producer_delivers_what_it_took_and_closes(server: ModelServer) -> None:
    def forget() -> Any:
        producer = Producer(bootstrap_servers=server.bootstrap_servers, linger_ms=200)
        for _ in range(100):
            producer.send("t", b"v")
        return inspect(producer).thread

    thread = forget()
    thread.join(SECONDS)
    assert not thread.is_alive()
    assert values(server) == [b"v"] * 100


@pytest.mark.filterwarnings("ignore:a Producer was not closed")
def test_a_producer_may_be_forgotten_in_the_statement_that_makes_it(server: ModelServer) -> None:
    assert Producer(bootstrap_servers=server.bootstrap_servers).send("t", b"v").result(SECONDS).topic == "t"
    assert values(server) == [b"v"]


@pytest.mark.filterwarnings("ignore:a Producer was not closed")
def test_a_send_that_waits_in_another_thread_keeps_a_forgotten_producer_open(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgotten, "FORGOTTEN_S", 0.02)
    producer = Producer(bootstrap_servers=server.bootstrap_servers, rate_limits={"t": (1, 300)})
    producer.send("t", b"first").result(SECONDS)
    session, results = inspect(producer).session, []

    def deliver(send: Any) -> None:
        results.append(send("t", b"second").exception(SECONDS))

    thread = threading.Thread(target=deliver, args=(producer.send,))
    thread.start()
    until(lambda: session.busy_until() > 0, "the send waits for its place")
    del producer
    gc.collect()
    thread.join(SECONDS)
    assert results == [None]
    until(lambda: session.undelivered is not None, "it closes after that")


@pytest.mark.filterwarnings("ignore:a Producer was not closed")
def test_what_a_forgotten_producer_loses_is_logged(server: ModelServer, caplog: pytest.LogCaptureFixture) -> None:
    stop_all(server)

    def forget() -> Any:
        producer = Producer(bootstrap_servers=server.bootstrap_servers, delivery_timeout_ms=300, linger_ms=0)
        for _ in range(3):
            producer.send("t", b"v")
        return inspect(producer).thread

    forget().join(SECONDS)
    until(lambda: "lost records of a producer that was not closed: 3" in caplog.text)


@pytest.mark.filterwarnings("ignore:a Producer was not closed")
@pytest.mark.parametrize("dropped", [True, False])
@pytest.mark.parametrize("library", ["multiprocessing", "billiard"])
def test_exiting_a_child_of_multiprocessing_or_billiard_delivers(server: ModelServer, library: str, dropped: bool) -> None:
    code = [
        f"import {library} as multiprocessing",
        "kept = []",
        "def work():",
        "    p = Producer(bootstrap_servers=servers, linger_ms=1000)",
        "    for n in range(10): p.send('t', b'v')",
        "" if dropped else "    kept.append(p)",
        "child = multiprocessing.get_context('fork').Process(target=work)",
        "child.start(); child.join(); print('exit', child.exitcode)",
    ]
    assert "exit 0" in script(server, *code)
    assert values(server) == [b"v"] * 10


def test_a_celery_worker_process_that_is_replaced_delivers(server: ModelServer) -> None:
    """It ends with `os._exit`. The test takes some seconds, as Celery does."""
    code = [
        "import celery",
        "from pykafka4 import Consumer",
        "import time",
        "from celery.contrib.testing.worker import start_worker",
        "app = celery.Celery(broker='memory://', backend='cache+memory://', set_as_current=True)",
        "app.conf.worker_hijack_root_logger = False",
        "kept = []",
        "@app.task(name='send')",
        "def send(number):",
        "    kept or kept.append(Producer(bootstrap_servers=servers, linger_ms=20_000))",
        "    kept[0].send('t', b'v')",
        "for number in range(4): send.delay(number)",
        "with start_worker(app, pool='prefork', concurrency=1, max_tasks_per_child=2, perform_ping_check=False, shutdown_timeout=30):",
        "    reader = Consumer(bootstrap_servers=servers, group_id='r', auto_offset_reset='earliest')",
        "    reader.subscribe(['t'])",
        "    read, until = 0, time.monotonic() + 15",
        "    while read < 4 and time.monotonic() < until: read += len(reader.poll(timeout=1))",
        "print('read', read)",
    ]
    assert "read 4" in script(server, *code)


def test_exiting_a_multiprocessing_child_without_delivery_logs_how_much_was_lost(server: ModelServer) -> None:
    stop_all(server)
    code = [
        "import multiprocessing",
        "pykafka4.client.runtime.EXIT_S = 0.1",
        "kept = []",
        "def work():",
        "    kept.append(Producer(bootstrap_servers=servers))",
        "    for n in range(10): kept[0].send('t', b'v')",
        "child = multiprocessing.get_context('fork').Process(target=work)",
        "child.start(); child.join()",
    ]
    assert "records not delivered when the interpreter exited: 10" in script(server, *code)


def test_a_closed_producer_is_collected_without_a_warning(server: ModelServer) -> None:
    producer = Producer(bootstrap_servers=server.bootstrap_servers)
    producer.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del producer
        gc.collect()


def test_a_closed_producer_that_its_clients_listener_refers_to_is_collected(server: ModelServer) -> None:
    client = Client(bootstrap_servers=server.bootstrap_servers)
    producer = Producer(client=client)
    client.events(lambda event, producer=producer: None)  # type: ignore[misc]
    producer.close()
    client.close()
    reference = weakref.ref(producer)
    del producer, client
    until(lambda: gc.collect() >= 0 and reference() is None)  # the callback thread may be about to end


# -- purge


@pytest.mark.parametrize("topic", ["t", "unknown"])
def test_a_purge_fails_what_waits_calls_back_and_the_producer_goes_on(server: ModelServer, make: Maker, topic: str) -> None:
    producer = knowing(make())
    stop_all(server)
    until(lambda: producer.status()["state"] != "connected", "the client to notice")
    told: list[Any] = []
    sent = [producer.send(topic, b"%d" % n, partition=0, on_delivery=told.append) for n in range(3)]
    assert producer.purge() == 3
    producer.flush(SECONDS)
    assert [delivery.exception(0).record.value for delivery in told] == [b"0", b"1", b"2"]
    assert [(delivery.exception(0).code, delivery.exception(0).written) for delivery in sent] == [("PURGED", Written.NO)] * 3  # type: ignore[union-attr]
    assert balanced(producer)
    start_all(server)
    assert producer.send("t", b"after", partition=0).result(SECONDS).offset == 1
    producer.close(SECONDS)
    with pytest.raises(ClosedError):
        producer.purge()


class Closing(ProducerHooks):
    """Notes what it is told, and on which thread."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.told: list[tuple[str, str]] = []
        self.gate = threading.Event()
        self._seconds = seconds

    def on_ack(self, outcome: BatchOutcome) -> None:
        self.gate.wait(SECONDS)
        self.told.append(("on_ack", threading.current_thread().name))

    def on_close(self) -> None:
        self.told.append(("on_close", threading.current_thread().name))
        time.sleep(self._seconds)


@pytest.mark.parametrize("timeout", [0, 0.2])
@pytest.mark.parametrize("threads", [1, 3])
def test_on_close_comes_after_on_ack_of_what_close_settled_and_does_not_delay_it(
    server: ModelServer, make: Maker, timeout: float, threads: int
) -> None:
    hook = Closing()
    with ThreadPoolExecutor(threads) as executor:
        producer = knowing_quietly(make(linger_ms=0, hooks=hook, callback_executor=executor), hook)
        stop_all(server)
        for partition in range(3):
            producer.send("t", b"v", partition=partition)
        hook.gate.clear()
        began = time.monotonic()
        assert len(producer.close(timeout)) == 3
        assert time.monotonic() - began < timeout + SECONDS / 2
        assert "on_close" not in [name for name, _ in hook.told]
        hook.gate.set()
        until(lambda: hook.told and hook.told[-1][0] == "on_close", "on_close after on_ack")
    assert [name for name, _ in hook.told] == ["on_ack"] * 3 + ["on_close"]
    assert all(thread.startswith("ThreadPoolExecutor") for _, thread in hook.told), "the loop runs no code of an application"


def knowing_quietly(producer: Producer, hook: Closing) -> Producer:
    """As `knowing`; the hook forgets it."""
    hook.gate.set()
    knowing(producer)
    hook.told.clear()
    return producer


def test_on_close_of_a_forgotten_producer_does_not_hold_up_a_neighbour(server: ModelServer) -> None:
    hook = Closing(seconds=3.0)
    hook.gate.set()
    with Client(bootstrap_servers=server.bootstrap_servers) as client:
        neighbour = knowing(Producer(client=client, linger_ms=0))
        with pytest.warns(ResourceWarning):
            Producer(client=client, hooks=hook).send("t", b"v").result(SECONDS)
        until(lambda: any(name == "on_close" for name, _ in hook.told), "on_close")
        began = time.monotonic()
        neighbour.send("t", b"v").result(SECONDS)
        assert time.monotonic() - began < 2.0
        neighbour.close()
    assert [thread for name, thread in hook.told if name == "on_close"] != ["pykafka4-loop"]
