"""An agent in the process of the test: parts that fail."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from pykafka4.agent.message import Source
from pykafka4.agent.service.agent import Agent
from pykafka4.agent.service.codes import Exit
from pykafka4.agent.service.parts import Parts
from pykafka4.agent.settings.file import read_settings
from pykafka4.agent.spool.folder import SpoolUnusable
from pykafka4.errors import KafkaTimeoutError
from pykafka4.net.loop import Loop
from pykafka4.producer import Producer
from pykafka4.testing import ModelServer
from tests.agent.service.running import write_settings
from tests.inspection import inspect


def run(agent: Agent) -> Exit:
    return asyncio.run(asyncio.wait_for(agent.run(), 30))


def fail(now: float) -> None:
    """To be called by the producer's machine."""
    raise RuntimeError("a bug in the machine")


@pytest.fixture
def agent(kafka_server: ModelServer, tmp_path: Path) -> Agent:
    return Agent(read_settings(write_settings(tmp_path, kafka_server.bootstrap_servers)))


def test_a_producer_that_has_failed_ends_the_agent(agent: Agent, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Its machine ends with the first exception in it."""

    async def start(parts: Parts) -> None:
        inspect(parts.producer).session.post(fail)

    monkeypatch.setattr(Parts, "start", start)
    monkeypatch.setattr("pykafka4.agent.service.agent.BEAT_S", 0.05)
    with caplog.at_level(logging.INFO, "pykafka4.agent"):
        assert run(agent) is Exit.CRASHED
    assert "ends, because a part has failed: the producer has failed" in caplog.text
    assert "a bug in the machine" in caplog.text


def test_a_part_that_cannot_be_opened_leaves_no_other_open(
    kafka_server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = read_settings(
        write_settings(
            tmp_path, kafka_server.bootstrap_servers, f'[spool]\npath = "{tmp_path}/spool"\n[discard_log]\npath = "{tmp_path}/log"\n'
        )
    )
    producers: list[Producer] = []

    def make(**options: Any) -> Producer:
        producers.append(Producer(**options))
        return producers[-1]

    def refuse(*_: object) -> None:
        raise RuntimeError("no memory")

    def cannot_list(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async def open_twice() -> None:
        with monkeypatch.context() as patch:
            patch.setattr("pykafka4.agent.service.parts.Producer", make)
            patch.setattr("pykafka4.agent.service.parts.AgentView", refuse)
            with pytest.raises(RuntimeError, match="no memory"):
                Parts(settings)
        assert "pykafka4-discard-log" not in {thread.name for thread in threading.enumerate()}
        with monkeypatch.context() as patch:
            patch.setattr(os, "scandir", cannot_list)
            with pytest.raises(SpoolUnusable, match="cannot list"):
                Parts(settings)
        parts = Parts(settings)  # raises SpoolUnusable while the folder is locked
        parts.stop_inputs()
        await parts.deliver(0.0, asyncio.Event())
        await parts.close()

    asyncio.run(open_twice())
    assert [producer.status()["state"] for producer in producers] == ["closed"]


def test_an_input_that_fails_ends_the_agent(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """A callback of the loop raises."""

    async def start(parts: Parts) -> None:
        def fail() -> None:
            raise RuntimeError("a bug in an input")

        asyncio.get_running_loop().call_soon(fail)

    monkeypatch.setattr(Parts, "start", start)
    assert run(agent) is Exit.CRASHED


@pytest.mark.parametrize(
    ("message", "key"), [("Fatal error on transport", "transport"), ("socket.accept() out of system resource", "socket")]
)
def test_a_connection_of_the_pages_that_fails_ends_nothing(
    message: str, key: str, agent: Agent, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def start(parts: Parts) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(64 if key == "socket" else 1):
            loop.call_exception_handler({"message": message, "exception": OSError("no more"), key: object()})
        loop.call_later(0.05, agent.end)

    monkeypatch.setattr(Parts, "start", start)
    assert run(agent) is Exit.OK
    assert len([record for record in caplog.records if "no more" in record.getMessage() or record.exc_info]) == 1


def test_a_producer_that_does_not_respond_is_no_bug(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent goes on; if that lasts, the watchdog of systemd ends it."""
    looks: list[tuple[str, str]] = []

    def ask(*_: object) -> None:
        raise KafkaTimeoutError("the client's thread did not respond")

    async def start(parts: Parts) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Loop, "ask", ask)
            looks.append(parts.look())
        looks.append(parts.look())
        agent.end()

    monkeypatch.setattr(Parts, "start", start)
    assert run(agent) is Exit.OK
    (stuck, text), (_, later) = looks
    assert (stuck, text) == ("unresponsive", "cluster unresponsive (the client's thread did not respond)")
    assert later.startswith("messages: 0 acknowledged, 0 waiting; cluster conn")


