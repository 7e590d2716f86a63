"""The life of an agent's process on the model cluster: start, signals, the end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pykafka4.agent import Client
from pykafka4.agent.service.codes import Exit
from pykafka4.testing import ModelServer
from tests.agent.service.running import TAKES, agent, until, write_settings

NOWHERE = "127.0.0.1:1"  # a port that nobody listens on


def send(path: Path, topic: str, *values: bytes) -> None:
    with Client(path, max_block_ms=20_000) as client:
        for value in values:
            client.send(topic, value)


def values(server: ModelServer, topic: str) -> list[bytes | None]:
    return sorted((record.value for record in server.records(topic)), key=lambda value: value or b"")


def test_messages_arrive_and_the_end_reports_them(kafka_server: ModelServer, tmp_path: Path) -> None:
    kafka_server.create_topic("clicks", partitions=1)
    with agent(write_settings(tmp_path, kafka_server.bootstrap_servers)) as process:
        send(process.socket, "clicks", b"a", b"b")
        until(lambda: values(kafka_server, "clicks") == [b"a", b"b"], "the messages")
        assert process.end() == Exit.OK
        assert "agent: ended; messages: 2; acknowledged: 2" in process.said()
    assert not process.socket.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_waits_is_delivered_at_the_end(kafka_server: ModelServer, tmp_path: Path, number: signal.Signals) -> None:
    kafka_server.create_topic("clicks", partitions=1)
    config = write_settings(tmp_path, kafka_server.bootstrap_servers, "[topics.default]\nlinger_ms = 600_000\n")
    with agent(config) as process:
        send(process.socket, "clicks", *(b"%d" % n for n in range(100)))
        assert process.end(number) == Exit.OK
    assert len(values(kafka_server, "clicks")) == 100


def test_the_first_start_needs_no_broker_and_the_end_counts_what_was_not_delivered(tmp_path: Path) -> None:
    with agent(write_settings(tmp_path, NOWHERE, "[service]\nshutdown_ms = 50\n")) as process:
        send(process.socket, "clicks", b"a", b"b", b"c")
        assert process.end() == Exit.UNDELIVERED
        assert "agent: messages discarded since the start: clicks: 3 (SERVER_SHUTDOWN)" in process.said()
        assert "agent: ended; messages: 3; acknowledged: 0; in the spool: 0; discarded: 3; without an outcome: 0" in process.said()


def test_a_second_sigint_ends_at_once(tmp_path: Path) -> None:
    with agent(write_settings(tmp_path, NOWHERE, "[service]\nshutdown_ms = 600_000\n")) as process:
        send(process.socket, "clicks", b"a")
        process.send_signal(signal.SIGINT)
        process.wait_for("delivers the waiting messages for up to 600 s")
        assert process.end(signal.SIGINT) == Exit.UNDELIVERED
        assert "agent: ends at once, without delivery of the waiting messages" in process.said()
        assert "clicks: 1 (SERVER_SHUTDOWN)" in process.said()


def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    config = write_settings(tmp_path, NOWHERE)
    with agent(config) as process:
        process.process.kill()
        process.process.wait(30)
        assert stat.S_ISSOCK(process.socket.stat().st_mode)
    with agent(config) as process:
        send(process.socket, "clicks", b"a")


def test_a_second_agent_does_not_take_the_socket_of_the_first(tmp_path: Path) -> None:
    config = write_settings(tmp_path, NOWHERE, "[service]\nshutdown_ms = 0\n")
    other = tmp_path / "other"
    other.mkdir()
    second = other / "agent.toml"
    second.write_text(config.read_text())
    with agent(config) as first:
        with agent(second, wait=False) as process:
            assert process.process.wait(30) == Exit.CANNOT_START
            assert "cannot start" in process.said()
            assert str(first.socket) in process.said()
        send(first.socket, "clicks", b"a")


def test_sighup_takes_what_can_change_and_names_what_cannot(tmp_path: Path) -> None:
    config = write_settings(tmp_path, NOWHERE, "[service]\nshutdown_ms = 600_000\n")
    with agent(config) as process:
        send(process.socket, "clicks", b"a")
        write_settings(tmp_path, NOWHERE, "[service]\nshutdown_ms = 1\n", kafka="acks = 1")
        process.send_signal(signal.SIGHUP)
        process.wait_for("agent: reload: service.shutdown_ms has changed")
        process.wait_for("agent: reload: kafka.acks has changed, and takes effect only after a restart")
        assert process.end() == Exit.UNDELIVERED  # at once
        assert "up to 0.001 s" in process.said()


def test_sighup_changes_a_rate_limit_without_a_restart(kafka_server: ModelServer, tmp_path: Path) -> None:
    kafka_server.create_topic("clicks", partitions=1)
    limit = "[topics.clicks]\nrate_limit = {{ interval_ms = 86_400_000, max_count = {} }}\n"
    with agent(write_settings(tmp_path, kafka_server.bootstrap_servers, limit.format(0))) as process:
        send(process.socket, "clicks", b"a")
        write_settings(tmp_path, kafka_server.bootstrap_servers, limit.format(1))
        process.send_signal(signal.SIGHUP)
        process.wait_for("agent: reload: topics.clicks.rate_limit.max_count has changed")
        send(process.socket, "clicks", b"b", b"c")
        assert process.end() == Exit.OK
        assert "agent: messages discarded since the start: clicks: 2 (RATE_LIMIT)" in process.said()
    assert values(kafka_server, "clicks") == [b"b"]


def test_sighup_with_a_bad_file_changes_nothing(kafka_server: ModelServer, tmp_path: Path) -> None:
    kafka_server.create_topic("clicks", partitions=1)
    config = write_settings(tmp_path, kafka_server.bootstrap_servers)
    with agent(config) as process:
        write_settings(tmp_path, NOWHERE, "[service]\nshutdown_ms = -1\nlog_level = 'LOUD'\n")
        process.send_signal(signal.SIGHUP)
        process.wait_for("the agent continues with its present settings")
        assert "service.shutdown_ms=-1" in process.said()
        assert "service.log_level='LOUD'" in process.said()
        send(process.socket, "clicks", b"a")
        until(lambda: values(kafka_server, "clicks") == [b"a"], "the message")
        config.unlink()
        process.send_signal(signal.SIGHUP)
        process.wait_for("agent.toml: cannot be read: No such file or directory")
        assert process.end() == Exit.OK


def test_sigusr1_ends_nothing(tmp_path: Path) -> None:
    with agent(write_settings(tmp_path, NOWHERE, "[service]\nshutdown_ms = 0\n")) as process:
        process.send_signal(signal.SIGUSR1)
        process.wait_for("follows a rotation")
        send(process.socket, "clicks", b"a")


def test_systemd_is_told_the_start_a_reload_and_the_end(kafka_server: ModelServer, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(30)

        def told(word: str) -> str:
            while word not in (text := systemd.recv(4096).decode()):
                pass
            return text

        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"}
        with agent(write_settings(tmp_path, kafka_server.bootstrap_servers), environment, wait=False) as process:
            assert told("READY=1").splitlines() == ["READY=1", "STATUS=takes messages"]
            told("WATCHDOG=1")
            assert "0 waiting; cluster " in told("STATUS=")
            process.send_signal(signal.SIGHUP)
            assert "MONOTONIC_USEC=" in told("RELOADING=1")
            told("READY=1")
            told("WATCHDOG=1")
            process.send_signal(signal.SIGTERM)
            assert "EXTEND_TIMEOUT_USEC=40000000" in told("STOPPING=1")
            assert process.process.wait(30) == Exit.OK


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its user")
def test_root_becomes_the_user_once_the_sockets_are_bound(kafka_server: ModelServer, tmp_path: Path) -> None:
    kafka_server.create_topic("clicks", partitions=1)
    nobody = pwd.getpwnam("nobody")
    more = '[service]\nuser = "nobody"\n'
    inputs = f'unix_stream = {{ path = "{tmp_path}/agent.stream", mode = 0o222, owner = "nobody" }}'
    tmp_path.chmod(0o755)
    config = write_settings(tmp_path, kafka_server.bootstrap_servers, more, inputs)
    mask = os.umask(0o077)
    with contextlib.ExitStack() as stack:
        try:
            process = stack.enter_context(agent(config))
        finally:
            os.umask(mask)
        status = dict(line.split(":\t") for line in Path(f"/proc/{process.process.pid}/status").read_text().splitlines() if ":\t" in line)
        assert set(status["Uid"].split()) == {str(nobody.pw_uid)}
        assert set(status["Gid"].split()) == {str(nobody.pw_gid)}
        assert {int(group) for group in status["Groups"].split()} == set(os.getgrouplist("nobody", nobody.pw_gid))
        assert status["Umask"] == "0077"  # the stricter one of that of the start and its own
        assert int(status["CapEff"], 16) == 0
        found = (tmp_path / "agent.stream").stat()
        assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (nobody.pw_uid, 0o222)
        send(process.socket, "clicks", b"a")
        until(lambda: values(kafka_server, "clicks") == [b"a"], "the message")
        assert process.end() == Exit.OK


def test_a_part_that_fails_ends_the_agent_after_delivering(kafka_server: ModelServer, tmp_path: Path) -> None:
    """The part is a task of the agent that raises; a file of Python's start-up puts the bug in."""
    kafka_server.create_topic("clicks", partitions=1)
    (tmp_path / "sitecustomize.py").write_text(
        "import pykafka4.agent.service.parts as parts\n"
        "from pathlib import Path\n"
        "def tick(self):\n"
        f"    if Path({str(tmp_path / 'bug')!r}).exists(): raise RuntimeError('a bug')\n"
        "parts.Parts.tick = tick\n"
    )
    config = write_settings(tmp_path, kafka_server.bootstrap_servers, "[topics.default]\nlinger_ms = 600_000\n")
    with agent(config, {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}) as process:
        send(process.socket, "clicks", b"a")
        (tmp_path / "bug").touch()
        assert process.process.wait(30) == Exit.CRASHED
        assert "RuntimeError: a bug" in process.said()
        assert "agent: ended; messages: 1; acknowledged: 1" in process.said()
    assert values(kafka_server, "clicks") == [b"a"]
    assert TAKES in process.said()


