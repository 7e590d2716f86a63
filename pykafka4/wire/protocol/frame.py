"""Encodes and decodes frames: four bytes of size, a header, a message. Invariant: a size is accepted only up to a limit.

The error for an invalid size names the peer's protocol, if `explain_bad_frame` knows that protocol.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

import attrs

from pykafka4.errors import DecodeError
from pykafka4.errors.codes import BY_NAME
from pykafka4.wire.buffers import Buffer
from pykafka4.wire.protocol.emitted import read_uvarint
from pykafka4.wire.protocol.messages_cluster import ApiVersionsRequest, ApiVersionsResponse
from pykafka4.wire.protocol.schema import REQUESTS, Request, Response, ResponseT, decode, encode

__all__ = [
    "MAX_FRAME",
    "SIZE",
    "FrameTooLarge",
    "PeerSpeaksTls",
    "RequestHeader",
    "correlation_of",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
    "explain_bad_frame",
    "explain_bad_rest",
    "frame_size",
]

MAX_FRAME = 100 * 1024 * 1024  # bytes; the default of `receive_message_max_bytes`
SIZE = struct.Struct(">i")
USUAL_VERSIONS = 4096  # maximum bytes of an ApiVersions response that is cached
_REQUEST_HEADER = struct.Struct(">hhih")
_ERROR_CODE = struct.Struct(">h")
_UNSUPPORTED_VERSION = BY_NAME["UNSUPPORTED_VERSION"].code


class FrameTooLarge(DecodeError):
    """Raised for a frame over the size limit; `size` is its declared size."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"a frame of {size} bytes exceeds receive_message_max_bytes={limit}; raise that option if the peer is a Kafka broker"
        )
        self.size = size


class PeerSpeaksTls(DecodeError):
    """Raised if the peer seems to speak TLS, although the connection is not encrypted."""

    def __init__(self) -> None:
        super().__init__(_TLS)


@attrs.frozen
class RequestHeader:
    """The header of every request. `client_id` is None if the client sent no id."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None


# -- writing -------------------------------------------------------------------------


def encode_request(message: Request[Any], version: int, correlation_id: int, client_id: str | None) -> list[Buffer]:
    """Encode a request, with size and header; `records` fields stay separate buffers. Raises the errors of `encode`."""
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    tags = b"\0" if version in message.flexible else b""
    return _framed(_REQUEST_HEADER.pack(message.api_key, version, correlation_id, length) + name + tags, encode(message, version))


def encode_response(message: Response, version: int, correlation_id: int) -> list[Buffer]:
    tags = b"\0" if _response_has_tags(type(message), version) else b""
    return _framed(SIZE.pack(correlation_id) + tags, encode(message, version))


def _framed(head: bytes, buffers: list[Buffer]) -> list[Buffer]:
    """Join size and `head` with the first buffer, which has no records."""
    size = len(head)
    for buffer in buffers:
        size += buffer.nbytes if isinstance(buffer, memoryview) else len(buffer)
    return [b"".join((SIZE.pack(size), head, *buffers[:1])), *buffers[1:]]


def _response_has_tags(response: type[Response], version: int) -> bool:
    """False for ApiVersions, because a client reads that response before it knows the broker's versions (KIP-511)."""
    return version in response.flexible and response is not ApiVersionsResponse


# -- reading ---------------------------------------------------------------------------


def frame_size(head: Buffer, limit: int = MAX_FRAME) -> int:
    """The size in the first four bytes of `head`. Raises DecodeError if the size is negative or over `limit`.

    The error is FrameTooLarge if the peer may be a broker, and PeerSpeaksTls if the peer seems to speak TLS. Any other error names the
    peer's protocol if `head` shows it.
    """
    (size,) = SIZE.unpack_from(head)
    if 0 <= size <= limit:
        return int(size)
    reason = explain_bad_frame(bytes(memoryview(head)[:16]))
    if reason is None and size > 0:
        raise FrameTooLarge(size, limit)
    raise (
        PeerSpeaksTls
        if reason == _TLS
        else DecodeError(reason or f"a frame of {size} bytes: the peer does not speak Kafka; is the port right?")
    )


def correlation_of(frame: Buffer) -> int:
    return int(_unpack(SIZE, frame, 0)[0])


def decode_response(
    request_class: type[Request[ResponseT]], version: int, frame: Buffer, say: Callable[[str], str] = str
) -> tuple[int, ResponseT]:
    """(correlation id, response) in `frame`, which has no size prefix. Raises DecodeError; `say`: see `schema.decode`."""
    correlation_id = correlation_of(frame)
    response: Any = request_class.response
    if response is ApiVersionsResponse:
        body = bytes(memoryview(frame)[SIZE.size :])
        return correlation_id, (_known_api_versions if len(body) <= USUAL_VERSIONS else _decode_api_versions)(version, body)  # type: ignore[return-value]
    start = _skip_tags(frame, SIZE.size) if _response_has_tags(response, version) else SIZE.size
    return correlation_id, decode(response, version, frame, start, say=say)


def _decode_api_versions(version: int, body: bytes) -> ApiVersionsResponse:
    """Decode `body`. A broker that does not support `version` sends UNSUPPORTED_VERSION, in version 0 or in another format.

    If such a response cannot be decoded, return a response with only the error code.
    """
    (code,) = _unpack(_ERROR_CODE, body, 0)
    if code != _UNSUPPORTED_VERSION:
        return decode(ApiVersionsResponse, version, body)
    for form in (0, version):
        try:
            return decode(ApiVersionsResponse, form, body)
        except DecodeError:
            continue
    return ApiVersionsResponse(error_code=_UNSUPPORTED_VERSION)


