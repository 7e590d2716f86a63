"""How the command line ends: exit codes, Ctrl-C, version."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pykafka4 import __version__
from pykafka4.cli.main import run
from pykafka4.testing import ModelServer

PROGRAM = [sys.executable, "-m", "pykafka4"]
ALWAYS_NEEDLESS = ("asyncio", "pyarrow", "pykafka4.admin", "pykafka4.share", "pykafka4.testing", "rich", "ssl", "tomllib")


def messages(*subjects: str) -> list[str]:
    """The modules with the messages of these subjects."""
    return [f"pykafka4.wire.protocol.messages_{subject}" for subject in ("acls", "replicas", "share", "users", *subjects)]


def test_help_and_version_are_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert __version__ in capsys.readouterr().out
    for line in (["--help"], ["groups", "-h"], ["groups", "list", "--help"]):
        assert run(line) == 0
        assert capsys.readouterr().out.startswith("Usage: pykafka4 ")


@pytest.mark.parametrize(
    ("line", "needless"),
    [
        (["consume", "t"], ("pykafka4.producer", "pykafka4.core.producer", *messages("admin", "group", "produce", "sasl", "txn"))),
        (["produce", "t"], ("pykafka4.consumer", "pykafka4.core.group", *messages("admin", "fetch", "group", "sasl"))),
    ],
)
def test_a_command_imports_nothing_that_only_others_need(server: ModelServer, line: list[str], needless: tuple[str, ...]) -> None:
    server.create_topic("t")
    program = (
        "import sys; from pykafka4.__main__ import main\n"
        "code = main()\n"
        f"print(code, [name for name in {(*needless, *ALWAYS_NEEDLESS)} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *line, "-b", server.bootstrap_servers],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr.strip() == "0 []"


@pytest.mark.parametrize("line", [["nonsense"], ["--nonsense"], ["groups", "list", "--timeout", "0"]])
def test_wrong_usage_is_code_2(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(line) == 2
    assert "Usage: pykafka4 " in capsys.readouterr().err


def test_a_misspelt_command_is_answered_with_the_one_that_may_be_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gruops", "list"]) == 2
    assert "No such command 'gruops'; did you mean 'groups'?" in capsys.readouterr().err


def test_an_error_of_the_system_names_the_thing(
    server: ModelServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = str(tmp_path / "missing.properties")
    assert run(["groups", "list", "--config", missing]) == 2
    assert f"cannot be read: {missing}: No such file or directory" in capsys.readouterr().err
    monkeypatch.setenv("PYKAFKA4_CONFIG", str(tmp_path))
    assert run(["groups", "list"]) == 2
    assert f"PYKAFKA4_CONFIG cannot be read: {tmp_path}: Is a directory" in capsys.readouterr().err
    server.create_topic("t")
    monkeypatch.setenv("PYKAFKA4_CONFIG", "")
    assert run(["produce", "t", "-b", server.bootstrap_servers, str(tmp_path)]) == 1
    assert f"error: {tmp_path}: Is a directory" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["-b", "--config", "--profile"])
def test_an_empty_option_of_the_connection_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["groups", "list", option, ""]) == 2
    assert "is empty" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_and_signals_to_end_are_code_130_without_a_traceback(number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(30)
        command = [*PROGRAM, "groups", "list", "-b", f"127.0.0.1:{silent.getsockname()[1]}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            connection, _ = silent.accept()
            with connection:
                assert connection.recv(1)  # the command waits for the answer
                process.send_signal(number)
                out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, b"", b"")
