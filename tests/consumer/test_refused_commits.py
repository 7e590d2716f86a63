"""Commits that can fail: each row of that table in docs/guide/commits.md, with both protocols."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pykafka4.consumer import Consumer
from pykafka4.errors import BrokerError, ClosedError, GroupError, KafkaTimeoutError
from pykafka4.records import OffsetAndMetadata
from pykafka4.testing import Fault, ModelServer
from pykafka4.wire.protocol.messages_group import OffsetCommitRequest
from tests.consumer.consuming import Listener, Maker, fill, numbers, poll_until, read, topic

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "commits.md"
TP = ("t", 0)
BY_HAND: dict[str, Any] = {"group_id": "g", "enable_auto_commit": False}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic, eager": {**BY_HAND, "partition_assignment_strategy": ["range"]},
    "classic, cooperative": {**BY_HAND, "partition_assignment_strategy": ["cooperative-sticky"]},
    "consumer": {**BY_HAND, "group_protocol": "consumer"},
}


class Scene:
    """A member that has read ten records of the only partition and committed five of them."""

    def __init__(self, server: ModelServer, make: Maker, kind: str) -> None:
        self.server, self.make, self.kind, self.options = server, make, kind, PROTOCOLS[kind]
        server.do(self._hurry)
        topic(server, 0)
        fill(server, "t", 0, numbers(0, 10))
        self.told = Listener()
        self.member = self.start(self.told)
        read(self.member, 10)
        self.member.commit({TP: 5})

    def _hurry(self, cluster: Any) -> None:
        cluster.coordinators.heartbeat_interval, cluster.coordinators.session_timeout = 0.05, 2.0

    def start(self, listener: object | None = None, **more: Any) -> Consumer:
        member = self.make(**{**self.options, **more})
        member.subscribe(["t"], listener)
        return member

    def stored(self) -> int:
        return self.server.do(lambda cluster: int(cluster.group("g").offsets[TP].offset))

    def commits(self) -> int:
        """How many commits brokers were sent."""
        return self.server.do(lambda cluster: int(cluster.requests["OffsetCommit"]))

    def remove(self) -> None:
        """Have the coordinator forget the member, as when its session is over."""

        def forget(cluster: Any) -> None:
            group = cluster.group("g")
            for member in list(group.modern.members.values()):
                group.modern.remove(member)
            for member_id in list(group.members):
                group.leave(member_id, None)

        self.server.do(forget)


def rebalances(scene: Scene) -> None:
    """The coordinator has begun the next generation, or epoch, when the commit comes."""
    scene.server.do(
        lambda cluster: cluster.push_error(
            OffsetCommitRequest, "STALE_MEMBER_EPOCH" if scene.kind == "consumer" else "REBALANCE_IN_PROGRESS"
        )
    )
    if scene.kind != "classic, eager":
        scene.member.commit({TP: 8})  # it is sent again
        assert scene.stored() == 8
        assert scene.told.kinds == ["assigned"]
        return
    with pytest.raises(GroupError, match="REBALANCE_IN_PROGRESS"):
        scene.member.commit({TP: 8})
    assert scene.stored() == 5
    scene.server.do(lambda cluster: cluster.group("g").prepare())
    again = poll_until(scene.member, lambda: scene.told.kinds == ["assigned", "revoked", "assigned"])
    again += read(scene.member, 5 - len(again))
    assert [record.offset for record in again] == [5, 6, 7, 8, 9]


def fenced(scene: Scene) -> None:
    """Its place is another member's, or it has none."""
    scene.remove()
    with pytest.raises(GroupError, match=r"UNKNOWN_MEMBER_ID|poll rejoins the group"):
        scene.member.commit({TP: 8})
    assert scene.stored() == 5
    again = poll_until(scene.member, lambda: scene.told.kinds == ["assigned", "lost", "assigned"])
    again += read(scene.member, 5 - len(again))
    assert [record.offset for record in again] == [5, 6, 7, 8, 9]
    scene.member.close()
    if scene.kind == "consumer":  # there a second member with the instance id is refused, not the first
        return
    first = scene.start(group_instance_id="i")
    poll_until(first, first.assignment)
    second = scene.start(group_instance_id="i")
    poll_until(second, second.assignment)
    with pytest.raises((GroupError, BrokerError), match="FENCED_INSTANCE_ID"):
        first.commit({TP: 9})
    for _ in range(2):  # it does not join again
        with pytest.raises((GroupError, BrokerError), match="FENCED_INSTANCE_ID"):
            poll_until(first, lambda: False)
    assert scene.stored() == 5


def not_its_own(scene: Scene) -> None:
    """Another member's partition, before it was revoked its own."""
    scene.server.do(lambda cluster: cluster.add_partitions("t", 2))
    other = scene.start()  # after that: it asks for the metadata once
    scene.member.close()
    poll_until(other, lambda: len(other.assignment()) == 2)
    third = scene.start()
    poll_until(other, lambda: third.poll(0) is not None and len(other.assignment()) == len(third.assignment()) == 1)
    (theirs,) = third.assignment()
    before = scene.commits()
    with pytest.raises(GroupError, match=f"{theirs}: not assigned to this consumer"):
        other.commit({theirs: 7})
    assert scene.commits() == before
    assert third.committed(TP) == OffsetAndMetadata(5)


def moved(scene: Scene) -> None:
    """The commit follows the coordinator; without one it says that it may have been stored."""
    scene.server.do(lambda cluster: cluster.move_coordinator("g", loading=0.2))
    scene.member.commit({TP: 7})
    assert scene.stored() == 7
    scene.server.do(lambda cluster: cluster.inject(OffsetCommitRequest, Fault.SWALLOW, times=100))
    with pytest.raises(KafkaTimeoutError, match=r"commit of t-0: .*may have been stored"):
        scene.member.commit({TP: 8}, timeout=0.3)
    assert scene.told.kinds == ["assigned"]


def closed(scene: Scene) -> None:
    """After `close`."""
    scene.member.close()
    before = scene.commits()
    for call in (scene.member.commit, scene.member.commit_async):
        with pytest.raises(ClosedError):
            call({TP: 8})
    assert (scene.commits(), scene.stored()) == (before, 5)


ROWS: dict[str, Callable[[Scene], None]] = {
    "the group rebalances": rebalances,
    "the member has been fenced, or removed from the group": fenced,
    "the partition has been given back, or is not this member's": not_its_own,
    "the coordinator has moved, is still loading offsets, or is down": moved,
    "the consumer is closed": closed,
}


def test_the_table_has_these_rows() -> None:
    section = GUIDE.read_text().partition("## Commits that can fail\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|")[0].strip() for line in section.splitlines() if line.startswith("|")]
    assert rows[2:] == list(ROWS)


@pytest.mark.parametrize("kind", PROTOCOLS)
@pytest.mark.parametrize("row", ROWS)
def test_a_commit_that_cannot_succeed_says_so(server: ModelServer, make: Maker, row: str, kind: str) -> None:
    ROWS[row](Scene(server, make, kind))
