"""Describes JoinGroup requests, JoinGroup responses and SyncGroup responses as plain values, the same for all versions."""

from __future__ import annotations

import attrs

__all__ = ["JoinRequest", "Joined", "Synced"]


@attrs.frozen
class JoinRequest:
    member_id: str
    instance_id: str | None
    client_id: str
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    session_timeout: float
    rebalance_timeout: float
    needs_id_first: bool  # JoinGroup 4 and newer: a new dynamic member gets an id and MEMBER_ID_REQUIRED, and joins again
    skips_assignment: bool = True  # JoinGroup 9: the response to a leader that rejoins can tell it to skip the assignment


@attrs.frozen
class Joined:
    error: str = "NONE"
    generation: int = -1
    protocol: str | None = None
    leader: str = ""
    member_id: str = ""
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    skip_assignment: bool = False


@attrs.frozen
class Synced:
    error: str = "NONE"
    assignment: bytes = b""
    protocol: str | None = None
