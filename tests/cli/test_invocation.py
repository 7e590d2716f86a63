"""Which cluster a command is about: options, variables, profiles, files, and secrets that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka4.cli.main import run
from pykafka4.other_clients.tables import OPTIONS
from pykafka4.testing import ModelServer

NOBODY = "127.0.0.1:1"
LIST = ["groups", "list"]
OTHER_NAMES = [name.replace("_", ".") for name, option in OPTIONS.items() if option == "bootstrap_servers"]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_variables_name_the_cluster(server: ModelServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYKAFKA4_BOOTSTRAP", server.bootstrap_servers)
    assert run(LIST) == 0
    monkeypatch.delenv("PYKAFKA4_BOOTSTRAP")
    monkeypatch.setenv("PYKAFKA4_CONFIG", str(write(tmp_path / "c.properties", f"bootstrap.servers={server.bootstrap_servers}\n")))
    assert run(LIST) == 0


def test_a_variable_limits_the_time_and_the_option_wins(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYKAFKA4_TIMEOUT", "0.2")
    assert run([*LIST, "-b", NOBODY]) == 1
    monkeypatch.setenv("PYKAFKA4_TIMEOUT", "soon")
    assert run([*LIST, "-b", server.bootstrap_servers]) == 2
    assert "soon" in capsys.readouterr().err
    assert run(["--timeout", "10", *LIST, "-b", server.bootstrap_servers]) == 0


def test_a_profile_names_the_cluster(server: ModelServer, profiles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        profiles,
        f"""
[model]
bootstrap.servers = ["{server.bootstrap_servers}", "{NOBODY}"]
request.timeout.ms = 5000
security.protocol = "PLAINTEXT"
compression.type = "lz4"
isolation.level = "read_committed"
""",
    )
    assert run(["--profile", "model", *LIST]) == 0
    assert run([*LIST, "--profile", "model"]) == 0
    monkeypatch.setenv("PYKAFKA4_PROFILE", "model")
    assert run(LIST) == 0


def test_the_default_profile_is_taken_if_nothing_names_a_cluster(
    server: ModelServer, profiles: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(profiles, f"[default]\nbootstrap.servers = '{server.bootstrap_servers}'\n")
    assert run(LIST) == 0
    assert run([*LIST, "-b", NOBODY, "--timeout", "0.2"]) == 1
    assert NOBODY in capsys.readouterr().err


@pytest.mark.parametrize("variable", ["PYKAFKA4_BOOTSTRAP", "PYKAFKA4_PROFILE", "PYKAFKA4_CONFIG"])
def test_a_cluster_on_the_command_line_is_not_mixed_with_one_of_the_environment(
    server: ModelServer, profiles: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    write(profiles, f"[mine]\nbootstrap.servers = '{server.bootstrap_servers}'\n[tls]\nsecurity.protocol = 'SSL'\n")
    value = {"PYKAFKA4_BOOTSTRAP": NOBODY, "PYKAFKA4_PROFILE": "tls", "PYKAFKA4_CONFIG": "/nowhere"}[variable]
    monkeypatch.setenv(variable, value)
    assert run([*LIST, "-b", server.bootstrap_servers]) == 0
    assert run([*LIST, "--profile", "mine"]) == 0


def test_bootstrap_goes_with_a_profile_or_a_file_and_wins(server: ModelServer, profiles: Path, tmp_path: Path) -> None:
    write(profiles, f"[far]\nbootstrap.servers = '{NOBODY}'\n")
    file = write(tmp_path / "c.properties", f"bootstrap.servers={NOBODY}\n")
    assert run([*LIST, "-b", server.bootstrap_servers, "--profile", "far"]) == 0
    assert run([*LIST, "-b", server.bootstrap_servers, "-c", str(file)]) == 0
    assert run([*LIST, "-X", f"bootstrap.servers={server.bootstrap_servers}", "--profile", "far"]) == 0


@pytest.mark.parametrize("name", ["--bootstrap={}", "-Xbootstrap.servers={}", *(f"-X{name}={{}}" for name in OTHER_NAMES)])
def test_variables_do_not_count_beside_servers_on_the_command_line(server: ModelServer, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("PYKAFKA4_BOOTSTRAP", NOBODY)
    monkeypatch.setenv("PYKAFKA4_PROFILE", "unknown")
    assert run([*LIST, name.format(server.bootstrap_servers)]) == 0


def test_servers_under_another_name_replace_earlier_ones_and_those_of_a_profile(server: ModelServer, profiles: Path) -> None:
    write(profiles, f"[far]\nbootstrap.servers = '{NOBODY}'\n")
    servers = f"metadata.broker.list={server.bootstrap_servers}"
    assert run([*LIST, "-X", f"bootstrap.servers={NOBODY}", "-X", servers]) == 0
    assert run([*LIST, "-X", servers, "--profile", "far"]) == 0
    assert run([*LIST, "-X", f"metadata.broker.list={NOBODY}", "-b", server.bootstrap_servers]) == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no profile 'prod'; there is none yet"),
        ("[test]\n", "has no profile 'prod'; it has test"),
        ("[prod\n", "cannot be read"),
        ("servers = 'x:1'\n", "servers is outside of a profile"),
        ("[prod]\nbootstrap.servers = [1]\n", "[prod] bootstrap.servers: must be a text"),
        ("[prod]\nbootstrap.servers = 'x:1'\nnonsense = 1\n", "[prod]: unknown client property 'nonsense'"),
    ],
)
def test_a_wrong_profile_is_wrong_usage_that_names_the_file(
    profiles: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    if text:
        write(profiles, text)
    assert run([*LIST, "--profile", "prod"]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert str(profiles) in err


def test_a_profile_and_a_file_together_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*LIST, "--profile", "prod", "--config", "file"]) == 2
    assert "give one of --config and --profile" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option",
    [
        *("sasl.password=hunter2", "ssl.key.password=hunter2", "sasl_password=hunter2", "ssl_key_pem=hunter2", "ssl.keystore.key=hunter2"),
        *("sasl.jaas.config=x password=hunter2;", "sasl.oauthbearer.client.secret=hunter2", "proxy=socks5://me:hunter2@host:1"),
    ],
)
@pytest.mark.parametrize("after", [False, True])
def test_a_secret_on_the_command_line_is_refused_with_the_way_out(
    profiles: Path, capsys: pytest.CaptureFixture[str], option: str, after: bool
) -> None:
    given = ["-b", NOBODY, "-X", option]
    assert run([*LIST, *given] if after else [*given, *LIST]) == 2
    err = capsys.readouterr().err
    assert "write it into a file for --config, or into a profile of" in " ".join(err.split())
    assert str(profiles) in err
    assert "hunter2" not in err


def test_options_that_only_name_a_place_of_a_secret_are_taken(server: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["-X", "sasl.username=me", "-X", "ssl.key.location=/nowhere", "-X", "security.protocol=SSL"]
    assert run([*LIST, "-b", server.bootstrap_servers, *given]) != 0
    assert "write it into a file" not in capsys.readouterr().err
