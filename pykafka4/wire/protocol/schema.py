"""Declares messages with decorators, encodes and decodes them. Invariant: a message is declared once for all its versions.

`request`, `response` and `data` declare messages, `struct` their array elements, `value` a single part (frozen, because messages share
its default). Code must not change a decoded message, because arrays of numbers and complete responses may be shared. An error in a
field names the field.
"""

from __future__ import annotations

import struct as _struct
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar, dataclass_transform
from uuid import UUID

import attrs

from pykafka4.errors import ConfigError, DecodeError
from pykafka4.wire.buffers import Buffer
from pykafka4.wire.protocol.compiler import decoder, encoder, field_at_fault
from pykafka4.wire.protocol.fields import (
    MAX_INT32,
    Kind,
    Versions,
    WireType,
    array,
    boolean,
    bytestring,
    fields_at,
    float64,
    int8,
    int16,
    int32,
    int64,
    records,
    spec_of,
    string,
    uint16,
    uuid,
)
from pykafka4.wire.protocol.weight import MAX_DECODED

__all__ = [
    "DATA",
    "REQUESTS",
    "Data",
    "Message",
    "Request",
    "Response",
    "data",
    "decode",
    "decode_data",
    "encode",
    "encode_data",
    "request",
    "response",
    "struct",
    "value",
]


class Message:
    """Base class of all declared messages."""

    __slots__ = ()
    versions: ClassVar[Versions]
    flexible: ClassVar[Versions]


class Response(Message):
    """Base class of responses."""

    __slots__ = ()
    api_key: ClassVar[int]


class Data(Message):
    """Base class of data inside other messages, prefixed with its own version."""

    __slots__ = ()


ResponseT = TypeVar("ResponseT", bound=Response)
T = TypeVar("T")
MessageT = TypeVar("MessageT", bound=Message)
DataT = TypeVar("DataT", bound=Data)
Say: TypeAlias = Callable[[str], str]


class Request(Message, Generic[ResponseT]):
    """Base class of requests; `response` is the class of their responses."""

    __slots__ = ()
    api_key: ClassVar[int]
    since: ClassVar[str]  # the first release, from OLDEST on, whose brokers accept the lowest of `versions`
    response: ClassVar[type[Response]]


OLDEST: Final = "0.10"  # the first release with ApiVersions, which a client needs
REQUESTS: dict[int, type[Request[Any]]] = {}
DATA: dict[str, type[Data]] = {}
_RESPONSES: dict[int, type[Response]] = {}


# -- declaring ---------------------------------------------------------------------


@dataclass_transform(kw_only_default=True)
def struct(cls: type[T]) -> type[T]:
    """Declare a struct whose instances are elements of arrays."""
    return _define(cls, attrs.define, None)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """Declare a struct that is not an array element. It is immutable, because all messages without the struct share one default."""
    return _define(cls, attrs.frozen, _hash)


def _define(cls: type[T], define: Callable[..., Any], hash_: Callable[[Any], int] | None) -> type[T]:
    """Share `repr` and comparison between classes, because compiling them for each class would slow the import."""
    made: Any = cls
    made.__repr__, made.__eq__, made.__hash__ = _show, _equal, hash_
    defined: type[T] = define(
        slots=True, kw_only=True, weakref_slot=False, repr=False, eq=False, match_args=False, getstate_setstate=hash_ is not None
    )(cls)
    return defined


def _show(self: Any) -> str:
    cls = type(self)
    shown = {field.name: field.repr if callable(field.repr) else repr for field in attrs.fields(cls) if field.repr}
    return f"{cls.__qualname__}({', '.join(f'{name}={show(getattr(self, name))}' for name, show in shown.items())})"


