"""`--json` of every command: each line of standard output is one object. On model brokers where they know the requests, otherwise on an
admin client with outcomes of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import click
import pytest

from pykafka4 import (
    Acl,
    ActiveProducer,
    AdminClient,
    Client,
    DelegationToken,
    Features,
    HangingTransaction,
    KafkaError,
    Producer,
    QuorumDescription,
    QuotaEntity,
    Reassignment,
    ReassignmentProgress,
    ScramCredential,
    TopicPartition,
    TransactionDescription,
    TransactionList,
    TransactionListing,
)
from pykafka4.cli.invocation import Invocation
from pykafka4.cli.main import cli, run
from pykafka4.core.admin.cluster import Feature, QuorumReplica
from pykafka4.core.admin.topic_queries import PartitionDescription, TopicDescription
from pykafka4.testing import ModelServer
from tests.cli.recording import RecordingAdmin

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

ON_MODEL = {  # a command's line, and how many objects it writes
    "consume t": 3,
    "topics list": 1,
    "topics describe t": 1,
    "topics create a b": 2,
    "topics alter t --partitions 3": 1,
    "topics delete t none --execute": 2,
    "groups list": 2,
    "groups describe --all": 2,
    "groups lag g h none": 3,
    "groups create new --topic t": 2,
    "groups rewind g --topic t --to-latest": 2,
    "groups rewind none --all-topics --to-latest": 1,
    "groups delete g h --execute": 2,
    "groups delete-offsets g --topic t": 2,
    "settings get topic:t --all": None,
    "settings set topic:t retention.ms=5": 1,
    "settings unset topic:t retention.ms": 1,
    "cluster describe": 1,
    "cluster log-dirs": 3,
    "cluster unregister 1": 1,
    "bench --records 2000 --latency-seconds 2 --rate 100 --replication 1": 4,
    "status": None,
    "watch --once --url {page}": 1,
    "groups lag g --nonsense": 0,
}
ON_OUTCOMES = {
    "acls add --allow-principal User:a --topic t --operation Read --operation Write": 2,
    "acls list": 2,
    "acls remove --principal User:a": 2,
    "users list": 2,
    "users delete a": 2,
    "quotas list": 2,
    "quotas set --user a producer_byte_rate=1": 1,
    "quotas remove --user a": 2,
    "tokens create": 1,
    "tokens list": 2,
    "settings list": 2,
    "cluster elect-leaders t": 1,
    "cluster features": 2,
    "cluster quorum": 1,
    "cluster reassign": 2,
    "cluster down": 1,
    "transactions list": 2,
    "transactions describe x y": 2,
    "transactions producers t": 2,
    "transactions hanging --all": 2,
    "transactions abort t:0": 1,
}
ELSEWHERE = {"cluster up", "cluster status"}  # test_local.py, as they need a process

READ, WRITE = (Acl("User:a", operation, "topic", "t") for operation in ("READ", "WRITE"))
MOVE = Reassignment((3, 1), (3,), (1,))
OPEN = ActiveProducer(4, 1, 2, 1_000, None, 7)
TOKEN = DelegationToken("id", "User:a", "User:a", (), 0, 1_000, 2_000, b"secret")
SCRAM = {"a": (ScramCredential("SCRAM-SHA-256", 4096), ScramCredential("SCRAM-SHA-512", 4096))}
QUOTAS = {QuotaEntity(user="a"): {"consumer_byte_rate": 2.0, "producer_byte_rate": 1.0}}
TOPIC = TopicDescription("t", None, False, tuple(PartitionDescription(number, 1, 0, (number + 1, 2), (1, 2)) for number in (0, 1)))
OUTCOMES: dict[str, Any] = {
    "create_acls": None,
    "describe_acls": (READ, WRITE),
    "delete_acls": {},
    "list_users": SCRAM,
    "describe_users": SCRAM,
    "describe_quotas": QUOTAS,
    "alter_quotas": None,
    "create_token": TOKEN,
    "describe_tokens": (TOKEN, TOKEN),
    "list_config_resources": [("topic", "t"), ("broker", "1")],
    "describe_topics": {"t": TOPIC},
    "list_topics": {"t": None},
    "describe_features": Features({"a": Feature("a", 1, 0, 3), "b": Feature("b", None, 0, 1)}, 4),
    "describe_quorum": QuorumDescription(1, 5, 9, (QuorumReplica(1, 10, 0),), (QuorumReplica(7, 9, 1),)),
    "reassignment_progress": {tp: ReassignmentProgress(MOVE, 10, 1_000) for tp in (T0, T1)},
    "list_transactions": TransactionList(tuple(TransactionListing(name, 4, "Ongoing", 2) for name in "xy"), {}),
    "describe_transactions": {name: TransactionDescription(name, "Ongoing", 2, 4, 1, 60_000, None, (T0,)) for name in "xy"},
    "describe_producers": {T0: (OPEN,), T1: (OPEN,)},
    "find_hanging_transactions": [HangingTransaction(tp, OPEN, None) for tp in (T0, T1)],
}


def answer(name: str) -> Callable[..., Any]:
    return lambda *_, **__: OUTCOMES[name]


def objects(text: str) -> list[dict[str, Any]]:
    """Each line as an object; anything else fails the test."""
    found = [json.loads(line) for line in text.splitlines()]
    assert all(isinstance(one, dict) for one in found)
    return found


def with_json(command: click.Command, path: str = "") -> Iterator[str]:
    """The commands that have --json."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from with_json(found, f"{path} {name}".strip())
    elif any("--json" in param.opts for param in command.params):
        yield path


