"""Administration of groups on real brokers: the same as Kafka's own tool finds and does on the same group."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer as Foreign

from integration.cluster import Cluster
from integration.java.client import run_tool
from integration.waiting import until
from pykafka4 import (
    AdminClient,
    BrokerError,
    Consumer,
    GroupDescription,
    GroupLag,
    GroupNotEmpty,
    KafkaError,
    OffsetAndMetadata,
    PartialFailure,
    Producer,
    TopicPartition,
)
from pykafka4.admin.files import from_text, to_csv
from tests.integration.command_line import call_of, tools_bootstrap
from tests.integration.reading import GROUP, LONG_S, poll_until, produce

pytestmark = pytest.mark.cluster

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
Offsets = dict[TopicPartition, int]


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[AdminClient]:
    with AdminClient(**cluster.client) as it:
        yield it


@pytest.fixture
def group(topic: str) -> str:
    return topic


@pytest.fixture
def filled(cluster: Cluster, topic: str) -> str:
    """A topic of three partitions with 30 records each."""
    cluster.create_topic(topic, 3)
    for partition in range(3):
        produce(cluster, topic, 0, 30, partition)
    return topic


def tool(cluster: Cluster, *arguments: str) -> list[list[str]]:
    """What Kafka's tool prints, in words."""
    text = run_tool(TOOL, "--bootstrap-server", tools_bootstrap(cluster), "--timeout", "60000", *arguments)
    return [line.split() for line in text.splitlines() if line.strip()]


def tools_lag(cluster: Cluster, group: str) -> dict[TopicPartition, tuple[str, ...]]:
    """Committed offset, end and lag of each partition, and the member, as its tool shows them."""
    rows = [row for row in tool(cluster, "--describe", "--group", group) if row[0] == group]
    return {TopicPartition(row[1], int(row[-7] if len(row) > 9 else row[2])): (*row[-6:-3], row[-3]) for row in rows}


def ours(admin: AdminClient, group: str) -> dict[TopicPartition, tuple[str, ...]]:
    found = admin.group_lag([group])[group]
    assert isinstance(found, GroupLag)
    return {
        row.partition: (
            str(row.committed.offset) if row.committed else "-",
            str(row.end),
            str(row.lag) if row.lag is not None else "-",
            row.owner.member_id if row.owner else "-",
        )
        for row in found.partitions
    }


def planned(cluster: Cluster, group: str, *arguments: str) -> Offsets:
    """The new offsets that its tool shows, without executing."""
    rows = tool(cluster, "--reset-offsets", "--group", group, *arguments, "--dry-run")
    return {TopicPartition(row[1], int(row[2])): int(row[3]) for row in rows if row[0] == group and len(row) >= 4}


def committed(admin: AdminClient, group: str) -> Offsets:
    found = admin.group_offsets([group])[group]
    assert not isinstance(found, KafkaError)
    return {tp: at.offset for tp, at in found.items()}


def at(topic: str, *offsets: int) -> Offsets:
    return {TopicPartition(topic, number): offset for number, offset in enumerate(offsets)}


# ---- looking


def test_an_empty_group_and_one_with_members_look_as_in_kafkas_tool(cluster: Cluster, admin: AdminClient, filled: str, group: str) -> None:
    admin.set_offsets(group, at(filled, 10, 20))
    assert ours(admin, group) == {
        TopicPartition(filled, 0): ("10", "30", "20", "-"),
        TopicPartition(filled, 1): ("20", "30", "10", "-"),
    }
    assert ours(admin, group) == tools_lag(cluster, group)
    assert admin.describe_group(group).state == "Empty"
    with Consumer(**cluster.client, **GROUP, group_id=group, client_id="me", enable_auto_commit=False) as consumer:
        consumer.subscribe([filled])
        poll_until(consumer, consumer.assignment)
        found = admin.describe_group(group)
        assert (found.state, found.type, found.protocol_type, found.assignor) == ("Stable", "classic", "consumer", "range")
        (member,) = found.members
        assert member.client_id == "me"
        assert member.partitions == tuple(TopicPartition(filled, number) for number in range(3))
        assert ours(admin, group) == tools_lag(cluster, group)
        assert len(ours(admin, group)) == 3
        (row,) = [row for row in tool(cluster, "--describe", "--group", group, "--state") if row[0] == group]
        host, port = cluster.admin_address(found.coordinator)  # the tool's listener, where a login is demanded
        assert row[1] == (found.coordinator_address if cluster.security is None else f"{host}:{port}")
        assert str(found.coordinator) in row[2]


