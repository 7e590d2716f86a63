"""Schema. Rule: a message is declared once for all its versions; what does not fit is named by `Class.field`, in both directions.

`request`, `response` and `data` declare messages, `struct` their parts, `value` a part that stands alone (frozen, its default is shared).
Messages are made, filled and sent, or decoded and read: nobody changes a decoded one.
"""

from __future__ import annotations

import struct as _struct
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Generic, TypeVar, dataclass_transform
from uuid import UUID

import attrs

from pykafka4.errors import ConfigError, DecodeError
from pykafka4.wire.buffers import Buffer
from pykafka4.wire.protocol.compiler import decoder, encoder, field_at_fault
from pykafka4.wire.protocol.fields import (
    MAX_INT32,
    MAX_INT64,
    MIN_INT32,
    NO_UUID,
    Kind,
    Spec,
    Versions,
    WireType,
    array,
    boolean,
    bytestring,
    default_of,
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
    wire,
)
from pykafka4.wire.protocol.weight import MAX_DECODED

__all__ = [
    "DATA",
    "MAX_INT32",
    "MAX_INT64",
    "MIN_INT32",
    "NO_UUID",
    "REQUESTS",
    "Data",
    "Message",
    "Request",
    "Response",
    "Spec",
    "Versions",
    "array",
    "boolean",
    "bytestring",
    "data",
    "decode",
    "decode_data",
    "default_of",
    "encode",
    "encode_data",
    "fields_at",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "records",
    "request",
    "response",
    "spec_of",
    "string",
    "struct",
    "uint16",
    "uuid",
    "value",
    "wire",
]


class Message:
    """What every declared message knows about itself."""

    __slots__ = ()
    versions: ClassVar[Versions]
    flexible: ClassVar[Versions]


class Response(Message):
    """The answer to a request."""

    __slots__ = ()
    api_key: ClassVar[int]


class Data(Message):
    """Bytes inside other messages that carry their own version in front."""

    __slots__ = ()


ResponseT = TypeVar("ResponseT", bound=Response)
T = TypeVar("T")
MessageT = TypeVar("MessageT", bound=Message)
DataT = TypeVar("DataT", bound=Data)


class Request(Message, Generic[ResponseT]):
    """A request; `response` is the class of its answer."""

    __slots__ = ()
    api_key: ClassVar[int]
    response: ClassVar[type[Response]]


REQUESTS: dict[int, type[Request[Any]]] = {}
DATA: dict[str, type[Data]] = {}
_RESPONSES: dict[int, type[Response]] = {}


# -- declaring ---------------------------------------------------------------------


@dataclass_transform(kw_only_default=True)
def struct(cls: type[T]) -> type[T]:
    """A part of a message that comes in arrays."""
    return _define(cls)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """A part of a message that stands alone: immutable, because every message that lacks it shares one default."""
    return attrs.frozen(slots=True, kw_only=True, weakref_slot=False)(cls)


def _define(cls: type[T]) -> type[T]:
    """An attrs class whose `repr` and comparison are shared: compiling a pair for each takes most of the time of importing messages."""
    made: Any = cls
    made.__repr__, made.__eq__, made.__hash__ = _show, _equal, None
    return attrs.define(slots=True, kw_only=True, weakref_slot=False, repr=False, eq=False, match_args=False, getstate_setstate=False)(cls)


def _show(self: Any) -> str:
    cls = type(self)
    shown = {field.name: field.repr if callable(field.repr) else repr for field in attrs.fields(cls) if field.repr}
    return f"{cls.__qualname__}({', '.join(f'{name}={show(getattr(self, name))}' for name, show in shown.items())})"


