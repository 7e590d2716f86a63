"""Encodes and decodes the notes that members of a group send to each other. Invariant: `read_note` raises only DecodeError.

In a subscription (JoinGroup), a note is at the end of the assignor's user data. Other clients ignore a note there, because `range` and
`roundrobin` have no user data, and `cooperative-sticky` has a number at the beginning. Clients read the user data of `sticky` strictly, so
a subscription with `sticky` has no note. A note after the last field of the subscription would stop a Sarama leader, which refuses bytes
there. In an assignment (SyncGroup), a note follows the last field; only members that read notes get one.
Each subscription of this client, except with `sticky`, has a note, which may be empty: the note shows that the member reads notes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from operator import index
from typing import Any, Final

import attrs

from pykafka4.errors import DecodeError
from pykafka4.records import TopicPartition

__all__ = ["NO_NOTE", "WITHOUT_NOTES", "Note", "Rewind", "carries_note", "note_bytes", "read_note", "without_note"]

MARK: Final = b"\0pykafka4\1"  # the last bytes of a note; the last byte is the version
WITHOUT_NOTES: Final = "sticky"  # the assignor whose user data must end where its schema ends
LENGTH_BYTES: Final = 4  # bytes for the length of the note, before the mark
TAIL_BYTES: Final = LENGTH_BYTES + len(MARK)
MOST_PARTITION: Final = 2**31 - 1
MOST_OFFSET: Final = 2**63 - 1


@attrs.frozen
class Rewind:
    """New offsets for a group with members. By the `rewind_id`, a member recognises a repeated rewind."""

    rewind_id: str
    offsets: Mapping[TopicPartition, int]


@attrs.frozen
class Note:
    """In a subscription, the member wants `rewind`; in an assignment, the member must carry it out.

    With a wish, `generation` is the member's generation before the join, otherwise -1. `done` has, by rewind id, the partitions that the
    member has rewound lately; in the asker's assignment, the partitions that any member has rewound. `refusal` is the leader's reason to
    refuse the rewind, or empty.
    """

    rewind: Rewind | None = None
    generation: int = -1
    done: Mapping[str, frozenset[TopicPartition]] = attrs.Factory(dict)
    refusal: str = ""


NO_NOTE: Final = Note()


def note_bytes(note: Note) -> bytes:
    """Return the note as bytes, to be appended to the user data of a subscription, or to an assignment."""
    text = b"" if note == NO_NOTE else json.dumps(_as_json(note), separators=(",", ":")).encode()
    return text + len(text).to_bytes(LENGTH_BYTES, "big") + MARK


def read_note(data: bytes) -> Note | None:
    """None if `data` has no note. Raises DecodeError for a malformed note."""
    end = data.rfind(MARK) - LENGTH_BYTES
    if end < 0:
        return None
    size = int.from_bytes(data[end : end + LENGTH_BYTES], "big")
    if not size:
        return NO_NOTE
    try:
        return _from_json(json.loads(data[max(end - size, 0) : end]))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise DecodeError(f"the note of a group member cannot be read: {error}") from error


def carries_note(subscription: bytes) -> bool:
    """Whether the member that sent `subscription` reads notes."""
    try:
        return read_note(subscription) is not None
    except DecodeError:
        return True


def without_note(user_data: bytes | None) -> bytes | None:
    """The user data without the note at its end; None if nothing is left."""
    if not user_data or not user_data.endswith(MARK):
        return user_data
    size = int.from_bytes(user_data[-TAIL_BYTES : -len(MARK)], "big")
    return user_data[: max(len(user_data) - TAIL_BYTES - size, 0)] or None


def _as_json(note: Note) -> dict[str, Any]:
    rewind = note.rewind
    return {
        "rewind": None if rewind is None else [rewind.rewind_id, [[*tp, offset] for tp, offset in rewind.offsets.items()]],
        "generation": note.generation,
        "done": {rewind_id: sorted(tps) for rewind_id, tps in note.done.items()},
        "refusal": note.refusal,
    }


def _from_json(found: Any) -> Note:
    rewind = found["rewind"]
    return Note(
        None if rewind is None else Rewind(str(rewind[0]), {_tp(topic, p): _count(offset, MOST_OFFSET) for topic, p, offset in rewind[1]}),
        index(found["generation"]),
        {str(rewind_id): frozenset(_tps(tps)) for rewind_id, tps in found["done"].items()},
        str(found["refusal"]),
    )


def _tps(rows: Iterable[Any]) -> Iterable[TopicPartition]:
    return (_tp(*row) for row in rows)


def _tp(topic: Any, partition: Any) -> TopicPartition:
    name = str(topic)
    name.encode()  # a lone surrogate would raise an error later, when the offsets are committed
    return TopicPartition(name, _count(partition, MOST_PARTITION))


def _count(value: Any, most: int) -> int:
    """Raises TypeError or ValueError unless `value` is an integer from 0 to `most`: another value could later end the member."""
    if not 0 <= index(value) <= most:
        raise ValueError(f"{value} is not from 0 to {most}")
    return index(value)
