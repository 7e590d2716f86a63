"""Implements the named serializers and deserializers. Invariant: for an object of a type that a serializer does not accept, the error names
the topic and the serializer; no serializer falls back to `str(value)`.

A serializer gets the topic and a key or value, and returns bytes, str (sent as UTF-8) or None, on the thread that sends. A deserializer
gets the topic and the bytes of a key or value, and returns any object, on the thread that polls. Neither is called for None: None stays a
null, and a null stays None. `options/serializers.py` parses the options that name them, and adapts callables with other arguments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from pykafka4.records import Headers

__all__ = [
    "NAMED",
    "NAMED_DESERIALIZERS",
    "Deserializer",
    "Deserializers",
    "Serializer",
    "Serializers",
    "bytes_deserializer",
    "bytes_serializer",
    "json_deserializer",
    "json_serializer",
    "str_deserializer",
    "str_serializer",
]

T = TypeVar("T")

Serializer: TypeAlias = Callable[[str, Any], bytes | str | None]
Serializers: TypeAlias = str | Serializer | Mapping[str, str | Serializer]
# A deserializer is called with the data; with topic and data; or with topic, data and headers.
Deserializer: TypeAlias = Callable[[bytes], T] | Callable[[str, bytes], T] | Callable[[str, bytes, Headers], T]
Deserializers: TypeAlias = str | Deserializer[Any] | Mapping[str, str | Deserializer[Any]]


def bytes_serializer(topic: str, value: Any) -> bytes:
    """Return bytes, a bytearray or a memoryview as bytes. Raises TypeError for any other object, including str."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"{topic}: the serializer 'bytes' takes bytes, not {type(value).__name__}; encode it first, or use 'str' or 'json'")


def str_serializer(topic: str, value: Any) -> bytes:
    """Encode a str as UTF-8, as Java's StringSerializer does by default.

    Raises TypeError for other types, UnicodeEncodeError for lone surrogates.
    """
    if isinstance(value, str):
        return str.encode(value)
    raise TypeError(f"{topic}: the serializer 'str' takes str, not {type(value).__name__}; pass str(…) of it, or use 'bytes' or 'json'")


def json_serializer(topic: str, value: Any) -> bytes:
    """Encode an object as compact JSON in UTF-8.

    Raises TypeError for objects that JSON cannot represent, ValueError for NaN, infinity, lone surrogates and circular references.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        error.add_note(f"{topic}: the serializer 'json' cannot encode this {type(value).__name__}")
        raise


NAMED: Final[dict[str, Serializer]] = {"bytes": bytes_serializer, "json": json_serializer, "str": str_serializer}


def bytes_deserializer(topic: str, data: bytes) -> bytes:
    """Return the bytes as they are."""
    return data


def str_deserializer(topic: str, data: bytes) -> str:
    """Decode UTF-8 to a str. Raises UnicodeDecodeError for other bytes."""
    return data.decode()


def json_deserializer(topic: str, data: bytes) -> Any:
    """Decode JSON in UTF-8, UTF-16 or UTF-32 with `json.loads`.

    Raises the errors of `json.loads`: ValueError, or RecursionError for too deeply nested brackets.
    """
    return json.loads(data)


NAMED_DESERIALIZERS: Final[dict[str, Callable[[str, bytes], Any]]] = {
    "bytes": bytes_deserializer,
    "json": json_deserializer,
    "str": str_deserializer,
}
