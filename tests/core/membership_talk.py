"""What tests of a group member share: its state, the events for its application, and giving partitions back."""

from __future__ import annotations

from typing import Any

from consumer_talk import Talk

from pykafka4.core.group.assignors import subscription_bytes
from pykafka4.core.group.protocol import State
from pykafka4.core.network.network import LANE
from pykafka4.core.subscription import Ended
from pykafka4.wire.protocol.messages_group import (
    JoinGroupRequest,
    JoinGroupResponse,
)


def other(name: str, *topics: str) -> JoinGroupResponse.Member:
    return JoinGroupResponse.Member(member_id=name, metadata=subscription_bytes(topics))


def state(talk: Talk) -> State:
    return talk.machine.membership.state


def events(talk: Talk) -> list[Any]:
    talk.reader.drain()
    found = list(talk.reader.events)
    talk.reader.events.clear()
    return found


def ending(talk: Talk) -> list[Ended]:
    """What the application has not released yet."""
    return list(talk.machine.membership._ending)


def release(talk: Talk) -> None:
    """The application releases the partitions that it has to."""
    for ended in ending(talk):
        talk.reader.release(ended.claims)
        talk.machine.membership.released(ended)
    talk.run()


def keep_alive(talk: Talk) -> None:
    talk.reader.enter()


def held_join(talk: Talk) -> None:
    """Broker 1, told to coordinate, holds the JoinGroup."""
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    keep_alive(talk)
    talk.find_coordinator(1)
    assert talk.one(JoinGroupRequest).node % LANE == 1
