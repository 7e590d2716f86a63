"""`pykafka4 cluster …` and `pykafka4 transactions …`: output, plans, exit codes, wrong usage. On model brokers where they know the calls,
otherwise on an admin client with outcomes of its own; tests/integration/test_admin_cluster.py has them on real brokers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pykafka4 import (
    ActiveProducer,
    AdminClient,
    Features,
    HangingTransaction,
    KafkaError,
    LogDir,
    NewTopic,
    PartialFailure,
    QuorumDescription,
    Reassignment,
    ReassignmentProgress,
    TopicPartition,
    TransactionDescription,
    TransactionList,
    TransactionListing,
)
from pykafka4.cli import replicas
from pykafka4.cli.invocation import Invocation
from pykafka4.cli.main import run
from pykafka4.core.admin.cluster import Broker, ClusterDescription, Feature, QuorumReplica
from pykafka4.core.admin.replicas import ReplicaSize
from pykafka4.core.admin.topic_queries import PartitionDescription, TopicDescription
from pykafka4.testing import ModelServer

Ran = tuple[int, str, str]
Run = Callable[..., Ran]
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command: (exit code, standard output, standard error)."""

    def call(*arguments: str, bootstrap: str = "localhost:1") -> Ran:
        code = run(["--bootstrap", bootstrap, "--timeout", "10", *arguments])
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


class InTurn(list[Any]):
    """Outcomes of one call after the other."""


