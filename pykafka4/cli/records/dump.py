"""Writes records as a dump for people: topic, partition, offset and time, then key, headers and value in hexadecimal digits and letters."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pykafka4.errors.peer_text import escaped
from pykafka4.wire.records.hot import Record

__all__ = ["dump_form"]

WIDTH: Final = 16  # bytes in a line
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def dump_form(records: list[Record[Any, Any]]) -> bytes:
    return "".join(f"{line}\n" for record in records for line in _paragraph(record)).encode()


def _paragraph(record: Record[Any, Any]) -> Iterator[str]:
    yield f"{record.topic}-{record.partition} offset {record.offset}, {_time(record.timestamp_ms)}"
    yield from _dump("key", record.key)
    for name, value in record.headers:
        yield from _dump(f"header {escaped(name)}", value)
    yield from _dump("value", record.value)
    yield ""


def _time(milliseconds: int) -> str:
    try:
        return (EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")
    except OverflowError:
        return f"timestamp {milliseconds}"


def _dump(name: str, data: bytes | None) -> Iterator[str]:
    yield f"  {name}: null" if data is None else f"  {name}: {len(data)} bytes"
    for at in range(0, len(data or b""), WIDTH):
        part = (data or b"")[at : at + WIDTH]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        yield f"    {at:08x}  {part.hex(' '):<{3 * WIDTH}} {letters}"
