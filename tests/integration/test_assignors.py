"""Assignors on real brokers: members of ours and Java's in one group, with each of them as the leader; and an application's own."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import attrs
import pytest

from integration.cluster import Cluster
from integration.java.client import JavaRecord, java_consume
from integration.waiting import Deadline, until
from pykafka4 import Consumer, KafkaError, Record, TopicPartition
from pykafka4.assignors import GroupMember, RoundRobinAssignor, Topics
from pykafka4.wire.protocol.messages_group import DescribeGroupsRequest
from tests.integration.reading import GROUP, LONG, poll_until, produce

pytestmark = pytest.mark.cluster

JAVA = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


def members_of(cluster: Cluster, group: str) -> int:
    """The members that have an assignment, according to the coordinator."""
    answers = [cluster.admin.ask(node, DescribeGroupsRequest(groups=[group])) for node in cluster.nodes]
    return sum(len(each.members) for answer in answers for each in answer.groups if each.group_state == "Stable")


@pytest.mark.parametrize("java_leads", [False, True], ids=["ours leads", "Java leads"])
@pytest.mark.parametrize("name", JAVA)
def test_a_java_member_and_ours_share_a_group(cluster: Cluster, topic: str, name: str, java_leads: bool) -> None:
    """The one that joins first is the leader, and assigns partitions to a member of the other client."""
    cluster.create_topic(topic, 4)
    properties = {
        **cluster.java,
        "group.id": topic,
        "client.rack": "east",
        "partition.assignment.strategy": f"org.apache.kafka.clients.consumer.{JAVA[name]}",
    }
    theirs: list[JavaRecord] = []
    # It has about half of the keys: 900 of 2,000 records come to it for certain, and then it leaves.
    java = threading.Thread(target=lambda: theirs.extend(java_consume(cluster.bootstrap, topic, 900, properties, LONG)))
    ours: list[Record] = []
    if java_leads:
        java.start()
        until(lambda: members_of(cluster, topic), LONG, "Java's member")
    with Consumer(**cluster.client, **GROUP, group_id=topic, partition_assignment_strategy=name, client_rack="east") as consumer:
        consumer.subscribe([topic])
        if not java_leads:
            poll_until(consumer, lambda: len(consumer.assignment()) == 4)
            java.start()
        poll_until(consumer, lambda: len(consumer.assignment()) == 2)
        produce(cluster, topic, 0, 2_000)
        deadline = Deadline(LONG)
        while java.is_alive() or len(ours) + len(theirs) < 2_000:
            assert not deadline.passed(), (len(ours), len(theirs))
            ours += consumer.poll(0.2)
    assert theirs
    assert ours
    assert {int(r.value) for r in ours} | {int(r.value or b"-1") for r in theirs} == set(range(2_000))


@attrs.frozen
class Mine:
    """An application's assignor; a broken one assigns a partition that does not exist."""

    broken: bool = False
    name: str = "mine"
    cooperative: bool = False

    def assign(self, members: Sequence[GroupMember], topics: Topics) -> dict[str, list[TopicPartition]]:
        if self.broken:
            return {members[0].member_id: [TopicPartition(next(iter(topics)), 99)]}
        return RoundRobinAssignor().assign(members, topics)

    def user_data(self, topics: frozenset[str], previous: Sequence[TopicPartition], generation: int) -> bytes:
        return b"capacity 5"


def test_members_share_a_topic_by_an_assignor_of_the_application(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 6)
    produce(cluster, topic, 0, 300)
    members = [Consumer(**cluster.client, **GROUP, group_id=topic, partition_assignment_strategy=Mine()) for _ in range(2)]
    got: list[Record] = []
    try:
        for member in members:
            member.subscribe([topic])

        def all_read() -> bool:
            for member in members:
                got.extend(member.poll(0.05))
            return len({(r.partition, r.offset) for r in got}) == 300 and [len(m.assignment()) for m in members] == [3, 3]

        until(all_read, LONG, "all records, and three partitions for each")
    finally:
        for member in members:
            member.close()


def test_a_leader_whose_assignor_is_broken_leaves_and_the_next_one_assigns(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 2)
    with (
        Consumer(**cluster.client, **GROUP, group_id=topic, partition_assignment_strategy=Mine(broken=True)) as broken,
        Consumer(**cluster.client, **GROUP, group_id=topic, partition_assignment_strategy=Mine()) as sound,
    ):
        broken.subscribe([topic])
        with pytest.raises(KafkaError, match=r"assignor 'mine' returned .*-99 for member .*, and that partition does not exist"):
            poll_until(broken, lambda: False)
        sound.subscribe([topic])
        poll_until(sound, lambda: len(sound.assignment()) == 2)
        with pytest.raises(KafkaError, match="correct the assignor, then call subscribe again"):
            broken.poll(0.1)