class Canned:
    """An admin client with an outcome for each call: a value, or a function of the arguments."""

    def __init__(self, outcomes: Mapping[str, Any]) -> None:
        self.outcomes, self.calls = outcomes, list[tuple[str, tuple[Any, ...], dict[str, Any]]]()

    def __enter__(self) -> Canned:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __getattr__(self, name: str) -> Callable[..., Any]:
        outcome = self.outcomes[name]

        def call(*arguments: Any, **options: Any) -> Any:
            options.pop("timeout", None)
            self.calls.append((name, arguments, options))
            found = outcome.pop(0) if isinstance(outcome, InTurn) else outcome
            if isinstance(found, Exception):
                raise found
            return found

        return call

    def called(self, name: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        return [(arguments, options) for each, arguments, options in self.calls if each == name]


@pytest.fixture
def canned(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Canned]:
    def make(**outcomes: Any) -> Canned:
        admin = Canned(outcomes)
        monkeypatch.setattr(Invocation, "admin", lambda _, **__: admin)
        monkeypatch.setattr(replicas, "MOVES_LOOK_S", 0)
        return admin

    return make


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def topic_of(*parts: tuple[int | None, tuple[int, ...]]) -> dict[str, TopicDescription]:
    """The topic `t`, with a leader and replicas for each partition."""
    described = (PartitionDescription(number, leader, 0, nodes, nodes) for number, (leader, nodes) in enumerate(parts))
    return {"t": TopicDescription("t", None, False, tuple(described))}


# ---- the cluster


def test_brokers_are_shown_as_a_table_and_as_json(server: ModelServer, command: Run) -> None:
    code, out, err = command("cluster", "describe", bootstrap=server.bootstrap_servers)
    assert (code, err) == (0, "")
    assert rows(out)[2] == ["BROKER", "HOST", "PORT", "RACK", "STATE"]
    assert [row[0] for row in rows(out)[3:]] == ["1", "2", "3"]
    code, out, _ = command("cluster", "describe", "--json", bootstrap=server.bootstrap_servers)
    (found,) = lines(out)
    assert (code, [broker["id"] for broker in found["brokers"]]) == (0, [1, 2, 3])


def test_log_directories_and_the_replicas_of_a_topic(server: ModelServer, admin: AdminClient, command: Run) -> None:
    admin.create_topics({"t": NewTopic(assignments={0: [1, 2], 1: [2, 3]})}, wait=True)
    code, out, _ = command("cluster", "log-dirs", bootstrap=server.bootstrap_servers)
    assert (code, [row[0] for row in rows(out)]) == (0, ["BROKER", "1", "2", "3"])
    code, out, _ = command("cluster", "log-dirs", "--topic", "t:1", "--json", bootstrap=server.bootstrap_servers)
    assert (code, {row["partition"] for row in lines(out)}) == (0, {1})
    assert {"topic", "partition", "broker", "path", "size", "lag", "is_future"} == lines(out)[0].keys()
    code, _, err = command("cluster", "log-dirs", "--topic", "t", "--topic", "none", bootstrap=server.bootstrap_servers)
    assert (code, err) == (1, "error: none: no replica was found; `topics describe` shows the brokers that have one\n")


def test_a_broker_that_refuses_and_a_directory_with_an_error_are_told(canned: Callable[..., Canned], command: Run) -> None:
    bad = LogDir("/d2", {}, error=KafkaError("KAFKA_STORAGE_ERROR"))
    canned(describe_log_dirs={1: (LogDir("/d1", {T0: ReplicaSize(5, 0)}, 100, 50), bad), 2: KafkaError("no")})
    code, out, err = command("cluster", "log-dirs")
    assert (code, rows(out)[1]) == (1, ["1", "/d1", "1", "5", "bytes", "50", "bytes", "100", "bytes", "ok"])
    assert err == "error: no\nerror: KAFKA_STORAGE_ERROR\n"
    code, out, _ = command("cluster", "log-dirs", "--json")
    assert lines(out)[1]["error"]["message"] == "KAFKA_STORAGE_ERROR"


def test_the_quorum_is_shown(canned: Callable[..., Canned], command: Run) -> None:
    voters = (QuorumReplica(1, 10, 0, 0, 1_000), QuorumReplica(2, 8, 2))
    canned(describe_quorum=QuorumDescription(1, 5, 9, voters, (QuorumReplica(7, 9, 1),)))
    code, out, _ = command("cluster", "quorum")
    assert code == 0
    assert "leader 1, epoch 5, high watermark 9, highest lag 2" in out
    assert [row[:4] for row in rows(out)[3:]] == [["1", "leader", "10", "0"], ["2", "voter", "8", "2"], ["7", "observer", "9", "1"]]
    (found,) = lines(command("cluster", "quorum", "--json")[1])
    assert (found["max_lag"], found["voters"][0]["last_caught_up_ms"]) == (2, 1_000)


def test_levels_are_tried_first_and_set_with_execute(canned: Callable[..., Canned], command: Run) -> None:
    features = Features({"a": Feature("a", 1, 0, 3), "b": Feature("b", None, 0, 1)}, 4)
    admin = canned(describe_features=features, update_features={"a": 2})
    assert rows(command("cluster", "features")[1])[1:] == [["a", "1", "0", "3"], ["b", "-", "0", "1"]]
    code, out, err = command("cluster", "features", "--set", "a=2")
    assert (code, rows(out)[1], "--execute sets them" in err) == (0, ["a", "1", "2", "0", "3"], True)
    assert command("cluster", "features", "--set", "a=2", "--execute", "--json")[1] == (
        '{"name": "a", "level": 1, "lowest": 0, "highest": 3, "new": 2}\n'
    )
    assert [options["validate_only"] for _, options in admin.called("update_features")] == [True, False]
    assert command("cluster", "features", "--set", "a")[0] == 2


def test_a_broker_is_unregistered_only_with_execute_and_if_it_is_not_up(canned: Callable[..., Canned], command: Run) -> None:
    """One that is not listed may be registered: brokers before 4.0 list only those that are up."""
    brokers = (Broker(1, "h", 9092), Broker(2, "h", 9092, is_fenced=True))
    admin = canned(describe_cluster=ClusterDescription("c", 1, brokers), unregister_broker=None)
    code, out, err = command("cluster", "unregister", "2")
    assert (code, rows(out)[1], "nothing has been changed" in err) == (0, ["2", "h", "fenced"], True)
    code, _, err = command("cluster", "unregister", "1", "--execute")
    assert (code, err.startswith("error: broker 1 is up"), "stop it first" in err) == (1, True, True)
    assert admin.called("unregister_broker") == []
    assert command("cluster", "unregister", "2", "--execute")[0] == 0
    assert command("cluster", "unregister", "9", "--execute", "--json")[1] == '{"broker": 9, "state": "not listed", "executed": true}\n'
    assert [arguments[0] for arguments, _ in admin.called("unregister_broker")] == [2, 9]


# ---- moves and leaders

SIZES = {1: (LogDir("/d", {T0: ReplicaSize(1_000, 0), T1: ReplicaSize(10, 0)}),)}


def test_moves_are_planned_with_their_bytes_and_begun_with_execute(canned: Callable[..., Canned], command: Run, tmp_path: Path) -> None:
    failure = PartialFailure.of("some", {T1: KafkaError("INVALID_REPLICA_ASSIGNMENT")}, {T0: True})
    brokers = ClusterDescription("c", 1, tuple(Broker(node, "h", 9092) for node in (1, 2, 3, 4)))
    admin = canned(
        describe_topics=topic_of((1, (1, 2)), (2, (2, 1))), describe_log_dirs=SIZES, alter_reassignments=failure, describe_cluster=brokers
    )
    code, _, err = command("cluster", "reassign", "t:0=3,9")
    assert (code, "error: t-0: the cluster has no broker 9; its brokers are 1,2,3,4\n" in err) == (1, True)
    code, out, err = command("cluster", "reassign", "t:0=3,4,1", "none:0=1")
    assert rows(out)[1] == ["t", "0", "1,2", "3,4,1", "3,4", "2.0", "kB", "would", "begin"]
    assert (code, "--execute carries out this plan" in err, "error: none-0" in err) == (1, True, True)
    assert not admin.called("alter_reassignments")
    file = tmp_path / "moves.json"
    file.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [3, 2]}]}')
    code, out, err = command("cluster", "reassign", "--from-file", str(file), "t:1=9", "--execute", "--json")
    assert [(row["partition"], row["executed"]) for row in lines(out)] == [(0, True), (1, False)]
    assert (code, err) == (1, "error: INVALID_REPLICA_ASSIGNMENT\n")
    assert admin.called("alter_reassignments")[0][0] == ({T0: (3, 2), T1: (9,)},)


