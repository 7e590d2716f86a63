"""Ctrl-C at every place of the application's side of a producer: it goes on working, loses nothing, and others get their turn."""

from __future__ import annotations

import contextlib
import gc
import itertools
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from pykafka4 import BufferFull, Client, Delivery, KafkaTimeoutError, Producer, RawBatch
from pykafka4.core import INFINITY
from pykafka4.testing import ModelServer
from pykafka4.wire.records.batch import WireRecord, build_batch
from tests.inspection import inspect
from tests.net.interrupts import PACKAGE, handled, interrupted, interrupts, share, undisturbed
from tests.net.net_helpers import SECONDS, until
from tests.producer.producing import FEW, Maker, Sending, balanced, knowing, start_all, stop_all

ROWS = pa.table({"value": ["a", "b", "c"]})
RAW = RawBatch.from_bytes(build_batch([WireRecord(value=b"a"), WireRecord(value=b"b")], codec=1), partition=0)
GAPPY = RawBatch.from_bytes(build_batch([WireRecord(value=b"a"), WireRecord(value=b"b", offset=2)], last_offset_delta=2), partition=0)
FAST: dict[str, Any] = {"linger_ms": 0, "retry_backoff_ms": 1}


def usable(producer: Producer, place: str) -> None:
    """It still delivers, for other threads as well."""
    done: list[int] = []
    thread = threading.Thread(target=lambda: done.append(producer.send("t", b"other").result(SECONDS).offset), daemon=True)
    thread.start()
    producer.send("t", b"mine").result(SECONDS)
    thread.join(SECONDS)
    assert done, f"another thread is stuck after an interrupt at {place}"
    assert inspect(producer).session.acc.waiters == inspect(producer).blocked_sends == 0, place


ACTS: dict[str, Callable[[Producer], object]] = {
    "send to a new topic": lambda p: p.send(f"new-{p.stats().accepted}", b"v"),
    "send with callback": lambda p: p.send("t", b"v", on_delivery=lambda _: None),
    "send to a partition that is not there": lambda p: nowhere(p),
    "send_arrow": lambda p: p.send_arrow("t", ROWS),
    "send_arrow to a new topic": lambda p: p.send_arrow(f"new-{p.stats().accepted}", ROWS),
    "result of rows": lambda p: p.send_arrow("t", ROWS).result(SECONDS),
    "add_done_callback of rows": lambda p: p.send_arrow("t", ROWS).add_done_callback(lambda _: None),
    "send_raw": lambda p: p.send_raw("t", RAW),
    "send_raw to a new topic": lambda p: p.send_raw(f"new-{p.stats().accepted}", RAW),
    "send_raw of a batch with a gap": lambda p: p.send_raw("t", GAPPY),
    "result of a raw batch": lambda p: p.send_raw("t", RAW).result(SECONDS),
    "add_done_callback of a raw batch": lambda p: p.send_raw("t", RAW).add_done_callback(lambda _: None),
    "result": lambda p: p.send("t", b"v").result(SECONDS),
    "exception": lambda p: p.send("t", b"v").exception(SECONDS),
    "add_done_callback": lambda p: p.send("t", b"v").add_done_callback(lambda _: None),
    "add_done_callback of a finished delivery": lambda p: too_late(p),
    "flush": lambda p: (p.send("t", b"v"), p.flush(SECONDS)),
    "partitions_for": lambda p: p.partitions_for("t", SECONDS),
    "stats and status": lambda p: (p.stats(), p.status()),
    "delivery_scope": lambda p: scope(p),
    "refresh_metadata": lambda p: inspect(p).runtime.refresh_metadata(["t"], SECONDS),
}
SHARED = {  # calls with hundreds of places: one of so many is tried
    "send to a new topic": 3,
    "send to a partition that is not there": 3,
    "send_arrow to a new topic": 5,
    "send_raw to a new topic": 7,
    "stats and status": 7,
}


def too_late(producer: Producer) -> None:
    with undisturbed():
        delivery = producer.send("t", b"v")
        delivery.result(SECONDS)
    delivery.add_done_callback(lambda _: None)


def nowhere(producer: Producer) -> None:
    with contextlib.suppress(ValueError):
        producer.send("t", b"v", partition=99)


def scope(producer: Producer) -> None:
    with producer.delivery_scope(SECONDS):
        producer.send("t", b"v")


@pytest.mark.parametrize("act", ACTS)
def test_the_producer_works_after_an_interrupt_anywhere_in(make: Maker, act: str) -> None:
    producer = knowing(make(**FAST))
    for place in interrupts(lambda: ACTS[act](producer), step=SHARED.get(act, 1)):
        usable(producer, place)
    usable(producer, "the end")
    producer.flush(SECONDS)
    assert balanced(producer)
    assert producer.stats().lost == 0


@pytest.mark.parametrize("act", ACTS)
def test_a_signal_handler_may_send_and_flush_anywhere_in(make: Maker, act: str) -> None:
    producer, called = knowing(make(**FAST)), list[Delivery]()

    def handler() -> None:
        producer.send("t", b"from the handler", on_delivery=called.append)
        producer.flush(SECONDS)

    for place in handled(lambda: ACTS[act](producer), handler, step=SHARED.get(act, 1)):
        assert called.pop().exception(0) is None, place
    producer.flush(SECONDS)
    assert balanced(producer)


