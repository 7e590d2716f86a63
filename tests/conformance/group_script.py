"""Classic groups: joins, rebalances, generations, static members, commits, leaving."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pykafka4.wire.protocol.messages_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from pykafka4.wire.protocol.messages_produce import ProduceRequest
from tests.conformance.worlds import Line, World, error, eventually

SESSION, REBALANCE = 10_000, 20_000
AFTER_0_11 = 5  # a version of Produce that 0.11 lacks
IDS_FIRST = 4  # the first JoinGroup that gives a new member an id before it joins


class Member:
    """One member with a connection of its own."""

    def __init__(self, world: World, group: str, instance: str | None = None) -> None:
        self.world, self.group, self.instance = world, world.name(group), instance
        self.node = world.coordinator(self.group)
        self.line: Line = world.line(self.node)
        self.id, self.generation, self.leader, self.members = "", -1, "", []  # type: ignore[var-annotated]
        self.waiting = 0
        self.metadata, self.assignment = b"m", b"a"  # what it says in joins, and gives everybody if it leads

    def send(self, message: Any, version: int) -> int:
        """Send it in `version`, or in the highest that the broker has."""
        return self.line.send(message, self.world.version(self.node, type(message), version))

    def call(self, message: Any, version: int) -> Any:
        answer = self.line.receive(self.send(message, version))
        if answer == "closed":
            self.line = self.world.line(self.world.coordinator(self.group))
        return answer

    # ---- JoinGroup

    def begin_join(
        self, *, version: int = 7, member_id: str | None = None, kind: str = "consumer", protocols: tuple[str, ...] = ("range",)
    ) -> None:
        message = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION,
            rebalance_timeout_ms=REBALANCE,
            member_id=self.id if member_id is None else member_id,
            group_instance_id=self.instance if version >= 5 else None,
            protocol_type=kind,
            protocols=[JoinGroupRequest.Protocol(name=name, metadata=self.metadata) for name in protocols],
        )
        self.waiting = self.send(message, version)

    def end_join(self) -> list[Any]:
        """[error, is a generation, leads, members sent, protocol, has an id]."""
        answer = self.line.receive(self.waiting)
        if answer == "closed":
            return ["closed"]
        if answer.error_code == 0:
            self.generation, self.leader, self.members = answer.generation_id, answer.leader, [m.member_id for m in answer.members]
        if answer.error_code == 0 or error(answer.error_code) == "MEMBER_ID_REQUIRED":
            self.id = answer.member_id
        told = [error(answer.error_code), answer.generation_id, answer.error_code == 0 and answer.leader == answer.member_id]
        return [*told, len(answer.members), answer.protocol_name or None, bool(answer.member_id), bool(answer.skip_assignment)]

    def join(self, **options: Any) -> list[Any]:
        self.begin_join(**options)
        return self.end_join()

    def introduce(self) -> list[Any] | None:
        """Ask for an id, where brokers want a new member to have one before it joins; None where they do not."""
        return self.join() if self.world.version(self.node, JoinGroupRequest, 7) >= IDS_FIRST else None

    def enter(self) -> list[Any]:
        """Join as a new member does: once for an id, once with it."""
        first = self.join()
        return self.join() if first[0] == "MEMBER_ID_REQUIRED" else first

    # ---- the rest

    def begin_sync(self, generation: int | None = None, member_id: str | None = None, assign: bool = True) -> None:
        rows = [SyncGroupRequest.Assignment(member_id=m, assignment=self.assignment) for m in self.members] if assign else []
        message = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.id if member_id is None else member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=rows,
        )
        self.waiting = self.send(message, 5)

    def end_sync(self) -> list[Any]:
        answer = self.line.receive(self.waiting)
        return [error(answer.error_code), bytes(answer.assignment).decode(), answer.protocol_name]

    def sync(self, **options: Any) -> list[Any]:
        self.begin_sync(**options)
        return self.end_sync()

    def beat(self, generation: int | None = None, member_id: str | None = None) -> str:
        message = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.id if member_id is None else member_id,
            group_instance_id=self.instance,
        )
        return error(self.call(message, 4).error_code)

    def leave(self, member_id: str | None = None, instance: str | None = None) -> list[Any]:
        row = LeaveGroupRequest.Member(member_id=self.id if member_id is None else member_id, group_instance_id=instance or self.instance)
        several = self.world.version(self.node, LeaveGroupRequest, 4) >= 3
        who = {"members": [row]} if several else {"member_id": row.member_id}
        answer = self.call(LeaveGroupRequest(group_id=self.group, **who), 4)
        return [error(answer.error_code), [error(m.error_code) for m in answer.members]]

    def commit(
        self,
        topic: str,
        offset: int,
        *,
        generation: int | None = None,
        member_id: str | None = None,
        partition: int = 0,
        metadata: str | None = "",
    ) -> str:
        part = OffsetCommitRequest.Topic.Partition(partition_index=partition, committed_offset=offset, committed_metadata=metadata)
        message = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation if generation is None else generation,
            member_id=self.id if member_id is None else member_id,
            group_instance_id=self.instance,
            topics=[OffsetCommitRequest.Topic(name=topic, topic_id=UUID(int=0), partitions=[part])],
        )
        return error(self.call(message, 8).topics[0].partitions[0].error_code)

    def committed(self, topic: str, partition: int = 0, version: int = 8) -> list[Any]:
        one = OffsetFetchRequest.Group.Topic(name=topic, partition_indexes=[partition], topic_id=UUID(int=0))
        version = self.world.version(self.node, OffsetFetchRequest, version)
        if version >= 8:
            message = OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id=self.group, topics=[one])], require_stable=True)
        else:
            old = OffsetFetchRequest.Topic(name=topic, partition_indexes=[partition])
            message = OffsetFetchRequest(group_id=self.group, topics=[old], require_stable=version >= 7)
        answer = self.call(message, version)
        told = answer.groups[0] if version >= 8 else answer
        row = told.topics[0].partitions[0] if told.topics else None
        return [
            error(told.error_code),
            *([row.committed_offset, row.committed_leader_epoch, row.metadata, error(row.error_code)] if row else []),
        ]


def ready(world: World, group: str) -> Member:
    """A connection to a coordinator that has loaded."""
    member = Member(world, group)
    eventually(lambda: member.beat(1, "x") in ("UNKNOWN_MEMBER_ID",), f"the coordinator of {group} to answer")
    return member


def joining(world: World) -> None:
    one = ready(world, "joining")
    world.note("heartbeat to no group", one.beat(1, "x"))
    world.note("sync to no group", one.sync(generation=1, member_id="x"))
    world.note("leave of no group", one.leave("x"))
    world.note("join with an id that nobody gave", one.join(member_id="x"))
    if world.version(one.node, ProduceRequest, AFTER_0_11) == AFTER_0_11:  # 0.11 never answers the first, and takes the second
        world.note("join without protocols", one.join(protocols=()))
        world.note("join without a kind", one.join(kind=""))
    world.note("join, first", one.join())
    world.note("heartbeat of who has only an id", one.beat(1))
    world.note("join, with the id", one.join())
    world.note("heartbeat before the sync", one.beat())
    world.note("sync", one.sync())
    world.note("sync again", one.sync(assign=False))
    world.note("heartbeat", one.beat())
    world.note("heartbeat of another generation", one.beat(one.generation + 1))
    world.note("heartbeat of an old generation", one.beat(one.generation - 1))
    world.note("heartbeat of nobody", one.beat(member_id="x"))
    world.note("sync of another generation", one.sync(generation=one.generation + 1))
    other = Member(world, "joining")
    world.note("join with another protocol", other.join(protocols=("other",)))
    world.note("join of another kind", other.join(kind="connect"))
    world.note("second member, first", other.introduce())
    other.begin_join()
    eventually(lambda: one.beat() == "REBALANCE_IN_PROGRESS", "a rebalance")
    world.note("heartbeat while others join", one.beat())
    world.note("heartbeat of nobody while others join", one.beat(member_id="x"))
    world.note("sync while others join", one.sync())
    world.note("leader joins again", one.join())
    world.note("second member, joined", other.end_join())
    other.begin_sync(assign=False)
    world.note("the follower's sync waits", other.line.quiet(0.4))
    world.note("heartbeat while the sync is awaited", one.beat())
    world.note("the leader's sync", one.sync())
    world.note("the follower's sync", other.end_sync())
    world.note("a follower joins again in the same generation", other.join())
    world.note("heartbeat after that", one.beat())
    one.begin_join()
    eventually(lambda: other.beat() == "REBALANCE_IN_PROGRESS", "the leader's join to rebalance")
    world.note("the follower leaves meanwhile", other.leave())
    world.note("the leader is alone", one.end_join())
    world.note("leave before the sync", one.leave())
    world.note("heartbeat after leaving", one.beat())
    world.note("join with the id after leaving", one.join())
    old = Member(world, "old-join")
    world.note("join in version 3", old.join(version=3))
    world.note("leave what never was", old.leave("x"))
    world.note("leave with an unknown instance", old.leave("", "nobody"))


def static(world: World) -> None:
    ready(world, "static")
    one, two = Member(world, "static", "i1"), Member(world, "static", "i2")
    world.note("static join", one.join())
    world.note("static sync", one.sync())
    two.begin_join()
    eventually(lambda: one.beat() == "REBALANCE_IN_PROGRESS", "a rebalance")
    world.note("static leader joins again", one.join())
    world.note("second static member", two.end_join())
    two.begin_sync(assign=False)
    one.sync()
    two.end_sync()
    world.note("static heartbeat", [one.beat(), two.beat()])
    back = Member(world, "static", "i2")
    world.note("a static follower comes back", back.join())
    world.note("it syncs", back.sync(assign=False))
    world.note("the old one is fenced", [two.beat(), two.sync(assign=False), two.join(), two.commit("t", 1), two.leave()])
    world.note("no rebalance for it", one.beat())
    again = Member(world, "static", "i1")
    world.note("the static leader comes back", again.join())
    world.note("heartbeats after that", [again.beat(), back.beat(), one.beat()])
    world.note("an instance id with a wrong member id", again.beat(member_id="x"))
    world.note("a known member id with an unknown instance", [Member.beat(wrong(world, back, "i9"))])
    world.note("leave of an instance", again.leave("", "i2"))
    eventually(lambda: again.beat() == "REBALANCE_IN_PROGRESS", "a rebalance")
    world.note("heartbeat of who was removed", back.beat())
    world.note("alone", again.join()[:1])


def wrong(world: World, member: Member, instance: str) -> Member:
    """The same member under another instance id."""
    other = Member(world, "static", instance)
    other.id, other.generation = member.id, member.generation
    return other


def commits(world: World) -> None:
    topic = world.create("commits", 2)
    one = ready(world, "commits")
    world.note("nothing committed", one.committed(topic))
    world.note("commit without a group", [one.commit(topic, 5, generation=-1, member_id=""), one.committed(topic)])
    world.note("commit of nobody to an empty group", one.commit(topic, 6, generation=1, member_id="x"))
    world.note("commit with a generation and no id to an empty group", one.commit(topic, 6, generation=1, member_id=""))
    world.note("commit of no partition", one.commit(topic, 7, generation=-1, member_id="", partition=9))
    world.note("commit of no topic", one.commit("nothing-of-that-name", 7, generation=-1, member_id=""))
    world.note("commit with much metadata", one.commit(topic, 7, generation=-1, member_id="", metadata="x" * 5000))
    world.note("commit without metadata", [one.commit(topic, 8, generation=-1, member_id="", metadata=None), one.committed(topic)])
    world.note("committed of no partition", one.committed(topic, 9))
    world.note("committed of no topic", one.committed("nothing-of-that-name"))
    one.enter()
    world.note("commit before the sync", one.commit(topic, 10))
    world.note("commit without a group while there is one, before the sync", one.commit(topic, 10, generation=-1, member_id=""))
    one.sync()
    world.note("commit", [one.commit(topic, 11), one.committed(topic)])
    world.note("commit without a group while there is one", one.commit(topic, 12, generation=-1, member_id=""))
    world.note("commit of another generation", one.commit(topic, 12, generation=one.generation + 1))
    world.note("commit of an old generation", one.commit(topic, 12, generation=one.generation - 1))
    world.note("commit of nobody", one.commit(topic, 12, member_id="x"))
    other = Member(world, "commits")
    other.introduce()
    other.begin_join()
    eventually(lambda: one.beat() == "REBALANCE_IN_PROGRESS", "a rebalance")
    world.note("commit while others join", [one.commit(topic, 13), one.committed(topic)])
    one.join()
    other.end_join()
    world.note("commit of the new generation before the sync", one.commit(topic, 14))
    world.note("commit of the last generation before the sync", one.commit(topic, 14, generation=one.generation - 1))
    one.sync()
    other.sync(assign=False)
    world.note("leave both", [one.leave(), other.leave()])
    world.note("commit after leaving", [one.commit(topic, 15), one.commit(topic, 16, generation=-1, member_id=""), one.committed(topic)])
    world.delete(topic)
    eventually(lambda: one.committed(topic)[1] == -1, "the positions of a deleted topic to go")


SCRIPTS = (joining, static, commits)
