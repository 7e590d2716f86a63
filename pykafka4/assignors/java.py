"""Java's orders. Rule: members are ranked as Java ranks them, because ranks decide which member gets what."""

from __future__ import annotations

from collections.abc import Iterable

from pykafka4.assignors.interface import GroupMember

__all__ = ["ranked", "utf16"]


def utf16(text: str) -> bytes:
    """A key that sorts as `String.compareTo`: by UTF-16 units, not by code points."""
    return text.encode("utf-16-be", "surrogatepass")


def ranked(members: Iterable[GroupMember]) -> list[GroupMember]:
    """Static members first, by instance id, then the others by member id (`AbstractPartitionAssignor.MemberInfo`)."""
    return sorted(members, key=_rank)


def _rank(member: GroupMember) -> tuple[bool, bytes]:
    name = member.member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, utf16(name)
