"""Converts records to lines of JSON, and back. Invariant: for a line that `consume` wrote, `produce` sends the same key, headers and value.

Bytes that are not UTF-8 are base64 in a field with another name: `key_base64`, `value_base64`, and `value_base64` in a header.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from json.encoder import encode_basestring, encode_basestring_ascii  # C functions, if the interpreter has them
from typing import Any, Final

import attrs

from pykafka4.wire.records.hot import Record

__all__ = ["NotSendable", "Row", "json_form", "read_row"]

FIELDS: Final = frozenset(("topic", "partition", "offset", "timestamp", "key", "key_base64", "value", "value_base64", "headers"))
BASE64: Final = "_base64"
MISSING_TIMESTAMP: Final = -1  # `consume` writes it for a record without a timestamp; `produce` then sends the current time


class NotSendable(ValueError):
    """Raised for a line that is not a record; the text has the reason."""


@attrs.frozen
class Row:
    value: bytes | None
    key: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None
    timestamp_ms: int | None


# ---------------------------------------------------------------- out


def json_form(records: list[Record[Any, Any]]) -> bytes:
    """Make one line of JSON for each record: topic, partition, offset, timestamp (ms since 1970), key, headers, value."""
    return "".join(map(_line, records)).encode()


def _line(record: Record[Any, Any]) -> str:
    headers = ",".join(map(_header, record.headers)) if record.headers else ""
    return (  # names of topics have no characters to escape
        f'{{"topic":"{record.topic}","partition":{record.partition},"offset":{record.offset},"timestamp":{record.timestamp_ms},'
        f'{_field("key", record.key)},"headers":[{headers}],{_field("value", record.value)}}}\n'
    )


def _header(header: tuple[str, bytes | None]) -> str:
    name, value = header
    return f'{{"name":{_quoted(name)},{_field("value", value)}}}'


def _quoted(text: str) -> str:
    """Escape characters that a terminal may take for commands. JSON readers see no difference."""
    return encode_basestring(text) if text.isprintable() else encode_basestring_ascii(text)


def _field(name: str, data: bytes | None) -> str:
    if data is None:
        return f'"{name}":null'
    try:
        return f'"{name}":{_quoted(data.decode())}'
    except UnicodeDecodeError:
        return f'"{name}{BASE64}":"{base64.b64encode(data).decode()}"'


# ---------------------------------------------------------------- in


def read_row(line: bytes) -> Row:
    """Raises NotSendable."""
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:  # `str(error)` would add a line number, which is always 1
        raise NotSendable(f"is not JSON: {error.msg} at character {error.pos + 1}") from None
    except (ValueError, RecursionError) as error:  # RecursionError: thousands of brackets
        raise NotSendable(f"is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise NotSendable('must be an object: {"value": "…"}, and perhaps key, headers, timestamp, partition')
    if unknown := found.keys() - FIELDS:
        raise NotSendable(f"has the unknown field {min(unknown)!r}; known are {', '.join(sorted(FIELDS))}")
    if found.get("timestamp") == MISSING_TIMESTAMP:
        del found["timestamp"]
    return Row(
        _data(found, "value"), _data(found, "key"), _headers(found.get("headers")), _number(found, "partition"), _number(found, "timestamp")
    )


def _data(found: Mapping[str, Any], name: str) -> bytes | None:
    """The bytes of a field: base64 is decoded, a text stays as it is, null is None, any other value becomes JSON."""
    if (encoded := found.get(name + BASE64)) is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (TypeError, ValueError, binascii.Error) as error:
            raise NotSendable(f"{name}{BASE64} is not base64: {error}") from None
    value = found.get(name)
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def _headers(headers: Any) -> list[tuple[str, bytes | None]]:
    if headers is None:
        return []
    if isinstance(headers, dict):
        return [(name, _data(headers, name)) for name in headers]
    if isinstance(headers, list) and all(isinstance(one, dict) and isinstance(one.get("name"), str) for one in headers):
        return [(one["name"], _data(one, "value")) for one in headers]
    raise NotSendable('headers must be [{"name": "…", "value": "…"}, …] or {"name": "value", …}')


def _number(found: Mapping[str, Any], name: str) -> int | None:
    value = found.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise NotSendable(f"{name} must be a non-negative integer, not {value!r}")
