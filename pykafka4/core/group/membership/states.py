"""Declares the states of a group member, with a table of moves for each protocol. Invariant: a move outside the table raises an error."""

from __future__ import annotations

import enum
from typing import Final

from pykafka4.core import Transitions

__all__ = ["CLASSIC_MOVES", "CONSUMER_MOVES", "LONE_MOVES", "OUT", "SHARE_MOVES", "MemberState"]


class MemberState(enum.Enum):
    """`status()` shows the value as the state, and `meaning` as the reason if there is no error."""

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
        """None for the normal state."""
        return _MEANINGS.get(self)


S = MemberState
_MEANINGS = {
    S.UNJOINED: "not a member",
    S.JOINING: "waiting for the coordinator, which in a classic group waits for the other members",
    S.SYNCING: "waiting for its assignment",
    S.REVOKING: "waiting for the application to release revoked partitions; the others are read",
    S.REJOINING: "keeps its partitions, and joins again as soon as it can",
    S.LEAVING: "leaving the group",
    S.FATAL: "ended by an error; the member joins again after the next call of subscribe",
}

CLASSIC_MOVES: Final = Transitions(
    "group member",
    {
        S.UNJOINED: {S.JOINING, S.LEAVING, S.FATAL},
        S.JOINING: {S.SYNCING, S.REJOINING, S.UNJOINED, S.LEAVING, S.FATAL},
        S.SYNCING: {S.STABLE, S.REJOINING, S.UNJOINED, S.LEAVING, S.FATAL},
        S.STABLE: {S.REVOKING, S.REJOINING, S.UNJOINED, S.LEAVING, S.FATAL},
        S.REVOKING: {S.REJOINING, S.UNJOINED, S.LEAVING, S.FATAL},
        S.REJOINING: {S.JOINING, S.REVOKING, S.UNJOINED, S.LEAVING, S.FATAL},
        S.LEAVING: {S.UNJOINED},
        S.FATAL: {S.UNJOINED},
    },
    {**_MEANINGS, S.STABLE: "has its partitions and sends heartbeats"},
)
CONSUMER_MOVES: Final = Transitions(
    "group member of the consumer protocol",
    {
        S.UNJOINED: {S.JOINING, S.LEAVING, S.FATAL},
        S.JOINING: {S.STABLE, S.UNJOINED, S.LEAVING, S.FATAL},
        S.STABLE: {S.REVOKING, S.UNJOINED, S.LEAVING, S.FATAL},
        S.REVOKING: {S.STABLE, S.UNJOINED, S.LEAVING, S.FATAL},
        S.LEAVING: {S.UNJOINED},
        S.FATAL: {S.UNJOINED},
    },
    {**_MEANINGS, S.STABLE: "sends heartbeats, and reads its partitions"},
)
SHARE_MOVES: Final = Transitions(
    "member of a share group",
    {
        S.UNJOINED: {S.JOINING, S.LEAVING, S.FATAL},
        S.JOINING: {S.STABLE, S.UNJOINED, S.LEAVING, S.FATAL},
        S.STABLE: {S.UNJOINED, S.LEAVING, S.FATAL},
        S.LEAVING: {S.UNJOINED},
        S.FATAL: {S.UNJOINED},
    },
    {**_MEANINGS, S.STABLE: "sends heartbeats, and acquires records of its partitions"},
)
LONE_MOVES: Final = Transitions(
    "subscriber without a group",
    {
        S.UNJOINED: {S.STABLE},
        S.STABLE: {S.REVOKING, S.UNJOINED},
        S.REVOKING: {S.STABLE, S.UNJOINED},
    },
    {**_MEANINGS, S.STABLE: "reads all partitions of its topics"},
)
OUT: Final = (S.UNJOINED, S.LEAVING, S.FATAL)  # the member is out of the group, or is about to leave it
