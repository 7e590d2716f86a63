"""A loop that hangs is logged with its stack, once, and once more when it goes on."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator

import attrs
import pytest

from pykafka4 import Client
from pykafka4.net import logs
from pykafka4.net.hangs import LOOK_S, LOOKS_UNTIL_HANG, HangWatch
from tests.inspection import inspect
from tests.net.net_helpers import SECONDS, closed_port, until


@attrs.define(eq=False)
class Turner:
    client_id: str = "mine"
    turns: int = 0
    sleeps: bool = False


class Looks:
    """Looks at one loop, `LOOK_S` apart; `told` are the messages of each."""

    def __init__(self, caplog: pytest.LogCaptureFixture, ident: int = -1) -> None:
        self.watch, self.loop, self._caplog, self.now = HangWatch(), Turner(), caplog, 0.0
        self.watch.begin(ident, self.loop)

    def look(self, times: int = 1) -> list[str]:
        self._caplog.clear()
        for _ in range(times):
            self.now += LOOK_S
            self.watch.look(self.now)
        return [record.getMessage().partition(";")[0] for record in self._caplog.records]


@pytest.fixture
def looks(caplog: pytest.LogCaptureFixture) -> Looks:
    return Looks(caplog)


def test_a_hang_is_told_once_and_so_is_its_end(looks: Looks) -> None:
    assert looks.look(LOOKS_UNTIL_HANG - 1) == []
    assert looks.look() == [f"mine: the loop hangs, in one turn for at least {LOOK_S * (LOOKS_UNTIL_HANG - 1):.0f} s"]
    assert looks.look(10) == []
    looks.loop.turns += 1
    assert looks.look() == [f"mine: the loop continues, after {LOOK_S * (LOOKS_UNTIL_HANG + 10):.0f} s in one turn"]
    assert looks.look(LOOKS_UNTIL_HANG - 2) == []
    assert len(looks.look()) == 1


def test_a_loop_that_turns_or_sleeps_does_not_hang(looks: Looks) -> None:
    for _ in range(2 * LOOKS_UNTIL_HANG):
        assert looks.look() == []
        looks.loop.turns += 1
    looks.loop.sleeps = True
    assert looks.look(2 * LOOKS_UNTIL_HANG) == []
    looks.loop.sleeps = False
    assert looks.look(LOOKS_UNTIL_HANG - 2) == []


def test_a_loop_that_has_ended_is_not_looked_at(looks: Looks) -> None:
    looks.watch.end(-1)
    assert looks.look(2 * LOOKS_UNTIL_HANG) == []


def test_the_stack_is_that_of_the_loops_thread(caplog: pytest.LogCaptureFixture) -> None:
    Looks(caplog, threading.get_ident()).look(LOOKS_UNTIL_HANG)
    assert "test_the_stack_is_that_of_the_loops_thread" in caplog.messages[0]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """The log thread looks often; if it runs already, from its next look on."""
    monkeypatch.setattr(logs, "LOOK_S", 0.02)
    with Client(bootstrap_servers=f"127.0.0.1:{closed_port()}", client_id="hung") as client:
        yield client


def test_a_real_loop_that_hangs_is_found(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "pykafka4.loop")
    go_on = threading.Event()

    def stuck_here(now: float) -> None:
        go_on.wait(SECONDS)

    inspect(client).loop.call(stuck_here)
    until(lambda: any("hung: the loop hangs" in message for message in caplog.messages))
    assert "in stuck_here" in caplog.text
    assert sys._getframe().f_code.co_name not in caplog.text, "the stack is the loop's alone"
    go_on.set()
    until(lambda: any("hung: the loop continues" in message for message in caplog.messages))
    assert sum("the loop hangs" in message for message in caplog.messages) == 1


def test_a_hang_is_found_while_log_entries_come_and_come(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "pykafka4.loop")
    go_on, thread = threading.Event(), logs.current()

    def flood() -> None:
        if not go_on.is_set():
            thread._queue.put(flood)

    inspect(client).loop.call(lambda now: go_on.wait(SECONDS))
    thread._queue.put(flood)
    try:
        until(lambda: any("hung: the loop hangs" in message for message in caplog.messages))
    finally:
        go_on.set()
