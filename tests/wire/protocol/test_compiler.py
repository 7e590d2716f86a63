from __future__ import annotations

import linecache

import pytest

from pykafka4.errors import DecodeError, UnsupportedVersion
from pykafka4.wire.protocol.compiler import decoder, encoder, field_at_fault
from pykafka4.wire.protocol.emitted import read_uvarint
from pykafka4.wire.protocol.messages_cluster import MetadataRequest, MetadataResponse
from pykafka4.wire.protocol.messages_fetch import FetchResponse
from pykafka4.wire.protocol.messages_produce import ProduceRequest
from pykafka4.wire.protocol.schema import decode, encode

EDGES = [0, 1, 0x7E, 0x7F, 0x80, 0x3FFE, 0x3FFF, 0x4000, 0x1F_FFFE, 0x1F_FFFF, 0x20_0000, 0x0FFF_FFFF, 0x1000_0000]


class Sized:
    """Records of any size, without the bytes."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


@pytest.mark.parametrize("size", [*EDGES, 2**31 - 2])
def test_length_prefixes_are_right_at_every_edge(size: int) -> None:
    """The prefix is the length plus one; the frame before the records ends with it."""
    topic = ProduceRequest.Topic(partition_data=[ProduceRequest.Topic.Partition(index=7, records=Sized(size))])  # type: ignore[arg-type]
    head = bytes(encode(ProduceRequest(topic_data=[topic]), 13)[0])
    at = head.rindex(b"\0\0\0\x07") + 4
    assert read_uvarint(head, at)[0] == size + 1
    assert read_uvarint(head, at)[1] == len(head) - (0 if size else 3)


@pytest.mark.parametrize("n", EDGES)
def test_uvarints_read_what_they_say_and_where_they_end(n: int) -> None:
    packed, rest = bytearray(), n
    while rest > 0x7F:
        packed.append(rest & 0x7F | 0x80)
        rest >>= 7
    packed.append(rest)
    assert read_uvarint(b"??" + packed + b"?", 2) == (n, 2 + len(packed))
    for end in range(len(packed)):
        with pytest.raises(IndexError):
            read_uvarint(bytes(packed[:end]), 0)


def test_a_uvarint_has_32_bits() -> None:
    assert read_uvarint(b"\xff\xff\xff\xff\x0f", 0) == (0xFFFF_FFFF, 5)
    for data in (b"\xff\xff\xff\xff\x10", b"\x80\x80\x80\x80\x80\x00"):
        with pytest.raises(DecodeError, match="more than 32 bits"):
            read_uvarint(data, 0)


def test_each_version_is_compiled_once() -> None:
    assert encoder(MetadataRequest, 9) is encoder(MetadataRequest, 9)
    assert encoder(MetadataRequest, 9) is not encoder(MetadataRequest, 10)
    assert decoder(MetadataResponse, 9) is decoder(MetadataResponse, 9)
    with pytest.raises(UnsupportedVersion):
        encoder(MetadataRequest, 99)


def test_only_messages_with_records_want_a_view() -> None:
    assert decoder(FetchResponse, 12)[1]
    assert not decoder(MetadataResponse, 12)[1]


def test_the_source_of_emitted_code_stays_in_the_line_cache() -> None:
    decoder(MetadataResponse, 5)
    linecache.checkcache()
    assert linecache.getline("<pykafka4 MetadataResponse v5 decode>", 1) == "def decode(buf, view, pos, end, room, say=str):\n"


def test_the_field_at_fault_is_found_and_a_stranger_has_none() -> None:
    with pytest.raises(DecodeError) as caught:
        decode(MetadataResponse, 1, bytes(3) + b"\x01" + bytes(3))
    assert field_at_fault(caught.value.__cause__ or caught.value) == "MetadataResponse.brokers"
    assert field_at_fault(ValueError()) == ""
