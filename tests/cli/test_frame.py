"""The frame of the command line: which options a command has, where they stand, and what is imported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from pykafka4.cli.frame import WITHOUT_CLUSTER, Frame
from pykafka4.cli.main import COMMANDS, cli, run
from pykafka4.testing import ModelServer

OWN = {"agent", "demo", "send"}  # commands with a parser of their own


@pytest.mark.parametrize(
    "line",
    [
        "-b SERVERS --timeout 10 groups list",
        "groups -b SERVERS --timeout 10 list",
        "groups list -b SERVERS --timeout 10",
        "groups list --bootstrap SERVERS --json",
        "-b SERVERS --json groups list",
        "--json groups list -b SERVERS",
    ],
)
def test_options_of_the_connection_stand_before_or_after_the_name(
    server: ModelServer, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    assert run(line.replace("SERVERS", server.bootstrap_servers).split()) == 0
    out = capsys.readouterr().out
    assert out == "" if "--json" in line else out.startswith("GROUP")


def test_the_last_place_of_an_option_wins(server: ModelServer) -> None:
    assert run(["-b", "127.0.0.1:1", "--timeout", "0.1", "groups", "list", "-b", server.bootstrap_servers, "--timeout", "10"]) == 0


def test_the_help_imports_no_command_and_no_client() -> None:
    program = (
        "import sys; sys.argv[1:] = ['--help']\n"
        "from pykafka4.__main__ import main\n"
        "assert main() == 0\n"
        "print(*(name for name in sys.modules if name.startswith(('pykafka4.cli.', 'pykafka4.admin', 'pykafka4.client'))), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert set(done.stderr.split()) == {
        f"pykafka4.cli.{name}" for name in ("main", "frame", "completion", "invocation", "profiles", "streams")
    }
    for name, (_, _, text) in COMMANDS.items():
        assert f"\n  {name} " in done.stdout
        assert text.split()[0] in done.stdout


def leaves(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from leaves(each, f"{path} {name}")
    else:
        yield path, command


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_of_the_table_exists_and_has_the_connection(name: str) -> None:
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    if name in OWN:
        return
    for path, command in leaves(found, name):
        assert command.help, path
        assert "xample" in f"{command.epilog} {command.help}", f"{path}: the help has no example"
        if path in WITHOUT_CLUSTER:
            continue
        names = {option for param in command.params for option in param.opts}
        assert {"--bootstrap", "--config", "--profile", "-X", "--timeout"} <= names, path


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in OWN])
def test_the_list_of_commands_cuts_off_no_line(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run([name, "--help"]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.endswith("...")] == []


def test_a_number_of_seconds_over_the_limit_is_refused_with_the_limit(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "-b", "127.0.0.1:1", "--seconds", "1e7"]) == 2
    assert "'1e7' is not a number of seconds: at least 0.1, at most 1,000,000" in capsys.readouterr().err


def test_a_commands_own_option_of_the_same_name_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, object]] = []

    @click.command()
    @click.option("-c", "--count", type=int)
    @click.pass_obj
    def own(invocation: object, count: int) -> None:
        seen.append((count, invocation))

    monkeypatch.setattr("tests.cli.test_frame.OWN_COMMAND", own, raising=False)
    frame = Frame({"own": ("tests.cli.test_frame", "OWN_COMMAND", "")})
    frame.main(["own", "-c", "3", "--config", "file"], standalone_mode=False)
    ((count, invocation),) = seen
    assert (count, getattr(invocation, "config", None)) == (3, "file")


@pytest.mark.parametrize("name", sorted(OWN))
def test_programs_with_a_parser_of_their_own_are_commands_too(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run([name, "--help"])
    assert ended.value.code == 0
    assert name in capsys.readouterr().out