def test_the_watchdog_hears_nothing_of_a_producer_that_does_not_respond(
    kafka_server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([("unresponsive", "stuck"), ("connected", "well"), ("unresponsive", "stuck")])
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setattr("pykafka4.agent.service.agent.BEAT_S", 0.001)
    agent = Agent(read_settings(write_settings(tmp_path, kafka_server.bootstrap_servers)))

    async def start(parts: Parts) -> None:
        loop = asyncio.get_running_loop()

        def look(_: Parts) -> tuple[str, str]:
            found = next(looks, None)
            if found is None:
                loop.call_soon_threadsafe(agent.end)
            return found or ("unresponsive", "ends")

        monkeypatch.setattr(Parts, "look", look)

    monkeypatch.setattr(Parts, "start", start)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        assert run(agent) is Exit.OK
        told = [systemd.recv(4096).decode() for _ in range(5)]
    assert told[1:] == ["STATUS=stuck", "WATCHDOG=1", "STATUS=well", "STATUS=stuck"]


def test_at_the_end_the_discard_log_has_its_last_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "discards"
    agent = Agent(read_settings(write_settings(tmp_path, "127.0.0.1:1", f'[discard_log]\npath = "{path}"\n[service]\nshutdown_ms = 0\n')))

    async def start(parts: Parts) -> None:
        parts.router.accept([("clicks", b"v", None, None, 1)], Source.TCP)
        agent.end()

    monkeypatch.setattr(Parts, "start", start)
    before = set(threading.enumerate())
    assert run(agent) is Exit.UNDELIVERED
    assert "info: SERVER_SHUTDOWN topic: 6[clicks]" in path.read_text()
    assert not [thread.name for thread in set(threading.enumerate()) - before if "discard-log" in thread.name]


def test_an_agent_that_is_ended_while_it_starts_ends(agent: Agent) -> None:
    agent.end()
    assert run(agent) is Exit.OK


def test_messages_of_a_producer_that_fails_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = read_settings(write_settings(tmp_path, "127.0.0.1:1", f'[spool]\npath = "{tmp_path}/spool"\n'))

    async def start(parts: Parts) -> None:
        parts.router.accept([("clicks", b"%d" % n, None, None, 1) for n in range(3)], Source.TCP)
        inspect(parts.producer).session.post(fail)

    monkeypatch.setattr(Parts, "start", start)
    monkeypatch.setattr("pykafka4.agent.service.agent.BEAT_S", 0.05)
    with caplog.at_level(logging.INFO, "pykafka4.agent"):
        assert run(Agent(settings)) is Exit.CRASHED
    assert "agent: messages discarded since the start: clicks: 3 (BUG)" in caplog.text
    assert "messages: 3; acknowledged: 0; in the spool: 0; discarded: 3; without an outcome: 0" in caplog.text


def test_a_producer_that_is_stuck_at_the_end_leaves_the_spool_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def ask(*_: object) -> None:
        raise KafkaTimeoutError("the client's thread did not respond")

    producers: list[Producer] = []

    async def start(parts: Parts) -> None:
        producers.append(parts.producer)
        parts.router.accept([("clicks", b"v", None, None, 1)], Source.TCP)
        for where, value in (
            ("net.loop.Loop.ask", ask),
            ("agent.service.ending.STEP_S", 0.01),
            ("agent.service.ending.PROGRESS_S", 0.0),
            ("agent.service.parts.OUTCOMES_S", 0.01),
            ("producer.session.LOOP_ANSWER_S", 0.01),
        ):
            monkeypatch.setattr(f"pykafka4.{where}", value)
        agent.end()

    more = f'[spool]\npath = "{tmp_path}/spool"\n[service]\nshutdown_ms = 100\n'
    settings = read_settings(write_settings(tmp_path, "127.0.0.1:1", more))
    agent = Agent(settings)
    monkeypatch.setattr(Parts, "start", start)
    with caplog.at_level(logging.INFO, "pykafka4.agent"):
        assert run(agent) is Exit.CRASHED
    assert "agent: ending: waiting messages: unknown; " in caplog.text
    assert "agent: ends without a report: the client's thread did not respond" in caplog.text
    monkeypatch.undo()
    producers[0].close(0.0)
    again = Agent(settings)  # the spool's folder is locked no more
    again.end()
    assert run(again) is Exit.OK
