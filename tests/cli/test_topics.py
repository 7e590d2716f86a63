"""`pykafka4 topics …` on model brokers: output, exit codes, plans, wrong usage."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pykafka4.cli.main import run
from pykafka4.core.admin import broker_choices, question_run
from pykafka4.testing import ModelServer

Ran = tuple[int, str, str]
Run = Callable[..., Ran]


@pytest.fixture
def topics(server: ModelServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command about topics: (exit code, standard output, standard error)."""
    for module in (question_run, broker_choices):
        monkeypatch.setattr(module, "MISSING_S", 0.2)  # what does not exist is believed sooner

    def call(*arguments: str) -> Ran:
        code = run(["topics", *arguments, "--bootstrap", server.bootstrap_servers, "--timeout", "10"])
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_topics_are_created_listed_and_extended(topics: Run) -> None:
    code, out, err = topics("create", "a", "b", "--partitions", "2", "--replication-factor", "3", "--setting", "retention.ms=5000")
    assert (code, err) == (0, "")
    assert [row[:3] for row in rows(out)] == [["TOPIC", "PARTITIONS", "REPLICATION"], ["a", "2", "3"], ["b", "2", "3"]]
    code, out, err = topics("alter", "a", "--partitions", "4")
    assert (code, rows(out)[1], err) == (0, ["a", "4", "changed"], "")
    code, out, _ = topics("list", "--json")
    assert [(one["name"], one["partitions"], one["is_internal"]) for one in objects(out)] == [("a", 4, False), ("b", 2, False)]
    assert [row[:3] for row in rows(topics("list")[1])[1:]] == [["a", "4", "3"], ["b", "2", "3"]]


def test_a_topic_that_exists_is_told_beside_those_that_are_created(server: ModelServer, topics: Run) -> None:
    server.create_topic("a", 1)
    code, out, err = topics("create", "a", "b", "--json")
    assert [(one["name"], one["created"], one.get("error", {}).get("code")) for one in objects(out)] == [
        ("a", False, "TOPIC_ALREADY_EXISTS"),
        ("b", True, None),
    ]
    assert code == 1
    assert err.startswith("error: creating topic a: TOPIC_ALREADY_EXISTS")
    code, out, err = topics("alter", "a", "b", "--partitions", "2", "--json")
    assert [(one["name"], one["changed"]) for one in objects(out)] == [("a", True), ("b", False)]
    assert (code, "INVALID_PARTITIONS" in err) == (1, True)


def test_a_dry_run_creates_nothing(server: ModelServer, topics: Run) -> None:
    code, out, err = topics("create", "a", "--dry-run", "--json")
    assert (code, objects(out)[0]["created"], err) == (0, False, "nothing has been created\n")
    assert server.do(lambda cluster: len(cluster.topics)) == 0


def test_replicas_are_placed(server: ModelServer, topics: Run) -> None:
    assert topics("create", "a", "--replicas", "2,1", "--replicas", "3,1")[0] == 0
    assert server.do(lambda cluster: [part.leader for part in cluster.topics["a"].partitions]) == [2, 3]


def test_a_topic_is_described_by_name_and_id(server: ModelServer, topics: Run) -> None:
    server.create_topic("a", 2)
    code, out, err = topics("describe", "a", "--json")
    (found,) = objects(out)
    assert (code, err, [one["partition"] for one in found["partitions"]]) == (0, "", [0, 1])
    code, out, _ = topics("describe", found["topic_id"])
    assert (code, [row[:2] for row in rows(out)]) == (0, [["TOPIC", "PARTITION"], ["a", "0"], ["a", "1"]])
    code, out, err = topics("describe", "none", "a")
    assert (code, len(rows(out))) == (1, 3)
    assert err.startswith("error: topic none: UNKNOWN_TOPIC_OR_PARTITION; `pykafka4 topics list` shows")
    code, out, err = topics("delete", "none")
    assert (code, "--execute" in err) == (1, False)


def test_partitions_that_are_not_in_sync_are_found(server: ModelServer, topics: Run) -> None:
    server.create_topic("a", 3)
    server.create_topic("b", 1)
    assert rows(topics("describe", "--under-replicated")[1])[1:] == []
    assert topics("describe", "--under-replicated", "--json")[1] == ""
    server.do(lambda cluster: cluster.topics["a"].partitions[1].in_sync.remove(3))
    code, out, _ = topics("describe", "--under-replicated")
    assert (code, [row[:2] for row in rows(out)[1:]]) == (0, [["a", "1"]])
    assert "not 3" in out


def test_a_deletion_shows_what_is_lost_and_needs_execute(server: ModelServer, topics: Run) -> None:
    server.create_topic("a", 2)
    server.produce("a", "1", "2", "3", partition=1)
    code, out, err = topics("delete", "a")
    assert (code, [row[0:3] for row in rows(out)[1:]]) == (0, [["a", "2", "3"]])
    assert "would be deleted" in out
    assert err.startswith("nothing has been changed; --execute deletes")
    assert "a" in server.do(lambda cluster: list(cluster.topics))
    code, out, err = topics("delete", "a", "none", "--execute", "--json")
    assert [(one["name"], one.get("records"), one["deleted"]) for one in objects(out)] == [("a", 3, True), ("none", None, False)]
    assert (code, err[:19]) == (1, "error: topic none: ")
    assert server.do(lambda cluster: list(cluster.topics)) == []


def test_a_right_that_is_missing_is_named_once(server: ModelServer, topics: Run) -> None:
    server.create_topic("a", 1)
    server.do(lambda cluster: cluster.controls.deny("topic", "a", ["DELETE"]))
    code, out, err = topics("delete", "a", "--execute", "--json")
    assert (code, objects(out)[0]["deleted"]) == (1, False)
    assert "needs DELETE on topic 'a'" in err


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("create", "Missing argument"),
        ("create a --partitions 0", "not in the range"),
        ("create a --replicas x", "numbers of brokers"),
        ("create a --replicas 1 --partitions 1", "leave out --partitions"),
        ("create a --setting retention.ms", "must be NAME=VALUE"),
        ("create a/b", "a/b"),
        ("alter a", "Missing option '--partitions'"),
        ("delete", "Missing argument"),
    ],
)
def test_wrong_usage_is_code_2(topics: Run, line: str, text: str) -> None:
    code, _, err = topics(*line.split())
    assert (code, text in err) == (2, True), err
