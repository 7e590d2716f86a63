"""Makes the requests of a classic member, and limits the wait for their responses.

Invariant: JoinGroup, SyncGroup and Heartbeat have the instance id of a static member, which never sends LeaveGroup.

The limits leave time for responses that the coordinator holds back: a member that gave up early would join again, and begin another
rebalance before the current one had ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias

import attrs

from pykafka4.core import Outcome, Request
from pykafka4.core.group.encoding import subscription_bytes
from pykafka4.core.subscription import MemberIdentity
from pykafka4.errors import BrokerError, KafkaError
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

__all__ = [
    "ATTEMPTS",
    "Fit",
    "GroupInFlight",
    "GroupRequest",
    "assign_patience",
    "failed_because",
    "fit_leave",
    "heartbeat_request",
    "join_patience",
    "join_request",
    "leave_request",
    "sync_patience",
    "sync_request",
]

PROTOCOL: Final = "consumer"
LEAVE_MANY_FROM: Final = 3  # LeaveGroup can name several members, in other fields, from v3 on
GRACE_S: Final = 5.0  # seconds to wait beyond the time for which a coordinator holds a response back (for JoinGroup as in Java)
ASSIGN_SHARE: Final = 0.75  # part of the session timeout: the leader's time to assign


Fit: TypeAlias = Callable[[Any, int], None]  # see `Request.fit`


class GroupRequest(Enum):
    JOIN = "JoinGroup"
    SYNC = "SyncGroup"
    HEARTBEAT = "Heartbeat"
    ASSIGNMENT = "DescribeGroups, of a leader that asks for the present assignment"
    MEMBERS = "DescribeGroups, before the group is rewound"
    LEAVE = "LeaveGroup"


# The coordinator holds the responses to these back: JoinGroup until all members have joined, SyncGroup until the leader has assigned.
ATTEMPTS: Final = (GroupRequest.JOIN, GroupRequest.SYNC)


class Member(Protocol):
    def answered(self, now: float, request: GroupInFlight, outcome: Outcome) -> None:
        """Read the outcome of `request`."""


@attrs.define(eq=False)
class GroupInFlight(Request):
    """A request, with the member's identity and generation at the time of sending."""

    member: Member = attrs.field(kw_only=True)
    kind: GroupRequest = attrs.field(kw_only=True)
    coordinator: int = attrs.field(kw_only=True)
    sent_at: float = attrs.field(kw_only=True)
    identity: MemberIdentity | None = attrs.field(kw_only=True)
    generation: int = attrs.field(kw_only=True)

    def on_reply(self, now: float, outcome: Outcome) -> None:
        self.member.answered(now, self, outcome)


def join_patience(config: ConsumerConfig) -> float:
    """The seconds until a JoinGroup without a response is given up: the other members may join until the rebalance timeout."""
    return max(config.request_timeout_ms / 1000, config.max_poll_interval_ms / 1000 + GRACE_S)


def assign_patience(config: ConsumerConfig) -> float:
    """The seconds from the response to JoinGroup within which the leader must assign."""
    return config.session_timeout_ms / 1000 * ASSIGN_SHARE


def sync_patience(config: ConsumerConfig, *, leads: bool) -> float:
    """The seconds until a SyncGroup without a response is given up: followers get a response when the leader has assigned.

    Current brokers remove members that have not synced within the rebalance timeout.
    """
    answers_in = config.request_timeout_ms / 1000
    if leads:
        return answers_in
    return max(answers_in, min(assign_patience(config), config.max_poll_interval_ms / 1000) + GRACE_S)


def join_request(
    config: ConsumerConfig,
    member_id: str,
    topics: Iterable[str],
    owned: Iterable[TopicPartition],
    generation: int,
    user_data: Mapping[str, bytes | None],
    reason: str,
) -> JoinGroupRequest:
    """`generation` assigned `owned`. `member_id` is empty for a new member. `user_data` maps the names of the assignors, in order of
    preference, to the bytes that each adds to the subscription. `reason` is for the coordinator's log.
    """
    return JoinGroupRequest(
        group_id=config.group_id or "",
        session_timeout_ms=int(config.session_timeout_ms),
        rebalance_timeout_ms=int(config.max_poll_interval_ms),
        member_id=member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=PROTOCOL,
        protocols=[
            JoinGroupRequest.Protocol(name=name, metadata=subscription_bytes(topics, owned, generation, config.client_rack, data))
            for name, data in user_data.items()
        ],
        reason=reason,
    )


def sync_request(
    config: ConsumerConfig, member_id: str, generation: int, protocol: str | None, shares: Mapping[str, bytes]
) -> SyncGroupRequest:
    """`shares` has the assignments of all members, and is empty unless this member has assigned."""
    return SyncGroupRequest(
        group_id=config.group_id or "",
        generation_id=generation,
        member_id=member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=PROTOCOL,
        protocol_name=protocol,
        assignments=[SyncGroupRequest.Assignment(member_id=member, assignment=share) for member, share in shares.items()],
    )


def failed_because(error: KafkaError) -> str:
    """The reason for a JoinGroup, in the style of the Java client."""
    words = str(error.code).split("_") if isinstance(error, BrokerError) else ["Disconnect"]
    return f"rebalance failed due to {''.join(word.capitalize() for word in words)}Exception"


def heartbeat_request(config: ConsumerConfig, member_id: str, generation: int) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=config.group_id or "",
        generation_id=generation,
        member_id=member_id,
        group_instance_id=config.group_instance_id,
    )


def leave_request(config: ConsumerConfig, member_id: str) -> LeaveGroupRequest:
    """The request needs `fit_leave` as its `fit`."""
    return LeaveGroupRequest(group_id=config.group_id or "", member_id=member_id, members=[])


def fit_leave(reason: str, message: LeaveGroupRequest, version: int) -> None:
    """From version LEAVE_MANY_FROM on, move the member id, with the reason, to `members`."""
    if version >= LEAVE_MANY_FROM:
        message.members = [LeaveGroupRequest.Member(member_id=message.member_id, reason=reason)]
        message.member_id = ""
