"""`pykafka4 send`: each option, what it says, and how it ends."""

from __future__ import annotations

import io
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka4.agent.format import parse
from pykafka4.agent.message import Message, Reason, Refused
from pykafka4.agent.sending import Progress, main

WAIT_S = 10.0


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "agent.sock")


@pytest.fixture
def agent(path: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(path)
        sock.settimeout(WAIT_S)
        yield sock


def received(agent: socket.socket, count: int = 1) -> list[Message]:
    return [parse(agent.recv(1 << 20), b"") for _ in range(count)]


def give(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_a_message_has_what_the_options_say(agent: socket.socket, path: str) -> None:
    assert main(["--socket-path", path, "--topic", "clicks", "--value", "hello", "--key", "k", "--partition-key", "4294967295"]) == 0
    topic, value, key, partition_key, timestamp = received(agent)[0]
    assert (topic, value, key, partition_key) == ("clicks", b"hello", b"k", 2**32 - 1)
    assert abs(timestamp / 1000 - time.time()) < 60


def test_defaults_are_those_of_dory(agent: socket.socket, path: str) -> None:
    assert main([f"--socket-path={path}", "--topic=t"]) == 0
    assert received(agent)[0][:4] == ("t", b"", b"", None)


@pytest.mark.parametrize("kind", ["stream", "tcp"])
def test_streams_take_messages(kind: str, path: str) -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) if kind == "stream" else socket.create_server(("127.0.0.1", 0))
    with listener:
        if kind == "stream":
            listener.bind(path)
            listener.listen()
        where = ["--stream-socket-path", path] if kind == "stream" else ["--port", str(listener.getsockname()[1])]
        assert main([*where, "--topic", "t", "--value", "v", "--count", "2"]) == 0
        connection = listener.accept()[0]
        with connection, connection.makefile("rb") as stream:
            data = stream.read()
    half = len(data) // 2
    assert [parse(data[:half])[1], parse(data[half:])[1]] == [b"v", b"v"]


def test_values_that_look_like_options_are_values(agent: socket.socket, path: str) -> None:
    assert main(["--socket-path", path, "--topic", "-t", "--value", "--value", "--key", "-1"]) == 0
    assert received(agent)[0][:3] == ("-t", b"--value", b"-1")


def test_numbers_are_before_the_values_and_filled_with_zeros(agent: socket.socket, path: str) -> None:
    assert main(["--socket-path", path, "--topic", "t", "--value", "v", "--count", "3", "--seq", "--pad", "4"]) == 0
    assert [message[1] for message in received(agent, 3)] == [b"0001 v", b"0002 v", b"0003 v"]


def test_numbers_without_a_width(agent: socket.socket, path: str) -> None:
    assert main(["--socket-path", path, "--topic", "t", "--count", "2", "--seq"]) == 0
    assert [message[1] for message in received(agent, 2)] == [b"1 ", b"2 "]


def test_standard_input_is_the_value_of_each_message(agent: socket.socket, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, b"\0one\ntwo\n")
    assert main(["--socket-path", path, "--topic", "t", "--stdin", "--count", "2"]) == 0
    assert [message[1] for message in received(agent, 2)] == [b"\0one\ntwo\n"] * 2


def test_each_line_is_a_message(agent: socket.socket, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, b"one\r\n\xff\nlast")
    assert main(["--socket-path", path, "--topic", "t", "--lines"]) == 0
    assert [message[1] for message in received(agent, 3)] == [b"one\r", b"\xff", b"last"]


def test_only_so_many_lines_are_sent(agent: socket.socket, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, b"one\ntwo\n")
    assert main(["--socket-path", path, "--topic", "t", "--lines", "--count", "1", "--print", "1"]) == 0
    assert received(agent)[0][1] == b"one"


def test_a_bad_message_is_malformed(agent: socket.socket, path: str) -> None:
    assert main(["--socket-path", path, "--topic", "t", "--value", "v", "--bad"]) == 0
    with pytest.raises(Refused) as refused:
        received(agent)
    assert refused.value.reason is Reason.MALFORMED


def test_count_0_sends_nothing(path: str) -> None:
    assert main(["--socket-path", path, "--topic", "t", "--count", "0"]) == 0


def test_messages_are_an_interval_apart(agent: socket.socket, path: str) -> None:
    begun = time.monotonic()
    assert main(["--socket-path", path, "--topic", "t", "--count", "6", "--interval", "20000"]) == 0
    assert time.monotonic() - begun >= 0.1
    assert len(received(agent, 6)) == 6


def test_each_nth_message_is_printed(agent: socket.socket, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--socket-path", path, "--topic", "t", "--count", "5", "--print", "2"]) == 0
    assert capsys.readouterr() == ("2 messages written\n4 messages written\n", "")


def test_more_messages_than_the_socket_holds_wait_for_the_agent(agent: socket.socket, path: str) -> None:
    codes: list[int] = []
    sending = threading.Thread(
        target=lambda: codes.append(main(["--socket-path", path, "--topic", "t", "--value", "v" * 1000, "--count", "2000", "--seq"]))
    )
    sending.start()
    assert [int((message[1] or b"").split()[0]) for message in received(agent, 2000)] == list(range(1, 2001))
    sending.join(WAIT_S)
    assert codes == [0]


def test_a_missing_agent_is_an_error_in_one_line(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--socket-path", path, "--topic", "t", "--value", "v", "--wait", "0"]) == 1
    assert capsys.readouterr().err == (
        f"pykafka4 send: message 1 was not handed over to unix datagram socket {path}: no agent takes messages there: "
        "No such file or directory; is `pykafka4 agent` running, with this socket in its [inputs]?\n"
    )


def test_the_wait_for_an_agent_is_limited(path: str) -> None:
    begun = time.monotonic()
    assert main(["--socket-path", path, "--topic", "t", "--wait", "0.2"]) == 1
    assert 0.2 <= time.monotonic() - begun < WAIT_S


def test_a_message_that_is_cut_is_an_error(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen()

        def take_a_part() -> None:
            connection = listener.accept()[0]
            connection.recv(1)
            connection.close()

        taking = threading.Thread(target=take_a_part)
        taking.start()
        code = main(["--stream-socket-path", path, "--topic", "t", "--value", "v" * 1_000_000])
        taking.join(WAIT_S)
    assert code == 1
    assert capsys.readouterr().err == (
        f"pykafka4 send: incomplete messages at unix stream socket {path}: 1; "
        "the agent took only a part, because it was behind or has ended\n"
    )


def test_the_first_message_that_is_not_taken_ends_it(agent: socket.socket, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--socket-path", path, "--topic", "t", "--count", "100000", "--wait", "0"]) == 1
    found = re.search(r"message ([\d,]+) was not handed over .* the agent is behind", capsys.readouterr().err)
    assert found is not None
    assert len(received(agent, int(found[1].replace(",", "")) - 1)) > 0


def test_a_message_that_is_too_large_says_which_limit(agent: socket.socket, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["--socket-path", path, "--topic", "t", "--value", "v" * 70_000]
    assert main(command) == 1
    assert "70,029 bytes, and max_message_bytes=65,536" in capsys.readouterr().err
    assert main([*command, "--max-message-bytes", "80000"]) == 0
    assert len(received(agent)[0][1] or b"") == 70_000


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ([], "the following arguments are required: --topic"),
        (["--topic", "t", "--value", "v", "--stdin"], "not allowed with argument --value"),
        (["--topic", "t", "--port", "1", "--socket-path", "x"], "not allowed with argument --port"),
        (["--topic", "t", "--partition-key", "4294967296"], "argument --partition-key: 4294967296 must be at most 4294967295"),
        (["--topic", "t", "--partition-key=-1"], "argument --partition-key: '-1' must be an integer, 0 or more"),
        (["--topic", "t", "--count", "x"], "argument --count: 'x' must be an integer, 0 or more"),
        (["--topic", "t", "--wait", "nan"], "argument --wait: 'nan' must be a number of seconds, 0 or more and less than 1e9"),
        (["--topic", "t", "--val", "v"], "unrecognized arguments: --val v"),
        (["--topic"], "argument --topic: expected one argument"),
    ],
)
def test_wrong_options_end_with_code_2(options: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(options)
    assert end.value.code == 2
    assert error in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--topic", ""], "topic must have 1 to 32,767 bytes, not 0"),
        (["--topic", "t" * 32768], "topic must have 1 to 32,767 bytes, not 32,768"),
        (["--topic", "t", "--socket-path", "x" * 200], "has 200 bytes; the path of a UNIX socket has 1 to 107"),
        (["--topic", "t", "--port", "70000"], "port must be from 1 to 65,535, not 70,000"),
    ],
)
def test_wrong_values_end_with_code_2_in_one_line(options: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(options) == 2
    shown = capsys.readouterr().err
    assert error in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize("option", ["--stdin", "--lines"])
def test_standard_input_that_cannot_be_read_is_named(
    path: str, agent: socket.socket, option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with os.fdopen(os.open(os.devnull, os.O_WRONLY)) as unreadable:
        monkeypatch.setattr(sys, "stdin", unreadable)
        assert main(["--socket-path", path, "--topic", "t", option]) == 2
    assert capsys.readouterr().err == "pykafka4 send: standard input cannot be read: Bad file descriptor\n"


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["-h"])
    assert end.value.code == 0
    assert "journalctl --follow" in capsys.readouterr().out


def test_a_terminal_shows_progress_of_long_runs() -> None:
    now = [0.0]
    terminal = Terminal()
    progress = Progress(0, 1200, io.StringIO(), terminal, lambda: now[0])
    for _ in range(6):
        for _ in range(200):
            progress.add()
        now[0] += 0.25
    progress.end()
    lines = ("messages: 801 of 1,200, 801", "messages: 1,001 of 1,200, 801")
    assert terminal.getvalue() == "".join(f"\r\x1b[K{line} per second" for line in lines) + "\n"


def test_a_short_run_shows_no_progress() -> None:
    terminal = Terminal()
    progress = Progress(0, 3, io.StringIO(), terminal, lambda: 0.0)
    progress.add()
    progress.end()
    assert terminal.getvalue() == ""


def test_the_command_needs_no_other_packages(agent: socket.socket, path: str) -> None:
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['click', 'rich', 'attrs', 'aiohttp']));"
        f"sys.argv[1:] = ['send', '--socket-path', {path!r}, '--topic', 't', '--value', 'v'];"
        "from pykafka4.__main__ import main; sys.exit(main())"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
    assert received(agent)[0][1] == b"v"


def test_messages_go_on_when_nobody_reads_the_output(agent: socket.socket, path: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "pykafka4", "send", "--socket-path", path, "--topic", "t", "--count", "5", "--print", "1"]
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(received(agent, 5)) == 5
