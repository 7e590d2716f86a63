"""Share the partitions of a topic so that each consumer reads from few brokers.

    python examples/leader_range.py --bootstrap-servers localhost:9092 --topic greetings --group readers

`LeaderRangeAssignor` puts the partitions in the order of their leaders, and each member gets a range of that order. With as many members as
brokers, and as many leaders on each broker, a member reads from one or two brokers; with `range` it may read from all brokers. Start the
program several times. All members of the group have to list the assignor. After a change of leaders, partitions stay with their members
until the next rebalance.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from pykafka4 import Consumer, TopicPartition
from pykafka4.assignors import GroupMember, Topics


class LeaderRangeAssignor:
    """Assigns partitions clustered by leader. Invariant: members with the same topics get equal numbers of partitions, give or take one."""

    name = "leader-range"  # the name under which the members of the group agree on this assignor
    cooperative = False  # members release all their partitions before they join

    def assign(self, members: Sequence[GroupMember], topics: Topics) -> dict[str, list[TopicPartition]]:
        """Assign the partitions. The leader of the group calls this with all members, and the partitions of all their topics."""
        result: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
        # The coordinator lists members in any order. Static members have an instance id, and keep their place when they restart.
        in_order = sorted(members, key=lambda member: (member.instance_id or "", member.member_id))
        for subscribers, names in _alike(in_order, topics).items():
            partitions = [partition for name in names for partition in topics[name]]
            partitions.sort(key=lambda p: (-1 if p.leader is None else p.leader, p.topic, p.partition))
            # Members with fewer partitions come first, because the first members get one partition more if the division has a remainder.
            takers = sorted(subscribers, key=lambda member_id: len(result[member_id]))
            each, extra = divmod(len(partitions), len(takers))
            start = 0
            for place, member_id in enumerate(takers):
                end = start + each + (place < extra)
                result[member_id] += [partition.tp for partition in partitions[start:end]]
                start = end
        return result


def _alike(members: Sequence[GroupMember], topics: Topics) -> dict[tuple[str, ...], list[str]]:
    """The topics by their subscribers: (ids of the members, names of their topics)."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name in sorted(topics):
        found.setdefault(tuple(member.member_id for member in members if name in member.topics), []).append(name)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Print the records of a topic, in a group that assigns partitions by their leaders.")
    parser.add_argument("--bootstrap-servers", default="localhost:9092")
    parser.add_argument("--topic", default="greetings")
    parser.add_argument("--group", default="leader-range-readers")
    parser.add_argument("--config", default={}, help="a .properties file in the format of Java's clients, with security.protocol and so on")
    options = parser.parse_args()

    own = {"bootstrap_servers": options.bootstrap_servers, "group_id": options.group, "auto_offset_reset": "earliest"}
    with Consumer.from_properties(options.config, **own, partition_assignment_strategy=[LeaderRangeAssignor()]) as consumer:
        consumer.subscribe([options.topic], listener=Report())
        try:
            for record in consumer:
                print(record.partition, record.offset, record.key, record.value, flush=True)
        except KeyboardInterrupt:
            pass


class Report:
    """Prints the partitions that this consumer gets."""

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        print("assigned", *sorted(partitions), flush=True)


if __name__ == "__main__":
    main()