def _equal(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return all(getattr(self, field.name) == getattr(other, field.name) for field in attrs.fields(type(other)))


def _hash(self: Any) -> int:
    return hash(tuple(getattr(self, field.name) for field in attrs.fields(type(self))))


def _declare(cls: type[MessageT], versions: str, flexible: str) -> type[MessageT]:
    made = _define(cls, attrs.define, None)
    made.versions, made.flexible = Versions.parse(versions), Versions.parse(flexible)
    return made


@dataclass_transform(kw_only_default=True)
def response(*, api_key: int, versions: str, flexible: str = "none") -> Callable[[type[ResponseT]], type[ResponseT]]:
    """Declare a response, with the ranges of its `versions` and of its `flexible` versions (KIP-482)."""

    def declare(cls: type[ResponseT]) -> type[ResponseT]:
        made = _declare(cls, versions, flexible)
        made.api_key = api_key
        _RESPONSES[api_key] = made
        return made

    return declare


@dataclass_transform(kw_only_default=True)
def request(*, api_key: int, versions: str, flexible: str = "none", since: str = OLDEST) -> Callable[[type[T]], type[T]]:
    """Declare a request; its response must be declared first. `since`: see `Request`."""

    def declare(cls: Any) -> Any:
        made = _declare(cls, versions, flexible)
        made.api_key, made.response, made.since = api_key, _RESPONSES[api_key], since
        REQUESTS[api_key] = made
        return made

    return declare


@dataclass_transform(kw_only_default=True)
def data(*, versions: str, flexible: str = "none") -> Callable[[type[DataT]], type[DataT]]:
    """Declare data that is prefixed with its own version."""

    def declare(cls: type[DataT]) -> type[DataT]:
        made = _declare(cls, versions, flexible)
        DATA[made.__name__] = made
        return made

    return declare


# -- encoding ------------------------------------------------------------------------


def encode(message: Message, version: int) -> list[Buffer]:
    """The bytes of `message`, in buffers: each non-empty `records` field is a separate buffer; the parts between these fields are joined.

    Raises ConfigError for a value that does not fit, and UnsupportedVersion for a field that is set but not in `version`, unless the
    field is declared ignorable. Also raises UnsupportedVersion if the message has no such version.
    """
    cls: Any = type(message)
    function = encoder(cls, version)
    try:
        return function(message)
    # Values are not checked beforehand: a second pass over all fields would cost each message time, and nearly all values are valid.
    except (_struct.error, AttributeError, TypeError, ValueError, OverflowError) as error:
        reason = next(_misfits(message, version, cls.__name__), None)
        if reason is None:
            raise
        raise ConfigError(reason) from error


def encode_data(message: Data, version: int) -> bytes:
    """Encode `version`, then `message`, for a `bytes` field of another message."""
    return b"".join([version.to_bytes(2, "big"), *encode(message, version)])


def _misfits(part: Any, version: int, path: str) -> Iterator[str]:
    """The reasons why `part` cannot be encoded."""
    inline, tagged, _ = fields_at(type(part), version)
    for field in inline + tagged:
        spec = spec_of(field)
        yield from _misfit(getattr(part, field.name), spec.type, version, f"{path}.{field.name}", version in spec.nullable)


def _misfit(given: Any, type: WireType, version: int, path: str, null_allowed: bool = False) -> Iterator[str]:
    if given is None:
        if not null_allowed:
            yield f"{path} is None, which version {version} does not allow"
    elif isinstance(type, array):
        yield from _misfit_array(given, type, version, path)
    elif isinstance(type, Kind):
        wrong = _CHECKS[type.name](given, type)
        if wrong:
            yield f"{path} is {given!r:.80}: {wrong}"
    elif not isinstance(given, type):
        yield f"{path} is {given!r:.80}: must be a {type.__qualname__}"
    else:
        yield from _misfits(given, version, path)


def _misfit_array(given: Any, type: array, version: int, path: str) -> Iterator[str]:
    if isinstance(given, str | bytes) or not hasattr(given, "__len__") or not hasattr(given, "__iter__"):
        yield f"{path} is {given!r:.80}: must be a list"
        return
    for place, item in enumerate(given):
        yield from _misfit(item, type.of, version, f"{path}[{place}]")


def _wrong_number(given: Any, kind: Kind) -> str | None:
    try:
        _struct.pack(f">{kind.fmt}", given)
    except _struct.error as error:
        return f"must be of type {kind.name} ({error})"
    return None


def _wrong_text(given: Any, _: Kind) -> str | None:
    if not isinstance(given, str):
        return "must be a str"
    try:
        size = len(given.encode())
    except UnicodeEncodeError as error:
        return f"cannot be encoded as UTF-8 ({error.reason})"
    return f"{size} bytes; at most 32767 are allowed" if size > 0x7FFF else None


def _wrong_buffer(given: Any, _: Kind) -> str | None:
    try:
        size = memoryview(given).cast("B").nbytes
    except TypeError as error:
        return f"must be contiguous bytes ({error})"
    return f"{size} bytes; at most {MAX_INT32} are allowed" if size > MAX_INT32 else None


def _wrong_uuid(given: Any, _: Kind) -> str | None:
    return None if isinstance(given, UUID) else "must be a UUID"


_CHECKS: dict[str, Callable[[Any, Kind], str | None]] = {
    **{kind.name: _wrong_number for kind in (boolean, float64, int8, int16, int32, int64, uint16)},
    string.name: _wrong_text,
    bytestring.name: _wrong_buffer,
    records.name: _wrong_buffer,
    uuid.name: _wrong_uuid,
}


# -- decoding ------------------------------------------------------------------------


def decode(cls: type[MessageT], version: int, buffer: Buffer, start: int = 0, *, whole: bool = True, say: Say = str) -> MessageT:
    """Decode the message at `buffer[start]`. `records` fields are memoryviews into `buffer`; other fields are copied.

    `say` filters text for people, such as error messages.

    Raises DecodeError for bytes that are not this message at this version, for a message over MAX_DECODED bytes of memory, and for bytes
    after the message if `whole`; UnsupportedVersion if the message has no such version.
    """
    emitted: Any = cls
    function, has_records = decoder(emitted, version)
    plain: Any
    room = MAX_DECODED
    if type(buffer) is bytes:
        plain, view = buffer, memoryview(buffer) if has_records else None
    else:
        plain = view = memoryview(buffer).cast("B")
        if not has_records:
            room -= len(view)
            plain = _copied(cls, version, view)
    end = len(plain)
    message: MessageT
    try:
        message, pos = function(plain, view, start, end, room, say)
    except _BROKEN as error:
        raise _broken(cls, version, error) from error
    if pos != end and whole:
        raise DecodeError(f"{cls.__name__} v{version}: {end - pos} extra bytes at the end")
    return message


def _copied(cls: type[Message], version: int, view: memoryview) -> bytes:
    """Copy `view`, because decoding strings from bytes takes half as long as from a memoryview."""
    if len(view) > MAX_DECODED:
        raise DecodeError(f"{cls.__name__} v{version}: {len(view)} bytes; the limit for a message without records is {MAX_DECODED}")
    return bytes(view)


def decode_data(cls: type[DataT], buffer: Buffer) -> DataT:
    """Data of a newer version is read as the newest declared version, because versions only add fields at the end. Raises DecodeError."""
    whole = bytes(memoryview(buffer))
    given = int.from_bytes(whole[:2], "big", signed=True)
    if len(whole) < 2 or given < cls.versions.lo:
        raise DecodeError(f"{cls.__name__}: {whole[:2]!r} is not a version")
    version = min(given, cls.versions.hi)
    emitted: Any = cls
    found: DataT
    try:
        found, _ = decoder(emitted, version)[0](whole, None, 2, len(whole), MAX_DECODED - len(whole))
    except _BROKEN as error:
        raise _broken(cls, version, error) from error
    return found


_BROKEN = (DecodeError, _struct.error, IndexError, UnicodeDecodeError)
_REASONS: dict[type[Exception], str] = {_struct.error: "unexpected end of the data", IndexError: "unexpected end of the data"}


def _broken(cls: type, version: int, error: Exception) -> DecodeError:
    return DecodeError(f"{field_at_fault(error) or cls.__name__} (v{version}): {_REASONS.get(type(error), error)}")
