"""Requests of a member. Rule: every request of a static member has its instance id (a classic one never sends LeaveGroup).

And for how long their responses are waited for: a member that gave up a JoinGroup or SyncGroup while the coordinator may still hold it back
would join again, which begins the next rebalance before the others have finished this one.
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
LEAVE_MANY_FROM: Final = 3  # LeaveGroup takes many members, in other fields, from v3 on
GRACE: Final = 5.0  # seconds beyond the time for which a coordinator holds a response back (JoinGroup: as in Java)
ASSIGN_SHARE: Final = 0.75  # of the session time-out


Fit: TypeAlias = Callable[[Any, int], None]  # see `Request.fit`


class GroupRequest(Enum):
    """The kind of a request of a member."""

    JOIN = "JoinGroup"
    SYNC = "SyncGroup"
    HEARTBEAT = "Heartbeat"
    ASSIGNMENT = "DescribeGroups, of a leader that asks for the present assignment"
    MEMBERS = "DescribeGroups, before the group is rewound"
    LEAVE = "LeaveGroup"


ATTEMPTS: Final = (GroupRequest.JOIN, GroupRequest.SYNC)  # held back until all members have sent theirs


class Member(Protocol):
    """The member that sent a request."""

    def answered(self, now: float, request: GroupInFlight, outcome: Outcome) -> None:
        """`request` has its outcome."""


@attrs.define(eq=False)
class GroupInFlight(Request):
    """A request of a member without a response, and the state of the member when it was sent."""

    member: Member = attrs.field(kw_only=True)
    kind: GroupRequest = attrs.field(kw_only=True)
    coordinator: int = attrs.field(kw_only=True)
    sent_at: float = attrs.field(kw_only=True)
    identity: MemberIdentity | None = attrs.field(kw_only=True)
    generation: int = attrs.field(kw_only=True)

    def on_reply(self, now: float, outcome: Outcome) -> None:
        """See `Request`."""
        self.member.answered(now, self, outcome)


def join_patience(config: ConsumerConfig) -> float:
    """Seconds until a JoinGroup without a response is given up: members may join until the rebalance time-out."""
    return max(config.request_timeout_ms / 1000, config.max_poll_interval_ms / 1000 + GRACE)


def assign_patience(config: ConsumerConfig) -> float:
    """Seconds, after the response to a join, until the leader must have assigned the partitions."""
    return config.session_timeout_ms / 1000 * ASSIGN_SHARE


def sync_patience(config: ConsumerConfig, *, leads: bool) -> float:
    """Seconds until a SyncGroup without a response is given up: followers get one when the leader has assigned.

    Brokers remove members that have not synced within the rebalance time-out.
    """
    answers_in = config.request_timeout_ms / 1000
    if leads:
        return answers_in
    return max(answers_in, min(assign_patience(config), config.max_poll_interval_ms / 1000) + GRACE)


def join_request(
    config: ConsumerConfig,
    member_id: str,
    topics: Iterable[str],
    owned: Iterable[TopicPartition],
    generation: int,
    user_data: Mapping[str, bytes | None],
    reason: str,
) -> JoinGroupRequest:
    """Join, or rejoin as `member_id`, with a subscription to `topics`, while holding `owned`, which `generation` assigned.

    `user_data`: for each assignor, in order of preference, what its members send with it. The coordinator logs `reason`.
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
    """Request this member's assignment; the leader sends those of all members."""
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
    """The reason for a JoinGroup after one that failed, with the name of Java's exception for `error`."""
    words = str(error.code).split("_") if isinstance(error, BrokerError) else ["Disconnect"]
    return f"rebalance failed due to {''.join(word.capitalize() for word in words)}Exception"


def heartbeat_request(config: ConsumerConfig, member_id: str, generation: int) -> HeartbeatRequest:
    """A heartbeat."""
    return HeartbeatRequest(
        group_id=config.group_id or "",
        generation_id=generation,
        member_id=member_id,
        group_instance_id=config.group_instance_id,
    )


def leave_request(config: ConsumerConfig, member_id: str) -> LeaveGroupRequest:
    """Leave the group. Needs `fit_leave` as its `fit`."""
    return LeaveGroupRequest(group_id=config.group_id or "", member_id=member_id, members=[])


def fit_leave(reason: str, message: LeaveGroupRequest, version: int) -> None:
    """Move the member id to the field that `version` has for it, beside the reason."""
    if version >= LEAVE_MANY_FROM:
        message.members = [LeaveGroupRequest.Member(member_id=message.member_id, reason=reason)]
        message.member_id = ""
