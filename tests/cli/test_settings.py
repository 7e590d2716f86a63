"""`pykafka4 settings …` on model brokers: output, exit codes, secrets, wrong usage."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pykafka4.cli.main import run
from pykafka4.testing import ModelServer

Ran = tuple[int, str, str]
Run = Callable[..., Ran]


@pytest.fixture
def settings(server: ModelServer, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command about settings: (exit code, standard output, standard error)."""
    server.create_topic("t", 1)

    def call(*arguments: str) -> Ran:
        code = run(["settings", *arguments, "--bootstrap", server.bootstrap_servers, "--timeout", "10"])
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


def given(server: ModelServer) -> dict[str, str]:
    return server.do(lambda cluster: dict(cluster.topics["t"].configs))


def test_settings_are_set_shown_and_taken_back(server: ModelServer, settings: Run) -> None:
    assert settings("set", "topic:t", "retention.ms=5000", "min.insync.replicas=2") == (
        0,
        "",
        "topic:t: retention.ms, min.insync.replicas changed\n",
    )
    code, out, err = settings("get", "topic:t")
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["RESOURCE", "SETTING", "VALUE", "SOURCE"],
        ["topic:t", "min.insync.replicas", "2", "DYNAMIC_TOPIC_CONFIG"],
        ["topic:t", "retention.ms", "5000", "DYNAMIC_TOPIC_CONFIG"],
    ]
    code, out, _ = settings("unset", "topic:t", "retention.ms", "--json")
    assert (code, json.loads(out)["settings"]) == (0, ["retention.ms"])
    assert given(server) == {"min.insync.replicas": "2"}


def test_lists_are_extended_and_cut(server: ModelServer, settings: Run) -> None:
    settings("set", "topic:t", "cleanup.policy+=compact,delete")
    assert given(server) == {"cleanup.policy": "delete,compact"}
    settings("set", "topic:t", "cleanup.policy-=delete")
    assert given(server) == {"cleanup.policy": "compact"}


def test_defaults_are_shown_by_name_and_with_all(settings: Run) -> None:
    assert len(settings("get", "topic:t")[1].splitlines()) == 1
    for options in (["--all"], ["--name", "max.message.bytes"]):
        found = [json.loads(line) for line in settings("get", "topic:t", "--json", *options)[1].splitlines()]
        assert ("topic", "t", "max.message.bytes", "1048588") in [(o["kind"], o["name"], o["setting"], o["value"]) for o in found]


def test_what_has_no_settings_is_told_beside_the_others(settings: Run) -> None:
    settings("set", "topic:t", "retention.ms=5000")
    code, out, err = settings("get", "topic:t", "topic:none", "--json")
    shown = [json.loads(line) for line in out.splitlines()]
    assert [one.get("setting") or one["error"]["code"] for one in shown] == ["retention.ms", "UNKNOWN_TOPIC_OR_PARTITION"]
    assert (code, err.startswith("error: topic none: UNKNOWN_TOPIC_OR_PARTITION")) == (1, True)
    code, out, err = settings("set", "topic:t", "max.message.bytes=many", "--json")
    assert (code, json.loads(out)["error"]["code"], "INVALID_CONFIG" in err) == (1, "INVALID_CONFIG", True)


def test_a_dry_run_changes_nothing(server: ModelServer, settings: Run) -> None:
    code, _, err = settings("set", "topic:t", "retention.ms=5000", "--dry-run")
    assert (code, err) == (0, "topic:t: retention.ms would be changed\n")
    assert given(server) == {}


def test_a_secret_comes_from_a_file(server: ModelServer, settings: Run, tmp_path: Path) -> None:
    code, _, err = settings("set", "topic:t", "my.password=geheim")
    assert (code, "my.password=@FILE" in err, "geheim" in err) == (2, True, False)
    file = tmp_path / "secret"
    file.write_text("geheim\n")
    assert settings("set", "topic:t", f"my.password=@{file}")[0] == 0
    assert given(server) == {"my.password": "geheim"}
    assert settings("set", "topic:t", f"my.password=@{file}-none")[0] == 1
    file.write_bytes(b"geheim\xff")
    code, _, err = settings("set", "topic:t", f"my.password=@{file}")
    assert (code, err) == (1, f"error: {file}: is not UTF-8 text\n")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("get", "Missing argument"),
        ("get topics:t", "must be topic:NAME"),
        ("get broker:one", "must be topic:NAME"),
        ("set topic:t", "Missing argument"),
        ("set topic:t retention.ms", "must be NAME=VALUE"),
        ("unset topic:t", "Missing argument"),
        ("list --kind topics", "is not one of"),
    ],
)
def test_wrong_usage_is_code_2(settings: Run, line: str, text: str) -> None:
    code, _, err = settings(*line.split())
    assert (code, text in err) == (2, True), err
