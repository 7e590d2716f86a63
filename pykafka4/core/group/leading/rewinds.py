"""Puts the offsets of a rewind into the assignments of a group.

Invariant: if any member cannot take part, the leader refuses the rewind of all remaining partitions.

The wish of a static member is valid only in the generation after the one in which the member made it. A static member that did not join
again is in the group with its old subscription, whose wish may have been carried out already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from pykafka4.assignors.interface import GroupMember
from pykafka4.core.group.encoding import assigned_partitions
from pykafka4.core.group.notes import NO_NOTE, Note, Rewind, note_bytes, read_note
from pykafka4.errors import DecodeError, listed
from pykafka4.errors.peer_text import visible
from pykafka4.logs import get_log
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_group import JoinGroupResponse

__all__ = ["MemberRewind", "member_title", "strangers_refusal", "wish_of", "with_rewind"]

log = get_log("pykafka4.group")


@attrs.frozen
class MemberRewind:
    """The rewind that `asker` wants. `done` has the partitions rewound in earlier generations. `refusal` is empty if all members can take
    part."""

    asker: str
    rewind: Rewind
    refusal: str
    done: frozenset[TopicPartition]


def member_title(member_id: str, client_id: str, host: str) -> str:
    return f"member {visible(member_id)} (client {visible(client_id)}, host {visible(host)})"


def strangers_refusal(names: list[str]) -> str:
    """The reason why a group with these members, which read no notes, is not rewound; empty if `names` is empty."""
    if not names:
        return ""
    what = "is not a member that can rewind" if len(names) == 1 else "are not members that can rewind"
    return (
        f"{listed(names)} {what}: only members of this client, from this version on and with an assignor other than 'sticky', can "
        "carry out a rewind; stop the members named, or stop all members and reset the offsets"
    )


def wish_of(rows: Iterable[JoinGroupResponse.Member], generation: int, where: str) -> MemberRewind | None:
    """One of the wishes that are valid in `generation`, or None. Members make the other wishes again."""
    notes = {row.member_id: _note(row, where) for row in rows}
    static = {row.member_id for row in rows if row.group_instance_id is not None}
    wishes = {
        name: note.rewind
        for name, note in notes.items()
        if note is not None and note.rewind is not None and (name not in static or note.generation == generation - 1)
    }
    if not wishes:
        return None
    asker, rewind = min(wishes.items(), key=lambda item: item[1].rewind_id)
    done = frozenset[TopicPartition]().union(*(note.done.get(rewind.rewind_id, ()) for note in notes.values() if note is not None))
    return MemberRewind(asker, rewind, strangers_refusal([visible(name) for name, note in notes.items() if note is None]), done)


def _note(row: JoinGroupResponse.Member, where: str) -> Note | None:
    try:
        return read_note(row.metadata)
    except DecodeError as error:
        log.warning("%s: group member %s: %s", where, visible(row.member_id), error)
        return NO_NOTE


def with_rewind(wish: MemberRewind, shares: Mapping[str, bytes], members: Iterable[GroupMember]) -> dict[str, bytes]:
    """Add the new offsets to the assignments of the members that are assigned the partitions or still hold them.

    The asker also gets the list of rewound partitions. If no partition is left, or the rewind is refused, only the asker gets a note.
    """
    places = {tp: offset for tp, offset in wish.rewind.offsets.items() if tp not in wish.done}
    owners = {name: set(assigned_partitions(share)) for name, share in shares.items()}
    for member in members:
        owners[member.member_id].update(member.owned)
    rewind_id, done = wish.rewind.rewind_id, {wish.rewind.rewind_id: wish.done} if wish.done else {}
    refusal = (wish.refusal or _without_owner(places, owners)) if places else ""
    if refusal or not places:
        note = Note(Rewind(rewind_id, {}), done=done, refusal=refusal)
        return {name: share + note_bytes(note) if name == wish.asker else share for name, share in shares.items()}
    given = {name: Rewind(rewind_id, {tp: places[tp] for tp in places if tp in owners[name]}) for name in shares}
    return {name: share + note_bytes(Note(given[name], done=done if name == wish.asker else {})) for name, share in shares.items()}


def _without_owner(places: Mapping[TopicPartition, int], owners: Mapping[str, set[TopicPartition]]) -> str:
    free = sorted(places.keys() - set[TopicPartition]().union(*owners.values()))
    return f"no member is assigned {listed(free)}" if free else ""