def test_the_spool_keeps_what_was_not_delivered_until_the_next_start(kafka_server: ModelServer, tmp_path: Path) -> None:
    kafka_server.create_topic("clicks", partitions=1)
    spool = f'[spool]\npath = "{tmp_path}/spool"\n'
    with agent(write_settings(tmp_path, NOWHERE, f"[service]\nshutdown_ms = 50\n{spool}")) as process:
        send(process.socket, "clicks", b"a", b"b", b"c")
        assert process.end() == Exit.OK
        assert "agent: ended; messages: 3; acknowledged: 0; in the spool: 3; discarded: 0; without an outcome: 0" in process.said()
    with agent(write_settings(tmp_path, kafka_server.bootstrap_servers, spool)) as process:
        until(lambda: values(kafka_server, "clicks") == [b"a", b"b", b"c"], "the messages of the first agent")
        assert process.end() == Exit.OK
        assert "; in the spool: 0; discarded: 0; without an outcome: 0" in process.said()


def test_a_port_that_is_taken_ends_the_start(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with agent(write_settings(tmp_path, NOWHERE, f"[http]\nport = {port}\n"), wait=False) as process:
            assert process.process.wait(30) == Exit.CANNOT_START
            assert f"agent: cannot start: [http] the pages cannot listen on 127.0.0.1:{port}: Address already in use" in process.said()
        assert not process.socket.exists()


def test_two_agents_do_not_share_a_spool(tmp_path: Path) -> None:
    spool = f'[spool]\npath = "{tmp_path}/spool"\n'
    other = tmp_path / "other"
    other.mkdir()
    with agent(write_settings(tmp_path, NOWHERE, spool)):
        with agent(write_settings(other, NOWHERE, spool), wait=False) as process:
            assert process.process.wait(30) == Exit.CANNOT_START
            assert f"{tmp_path}/spool' is used by the agent with the process id" in process.said()
        assert not process.socket.exists()


def test_lines_for_the_journal_have_their_priority(tmp_path: Path) -> None:
    config = write_settings(tmp_path, NOWHERE, "[service]\nshutdown_ms = 0\n")
    (tmp_path / "output").touch()
    found = (tmp_path / "output").stat()
    with agent(config, {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}) as process:
        send(process.socket, "clicks", b"a")
        assert process.end() == Exit.UNDELIVERED
        lines = process.said().splitlines()
    assert f"<6>agent: takes messages at {process.socket}" in lines
    assert "<4>agent: messages discarded since the start: clicks: 1 (SERVER_SHUTDOWN)" in lines


def test_a_log_that_nobody_reads_holds_up_nothing(kafka_server: ModelServer, tmp_path: Path) -> None:
    kafka_server.create_topic("clicks", partitions=1)
    config = write_settings(tmp_path, kafka_server.bootstrap_servers, "[service]\nlog_level = 'DEBUG'\n")
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 512)
    os.set_blocking(writer, True)
    command = [sys.executable, "-m", "pykafka4", "agent", "--config", str(config)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=writer)
    try:
        until((tmp_path / "agent.sock").exists, "the socket")
        send(tmp_path / "agent.sock", "clicks", b"a", b"b")
        until(lambda: values(kafka_server, "clicks") == [b"a", b"b"], "the messages")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == Exit.OK
    finally:
        process.kill()
        process.wait(30)
        os.close(reader)
        os.close(writer)
