"""Group member harness. A member of the consumer protocol (KIP-848) with a fake clock; the test is its coordinator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from pykafka4.core import Request
from pykafka4.core.group.membership.consumer_protocol import ConsumerProtocol
from pykafka4.core.subscription import Assigned, Ended
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.protocol.messages_group import ConsumerGroupHeartbeatRequest as Heartbeat
from pykafka4.wire.protocol.messages_group import ConsumerGroupHeartbeatResponse
from tests.core.consumer_harness import ConsumerHarness, code, tp
from tests.core.member_harness import events, release

T, U, UNKNOWN = UUID(int=0x71), UUID(int=0x72), UUID(int=0x73)
INTERVAL_S = 5.0


class GroupMember(ConsumerHarness):
    """A member that is subscribed to `t`; nothing is sent yet."""

    protocol: ConsumerProtocol

    def __init__(self, **options: Any) -> None:
        super().__init__(group_id="g", group_protocol="consumer", **{"enable_auto_commit": False, **options})
        protocol = self.machine.membership.protocol
        assert isinstance(protocol, ConsumerProtocol)
        self.protocol = protocol
        self.cluster.set("t", [1, 2, 1], topic_id=T)
        self.machine.membership.subscribe(("t",))
        self.reader.enter()  # it polls all the time

    @property
    def beat_sent(self) -> Request:
        """The only heartbeat without a response."""
        return self.one(Heartbeat)

    @property
    def message(self) -> Heartbeat:
        """Of the only heartbeat without a response."""
        message: Heartbeat = self.beat_sent.message
        return message

    def reply(self, epoch: int = 1, *partitions: int, error: str = "", same: bool = False, topic_id: UUID = T, **more: Any) -> None:
        """Answer the heartbeat: with an epoch and this assignment (`same`: none), or with an error."""
        kind = ConsumerGroupHeartbeatResponse.Assignment
        rows = [kind.TopicPartitions(topic_id=topic_id, partitions=list(partitions))] if partitions else []
        assignment = None if same or error else kind(topic_partitions=rows)
        interval = int(1000 * INTERVAL_S)
        more = {"error_code": code(error), "member_epoch": epoch, "heartbeat_interval_ms": interval, "assignment": assignment, **more}
        self.answer(self.beat_sent, ConsumerGroupHeartbeatResponse(**more), version=1)

    def joined(self, *partitions: int, epoch: int = 1) -> GroupMember:
        """In the group, with these partitions, which the coordinator knows to be owned."""
        self.find_coordinator()
        self.reply(epoch, *partitions)
        self.adopt()
        if partitions:
            self.reply(epoch, same=True)
        return self

    def adopt(self) -> list[list[TopicPartition]]:
        """The application reads what it was assigned; what each event has."""
        found = []
        for event in events(self):
            if isinstance(event, Assigned):
                self.reader.adopt(event.claims)
                found.append([claim.tp for claim in event.claims])
        return found

    def ended(self) -> list[tuple[str, list[TopicPartition]]]:
        """What ended, and how."""
        return [(event.ending.value, [claim.tp for claim in event.claims]) for event in events(self) if isinstance(event, Ended)]

    def next_beat(self) -> Heartbeat:
        """The heartbeat that is sent after its interval."""
        assert self.pending(Heartbeat) == []
        self.run(INTERVAL_S)
        return self.message

    def commit(self, offsets: dict[int, int]) -> list[Any]:
        """Where the outcome comes."""
        outcomes: list[Any] = []
        self.machine.commit({tp(number): OffsetAndMetadata(at) for number, at in offsets.items()}, self.now + 60, outcomes.append)
        self.run()
        return outcomes

    def release(self) -> None:
        """The application releases what it has to."""
        release(self)


def owned(message: Heartbeat) -> dict[UUID, list[int]] | None:
    """What a heartbeat reports as owned; None: as before."""
    parts: Iterable[Any] | None = message.topic_partitions
    return None if parts is None else {part.topic_id: part.partitions for part in parts}
