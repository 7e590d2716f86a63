"""What `process` and streams wait for: never for a thread that waits for them, and in `close` not for longer than that may take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from integration.waiting import until
from pykafka4 import Consumer
from pykafka4.consumer.processing.streams import Streams
from pykafka4.testing import ModelServer
from tests.consumer.consuming import LONG, Maker, topic
from tests.consumer.running import HOWS, Running
from tests.consumer.streaming import Reading, committed, member
from tests.inspection import inspect

EVER_S = 1e6  # seconds for records in hand


class InHand:
    """Streams of which each has a record in hand, whose thread makes a call when it is told to."""

    def __init__(self, streams: Streams, call: Callable[[], object]) -> None:
        self._call, self._go, self.results = call, threading.Event(), list[object]()
        self._streams, self._reading = streams, Reading(streams, self._work)
        self._reading.wait(len(streams))

    def _work(self, record: Any) -> None:
        assert self._go.wait(LONG)
        try:
            self.results.append(self._call())
        except BaseException as error:
            self.results.append(error)

    def called(self) -> list[object]:
        """Let them call while the dispatcher waits for them."""
        until(lambda: inspect(self._streams).dispatcher._changed.waiting, LONG, "the dispatcher waits for the record in hand")
        self._go.set()
        until(lambda: len(self.results) >= len(self._streams), LONG, "the calls")
        return self.results


def joins(make: Maker, consumer: Consumer) -> threading.Thread:
    """Another member joins the group, on a thread of its own, and has a partition in the end."""
    other = make.member(enable_auto_commit=False)

    def poll() -> None:
        deadline = time.monotonic() + LONG
        while not other.assignment() and time.monotonic() < deadline:
            other.poll(0.05)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    return thread


def test_a_commit_by_a_thread_with_a_record_in_hand_does_not_wait_for_the_end(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    streams = member(make).streams({"t": 1}, drain_timeout=EVER_S)
    working = InHand(streams, streams.commit)
    closing = threading.Thread(target=streams.close, daemon=True)
    closing.start()
    assert working.called() == [None]
    closing.join(LONG)
    assert not closing.is_alive()
    assert committed(make) == {0: 1}


def test_a_commit_by_a_thread_with_a_record_in_hand_does_not_wait_for_a_revocation(server: ModelServer, make: Maker) -> None:
    topic(server, 10, 10)
    consumer = member(make)
    streams = consumer.streams({"t": 2}, drain_timeout=EVER_S)
    working = InHand(streams, streams.commit)
    joining = joins(make, consumer)
    assert working.called()[:2] == [None, None]
    joining.join(LONG)
    assert not joining.is_alive()
    streams.close(0)


@pytest.mark.parametrize("what", ["streams", "consumer"])
def test_a_thread_with_a_record_in_hand_closes_during_a_revocation(server: ModelServer, make: Maker, what: str) -> None:
    topic(server, 10, 10)
    consumer = member(make)
    streams = consumer.streams({"t": 1}, drain_timeout=EVER_S)
    working = InHand(streams, streams.close if what == "streams" else consumer.close)
    joining = joins(make, consumer)
    assert working.called() == [None]
    joining.join(LONG)
    assert not joining.is_alive()


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("seconds", [0.0, 0.2])
def test_close_takes_the_time_that_it_was_given(server: ModelServer, how: str, seconds: float) -> None:
    topic(server, 10)
    release = threading.Event()

    def handle(record: Any) -> Any:
        return None if record.offset < 5 else forever() if how == "tasks" else release.wait(LONG)

    with Running(server, how, handle, drain_timeout=EVER_S, auto_offset_reset="earliest") as running:
        running.got(6)
        assert running.closes(seconds) < LONG / 2
        until(lambda: list(server.committed("g").values()) == [5], LONG, "what is finished is committed")
        release.set()
        running.cancel()


async def forever() -> None:
    import asyncio

    await asyncio.Event().wait()


@pytest.mark.parametrize("how", HOWS)
def test_close_takes_the_time_that_it_was_given_without_brokers_too(server: ModelServer, how: str) -> None:
    topic(server, 10)
    with Running(server, how, drain_timeout=EVER_S, auto_offset_reset="earliest") as running:
        running.got(10)
        server.close()
        assert running.closes(0.2) < LONG / 4