def _equal(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return all(getattr(self, field.name) == getattr(other, field.name) for field in attrs.fields(type(other)))


def _declare(cls: type[MessageT], versions: str, flexible: str) -> type[MessageT]:
    made = _define(cls)
    made.versions, made.flexible = Versions.parse(versions), Versions.parse(flexible)
    return made


@dataclass_transform(kw_only_default=True)
def response(*, api_key: int, versions: str, flexible: str = "none") -> Callable[[type[ResponseT]], type[ResponseT]]:
    """Declare the answer to the request with this key."""

    def declare(cls: type[ResponseT]) -> type[ResponseT]:
        made = _declare(cls, versions, flexible)
        made.api_key = api_key
        _RESPONSES[api_key] = made
        return made

    return declare


@dataclass_transform(kw_only_default=True)
def request(*, api_key: int, versions: str, flexible: str = "none") -> Callable[[type[T]], type[T]]:
    """Declare a request. Its response is declared first."""

    def declare(cls: Any) -> Any:
        made = _declare(cls, versions, flexible)
        made.api_key, made.response = api_key, _RESPONSES[api_key]
        REQUESTS[api_key] = made
        return made

    return declare


@dataclass_transform(kw_only_default=True)
def data(*, versions: str, flexible: str = "none") -> Callable[[type[DataT]], type[DataT]]:
    """Declare bytes that carry their own version in front."""

    def declare(cls: type[DataT]) -> type[DataT]:
        made = _declare(cls, versions, flexible)
        DATA[made.__name__] = made
        return made

    return declare


# -- encoding ------------------------------------------------------------------------


def encode(message: Message, version: int) -> list[Buffer]:
    """The bytes of `message`: small parts joined, each `records` field untouched as a buffer of its own.

    Raises ConfigError for a value that does not fit, UnsupportedVersion for a field that is set and that `version` cannot carry
    (unless Kafka calls it ignorable); both name `Class.field`.
    """
    cls: Any = type(message)
    function = encoder(cls, version)
    try:
        return function(message)
    except (_struct.error, AttributeError, TypeError, ValueError, OverflowError) as error:
        reason = next(_misfits(message, version, cls.__name__), None)
        if reason is None:
            raise
        raise ConfigError(reason) from error


def encode_data(message: Data, version: int) -> bytes:
    """`message` behind its version, as it travels inside `bytes` fields."""
    return b"".join([version.to_bytes(2, "big"), *encode(message, version)])


def _misfits(part: Any, version: int, path: str) -> Iterator[str]:
    """What keeps `part` from being encoded, looked for only after it failed."""
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
        yield f"{path} is {given!r:.80}: it takes a {type.__qualname__}"
    else:
        yield from _misfits(given, version, path)


def _misfit_array(given: Any, type: array, version: int, path: str) -> Iterator[str]:
    if isinstance(given, str | bytes) or not hasattr(given, "__len__") or not hasattr(given, "__iter__"):
        yield f"{path} is {given!r:.80}: it takes a list"
        return
    for place, item in enumerate(given):
        yield from _misfit(item, type.of, version, f"{path}[{place}]")


def _wrong_number(given: Any, kind: Kind) -> str | None:
    try:
        _struct.pack(f">{kind.fmt}", given)
    except _struct.error as error:
        return f"it takes an {kind.name} ({error})"
    return None


def _wrong_text(given: Any, _: Kind) -> str | None:
    if not isinstance(given, str):
        return "it takes a str"
    try:
        size = len(given.encode())
    except UnicodeEncodeError as error:
        return f"it is not text that UTF-8 can hold ({error.reason})"
    return f"{size} bytes; at most 32767 are allowed" if size > 0x7FFF else None


def _wrong_buffer(given: Any, _: Kind) -> str | None:
    try:
        size = memoryview(given).cast("B").nbytes
    except TypeError as error:
        return f"it takes contiguous bytes ({error})"
    return f"{size} bytes; at most {MAX_INT32} are allowed" if size > MAX_INT32 else None


def _wrong_uuid(given: Any, _: Kind) -> str | None:
    return None if isinstance(given, UUID) else "it takes a UUID"


_CHECKS: dict[str, Callable[[Any, Kind], str | None]] = {
    **{kind.name: _wrong_number for kind in (boolean, int8, int16, int32, int64, uint16, float64)},
    string.name: _wrong_text,
    bytestring.name: _wrong_buffer,
    records.name: _wrong_buffer,
    uuid.name: _wrong_uuid,
}


# -- decoding ------------------------------------------------------------------------


def decode(cls: type[MessageT], version: int, buffer: Buffer, start: int = 0, *, whole: bool = True) -> MessageT:
    """The message in `buffer[start:]`: all of it if `whole`. `records` fields are memoryviews into `buffer`, everything else is copied.

    Raises DecodeError, naming `Class.field`, for anything that is not this message at this version.
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
        message, pos = function(plain, view, start, end, room)
    except _BROKEN as error:
        raise _broken(cls, version, error) from error
    if pos != end and whole:
        raise DecodeError(f"{cls.__name__} v{version}: {end - pos} bytes too many")
    return message


def _copied(cls: type[Message], version: int, view: memoryview) -> bytes:
    """Strings are cut from bytes in half the time."""
    if len(view) > MAX_DECODED:
        raise DecodeError(f"{cls.__name__} v{version}: {len(view)} bytes; without records at most {MAX_DECODED} are read")
    return bytes(view)


def decode_data(cls: type[DataT], buffer: Buffer) -> DataT:
    """Data behind its version. A version newer than ours is read as our newest, bytes after it are left alone: later versions only add."""
    whole = bytes(memoryview(buffer))
    given = int.from_bytes(whole[:2], "big", signed=True)
    if len(whole) < 2 or given < cls.versions.lo:
        raise DecodeError(f"{cls.__name__}: {whole[:2]!r} is no version")
    version = min(given, cls.versions.hi)
    emitted: Any = cls
    found: DataT
    try:
        found, _ = decoder(emitted, version)[0](whole, None, 2, len(whole), MAX_DECODED - len(whole))
    except _BROKEN as error:
        raise _broken(cls, version, error) from error
    return found


_BROKEN = (DecodeError, _struct.error, IndexError, UnicodeDecodeError)
_REASONS: dict[type[Exception], str] = {_struct.error: "the bytes end here", IndexError: "the bytes end here"}


def _broken(cls: type, version: int, error: Exception) -> DecodeError:
    return DecodeError(f"{field_at_fault(error) or cls.__name__} (v{version}): {_REASONS.get(type(error), error)}")
