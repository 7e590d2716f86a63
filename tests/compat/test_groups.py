"""Groups on old brokers: join, commit, resume, share, take over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from integration.java.client import JavaRecord
from integration.java.old_client import old_java_produce
from integration.local.cluster import LocalCluster
from integration.waiting import until
from pykafka4 import Consumer, Record
from tests.compat.old_releases import GROUP, LONG_S, READ_FROM, WRITTEN_TO, marks, on, poll_until, take

pytestmark = [*marks, on(*WRITTEN_TO, *READ_FROM)]

ROOT = Path(__file__).parents[2]
MEMBER = """
import sys
from pykafka4 import Consumer
with Consumer(bootstrap_servers=sys.argv[1], group_id=sys.argv[2], session_timeout_ms=6_000, heartbeat_interval_ms=500) as consumer:
    consumer.subscribe([sys.argv[2]])
    while True:
        consumer.poll(0.1)
        print(len(consumer.assignment()), flush=True)
"""


def write(cluster: LocalCluster, topic: str, first: int, last: int) -> None:
    """By Java, because not every release here is one that we write to."""
    records = [JavaRecord(key=b"%d" % n, value=b"%d" % n, partition=n % 4) for n in range(first, last)]
    old_java_produce(cluster.version, cluster.bootstrap, topic, records)


def values(records: list[Record]) -> list[int]:
    return sorted(int(r.value or b"-1") for r in records)


def test_a_group_goes_on_where_it_committed(cluster: LocalCluster, topic: str) -> None:
    cluster.create_topic(topic, 4)
    write(cluster, topic, 0, 200)
    with Consumer(bootstrap_servers=cluster.bootstrap, **GROUP, group_id=topic, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        assert values(take(consumer, 200)) == list(range(200))
        consumer.commit()
        assert sum(place.offset for place in (consumer.committed((topic, p)) for p in range(4)) if place is not None) == 200
    write(cluster, topic, 200, 300)
    with Consumer(bootstrap_servers=cluster.bootstrap, **GROUP, group_id=topic) as consumer:
        consumer.subscribe([topic])
        assert values(take(consumer, 100)) == list(range(200, 300))


def test_two_members_share_the_partitions_and_one_that_leaves_gives_its_own_back(cluster: LocalCluster, topic: str) -> None:
    cluster.create_topic(topic, 4)
    write(cluster, topic, 0, 400)
    got: list[Record] = []
    members = [Consumer(bootstrap_servers=cluster.bootstrap, **GROUP, group_id=topic) for _ in range(2)]
    try:
        for member in members:
            member.subscribe([topic])

        def shared_out() -> bool:
            for member in members:
                got.extend(member.poll(0.05))
            return all(len(member.assignment()) == 2 for member in members) and len(got) >= 400

        until(shared_out, LONG_S, "two members with two partitions each, and all records")
        last = members.pop()
        last.commit()
        last.close()
        poll_until(members[0], lambda: len(members[0].assignment()) == 4, LONG_S, got)
        write(cluster, topic, 400, 500)
        poll_until(members[0], lambda: len(got) >= 500, LONG_S, got)
        assert values(got) == list(range(500))  # what was finished was committed before it changed hands: nothing came twice
    finally:
        for member in members:
            member.close()


def test_the_partitions_of_a_member_that_is_killed_are_taken_over(cluster: LocalCluster, topic: str) -> None:
    cluster.create_topic(topic, 4)
    with Consumer(bootstrap_servers=cluster.bootstrap, **GROUP, group_id=topic) as consumer:
        consumer.subscribe([topic])
        poll_until(consumer, lambda: len(consumer.assignment()) == 4)
        other = subprocess.Popen([sys.executable, "-c", MEMBER, cluster.bootstrap, topic], cwd=ROOT, stdout=subprocess.DEVNULL)
        try:
            poll_until(consumer, lambda: len(consumer.assignment()) == 2)
        finally:
            other.kill()
            other.wait(LONG_S)
        poll_until(consumer, lambda: len(consumer.assignment()) == 4)
        write(cluster, topic, 0, 100)
        assert values(take(consumer, 100)) == list(range(100))


def test_a_group_outlives_its_coordinator(cluster: LocalCluster, topic: str) -> None:
    cluster.create_topic(topic, 4)
    write(cluster, topic, 0, 100)
    with Consumer(
        bootstrap_servers=cluster.bootstrap, **{**GROUP, "session_timeout_ms": 30_000}, group_id=topic, enable_auto_commit=False
    ) as consumer:
        consumer.subscribe([topic])
        assert values(take(consumer, 100)) == list(range(100))
        cluster.stop(1)
        cluster.start(1)
        consumer.commit(timeout=LONG_S)
        write(cluster, topic, 100, 200)
        assert values(take(consumer, 100)) == list(range(100, 200))