def test_moves_are_awaited_and_one_that_was_changed_meanwhile_is_told(canned: Callable[..., Canned], command: Run) -> None:
    move = ReassignmentProgress(Reassignment((3, 1), (3,), (1,)), 10, 1_000)
    before, after = topic_of((1, (1,)), (1, (1,))), topic_of((3, (3,)), (1, (1,)))
    looks = InTurn([before, before, *[after] * 9])  # a broker knows of the end later
    courses = InTurn([{T0: move, T1: move}, {T0: move}, {}])
    canned(describe_topics=looks, describe_log_dirs=SIZES, alter_reassignments={}, reassignment_progress=courses)
    code, _, err = command("cluster", "reassign", "t:0=3", "t:1=3", "--execute", "--wait")
    assert (code, err) == (1, "moves done: 1 of 2\nerror: t-1: another move or a cancellation replaced this move; replicas now: 1\n")


def test_moves_under_way_are_shown_and_cancelled(canned: Callable[..., Canned], command: Run) -> None:
    move = Reassignment((3, 1), (3,), (1,))
    admin = canned(
        reassignment_progress={T0: ReassignmentProgress(move, 10, 1_000)}, list_reassignments={T0: move},
        describe_topics=topic_of((1, (3, 1))), describe_log_dirs={}, alter_reassignments={T0: True},
    )  # fmt: skip
    assert rows(command("cluster", "reassign")[1])[1] == ["t", "0", "3,1", "3", "1", "10", "bytes", "1.0", "kB"]
    (row,) = lines(command("cluster", "reassign", "--json")[1])
    assert (row["adding"], row["copied_bytes"], row["total_bytes"]) == ([3], 10, 1_000)
    code, out, err = command("cluster", "reassign", "--cancel", "t", "--cancel", "u", "--execute")
    assert (code, rows(out)[1], err) == (1, ["t", "0", "3,1", "-", "-", "-", "cancelled"], "error: u: no move is under way\n")
    assert admin.called("alter_reassignments")[0][0] == ({T0: None},)


@pytest.mark.parametrize("text", ["t", "t:0", "t:0=", "t:0=1,", "t:x=1"])
def test_a_move_that_is_not_understood_is_wrong_usage(command: Run, text: str) -> None:
    assert command("cluster", "reassign", text)[0] == 2


def test_a_file_that_is_not_understood_is_wrong_usage(command: Run, tmp_path: Path) -> None:
    for content in ("", "{}", '{"partitions": [{"topic": "t"}]}'):
        (tmp_path / "f").write_text(content)
        code, _, err = command("cluster", "reassign", "--from-file", str(tmp_path / "f"))
        assert (code, '"replicas": [1, 2, 3]' in err) == (2, True)


