from __future__ import annotations

import random
from typing import Any

import pytest

from pykafka4.errors import DecodeError
from pykafka4.wire.protocol.frame import (
    MAX_FRAME,
    FrameTooLarge,
    RequestHeader,
    correlation_of,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    explain_bad_frame,
    frame_size,
)
from pykafka4.wire.protocol.messages_admin import ListGroupsRequest
from pykafka4.wire.protocol.messages_cluster import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse
from pykafka4.wire.protocol.messages_produce import ProduceRequest
from pykafka4.wire.protocol.schema import Request
from tests.wire.wire_samples import BUFFERS, every_version, name_of, sample

REQUESTS_AT = [(cls, version) for cls, version in every_version() if issubclass(cls, Request)]


def whole(buffers: list[Any]) -> bytes:
    return b"".join(map(bytes, buffers))


@pytest.mark.parametrize(("cls", "version"), REQUESTS_AT, ids=name_of)
def test_requests_and_responses_cross_in_frames(cls: Any, version: int) -> None:
    rng = random.Random(version)
    request, response = sample(cls, version, rng), sample(cls.response, version, rng)
    if cls is ApiVersionsRequest:
        response.error_code = 0
    for client_id in ("me", "", None, "ä"):
        out = whole(encode_request(request, version, 77, client_id))
        assert frame_size(out) == len(out) - 4
        assert decode_request(out[4:]) == (RequestHeader(cls.api_key, version, 77, client_id), request)
    out = whole(encode_response(response, version, -5))
    assert frame_size(out) == len(out) - 4
    for buffer in BUFFERS.values():
        assert correlation_of(buffer(out[4:])) == -5
        assert decode_response(cls, version, buffer(out[4:])) == (-5, response)


def test_a_request_has_the_bytes_of_the_protocol_guide() -> None:
    assert whole(encode_request(ListGroupsRequest(), 0, 7, "me")) == b"\0\0\0\x0c" + b"\0\x10\0\0" + b"\0\0\0\x07" + b"\0\x02me"
    assert (
        whole(encode_request(ListGroupsRequest(), 3, 7, "me"))
        == b"\0\0\0\x0e" + b"\0\x10\0\x03" + b"\0\0\0\x07" + b"\0\x02me" + b"\0" + b"\0"
    )
    assert whole(encode_request(ListGroupsRequest(), 0, 7, None)) == b"\0\0\0\x0a" + b"\0\x10\0\0" + b"\0\0\0\x07" + b"\xff\xff"


def test_the_api_versions_response_has_the_old_header_in_every_version() -> None:
    for version in range(5):
        assert whole(encode_response(ApiVersionsResponse(), version, 9))[4:10] == b"\0\0\0\x09\0\0"
    assert whole(encode_response(MetadataResponse(), 9, 9))[4:9] == b"\0\0\0\x09\0"


def test_records_stay_buffers_of_their_own_behind_the_header() -> None:
    records = memoryview(bytes(5000))
    topic = ProduceRequest.Topic(name="t", partition_data=[ProduceRequest.Topic.Partition(records=records)])
    head, body, tail = encode_request(ProduceRequest(topic_data=[topic]), 9, 1, "me")
    assert body is records
    assert frame_size(head) == len(head) + 5000 + len(tail) - 4


# -- ApiVersions with an unknown version --------------------------------------------


REFUSED = b"\0\0\0\x01" + b"\0\x23"


@pytest.mark.parametrize(
    ("frame", "ranges"),
    [
        (REFUSED, []),
        (REFUSED + b"\0", []),
        (REFUSED + b"\0\0\0\0", []),
        (REFUSED + b"\0\0\0\x01" + b"\0\x12\0\0\0\x04", [(18, 0, 4)]),
        (REFUSED + b"\0\0\0\x01" + b"\0\x12\0\0\0\x04" + b"odd", []),
        (REFUSED + b"\x02" + b"\0\x12\0\0\0\x04\0" + bytes(4) + b"\0", [(18, 0, 4)]),
        (REFUSED + b"\xff\xff\xff\xff", []),
        (REFUSED + b"\x7f\xff\xff\xff" * 3, []),
    ],
)
def test_only_the_error_code_of_a_refused_api_versions_is_trusted(frame: bytes, ranges: list[tuple[int, int, int]]) -> None:
    for version in (0, 3, 4, 5):
        correlation, response = decode_response(ApiVersionsRequest, version, frame)
        assert (correlation, response.error_code) == (1, 35)
    _, response = decode_response(ApiVersionsRequest, 4, frame)
    assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == ranges


def test_other_errors_of_api_versions_are_read_strictly() -> None:
    with pytest.raises(DecodeError, match="ApiVersionsResponse"):
        decode_response(ApiVersionsRequest, 4, b"\0\0\0\x01\0\0")
    with pytest.raises(DecodeError, match="ends inside its header"):
        decode_response(ApiVersionsRequest, 4, b"\0\0\0\x01\0")