def foreign(cluster: Cluster, group: str, topic: str) -> Any:
    """A member of the consumer protocol (KIP-848), of another client."""
    member = Foreign(
        {
            "bootstrap.servers": cluster.bootstrap, "group.id": group, "group.protocol": "consumer", "client.id": "them",
            "auto.offset.reset": "earliest", "enable.auto.commit": False,
        }
    )  # fmt: skip
    member.subscribe([topic])
    return member


def test_a_group_of_the_consumer_protocol_looks_as_in_kafkas_tool_and_refuses_to_be_changed(
    cluster: Cluster, admin: AdminClient, filled: str, group: str
) -> None:
    member = foreign(cluster, group, filled)
    try:
        until(lambda: member.poll(0.1) is not None, LONG_S, "a record")
        found = admin.describe_group(group)
        assert (found.state, found.type, found.protocol_type) == ("Stable", "consumer", "consumer")
        assert found.epoch > 0
        (shown,) = found.members
        assert shown.client_id == "them"
        assert shown.partitions == shown.target == tuple(TopicPartition(filled, number) for number in range(3))
        assert ours(admin, group) == tools_lag(cluster, group)
        listed = {one.group_id: one for one in admin.list_groups(types=["consumer"])}
        assert listed[group].state == "Stable"
        with pytest.raises(GroupNotEmpty, match=r"client them, .*stop them first"):
            admin.set_offsets(group, at(filled, 1))
        with pytest.raises(GroupNotEmpty):
            admin.delete_groups([group])
        with pytest.raises(GroupNotEmpty):
            admin.delete_offsets(group, [(filled, 0)])
    finally:
        member.close()
    until(lambda: not admin.describe_group(group).members, LONG_S, "the member has left")
    admin.set_offsets(group, at(filled, 1, 2, 3))
    assert committed(admin, group) == at(filled, 1, 2, 3)
    admin.delete_groups([group])


def test_many_groups_of_all_coordinators(cluster: Cluster, admin: AdminClient, filled: str, group: str) -> None:
    for partition in range(3):  # of the harness's brokers; one that was down lately leads nothing
        cluster.admin.elect("__consumer_offsets", partition, LONG_S)
    names = [f"{group}-{number}" for number in range(200)]
    for name in names:
        admin.set_offsets(name, at(filled, 1, 2, 3))
    listed = {one.group_id: one for one in admin.list_groups(states=["Empty"])}
    assert set(names) <= listed.keys()
    assert len({listed[name].coordinator for name in names}) >= 2
    found = admin.group_lag([*names, f"{group}-none"])  # within the 60 s of a call
    assert [name for name, one in found.items() if isinstance(one, KafkaError)] == [f"{group}-none"]
    assert all(isinstance(one, GroupLag) and one.lag == 84 for name, one in found.items() if name in listed)
    admin.delete_groups(names)
    assert not set(names) & {one.group_id for one in admin.list_groups()}


def test_a_killed_coordinator_is_replaced(cluster: Cluster, admin: AdminClient, filled: str, group: str) -> None:
    admin.set_offsets(group, at(filled, 1))
    node = admin.describe_group(group).coordinator
    cluster.kill(node)
    try:
        assert admin.describe_group(group).coordinator != node
        # Until something is written, a new coordinator may not know that its log is replicated: see `somebody_commits` in test_group.py.
        admin.set_offsets(group, {TopicPartition(filled, 1): 5})
        assert committed(admin, group) == at(filled, 1, 5)  # the first one survived
        admin.set_offsets(group, at(filled, 2))
        assert committed(admin, group) == at(filled, 2, 5)
    finally:
        cluster.start(node)
    cluster.wait_full_isr()


# ---- rewinding