def test_only_leaders_that_are_not_preferred_are_elected(canned: Callable[..., Canned], command: Run) -> None:
    admin = canned(describe_topics=topic_of((1, (1, 2)), (1, (2, 1)), (None, (3,))), elect_leaders={})
    code, out, err = command("cluster", "elect-leaders", "t")
    assert [row[:4] for row in rows(out)[1:]] == [["t", "1", "1", "2"], ["t", "2", "-", "3"]]
    assert (code, "--execute elects" in err) == (0, True)
    assert command("cluster", "elect-leaders", "t:1", "--execute")[0] == 0
    assert command("cluster", "elect-leaders", "t", "--execute", "--unclean", "--json")[0] == 0
    called = [(list(arguments[0]), options) for arguments, options in admin.called("elect_leaders")]
    assert called == [([T1], {"unclean": False}), ([TopicPartition("t", 2)], {"unclean": True})]
    assert command("cluster", "elect-leaders")[0] == 2
    assert command("cluster", "elect-leaders", "t:0")[2] == "no election is needed\n"


# ---- transactions

OPEN = ActiveProducer(4, 1, 2, 1_000, None, 7)
HANGS = [HangingTransaction(T0, OPEN, None), HangingTransaction(T1, OPEN, "x")]


def test_transactions_are_listed_and_described(canned: Callable[..., Canned], command: Run) -> None:
    listed = TransactionList((TransactionListing("x", 4, "Ongoing", 2),), {3: KafkaError("no")})
    one = TransactionDescription("x", "Ongoing", 2, 4, 1, 60_000, None, (T0, T1))
    admin = canned(list_transactions=listed, describe_transactions={"x": one, "y": KafkaError("none")})
    code, out, err = command("transactions", "list", "--state", "Ongoing", "--longer-than", "5")
    assert (code, rows(out)[1], err) == (1, ["x", "4", "Ongoing", "2"], "error: no\n")
    assert admin.called("list_transactions")[0][1]["running_longer_than"] == 5
    assert lines(command("transactions", "list", "--json")[1])[0]["transactional_id"] == "x"
    code, out, _ = command("transactions", "describe", "x", "y")
    assert (code, rows(out)[1]) == (1, ["x", "Ongoing", "4", "1", "60.0", "-", "2", "t-0", "t-1"])
    first, second = lines(command("transactions", "describe", "x", "y", "--json")[1])
    assert first["partitions"] == [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 1}]
    assert second["error"]["message"] == "none"


def test_producers_of_partitions_are_shown(canned: Callable[..., Canned], command: Run) -> None:
    canned(describe_topics=topic_of((1, (1,)), (1, (1,))), describe_producers={T0: (OPEN,), T1: KafkaError("moved")})
    code, out, err = command("transactions", "producers", "t")
    assert (code, rows(out)[1], err) == (1, ["t", "0", "4", "1", "2", "1970-01-01T00:00:01Z", "7"], "error: moved\n")
    (row,) = lines(command("transactions", "producers", "t", "--json")[1])
    assert (row["producer_id"], row["transaction_start"]) == (4, 7)


def test_a_hanging_transaction_is_shown_first_and_aborted_with_execute(canned: Callable[..., Canned], command: Run) -> None:
    admin = canned(find_hanging_transactions=HANGS, abort_transaction=None, list_topics={"t": None})
    code, out, err = command("transactions", "hanging", "--all")
    assert (code, len(rows(out)), "2 hanging" in err) == (0, 3, True)
    code, out, err = command("transactions", "abort", "t:1")
    assert (code, rows(out)[1], "--execute aborts" in err) == (0, ["t", "1", "4", "1", "x", "1970-01-01T00:00:01Z", "7"], True)
    assert not admin.called("abort_transaction")
    code, out, err = command("transactions", "abort", "t:1", "--producer-id", "4", "--execute", "--json")
    assert (code, lines(out)[0]["executed"], err) == (0, True, "1 transaction aborted\n")
    assert admin.called("abort_transaction")[0][0][:2] == (T1, OPEN)


def test_a_transaction_that_does_not_hang_is_not_aborted(canned: Callable[..., Canned], command: Run) -> None:
    admin = canned(find_hanging_transactions=HANGS[:1])
    code, _, err = command("transactions", "abort", "t:0", "--producer-id", "5", "--execute")
    assert (code, "no transaction of producer 5 in t-0 hangs after 900 s" in err) == (1, True)
    assert not admin.called("abort_transaction")
    assert command("transactions", "abort", "t")[0] == 2
    assert command("transactions", "hanging")[0] == 2


def test_an_abort_that_is_refused_is_told(canned: Callable[..., Canned], command: Run) -> None:
    canned(find_hanging_transactions=HANGS, abort_transaction=KafkaError("INVALID_PRODUCER_EPOCH"))
    code, _, err = command("transactions", "abort", "t:0", "--execute")
    assert (code, err) == (1, "0 transactions aborted\nerror: INVALID_PRODUCER_EPOCH\n")
