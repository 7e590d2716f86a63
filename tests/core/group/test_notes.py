"""Notes behind the bytes of subscriptions and assignments."""

from __future__ import annotations

import pytest

from pykafka4.core.group.encoding import assigned_partitions, assignment_bytes, group_member, subscription_bytes
from pykafka4.core.group.notes import MARK, NO_NOTE, Note, Rewind, note_bytes, read_note
from pykafka4.errors import DecodeError
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_group import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from pykafka4.wire.protocol.schema import decode_data, encode_data

TP = TopicPartition("t", 3)
NOTES = [
    NO_NOTE,
    Note(Rewind("id", {TP: 5, TopicPartition("ü", 0): 1 << 60}), 7),
    Note(done={"id": frozenset([TP]), "other": frozenset()}),
    Note(Rewind("id", {}), refusal="no member is assigned t-3"),
]


@pytest.mark.parametrize("note", NOTES)
def test_a_note_survives_its_bytes_in_both(note: Note) -> None:
    sent = note_bytes(note)
    assert read_note(subscription_bytes(["t"], [TP], 3, "rack", b"user data" + sent)) == note
    assert read_note(assignment_bytes([TP]) + sent) == note


@pytest.mark.parametrize("note", NOTES)
@pytest.mark.parametrize("version", range(4))
def test_who_does_not_know_notes_reads_the_same_as_without(note: Note, version: int) -> None:
    """A subscription keeps its length, which strict readers (Sarama) check; an assignment may be followed by more bytes."""
    subscription = encode_data(ConsumerProtocolSubscription(topics=["t"], user_data=b"u"), version)
    noted = encode_data(ConsumerProtocolSubscription(topics=["t"], user_data=b"u" + note_bytes(note)), version)
    assignment = encode_data(ConsumerProtocolAssignment(assigned_partitions=[]), version)
    assert encode_data(decode_data(ConsumerProtocolSubscription, noted), version) == noted
    assert group_member("m", None, noted, "c") == group_member("m", None, subscription, "c")
    assert assigned_partitions(assignment + note_bytes(note)) == []


def test_other_clients_send_no_note() -> None:
    assert read_note(subscription_bytes(["t"])) is None
    assert read_note(b"") is None


@pytest.mark.parametrize("text", [b"{", b"[]", b"{}", b'{"rewind":[1],"generation":1,"done":{},"refusal":""}', b"[" * 100_000])
def test_a_note_that_cannot_be_read_is_an_error(text: bytes) -> None:
    with pytest.raises(DecodeError, match="the note of a group member"):
        read_note(text + len(text).to_bytes(4, "big") + MARK)


ROWS = ['"t",0,Infinity', '"t",0,-5', '"t",0,9223372036854775808', '"t",0,5.5', '"t",-1,5', '"t",2147483648,5', '"\\ud800",0,5']


@pytest.mark.parametrize("row", ROWS)
def test_a_note_that_no_request_could_carry_is_an_error(row: str) -> None:
    """Otherwise a member could end all others: at the commit of the rewind."""
    text = f'{{"rewind":["id",[[{row}]]],"generation":1,"done":{{}},"refusal":""}}'.encode()
    with pytest.raises(DecodeError, match="the note of a group member"):
        read_note(text + len(text).to_bytes(4, "big") + MARK)


def test_a_generation_that_is_no_number_is_an_error() -> None:
    text = b'{"rewind":null,"generation":Infinity,"done":{},"refusal":""}'
    with pytest.raises(DecodeError, match="the note of a group member"):
        read_note(text + len(text).to_bytes(4, "big") + MARK)