def test_offsets_are_planned_as_by_kafkas_tool_and_committed(cluster: Cluster, admin: AdminClient, topic: str, group: str) -> None:
    cluster.create_topic(topic, 2)
    first = int(time.time()) - 3_600  # not older than what brokers keep
    with Producer(**cluster.client) as producer:
        for number in range(20):
            producer.send(topic, b"%d" % number, partition=number % 2, timestamp_ms=(first + number) * 1_000)
    admin.set_offsets(group, at(topic, 7, 3))
    moment = datetime.fromtimestamp(first + 9, UTC)
    ways: list[tuple[list[str], dict[str, Any]]] = [
        (["--to-earliest"], {"to": "earliest"}),
        (["--to-latest"], {"to": "latest"}),
        (["--to-current"], {"to": "current"}),
        (["--to-offset", "5"], {"to": 5}),
        (["--to-offset", "50"], {"to": 50}),
        (["--shift-by", "-4"], {"shift": -4}),
        (["--shift-by", "2"], {"shift": 2}),
        (["--to-datetime", moment.strftime("%Y-%m-%dT%H:%M:%S.000")], {"to": moment}),
        (["--to-datetime", "2033-01-01T00:00:00.000"], {"to": datetime(2033, 1, 1, tzinfo=UTC)}),
    ]
    for arguments, how in ways:
        plan = admin.plan_offsets(group, [topic], **how)
        assert plan.offsets == planned(cluster, group, "--topic", topic, *arguments), arguments
        assert committed(admin, group) == at(topic, 7, 3)
    assert admin.plan_offsets(group, to=moment).offsets == at(topic, 5, 4)
    plan = admin.plan_offsets(group, [(topic, 1)], shift=2)
    admin.set_offsets(group, plan)
    assert committed(admin, group) == at(topic, 7, 5)
    assert {tp: row[0] for tp, row in tools_lag(cluster, group).items()} == {TopicPartition(topic, 0): "7", TopicPartition(topic, 1): "5"}


def test_files_are_those_of_kafkas_tool(cluster: Cluster, admin: AdminClient, filled: str, group: str, tmp_path: Path) -> None:
    other = f"{group}-2"
    admin.set_offsets(group, at(filled, 4, 5, 6))
    admin.set_offsets(other, at(filled, 7))
    for names in ([group], [group, other]):
        arguments = [word for name in names for word in ("--group", name)]
        theirs = run_tool(
            TOOL,
            "--bootstrap-server",
            cluster.bootstrap,
            *arguments,
            "--export",
            "--reset-offsets",
            "--to-current",
            "--all-topics",
            "--dry-run",
        )
        theirs = "\n".join(line for line in theirs.splitlines() if re.search(r",\d+,\d+$", line))
        found = admin.group_offsets(names)
        mine = to_csv({name: one for name, one in found.items() if not isinstance(one, KafkaError)}, named=len(names) > 1)
        assert sorted(csv.reader(theirs.splitlines())) == sorted(csv.reader(mine.splitlines()))  # they quote more
        assert from_text(theirs, group, "theirs") == at(filled, 4, 5, 6)
        file = tmp_path / f"{len(names)}.csv"
        file.write_text(mine)
        admin.set_offsets(group, at(filled, 0, 0, 0))
        tool(cluster, "--reset-offsets", *arguments, "--from-file", str(file), "--execute")
        assert committed(admin, group) == at(filled, 4, 5, 6)
        assert committed(admin, other) == at(filled, 7)


def test_an_active_group_is_refused_and_its_owner_can_seek(cluster: Cluster, admin: AdminClient, filled: str, group: str) -> None:
    with Consumer(**cluster.client, **GROUP, group_id=group, client_id="me", enable_auto_commit=False) as consumer:
        consumer.subscribe([filled])
        poll_until(consumer, consumer.assignment)
        consumer.commit({(filled, 0): 9})
        plan = admin.plan_offsets(group, [filled], to="earliest")
        assert plan.description is not None
        assert plan.description.is_active
        with pytest.raises(GroupNotEmpty) as caught:
            admin.set_offsets(group, plan)
        (member,) = caught.value.members
        assert member.client_id == "me"
        assert f"{member.member_id} (client me, host {member.host}) with {filled}-0" in str(caught.value)
        with pytest.raises(GroupNotEmpty):
            admin.delete_offsets(group, [filled])
        with pytest.raises(GroupNotEmpty):
            admin.delete_groups([group])
        assert committed(admin, group) == at(filled, 9)
        consumer.seek((filled, 0), 0)
        consumer.commit({(filled, 0): 0})
        assert committed(admin, group) == at(filled, 0)
    until(lambda: not admin.describe_group(group).is_active, LONG_S, "the member has left")
    admin.set_offsets(group, plan)
    assert committed(admin, group) == at(filled, 0, 0, 0)


