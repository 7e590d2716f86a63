"""Assignors on real brokers: members of ours and Java's in one group, with each of them as the leader; and an application's own."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest

from integration.cluster import Cluster
from integration.waiting import until
from pykafka4 import Consumer, KafkaError, Record, TopicPartition
from pykafka4.assignors import GroupMember, RoundRobinAssignor, Topics
from tests.integration.reading import GROUP, LONG_S, poll_until, produce, read_beside_java

pytestmark = pytest.mark.cluster

JAVA = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


@pytest.mark.parametrize("java_leads", [False, True], ids=["ours leads", "Java leads"])
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.lengthy] * ("sticky" not in name)) for name in JAVA])
def test_a_java_member_and_ours_share_a_group(cluster: Cluster, topic: str, name: str, java_leads: bool) -> None:
    """The one that joins first is the leader, and assigns partitions to a member of the other client."""
    properties = {"client.rack": "east", "partition.assignment.strategy": f"org.apache.kafka.clients.consumer.{JAVA[name]}"}
    read_beside_java(cluster, topic, properties, java_leads, **GROUP, partition_assignment_strategy=name, client_rack="east")


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

        until(all_read, LONG_S, "all records, and three partitions for each")
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
        with pytest.raises(KafkaError, match=r"assignor 'mine' returned .*-99 for member .*, and the leader knows no such partition"):
            poll_until(broken, lambda: False)
        sound.subscribe([topic])
        poll_until(sound, lambda: len(sound.assignment()) == 2)
        with pytest.raises(KafkaError, match="correct the assignor, then call subscribe again"):
            broken.poll(0.1)