def test_each_command_with_json_has_a_line_here() -> None:
    lines = [*ON_MODEL, *ON_OUTCOMES, *ELSEWHERE]
    assert [path for path in with_json(cli) if not any(f"{line} ".startswith(f"{path} ") for line in lines)] == []


@pytest.mark.parametrize("line", ON_MODEL)
def test_each_line_on_model_brokers_is_an_object(server: ModelServer, capsys: pytest.CaptureFixture[str], line: str) -> None:
    server.create_topic("t", 2)
    with (
        Client(bootstrap_servers=server.bootstrap_servers) as client,
        Producer(client=client) as producer,
        AdminClient(client=client) as admin,
    ):
        producer.send_many("t", [b"1", b"2", b"3"])
        producer.flush()
        for group in ("g", "h"):
            admin.set_offsets(group, {T0: 0, T1: 0})
        page = client.serve_status().url if "{page}" in line else ""
        run([*line.format(page=page).split(), "--json", *([] if "watch" in line else ["-b", server.bootstrap_servers])])
    count = len(objects(capsys.readouterr().out))
    assert count > 1 if ON_MODEL[line] is None else count == ON_MODEL[line]


@pytest.mark.parametrize("line", ON_OUTCOMES)
def test_each_line_of_an_outcome_is_an_object(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str) -> None:
    admin = RecordingAdmin({name: answer(name) for name in OUTCOMES})
    monkeypatch.setattr(Invocation, "admin", lambda _self, **_: admin)
    assert run([*line.split(), "--json"]) == 0
    assert len(objects(capsys.readouterr().out)) == ON_OUTCOMES[line]


def test_each_aborted_transaction_says_whether_it_was_aborted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    other = ActiveProducer(9, 1, 2, 1_000, None, 8)

    def abort(_partition: TopicPartition, producer: ActiveProducer, _timeout: float | None) -> None:
        if producer == other:
            raise KafkaError("refused")

    found = [HangingTransaction(T0, producer, None) for producer in (OPEN, other)]
    admin = RecordingAdmin({"find_hanging_transactions": lambda *_, **__: found, "abort_transaction": abort})
    monkeypatch.setattr(Invocation, "admin", lambda _self, **_: admin)
    assert run(["transactions", "abort", "t:0", "--execute", "--json"]) != 0
    assert [row["executed"] for row in objects(capsys.readouterr().out)] == [True, False]
