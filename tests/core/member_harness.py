"""Member harness. What tests of a group member share: its state, the events for its application, and releasing partitions."""

from __future__ import annotations

from typing import Any

from pykafka4.core.group.encoding import subscription_bytes
from pykafka4.core.group.membership.protocol import State
from pykafka4.core.network.network import LANE
from pykafka4.core.subscription import Ended
from pykafka4.wire.protocol.messages_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
)
from tests.core.consumer_harness import ConsumerHarness


def other(name: str, *topics: str) -> JoinGroupResponse.Member:
    return JoinGroupResponse.Member(member_id=name, metadata=subscription_bytes(topics))


def state(harness: ConsumerHarness) -> State:
    return harness.machine.membership.state


def events(harness: ConsumerHarness) -> list[Any]:
    harness.reader.drain()
    found = list(harness.reader.events)
    harness.reader.events.clear()
    return found


def ending(harness: ConsumerHarness) -> list[Ended]:
    """What the application has not released yet."""
    return list(harness.machine.membership._ending)


def release(harness: ConsumerHarness) -> None:
    """The application releases the partitions that it has to."""
    for ended in ending(harness):
        harness.reader.release(ended.claims)
        harness.machine.membership.released(ended)
    harness.run()


def keep_alive(harness: ConsumerHarness) -> None:
    harness.reader.enter()


def steady(harness: Any, kind: type[Any] = HeartbeatRequest, seconds: float = 8.0, **more: Any) -> list[float]:
    """Every heartbeat gets its response (with `more`), for so long: those that come sooner after a change are over then. Returns when each
    was sent; the last one was just before the end."""
    began, sent = harness.now, list[float]()
    while harness.now < began + seconds or not sent or sent[-1] < harness.now - began - 0.01:
        harness.run(0.05)
        for request in harness.pending(kind):
            sent.append(round(harness.now - began, 2))
            if kind is HeartbeatRequest:
                harness.beat(request)
            else:
                harness.reply(harness.machine.membership.protocol.generation, same=True, **more)
        assert harness.now < began + 60
    return sent


def held_join(harness: ConsumerHarness) -> None:
    """Broker 1 is the coordinator and holds the JoinGroup."""
    harness.machine.membership.subscribe(("t",))
    harness.poll()
    keep_alive(harness)
    harness.find_coordinator(1)
    assert harness.one(JoinGroupRequest).node % LANE == 1
