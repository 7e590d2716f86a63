"""Members of the classic and of the consumer protocol in one group: how brokers convert it, and what its classic members are told."""

from __future__ import annotations

import uuid
from typing import Any

from pykafka4.wire.protocol.messages_group import (
    ConsumerGroupHeartbeatRequest,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from pykafka4.wire.protocol.schema import decode_data, encode_data
from tests.conformance.group_script import Member, ready
from tests.conformance.worlds import World, error, eventually

BOTH = (0, 1)  # the partitions of the topic


class Classic(Member):
    """A member of the classic protocol, which tells the truth about its subscription."""

    def __init__(self, world: World, topic: str, group: str = "migration") -> None:
        super().__init__(world, group)
        self.topic, self.mine = topic, ()  # type: tuple[int, ...]
        self.share = BOTH  # what it assigns to itself if it leads

    def subscription(self, owned: tuple[int, ...]) -> bytes:
        rows = [ConsumerProtocolSubscription.Topic(topic=self.topic, partitions=list(owned))] if owned else []
        return encode_data(ConsumerProtocolSubscription(topics=[self.topic], user_data=None, owned_partitions=rows), 3)

    def begin_join(self, *, owned: tuple[int, ...] = (), **options: Any) -> None:
        self.metadata = self.subscription(owned)
        super().begin_join(**options)

    def begin_sync(self, generation: int | None = None, member_id: str | None = None, assign: bool = True) -> None:
        row = ConsumerProtocolAssignment.Topic(topic=self.topic, partitions=list(self.share))
        self.assignment = encode_data(ConsumerProtocolAssignment(assigned_partitions=[row], user_data=None), 3)
        super().begin_sync(generation, member_id, assign)

    def end_sync(self) -> list[Any]:
        """[error, partitions, protocol]."""
        answer = self.line.receive(self.waiting)
        data = bytes(answer.assignment)
        parts = decode_data(ConsumerProtocolAssignment, data).assigned_partitions if data else []
        self.mine = tuple(sorted(number for part in parts for number in part.partitions))
        return [error(answer.error_code), list(self.mine), answer.protocol_name]


class Modern(Member):
    """A member of the consumer protocol."""

    def __init__(self, world: World, topic: str, group: str = "migration") -> None:
        super().__init__(world, group)
        self.topic, self.id, self.epoch, self.mine = topic, uuid.uuid4().hex, 0, []  # type: ignore[var-annotated]

    def beat_with(self, epoch: int, *, full: bool = False) -> list[Any]:
        """[error, epoch, partitions or None]."""
        owned = ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=self.world.ids[self.topic], partitions=list(self.mine))
        message = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.id,
            member_epoch=epoch,
            rebalance_timeout_ms=20_000 if full or epoch == 0 else -1,
            subscribed_topic_names=[self.topic] if full or epoch == 0 else None,
            topic_partitions=([owned] if self.mine else []) if full or epoch == 0 else None,
        )
        answer = self.call(message, 1)
        told = None
        if answer.assignment is not None:
            told = sorted(number for part in answer.assignment.topic_partitions for number in part.partitions)
            self.mine = told
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
        return [error(answer.error_code), answer.member_epoch, told]

    def settle(self, count: int) -> list[Any]:
        """Go on until it has so many partitions."""
        eventually(lambda: self.beat_with(self.epoch, full=True) and len(self.mine) == count, f"{count} partitions")
        return [self.epoch, len(self.mine)]


def migration(world: World) -> None:
    topic = world.create("migrated", 2)
    ready(world, "migration")
    one, new = Classic(world, topic), Modern(world, topic)
    world.note("a beat that is no join to no group", new.beat_with(5)[0])
    world.note("classic join", one.enter())
    world.note("classic sync", one.sync())
    world.note("a beat that is no join to a classic group", new.beat_with(5)[0])
    world.note("the first of the consumer protocol joins", new.beat_with(0))
    eventually(lambda: one.beat() == "REBALANCE_IN_PROGRESS", "the classic member to hear of it")
    world.note("commit of the classic member meanwhile", one.commit(topic, 1))
    world.note("commit of another generation", one.commit(topic, 1, generation=one.generation + 7))
    world.note("sync before it joins again", one.sync(assign=False))
    world.note("heartbeat of another generation", one.beat(one.generation + 7))
    world.note("heartbeat of nobody", one.beat(member_id="x"))
    world.note("heartbeat of a member of the other protocol", one.beat(new.epoch, new.id))
    world.note("join again, with nothing", one.join())
    world.note("sync", one.sync(assign=False))
    world.note("sync of another generation", one.sync(generation=one.generation + 7, assign=False)[0])
    one.sync(assign=False)
    world.note("the other part", new.settle(1))
    world.note("heartbeat", one.beat())
    world.note("commit", one.commit(topic, 2))
    world.note("join of another kind", Classic(world, topic).join(kind="connect"))
    world.note("join with another protocol", Classic(world, topic).join(protocols=("other",)))
    world.note("leave of nobody", one.leave("x"))
    world.note("leave of a member of the other protocol", one.leave(new.id))
    world.note("the last of the consumer protocol leaves", new.beat_with(-1)[0])
    eventually(lambda: one.beat() == "REBALANCE_IN_PROGRESS", "the group to become classic again")
    world.note("a beat to the group that is classic again", new.beat_with(new.epoch)[0])
    before = one.generation
    world.note("the classic member joins again", [*one.join()[:1], one.generation - before])
    world.note("it leads, and assigns", one.sync())
    world.note("its heartbeat", one.beat())
    world.note("leave", one.leave())


def cooperative(world: World) -> None:
    """The classic member joins with what it has, and joins again when it has given back what the other one is to have."""
    topic = world.create("cooperative", 2)
    ready(world, "cooperative")
    one, new = Classic(world, topic, group="cooperative"), Modern(world, topic, "cooperative")
    one.enter()
    one.sync()
    world.note("the first of the consumer protocol joins", new.beat_with(0))
    eventually(lambda: one.beat() == "REBALANCE_IN_PROGRESS", "the classic member to hear of it")
    world.note("join with all", one.join(owned=one.mine))
    world.note("what it keeps", [one.sync(assign=False)[0], len(one.mine)])
    world.note("heartbeat while it has to give back", one.beat())
    world.note("commit meanwhile", one.commit(topic, 3))
    world.note("join without", one.join(owned=one.mine))
    world.note("sync", [one.sync(assign=False)[0], len(one.mine)])
    world.note("the other part", new.settle(1))
    world.note("heartbeat", one.beat())
    world.note("the consumer protocol's member leaves", new.beat_with(-1)[0])


def unfinished(world: World) -> None:
    """A cooperative member is still giving back what the last generation took from it, when the group is converted."""
    topic = world.create("unfinished", 2)
    ready(world, "unfinished")
    one, new = Classic(world, topic, group="unfinished"), Modern(world, topic, "unfinished")
    one.enter()
    world.note("all", one.sync())
    one.share = (0,)
    one.join(owned=one.mine)
    world.note("one of them is taken away", one.sync())
    world.note("the first of the consumer protocol joins, and has it at once", new.beat_with(0))
    world.note("the last commit of who had it is taken", one.commit(topic, 1, partition=1))


SCRIPTS = (migration, cooperative, unfinished)
