"""States of a classic member. Rule: a transition that is not in the table raises an error."""

from __future__ import annotations

import enum
from typing import Final

from pykafka4.core import Transitions

__all__ = ["MOVES", "OUT", "MemberState"]


class MemberState(enum.Enum):
    """The state of this member. `status()` shows the value as the state, and `meaning` as the reason."""

    UNJOINED = "unjoined"
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"
    REVOKING = "revoking"
    REJOINING = "rejoining"
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
    MemberState.REJOINING: "keeps its partitions, and joins again as soon as it can",
    MemberState.LEAVING: "leaving the group",
    MemberState.FATAL: "rejected by the group; it joins again when the subscription changes",
}
S = MemberState

MOVES = Transitions(
    "group member",
    {
        S.UNJOINED: {S.JOINING, S.LEAVING, S.FATAL},
        S.JOINING: {S.SYNCING, S.REJOINING, S.UNJOINED, S.LEAVING, S.FATAL},
        S.SYNCING: {S.STABLE, S.REJOINING, S.UNJOINED, S.LEAVING, S.FATAL},
        S.STABLE: {S.REVOKING, S.REJOINING, S.UNJOINED, S.LEAVING, S.FATAL},
        S.REVOKING: {S.REJOINING, S.UNJOINED, S.LEAVING, S.FATAL},
        S.REJOINING: {S.JOINING, S.REVOKING, S.UNJOINED, S.LEAVING, S.FATAL},
        S.LEAVING: {S.UNJOINED, S.FATAL},
        S.FATAL: {S.UNJOINED},
    },
    {**_MEANINGS, S.STABLE: "has its partitions and sends heartbeats"},
)
OUT: Final = (S.UNJOINED, S.LEAVING, S.FATAL)  # of the group, or about to be