def test_an_interrupt_while_send_waits_for_room_lets_those_behind_in(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(**FEW, max_block_ms=SECONDS * 1000))
    stop_all(server)
    first = Sending(producer)  # stands in line already
    before = len(first.sent)

    def fill() -> None:
        with pytest.raises(BufferFull):
            inspect(producer).session._make_room("t", 0, 60_000, INFINITY)

    object.__setattr__(inspect(producer).session.config, "max_block_ms", 1)
    count = sum(1 for _ in interrupts(fill))
    assert count > 20
    assert inspect(producer).blocked_sends == 1 == inspect(producer).session.acc.waiters, "only the other thread stands in line"
    start_all(server)
    until(lambda: len(first.sent) > before, "the turn of the thread in line")
    producer.close(SECONDS)
    assert first.refused()
    assert balanced(producer)


@pytest.mark.parametrize("act", ["send", "send_many"])
@pytest.mark.parametrize("reason", ["BUFFER_FULL", "RATE_LIMITED"])
def test_an_interrupt_anywhere_in_a_send_that_drops_leaves_every_handle_with_its_outcome(
    server: ModelServer, make: Maker, act: str, reason: str
) -> None:
    how: dict[str, Any] = (
        {"on_full": "drop"} if reason == "BUFFER_FULL" else {"rate_limits": {"t": (1, 3_600_000)}, "on_rate_limit": "drop"}
    )
    producer, heard = knowing(make(**FEW, **how)), list[tuple[str, bool, str]]()
    if reason == "BUFFER_FULL":
        stop_all(server)
        while not producer.send("t", b"v" * 5_000, partition=0).done():
            pass

    def callback(delivery: Delivery) -> None:
        heard.append((delivery.topic, delivery.done(), repr(delivery)))

    def drop() -> None:
        if act == "send":
            producer.send("t", b"v" * 5_000, partition=0, on_delivery=callback)
        else:
            producer.send_many("t", [b"v" * 5_000] * 2, partition=0, on_delivery=callback)

    for place in interrupts(drop):
        before = len(heard)
        with undisturbed():
            producer.send("t", b"v" * 5_000, partition=0, on_delivery=callback)
            until(lambda: len(heard) > before, f"the callback after an interrupt at {place}")  # noqa: B023
    start_all(server)
    producer.flush(SECONDS)
    assert set(heard) == {("t", True, "<Delivery t-0 FAILED>")}
    assert balanced(producer)


@pytest.mark.parametrize("reachable", [True, False])
def test_an_interrupted_close_is_finished_by_the_next_one(server: ModelServer, reachable: bool) -> None:
    """Takes seconds: a producer of its own for each place."""
    for at in itertools.count(*share(1 if reachable else 5)):
        producer = Producer(bootstrap_servers=server.bootstrap_servers, **FAST)
        session, thread = inspect(producer).session, inspect(producer).thread
        with undisturbed():
            if not reachable:
                stop_all(server)
            sent = [producer.send("t", b"v") for _ in range(3)]
        place = interrupted(lambda: producer.close(SECONDS if reachable else 0.05), at)  # noqa: B023
        lost = producer.close(SECONDS if reachable else 0.05)
        assert all(delivery.done() for delivery in sent), place
        assert len(lost) == (0 if reachable else 3), place
        assert session.undelivered == lost
        thread.join(SECONDS)
        assert not thread.is_alive(), f"the loop is left behind after an interrupt at {place}"
        if not reachable:
            start_all(server)
        if place is None:
            return
        assert at < 2000, "close never ended undisturbed"


@pytest.mark.filterwarnings("ignore:a Producer was not closed")  # one that was made but not entered is forgotten
def test_an_interrupted_block_leaves_nothing_behind(server: ModelServer) -> None:
    def block() -> None:
        with Producer(client=client, linger_ms=0) as producer:
            made.append(producer)
            producer.send("t", b"v").result(SECONDS)

    made: list[Producer] = []
    with Client(bootstrap_servers=server.bootstrap_servers) as client:
        for place in interrupts(block, step=7):  # a run connects, sends and closes
            for producer in made:
                producer.close(SECONDS)
                assert balanced(producer), place
            made.clear()
        until(lambda: inspect(client).loop.ask(lambda _: not inspect(client).engine._slots, SECONDS), "the end of every sender")
        assert inspect(client).loop.alive


@pytest.mark.filterwarnings("ignore:a Producer was not closed")
@pytest.mark.filterwarnings("ignore:unclosed")  # sockets of a loop that was never started: the collector closes them
def test_an_interrupted_constructor_leaves_no_thread_behind(server: ModelServer) -> None:
    before = {thread for thread in threading.enumerate() if thread.name == "pykafka4-loop"}

    def build() -> None:
        made.append(Producer(bootstrap_servers=server.bootstrap_servers))

    made: list[Producer] = []
    for _ in interrupts(build, step=15, within=(PACKAGE,)):  # Thread.start itself does not survive an interrupt
        for producer in made:
            producer.close(SECONDS)
        made.clear()
        gc.collect()
    for producer in made:
        producer.close(SECONDS)
    until(lambda: not {t for t in threading.enumerate() if t.name == "pykafka4-loop"} - before, "the loops to end")


def test_the_sweep_would_notice_a_wait_that_swallows_the_interrupt() -> None:
    def swallow() -> None:
        try:
            threading.Event().wait(0.001)
        except KeyboardInterrupt:
            pass

    with pytest.raises(AssertionError, match="was swallowed"):
        for _ in interrupts(swallow):
            pass
    with pytest.raises(KafkaTimeoutError):
        interrupted(lambda: (_ for _ in ()).throw(KafkaTimeoutError("x")), 10_000)
