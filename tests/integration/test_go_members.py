"""Members of Sarama and kafka-go beside ours: the notes of ours disturb nobody, and a rewind of the live group is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from integration import go
from integration.cluster import Cluster
from integration.waiting import until
from pykafka4 import EARLIEST, AdminClient, KafkaError
from tests.integration.command_line import tools_bootstrap
from tests.integration.reading import LONG_S, produce
from tests.integration.test_rewind_group import PARTITIONS, RECORDS, Worker, everywhere, run

pytestmark = [pytest.mark.cluster, pytest.mark.lengthy, pytest.mark.skipif(bool(go.missing()), reason=go.missing())]

MORE = 10  # records of each partition
NO_MEMBER = r"nothing has changed: (member )?{}-\S+ .*is not a member that can rewind"
LOOK = "pykafka4.core.group.membership.rewinds.strangers_refusal"  # what the asker makes of its look at the members


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[AdminClient]:
    with AdminClient(**cluster.client) as it:
        yield it


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as it:
        yield it


def members_with_partitions(admin: AdminClient, group: str) -> int:
    found = admin.describe_groups([group])[group]
    if isinstance(found, KafkaError) or found.state != "Stable":
        return 0
    return sum(bool(member.partitions) for member in found.members)


def wait_settled(admin: AdminClient, group: str, members: int) -> None:
    until(lambda: members_with_partitions(admin, group) == members, LONG_S, f"{members} members with partitions")


def their_member(cluster: Cluster, stack: ExitStack, library: str, topic: str, strategy: str) -> go.GoMember:
    found = go.GoMember(library, tools_bootstrap(cluster), topic, topic, strategy)
    stack.callback(found.stop)
    return found


def fill(cluster: Cluster, topic: str, first: int, last: int) -> None:
    for partition in range(PARTITIONS):
        produce(cluster, topic, first, last, partition)


def generation(worker: Worker) -> int:
    found: int = worker.consumer.status()["consumer"]["generation"]
    return found


def read_by_both(ours: Worker, theirs: go.GoMember, first: int, last: int) -> bool:
    wanted = {(partition, offset) for partition in range(PARTITIONS) for offset in range(first, last)}
    return wanted <= {*ours.seen, *theirs.seen}


@pytest.mark.parametrize("theirs_first", [False, True], ids=["ours-leads", "theirs-leads"])
@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
@pytest.mark.parametrize("library", ["sarama", "kafka-go"])
def test_a_wish_beside_a_go_member_is_refused_by_name_and_both_read_on(
    cluster: Cluster,
    topic: str,
    admin: AdminClient,
    stack: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
    library: str,
    strategy: str,
    *,
    theirs_first: bool,
) -> None:
    cluster.create_topic(topic, PARTITIONS)
    fill(cluster, topic, 0, RECORDS)
    if theirs_first:
        theirs = their_member(cluster, stack, library, topic, strategy)
        wait_settled(admin, topic, 1)
    ours = Worker(cluster, topic, strategy)
    stack.callback(ours.stop)
    if not theirs_first:
        wait_settled(admin, topic, 1)
        theirs = their_member(cluster, stack, library, topic, strategy)
    wait_settled(admin, topic, 2)
    until(lambda: read_by_both(ours, theirs, 0, RECORDS), LONG_S, "all records")

    before = generation(ours)
    with pytest.raises(KafkaError, match=NO_MEMBER.format(library)):
        ours.rewind(dict.fromkeys(everywhere(topic, 0), EARLIEST))
    shown = run(cluster, "rewind", topic, "--all-topics", "--to-earliest", "--live", "--execute")
    assert (shown.returncode, f"client {library}" in shown.stderr) == (1, True)
    assert generation(ours) == before

    ours.seen.clear()
    theirs.seen.clear()
    with monkeypatch.context() as patch:  # as if the Go member had come after the asker's look: the wish is in a JoinGroup
        patch.setattr(LOOK, lambda names: "")
        future = ours.begin_rewind(dict.fromkeys(everywhere(topic, 0), EARLIEST))
        until(lambda: generation(ours) > before and members_with_partitions(admin, topic) == 2, LONG_S, "an assignment beside the wish")
    with pytest.raises(KafkaError, match=NO_MEMBER.format(library)):
        future.result(LONG_S)

    wait_settled(admin, topic, 2)
    fill(cluster, topic, RECORDS, RECORDS + MORE)
    until(lambda: read_by_both(ours, theirs, RECORDS, RECORDS + MORE), LONG_S, "the records of both members")
    assert not [row for row in {*ours.seen, *theirs.seen} if row[1] == 0]  # a rewind would have read them again
    unreadable = [line for line in theirs.errors if "unable to read metadata for member" in line]
    # kafka-go leads only members of kafka-go: it refuses the newer versions of a subscription, whoever sends them, and another member leads
    assert bool(unreadable) is (library == "kafka-go" and theirs_first)
    assert theirs.errors == unreadable or library == "kafka-go"