# Decoded messages never change, so connections that receive the same bytes can share a response.
_known_api_versions = lru_cache(maxsize=16)(_decode_api_versions)


def decode_request(frame: Buffer, *, whole: bool = True) -> tuple[RequestHeader, Request[Any]]:
    """(header, request) in `frame`, which has no size prefix. Unless `whole`, bytes after the request are ignored.

    An ApiVersions request of an unknown version is returned empty, so that the broker can answer it with UNSUPPORTED_VERSION.
    Raises DecodeError for any other unknown version, an unknown api key, and invalid bytes.
    """
    api_key, version, correlation_id, length = _unpack(_REQUEST_HEADER, frame, 0)
    client_id, pos = _client_id(frame, _REQUEST_HEADER.size, length)
    header = RequestHeader(api_key, version, correlation_id, client_id)
    if api_key not in REQUESTS:
        import_module("pykafka4.wire.protocol.declared")  # only the broker side needs all messages
    cls = REQUESTS.get(api_key)
    if cls is None:
        raise DecodeError(f"unknown api key {api_key}")
    if version not in cls.versions:
        if cls is ApiVersionsRequest:
            return header, ApiVersionsRequest()
        raise DecodeError(f"{cls.__name__} has versions {cls.versions}, not {version}")
    return header, decode(cls, version, frame, _skip_tags(frame, pos) if version in cls.flexible else pos, whole=whole)


def _client_id(frame: Buffer, pos: int, length: int) -> tuple[str | None, int]:
    if length == -1:
        return None, pos
    if not 0 <= length <= len(frame) - pos:
        raise DecodeError(f"a client id of {length} bytes; bytes left in the frame: {len(frame) - pos}")
    try:
        return str(memoryview(frame)[pos : pos + length], "utf-8"), pos + length
    except UnicodeDecodeError as error:
        raise DecodeError(f"the client id is not valid UTF-8 ({error.reason})") from None


def _unpack(layout: struct.Struct, frame: Buffer, pos: int) -> tuple[Any, ...]:
    try:
        return layout.unpack_from(frame, pos)
    except struct.error:
        raise DecodeError(f"a frame of {len(frame)} bytes ends inside its header") from None


def _skip_tags(frame: Buffer, pos: int) -> int:
    """Skip the tagged fields of a header; return the position after them."""
    view = memoryview(frame)
    try:
        count, pos = read_uvarint(view, pos)
        if count > len(view) - pos:
            raise DecodeError(f"{count} tagged header fields, but only {len(view) - pos} bytes are left")
        for _ in range(count):
            _, pos = read_uvarint(view, pos)
            size, pos = read_uvarint(view, pos)
            pos += size
    except IndexError:
        pos = len(view) + 1
    if pos > len(view):
        raise DecodeError(f"a frame of {len(view)} bytes ends inside its header")
    return pos


# -- peers that are not Kafka brokers -----------------------------------------------------

_TLS = "the broker speaks TLS: set security_protocol to SSL or SASL_SSL"
_OTHERS: tuple[tuple[bytes, int, str], ...] = (
    (b"HTTP", 0, "the peer speaks HTTP, not Kafka; is the port right?"),
    (b"<htm", 0, "the peer speaks HTTP, not Kafka; is the port right?"),
    (b"<!DO", 0, "the peer speaks HTTP, not Kafka; is the port right?"),
    (b"\x15\x03", 0, _TLS),
    (b"\x16\x03", 0, _TLS),
    (b"SSH-", 0, "the peer speaks SSH, not Kafka; is the port right?"),
    (b"AMQP", 0, "the peer speaks AMQP (RabbitMQ?), not Kafka; is the port right?"),
    (b"-ERR", 0, "the peer speaks Redis, not Kafka; is the port right?"),
    (b"-DEN", 0, "the peer speaks Redis, not Kafka; is the port right?"),
    (b"220 ", 0, "the peer speaks SMTP or FTP, not Kafka; is the port right?"),
    (b"220-", 0, "the peer speaks SMTP or FTP, not Kafka; is the port right?"),
    (b"* OK", 0, "the peer speaks IMAP, not Kafka; is the port right?"),
    (b"+OK ", 0, "the peer speaks POP3, not Kafka; is the port right?"),
    (b"RFB ", 0, "the peer speaks VNC, not Kafka; is the port right?"),
    (b"INFO", 0, "the peer speaks NATS, not Kafka; is the port right?"),
    (b"\x00\x0a", 3, "the peer speaks MySQL, not Kafka; is the port right?"),
)

_RESTS: tuple[tuple[bytes, str], ...] = (
    (rb"\A\.[0-9]+-", "SSH"),
    (rb"\A1\.[01] [0-9]", "HTTP"),
    (rb"SMTP", "SMTP"),
    (rb"FTP", "FTP"),
    (rb"IMAP", "IMAP"),
    (rb"POP3", "POP3"),
)


def explain_bad_frame(first_bytes: bytes) -> str | None:
    """Return a sentence that names the protocol of a peer that sent `first_bytes`; None if the protocol is unknown."""
    return next((reason for mark, at, reason in _OTHERS if first_bytes[at : at + len(mark)] == mark), None)


def explain_bad_rest(rest: bytes) -> str | None:
    """Like `explain_bad_frame`, but for the bytes after the first five. The result is less certain, because servers choose their words."""
    name = next((name for pattern, name in _RESTS if re.search(pattern, rest)), None)
    return None if name is None else f"the peer speaks {name}, not Kafka; is the port right?"