def test_a_group_is_created_where_its_members_begin(cluster: Cluster, admin: AdminClient, filled: str, group: str) -> None:
    assert admin.create_group(group, [filled], start=25).offsets == at(filled, 25, 25, 25)
    with pytest.raises(KafkaError, match="already exists"):
        admin.create_group(group, [filled])
    with Consumer(**cluster.client, **GROUP, group_id=group) as consumer:
        consumer.subscribe([filled])
        records = poll_until(consumer, lambda: all(row[2] == "0" for row in ours(admin, group).values()))
    assert {record.offset for record in records} == set(range(25, 30))
    assert len(records) == 15


def test_groups_and_offsets_are_deleted(cluster: Cluster, admin: AdminClient, filled: str, group: str) -> None:
    second = f"{filled}-b"
    cluster.create_topic(second, 1)
    admin.set_offsets(group, {**at(filled, 1, 2, 3), TopicPartition(second, 0): OffsetAndMetadata(0, metadata="kept")})
    assert admin.delete_offsets(group, [(filled, 1)]) == [TopicPartition(filled, 1)]
    assert admin.delete_offsets(group, [filled]) == [TopicPartition(filled, 0), TopicPartition(filled, 2)]
    assert admin.group_offsets([group]) == {group: {TopicPartition(second, 0): OffsetAndMetadata(0, metadata="kept")}}
    assert [row[0] for row in tool(cluster, "--list")].count(group) == 1
    with pytest.raises(PartialFailure) as caught:
        admin.delete_groups([group, f"{group}-none"])
    assert set(caught.value.done) == {group}
    assert isinstance(caught.value.errors[f"{group}-none"], BrokerError)
    assert group not in [row[0] for row in tool(cluster, "--list")]
    assert isinstance(admin.describe_groups([group])[group], BrokerError)


def test_what_does_not_exist_is_named_soon(cluster: Cluster, admin: AdminClient, filled: str, group: str) -> None:
    with pytest.raises(BrokerError, match=f"topic {filled}-none: UNKNOWN_TOPIC_OR_PARTITION"):
        admin.plan_offsets(group, [f"{filled}-none"], to="latest")
    with pytest.raises(PartialFailure, match="the topic has 3 partitions"):
        admin.plan_offsets(group, [(filled, 3)], to="latest")
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        admin.set_offsets(group, {(filled, 3): 0})


# ---- the command


def run(cluster: Cluster, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(call_of(cluster, "groups", *arguments), capture_output=True, text=True, timeout=LONG_S, check=False)
    return done.returncode, done.stdout, done.stderr


def test_the_command_shows_and_moves_offsets(cluster: Cluster, admin: AdminClient, filled: str, group: str, tmp_path: Path) -> None:
    assert run(cluster, "create", group, "--topic", filled, "--to-offset", "10", "--execute")[0] == 0
    code, out, err = run(cluster, "describe", group, "--json")
    shown = json.loads(out)
    assert (code, err, shown["state"], shown["lag"]) == (0, "", "Empty", 60)
    code, out, err = run(cluster, "rewind", group, "--all-topics", "--shift", "-3")
    assert (code, [line.split()[:4] for line in out.splitlines()[1:]]) == (0, [[filled, str(n), "10", "7"] for n in range(3)])
    assert committed(admin, group) == at(filled, 10, 10, 10)
    file = tmp_path / "offsets.csv"
    assert run(cluster, "export", group, "--output", str(file))[0] == 0
    assert run(cluster, "rewind", group, "--all-topics", "--shift", "-3", "--execute")[0] == 0
    assert committed(admin, group) == at(filled, 7, 7, 7)
    assert run(cluster, "rewind", group, "--from-file", str(file), "--execute")[0] == 0
    assert committed(admin, group) == at(filled, 10, 10, 10)
    with Consumer(**cluster.client, **GROUP, group_id=group, enable_auto_commit=False) as consumer:
        consumer.subscribe([filled])
        poll_until(consumer, consumer.assignment)
        code, _, err = run(cluster, "rewind", group, "--all-topics", "--to-earliest", "--execute")
        assert (code, "1 active" in err) == (1, True)
        found = admin.describe_group(group)
        assert isinstance(found, GroupDescription)
    until(lambda: not admin.describe_group(group).is_active, LONG_S, "the member has left")
    assert run(cluster, "delete", group, "--execute")[0] == 0
    assert run(cluster, "describe", group)[0] == 1
