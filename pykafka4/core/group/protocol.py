"""Group protocol. Rule: a protocol deals with the coordinator, its assignee with the application; neither does the other's part.

The classic protocol (`classic`) is the only one so far. Another one has to implement `GroupProtocol`, and gets everything that it needs to
know of the application from `Assignee`.
"""

from __future__ import annotations

import enum
from typing import Protocol

from pykafka4.core import Transitions
from pykafka4.core.group.coordinator import Reaction
from pykafka4.core.subscription import Assignment, Credentials
from pykafka4.errors import KafkaError

__all__ = ["MOVES", "Assignee", "GroupProtocol", "MemberState"]


class MemberState(enum.Enum):
    """The state of this member. `status()` shows the value as the state, and `meaning` as the reason."""

    UNJOINED = "unjoined"
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"
    REVOKING = "revoking"
    LEAVING = "leaving"
    FATAL = "fatal"

    @property
    def meaning(self) -> str | None:
        """None in the normal state."""
        return _MEANINGS.get(self)


_MEANINGS = {
    MemberState.UNJOINED: "not a member",
    MemberState.JOINING: "waiting for the other members",
    MemberState.SYNCING: "waiting for its assignment",
    MemberState.REVOKING: "waiting for the application to release revoked partitions",
    MemberState.LEAVING: "leaving the group",
    MemberState.FATAL: "rejected by the group, not retriable",
}
_U, _J, _S, _T, _R, _L, _F = MemberState

MOVES = Transitions(
    "group member",
    {
        _U: {_J, _L, _F},
        _J: {_S, _U, _L, _F},
        _S: {_T, _U, _L, _F},
        _T: {_R, _U, _L, _F},
        _R: {_U, _L, _F},
        _L: {_U, _F},
        _F: {_U},
    },
    {**_MEANINGS, _T: "has its partitions and sends heartbeats"},
)


class Assignee(Protocol):
    """The application's side of a member, as its protocol uses it."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that the application is subscribed to."""

    def keep_lease(self, now: float) -> float:
        """The time by which the application must poll. If it has passed, the member leaves the group before this returns."""

    def assigned(self, assignment: Assignment, credentials: Credentials) -> None:
        """The group assigned partitions to this member, which commits with `credentials`."""

    def revoke(self, now: float, reason: str) -> None:
        """A rebalance has started: have the application release its partitions. `GroupProtocol.given_back` follows."""

    def lost(self, reason: str) -> None:
        """The partitions, if there are any, may already belong to another member."""

    def refused(self, error: KafkaError) -> None:
        """The group rejected this member with an error that is not retriable."""

    def left(self) -> None:
        """The member has left the group, as far as it needed the coordinator for that."""


class GroupProtocol(Protocol):
    """One member from the coordinator's point of view. It holds no partitions: its assignee does."""

    state: MemberState
    error: KafkaError | None  # the last error
    member_id: str
    generation: int  # -1: none

    def poll(self, now: float) -> float:
        """Send what is due while the member is in the group, joins or leaves it; returns when to be polled again."""

    def join(self, now: float) -> float:
        """The member is UNJOINED and can take partitions: join as soon as the coordinator is known; returns when to try again."""

    def given_back(self) -> None:
        """The application has released the revoked partitions."""

    def drop_out(self) -> None:
        """The partitions are lost, so this generation is over for this member. No request is sent."""

    def leave(self, now: float, by: float) -> None:
        """Send LeaveGroup, at most until `by`; `Assignee.left` follows."""

    def fail(self, error: KafkaError) -> None:
        """An error that is not retriable: the member is FATAL until `start_over` or `leave`."""

    def start_over(self) -> None:
        """The subscription changed: a member that was rejected tries again."""

    def gone(self) -> None:
        """The subscription ended, so a leader no longer needs the metadata of the group's topics."""

    def on_commit_verdict(self, now: float, credentials: Credentials, verdict: Reaction, error: KafkaError) -> None:
        """The response to a commit contained an error that concerns the member."""
