"""Group protocol. Rule: a protocol speaks with the coordinator, its assignee with the application; neither does the other's part.

The classic protocol (`classic`) is the only one so far. Whatever stands beside it has to be a `GroupProtocol`, and finds all it needs to
know of the application in `Assignee`.
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
    """Where this member stands. The value is what `status()` shows as its state, `meaning` the same for people."""

    UNJOINED = "unjoined"
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"
    REVOKING = "revoking"
    LEAVING = "leaving"
    FATAL = "fatal"

    @property
    def meaning(self) -> str | None:
        """None for the ordinary state."""
        return _MEANINGS.get(self)


_MEANINGS = {
    MemberState.UNJOINED: "is not in the group",
    MemberState.JOINING: "waits for the other members of the group",
    MemberState.SYNCING: "waits for its partitions",
    MemberState.REVOKING: "waits for the application to give its partitions back",
    MemberState.LEAVING: "leaves the group",
    MemberState.FATAL: "the group refused it for good",
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
    """The application's side of a member, as its protocol sees it."""

    @property
    def topics(self) -> tuple[str, ...]:
        """What the application is subscribed to now."""

    def keep_lease(self, now: float) -> float:
        """When the application must have polled. If that is over the member leaves the group before this returns."""

    def assigned(self, assignment: Assignment, credentials: Credentials) -> None:
        """The group gives partitions to this member, which commits under `credentials`."""

    def revoke(self, now: float, reason: str) -> None:
        """A rebalance begins: have the application give its partitions back. `GroupProtocol.given_back` follows."""

    def lost(self, reason: str) -> None:
        """The partitions, if there are any, may be somebody else's already."""

    def refused(self, error: KafkaError) -> None:
        """The group refused this member for good."""

    def left(self) -> None:
        """Whoever had to hear that this member leaves has heard of it."""


class GroupProtocol(Protocol):
    """One member, as its coordinator knows it. It holds no partitions: those are its assignee's."""

    state: MemberState
    error: KafkaError | None  # the last thing that went wrong
    member_id: str
    generation: int  # -1 while it is in none

    def poll(self, now: float) -> float:
        """Send what is due for a member that is in the group, enters or leaves it; returns when to be polled again."""

    def join(self, now: float) -> float:
        """The member is UNJOINED and could take partitions: join when the coordinator can be asked; returns when to try again."""

    def given_back(self) -> None:
        """The application has given back what was revoked."""

    def drop_out(self) -> None:
        """The partitions are lost, so this generation is over for this member. The coordinator is not told."""

    def leave(self, now: float, by: float) -> None:
        """Tell the coordinator that this member leaves, until `by` at most; `Assignee.left` follows."""

    def fail(self, error: KafkaError) -> None:
        """No retry helps: the member is FATAL until `start_over` or `leave`."""

    def start_over(self) -> None:
        """The application wants something else: what was refused before may not be refused now."""

    def gone(self) -> None:
        """Nothing is wanted any more, so nothing has to be known of the topics of others either."""

    def on_commit_verdict(self, now: float, credentials: Credentials, verdict: Reaction, error: KafkaError) -> None:
        """The answer to a commit said something about the member that made it."""
