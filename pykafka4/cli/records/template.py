r"""The template of `--format`, with kcat's tokens. Rule: a template becomes one iterator for each of its parts, which run in C.

`%t` topic, `%p` partition, `%o` offset, `%T` timestamp in milliseconds, `%k` key, `%K` its length, `%s` value, `%S` its length,
`%R` its length as four bytes, `%h` headers, `%%`, and `\n`, `\r`, `\t`, `\\`, `\x41`. A length is -1 if there is a null.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, repeat
from operator import attrgetter
from typing import Any, Final

import click

from pykafka4.wire.records.hot import Record

__all__ = ["Form", "Records", "TOKENS", "literal", "template_form", "to_bytes"]

Records = list[Record[Any, Any]]
Column = Callable[[Records], Iterable[bytes]]
Form = Callable[[Records], bytes]

PIECES: Final = re.compile(r"%(.?)|\\(x[0-9a-fA-F]{2}|.?)|([^%\\]+)", re.DOTALL)
ESCAPED: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\", "0": b"\0"}
TOKENS: Final = r"%t %p %o %T %k %K %s %S %R %h %% \n \r \t \\ \0 \x41"
KEYS, VALUES, HEADERS = attrgetter("key"), attrgetter("value"), attrgetter("headers")
PLACES: Final = {"p": attrgetter("partition"), "o": attrgetter("offset"), "T": attrgetter("timestamp_ms")}


def template_form(text: str, null: bytes) -> Form:
    """Records as this template says. `null` is the text of a null key or value. Raises click.BadParameter for an unknown token."""
    columns = _columns(text, null)
    if not columns:
        return lambda records: b""
    if len(columns) == 2 and columns[0] is not None and isinstance(columns[1], bytes) and not isinstance(columns[0], bytes):
        return _lines(columns[0], columns[1])

    def form(records: Records) -> bytes:
        parts = [repeat(column, len(records)) if isinstance(column, bytes) else column(records) for column in columns]
        return b"".join(chain.from_iterable(zip(*parts)))

    return form


def _lines(column: Column, end: bytes) -> Form:
    def form(records: Records) -> bytes:
        return end.join(column(records)) + end if records else b""

    return form


def to_bytes(text: str) -> bytes:
    """An argument of the command line as the shell has passed it."""
    return text.encode("utf-8", "surrogateescape")


def literal(text: str, option: str) -> bytes:
    r"""The text of an option, in which `\n`, `\t` and so on stand for characters. Raises click.BadParameter for an unknown one."""
    pieces = [_piece(match, {"%": b"%"}) for match in PIECES.finditer(text.replace("%", "%%"))]
    if not pieces or None in pieces:
        raise click.BadParameter(rf"{text!r}: takes a text, with \n \r \t \\ \0 \x41 for characters", param_hint=option)
    return b"".join(piece for piece in pieces if isinstance(piece, bytes))


def _columns(text: str, null: bytes) -> list[Column | bytes]:
    known = _tokens(null)
    found: list[Column | bytes] = []
    for match in PIECES.finditer(text):
        piece = _piece(match, known)
        if piece is None:
            raise click.BadParameter(f"{match[0]!r} in {text!r} is none of {TOKENS}", param_hint="--format")
        if isinstance(piece, bytes) and found and isinstance(found[-1], bytes):
            found[-1] += piece
        else:
            found.append(piece)
    return found


def _piece(match: re.Match[str], known: Mapping[str, Column | bytes]) -> Column | bytes | None:
    token, escape, between = match.groups()
    if token is not None:
        return known.get(token)
    if escape is not None:
        return bytes.fromhex(escape[1:]) if len(escape) == 3 else ESCAPED.get(escape)
    return to_bytes(between)


def _tokens(null: bytes) -> Mapping[str, Column | bytes]:
    return {
        **{token: _numbers(get) for token, get in PLACES.items()},
        "t": lambda records: [record.topic.encode() for record in records],
        "k": _bytes_of(KEYS, null),
        "s": _bytes_of(VALUES, null),
        "K": _sizes(KEYS, b"%d".__mod__),
        "S": _sizes(VALUES, b"%d".__mod__),
        "R": _sizes(VALUES, struct.Struct(">i").pack),
        "h": lambda records: [_headers(record) for record in records],
        "%": b"%",
    }


def _numbers(get: attrgetter[int]) -> Column:
    return lambda records: map(b"%d".__mod__, map(get, records))


def _bytes_of(get: attrgetter[bytes | None], null: bytes) -> Column:
    def column(records: Records) -> Iterable[bytes]:
        found: list[bytes | None] = [*map(get, records)]
        if None in found:
            return [null if each is None else each for each in found]
        return found  # type: ignore[return-value]  # mypy does not know the condition

    return column


def _sizes(get: attrgetter[bytes | None], shown: Callable[[int], bytes]) -> Column:
    return lambda records: [shown(-1 if each is None else len(each)) for each in map(get, records)]


def _headers(record: Record[Any, Any]) -> bytes:
    return b",".join(b"%b=%b" % (name.encode(), b"NULL" if value is None else value) for name, value in record.headers)
