"""Cooperative groups: which calls listeners get, and what is read and committed while the group rebalances."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from typing import Any

import pytest

from pykafka4.assignors import CooperativeStickyAssignor, GroupMember, Topics
from pykafka4.consumer import Consumer
from pykafka4.consumer.assignment import LAST_COMMIT_IN_REBALANCE_S
from pykafka4.core.group.encoding import subscription_bytes
from pykafka4.core.group.membership.states import MemberState
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from pykafka4.testing.groups.group import JoinRequest
from tests.consumer.consuming import LONG, Listener, Maker, fill, numbers, poll_until, read, topic

COOPERATIVE = {"group_id": "g", "partition_assignment_strategy": "cooperative-sticky"}
SILENT = JoinRequest(
    "", None, "silent", "consumer", (("cooperative-sticky", subscription_bytes(["t"])),), 600.0, 600.0, needs_id_first=False
)


def state(consumer: Consumer) -> str:
    found: str = consumer.status()["consumer"]["state"]
    return found


def test_listeners_are_told_of_what_moves_only(server: ModelServer, make: Maker) -> None:
    topic(server, 0, 0, 0, 0)
    first, second = make(**COOPERATIVE), make(**COOPERATIVE)
    told, told_second = Listener(), Listener()
    first.subscribe(["t"], told)
    poll_until(first, lambda: len(first.assignment()) == 4)
    second.subscribe(["t"], told_second)
    kept = set(first.assignment())

    def shared_out() -> bool:
        second.poll(0.01)
        kept.intersection_update(first.assignment())
        return len(second.assignment()) == 2 and len(first.assignment()) == 2 and told.told.count(("assigned", [])) == 2

    poll_until(first, shared_out)
    assert kept == first.assignment()
    moved = sorted(second.assignment())
    calls = [call for call in told.told[1:] if call != ("assigned", [])]
    assert calls == [("revoked", moved)]
    # The second member skips the empty generation if the first member joins again before the second member's SyncGroup arrives.
    assert told_second.told in ([("assigned", []), ("assigned", moved)], [("assigned", moved)])
    second.close()
    poll_until(first, lambda: len(first.assignment()) == 4)
    assert told.told[-1] == ("assigned", moved)
    assert told.kinds.count("revoked") == 1


def rebalancing(server: ModelServer, consumer: Consumer) -> None:
    """`consumer` has released a partition for a member that joined once, and waits for it to join again."""
    poll_until(consumer, consumer.assignment)
    server.do(lambda cluster: cluster.group("g").join(SILENT, lambda joined: None))
    poll_until(consumer, lambda: len(consumer.assignment()) == 1 and state(consumer) == MemberState.JOINING.value)


@pytest.mark.parametrize("options", [{}, {"enable_auto_commit": False}])
def test_partitions_are_read_and_committed_while_the_group_waits_for_others(
    server: ModelServer, make: Maker, options: dict[str, Any]
) -> None:
    topic(server, 0, 0)
    told = Listener()
    consumer = make(**COOPERATIVE, auto_commit_interval_ms=10, **options)
    consumer.subscribe(["t"], told)
    rebalancing(server, consumer)
    mine = sorted(consumer.assignment())
    assert mine
    fill(server, "t", mine[0].partition, numbers(0, 20))
    assert [record.offset for record in read(consumer, 20)] == list(range(20))
    if options:
        consumer.commit()
    poll_until(consumer, lambda: 20 in server.do(lambda cluster: [at.offset for at in cluster.group("g").offsets.values()]))
    assert state(consumer) == MemberState.JOINING.value
    assert "lost" not in told.kinds


def test_close_during_a_rebalance_commits_and_tells_the_listener(server: ModelServer, make: Maker) -> None:
    topic(server, 0, 0)
    told = Listener()
    consumer = make(**COOPERATIVE, auto_commit_interval_ms=3_600_000)
    consumer.subscribe(["t"], told)
    rebalancing(server, consumer)
    mine = sorted(consumer.assignment())
    fill(server, "t", mine[0].partition, numbers(0, 5))
    read(consumer, 5)
    consumer.close(5)
    assert told.told[-1] == ("revoked", mine)
    assert server.do(lambda cluster: cluster.group("g").offsets[mine[0]].offset) == 5
    assert server.do(lambda cluster: len(cluster.group("g").members)) == 1


class Stuck(CooperativeStickyAssignor):
    """It hangs once `hangs` is set, until `go_on` is."""

    name = "stuck"

    def __init__(self) -> None:
        self.hangs, self.go_on = threading.Event(), threading.Event()

    def assign(self, members: Collection[GroupMember], topics: Topics) -> dict[str, list[TopicPartition]]:
        if self.hangs.is_set():
            self.go_on.wait(LONG)
        return super().assign(members, topics)


def test_close_waits_seconds_for_a_leader_that_does_not_assign(server: ModelServer, make: Maker) -> None:
    """The coordinator takes no commit meanwhile. A dead leader would keep the consumer from closing for its session."""
    topic(server, 0, 0)
    stuck = Stuck()
    options = {"group_id": "g", "partition_assignment_strategy": [stuck], "auto_commit_interval_ms": 3_600_000}
    leader, follower, third = make(**options), make(**options), make(**options)
    leader.subscribe(["t"])
    poll_until(leader, lambda: len(leader.assignment()) == 2)
    follower.subscribe(["t"])
    poll_until(follower, lambda: leader.poll(0) is not None and len(follower.assignment()) == 1)
    (mine,) = follower.assignment()
    fill(server, "t", mine.partition, numbers(0, 5))
    read(follower, 5)
    stuck.hangs.set()
    third.subscribe(["t"])
    third.poll(0)
    poll_until(follower, lambda: leader.poll(0) is not None and state(follower) == MemberState.SYNCING.value)
    began = time.monotonic()
    follower.close(LONG)
    took = time.monotonic() - began
    stuck.go_on.set()
    assert LAST_COMMIT_IN_REBALANCE_S - 0.1 <= took < LONG / 2