def test_an_api_versions_request_from_the_future_can_be_answered() -> None:
    header, request = decode_request(b"\0\x12\0\x63" + b"\0\0\0\x07" + b"\0\x02me" + b"whatever comes then")
    assert header == RequestHeader(18, 99, 7, "me")
    assert request == ApiVersionsRequest()


# -- hostile frames --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "ends inside its header"),
        (b"\0\x03\0\0\0\0\0\x07\0", "ends inside its header"),
        (b"\0\x03\0\0\0\0\0\x07\0\x09me", "a client id of 9 bytes; bytes left in the frame: 2"),
        (b"\0\x03\0\0\0\0\0\x07\xff\xfe", "a client id of -2 bytes"),
        (b"\0\x03\0\0\0\0\0\x07\0\x01\xff", "the client id is not valid UTF-8"),
        (b"\x7f\0\0\0\0\0\0\x07\xff\xff", "unknown api key 32512"),
        (b"\0\x03\0\x63\0\0\0\x07\xff\xff", "MetadataRequest has versions 0-13, not 99"),
        (b"\0\x03\0\x09\0\0\0\x07\xff\xff", "ends inside its header"),
        (b"\0\x03\0\x09\0\0\0\x07\xff\xff\x09", "9 tagged header fields, but only 0 bytes are left"),
        (b"\0\x03\0\x09\0\0\0\x07\xff\xff\x01\x00\x09", "ends inside its header"),
        (b"\0\x03\0\x09\0\0\0\x07\xff\xff\xff\xff\xff\xff\xff", "more than 32 bits"),
    ],
)
def test_a_hostile_request_header_is_refused(frame: bytes, reason: str) -> None:
    for buffer in BUFFERS.values():
        with pytest.raises(DecodeError, match=reason):
            decode_request(buffer(frame))


def test_header_tags_are_stepped_over() -> None:
    out = whole(encode_request(MetadataRequest(), 9, 7, "me"))[4:]
    tagged = out[:12] + b"\x02\x00\x01a\x07\x00" + out[13:]
    assert decode_request(tagged)[1] == MetadataRequest()
    reply = whole(encode_response(MetadataResponse(), 9, 7))[4:]
    assert decode_response(MetadataRequest, 9, reply[:4] + b"\x01\x00\x02ab" + reply[5:]) == (7, MetadataResponse())


def test_a_short_response_is_refused() -> None:
    for frame in (b"", b"\0\0\0", b"\0\0\0\x01"):
        with pytest.raises(DecodeError):
            decode_response(MetadataRequest, 12, frame)
    with pytest.raises(DecodeError, match="a frame of 3 bytes"):
        correlation_of(b"\0\0\0")


# -- sizes, and who else speaks there -----------------------------------------------------


def test_a_size_is_believed_up_to_the_limit() -> None:
    assert frame_size(b"\0\0\0\0") == 0
    assert frame_size(MAX_FRAME.to_bytes(4, "big")) == MAX_FRAME
    with pytest.raises(DecodeError, match="a frame of 104857601 bytes exceeds receive_message_max_bytes=104857600"):
        frame_size((MAX_FRAME + 1).to_bytes(4, "big"))
    with pytest.raises(DecodeError, match="a frame of -1 bytes: the peer does not speak Kafka") as caught:
        frame_size(b"\xff\xff\xff\xff")
    assert not isinstance(caught.value, FrameTooLarge), "asking for less would not help"
    with pytest.raises(DecodeError, match="a frame of 200 bytes exceeds receive_message_max_bytes=100"):
        frame_size(b"\0\0\0\xc8", limit=100)


@pytest.mark.parametrize(
    ("answer", "speaker"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP"),
        (b"<html><body>", "HTTP"),
        (b"<!DOCTYPE html>", "HTTP"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "the broker speaks TLS: set security_protocol to SSL or SASL_SSL"),
        (b"\x16\x03\x01\x02\x00\x01\x00", "the broker speaks TLS: set security_protocol to SSL or SASL_SSL"),
        (b"SSH-2.0-OpenSSH_9.6", "SSH"),
        (b"AMQP\x00\x00\x09\x01", "AMQP"),
        (b"-ERR unknown command", "Redis"),
        (b"-DENIED Redis is running", "Redis"),
        (b"220 mail.example ESMTP", "SMTP or FTP"),
        (b"220-Welcome", "SMTP or FTP"),
        (b"* OK IMAP4rev1", "IMAP"),
        (b"+OK POP3 ready", "POP3"),
        (b"RFB 003.008\n", "VNC"),
        (b'INFO {"server_id"', "NATS"),
        (b"\x4a\x00\x00\x00\x0a8.0.36\x00", "MySQL"),
    ],
)
def test_another_protocol_on_the_port_is_named(answer: bytes, speaker: str) -> None:
    assert speaker in str(explain_bad_frame(answer))
    with pytest.raises(DecodeError, match=speaker):
        frame_size(bytearray(answer))


def test_bytes_of_an_unknown_protocol_are_not_explained() -> None:
    for data in (b"", b"\x00\x00\x00\x10", b"\xff\xff\xff\xff", b"H"):
        assert explain_bad_frame(data) is None
