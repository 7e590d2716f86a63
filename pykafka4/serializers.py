"""Serializers. Rule: a value that a serializer does not take is refused with topic, serializer and type; nothing is converted silently.

A serializer is called with the topic and a key or value that is not None (None stays a null), on the thread that sends, and returns bytes,
str (sent as UTF-8) or None. `options/serializers.py` reads the options that name them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

__all__ = [
    "NAMED",
    "Serializer",
    "Serializers",
    "bytes_serializer",
    "json_serializer",
    "str_serializer",
]

Serializer: TypeAlias = Callable[[str, Any], bytes | str | None]
Serializers: TypeAlias = str | Serializer | Mapping[str, str | Serializer]


def bytes_serializer(topic: str, value: Any) -> bytes:
    """Bytes as they are (bytes, bytearray, memoryview). Raises TypeError for anything else, also for str."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"{topic}: the serializer 'bytes' takes bytes, not {type(value).__name__}; encode it first, or use 'str' or 'json'")


def str_serializer(topic: str, value: Any) -> bytes:
    """A str as UTF-8, as Java's StringSerializer does. Raises TypeError for anything else, UnicodeEncodeError for lone surrogates."""
    if isinstance(value, str):
        return str.encode(value)
    raise TypeError(f"{topic}: the serializer 'str' takes str, not {type(value).__name__}; pass str(…) of it, or use 'bytes' or 'json'")


def json_serializer(topic: str, value: Any) -> bytes:
    """Compact JSON in UTF-8. Raises TypeError for objects that JSON does not have, ValueError for NaN, infinity and circular references."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        error.add_note(f"{topic}: the serializer 'json' takes what json.dumps takes, but not {type(value).__name__} with this content")
        raise


NAMED: Final[dict[str, Serializer]] = {"bytes": bytes_serializer, "json": json_serializer, "str": str_serializer}
