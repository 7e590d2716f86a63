"""The command line of the agent."""

from __future__ import annotations

import configparser
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka4 import __version__
from pykafka4.agent.service.codes import Exit
from pykafka4.agent.service.logs import Logs
from pykafka4.agent.service.main import SIGNALS, main
from tests.agent.service.running import write_settings

SERVERS = "localhost:9092"


def test_check_sums_up_what_would_be_opened_and_opens_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = f'[http]\nport = 9191\n[spool]\npath = "{tmp_path}/spool"\n[service]\nuser = "nobody"\n[topics.clicks]\nbatching = "off"\n'
    inputs = 'tcp = { port = 9101 }\n[inputs.unix_stream]\npath = "/tmp/agent.stream"\nmode = 0o222\nowner = "root"\n'
    tmp_path.chmod(0o777)  # for the spool of nobody
    config = write_settings(tmp_path, SERVERS, more if os.geteuid() == 0 else more.replace('user = "nobody"', ""), inputs)
    assert main(["--config", str(config), "--check"]) == Exit.OK
    shown = capsys.readouterr()
    assert shown.err == ""
    for expected in (
        f"{config}: no errors",
        f"UNIX datagram  {tmp_path}/agent.sock",
        "UNIX stream    /tmp/agent.stream, mode 0222, owner root",
        "127.0.0.1:9101",
        "localhost:9092, PLAINTEXT",
        "http://127.0.0.1:9191/",
        f"{tmp_path}/spool, up to 1,073,741,824 bytes",
        "with a table: clicks",
        "134,217,728 bytes",
    ):
        assert expected in shown.out
    assert [path.name for path in tmp_path.iterdir()] == ["agent.toml"]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("[http]\nport = -1\nprt = 1\n", ["http.port=-1", "http.prt: unknown key"]),
        ('[service]\nuser = "nobody-knows"\n', ["service.user='nobody-knows': this machine has no such user"]),
        (
            '[discard_log]\npath = "/no/such/folder/log"\n',
            ["discard_log.path='/no/such/folder/log': the folder /no/such/folder does not exist"],
        ),
        ('[discard_log]\npath = "/tmp"\n', ["discard_log.path='/tmp': this path is a folder"]),
    ],
)
def test_check_names_all_errors(more: str, expected: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_settings(tmp_path, SERVERS, more)
    assert main(["--config", str(config), "--check"]) == Exit.SETTINGS
    shown = capsys.readouterr()
    assert shown.out == ""
    assert all(each in line for each, line in zip(expected, shown.err.splitlines(), strict=True)), shown.err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its user")
def test_check_names_folders_that_the_user_may_not_write_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = f'[spool]\npath = "{tmp_path}/spool"\n[discard_log]\npath = "{tmp_path}/log"\n[service]\nuser = "nobody"\n'
    tmp_path.chmod(0o755)
    assert main(["--config", str(write_settings(tmp_path, SERVERS, more)), "--check"]) == Exit.SETTINGS
    assert capsys.readouterr().err.splitlines() == [
        f"discard_log.path='{tmp_path}/log': user nobody may not write to the folder {tmp_path}",
        f"spool.path='{tmp_path}/spool': user nobody may not write to the folder {tmp_path}",
    ]
    tmp_path.chmod(0o777)
    assert main(["--config", str(tmp_path / "agent.toml"), "--check"]) == Exit.OK


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ("max_datagram_size = '16MiB'", "inputs: max_datagram_size = 16777216: a socket with the default send buffer cannot send"),
        ("unix_stream = { path = '/tmp/agent.stream', owner = 'nobody-knows' }", "inputs.unix_stream: owner = 'nobody-knows': no user"),
    ],
)
def test_check_names_what_the_inputs_would_refuse(inputs: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--config", str(write_settings(tmp_path, SERVERS, inputs=inputs)), "--check"]) == Exit.SETTINGS
    assert capsys.readouterr().err.startswith(expected)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its user")
def test_check_names_a_key_that_the_user_may_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = tmp_path / "key.pem"
    key.touch(0o600)
    secure = f'security_protocol = "SSL"\nssl_cafile = "{key}"'
    config = write_settings(tmp_path, SERVERS, '[service]\nuser = "nobody"\n', kafka=secure)
    assert main(["--config", str(config), "--check"]) == Exit.SETTINGS
    assert capsys.readouterr().err == f"kafka.ssl_cafile='{key}': cannot be read by user nobody\n"


@pytest.fixture
def handlers() -> Iterator[None]:
    """The process of an agent ends after `main`; that of the tests goes on."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_a_bug_has_its_exit_code_and_no_signal_cuts_its_report_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def fail(agent: object) -> None:
        raise ValueError("a bug")

    def close(logs: Logs) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            if signal.getsignal(number) is signal.SIG_DFL:
                pytest.fail(f"{number.name} would kill the process")
            signal.raise_signal(number)
        end(logs)

    end = Logs.close
    monkeypatch.setattr("pykafka4.agent.service.main.Agent.run", fail)
    monkeypatch.setattr(Logs, "close", close)
    assert main(["--config", str(write_settings(tmp_path, SERVERS))]) == Exit.CRASHED
    assert "ValueError: a bug" in capfd.readouterr().err


def test_check_shows_no_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secure = 'security_protocol = "SASL_SSL"\nsasl_mechanism = "PLAIN"\nsasl_username = "me"\nsasl_password = "TOP"'
    assert main(["--config", str(write_settings(tmp_path, SERVERS, kafka=secure)), "--check"]) == Exit.OK
    shown = capsys.readouterr().out
    assert "SASL_SSL with PLAIN" in shown
    assert "TOP" not in shown


def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secure = 'security_protocol = "SSL"\nssl_cafile = "/no/such/ca.pem"'
    assert main(["--config", str(write_settings(tmp_path, SERVERS, kafka=secure)), "--check"]) == Exit.SETTINGS
    assert "kafka.ssl_cafile='/no/such/ca.pem': cannot be read" in capsys.readouterr().err


def test_without_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == Exit.SETTINGS
    assert "--config FILE is missing" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "expected"), [("--version", f"pykafka4 {__version__}"), ("--help", "exit codes:\n  0 ")])
def test_options_that_only_print(option: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([option])
    assert caught.value.code == 0
    assert expected in capsys.readouterr().out


def unit(capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["--systemd-unit", "--config", "/etc/pykafka4/my.toml"]) == Exit.OK
    return capsys.readouterr().out


def test_the_unit_of_systemd(capsys: pytest.CaptureFixture[str]) -> None:
    parser = configparser.RawConfigParser()
    parser.read_string(unit(capsys))
    service = parser["Service"]
    assert service["Type"] == "notify"
    assert service["ExecStart"].endswith("agent --config /etc/pykafka4/my.toml")
    assert "ExecStartPre" not in service  # RestartPreventExitStatus concerns ExecStart only: a wrong file would be tried for ever
    assert service["Restart"] == "on-failure"
    assert service["RestartPreventExitStatus"] == str(Exit.SETTINGS.value)
    assert service["RuntimeDirectory"] == "pykafka4"
    assert service["NoNewPrivileges"] == "yes"
    assert Path(service["ExecStart"].split()[0]).is_absolute()
    assert int(service["TimeoutStopSec"]) > 30  # the default of service.shutdown_ms


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze: apt-get install systemd")
def test_systemd_finds_no_fault_in_the_unit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pykafka4-agent.service"
    file.write_text(unit(capsys))
    done = subprocess.run(["systemd-analyze", "verify", str(file)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
