r"""Turns the template of `--format`, with kcat's tokens, into a function that formats records.

For speed, C code reads all fields except headers, and formats whole records.

`%t` topic, `%p` partition, `%o` offset, `%T` timestamp in milliseconds, `%k` key, `%K` its length, `%s` value, `%S` its length, `%R` its
length as four bytes, `%h` headers, `%%`, and `\n`, `\r`, `\t`, `\\`, `\0`, `\x41`. The length of a null is -1.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from operator import attrgetter
from typing import Any, Final

import click

from pykafka4.wire.records.hot import Record

__all__ = ["Form", "Records", "TOKENS", "literal", "template_form", "to_bytes"]

Records = list[Record[Any, Any]]
Column = Callable[[Records], Iterable[Any]]
Piece = tuple[bytes, Column | None]  # a format for `%`, and the column of a token; None for a text
Form = Callable[[Records], bytes]

PIECES: Final = re.compile(r"%(?P<token>.?)|\\(?P<escape>x[0-9a-fA-F]{2}|.?)|(?P<text>[^%\\]+)", re.DOTALL)
ESCAPES: Final = re.compile(r"\\(?P<escape>x[0-9a-fA-F]{2}|.?)|(?P<text>[^\\]+)", re.DOTALL)
ESCAPED: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\", "0": b"\0"}
TOKENS: Final = r"%t %p %o %T %k %K %s %S %R %h %% \n \r \t \\ \0 \x41"
TOPIC, PARTITION, OFFSET, TIMESTAMP = map(attrgetter, ("topic", "partition", "offset", "timestamp_ms"))
KEY, VALUE = attrgetter("key"), attrgetter("value")
LENGTH: Final = struct.Struct(">i")


def template_form(text: str, null: bytes) -> Form:
    """`null` is the text for a null key or value. Raises click.BadParameter for an unknown token or escape."""
    pieces = _pieces(text, null)
    columns = [column for _, column in pieces if column is not None]
    if len(pieces) == 2 and len(columns) == 1 and pieces[0][0] == b"%b":  # such as the default, `%s\n`
        return _lines(columns[0], pieces[1][0] % ())
    line = b"".join(each for each, _ in pieces)
    if not columns:
        return lambda records: line % () * len(records)
    return lambda records: b"".join(map(line.__mod__, zip(*[column(records) for column in columns])))


def _lines(column: Column, end: bytes) -> Form:
    def form(records: Records) -> bytes:
        return end.join(column(records)) + end if records else b""

    return form


def to_bytes(text: str) -> bytes:
    """Encode an argument in UTF-8. Surrogate escapes become the bytes that the shell passed."""
    return text.encode("utf-8", "surrogateescape")


def literal(text: str, option: str) -> bytes:
    r"""The bytes of an option's text, with escapes such as `\n` decoded. Raises click.BadParameter for an unknown escape or empty text."""
    pieces = [_between(match) for match in ESCAPES.finditer(text)]
    if not pieces or None in pieces:
        raise click.BadParameter(rf"{text!r}: must be a text that is not empty, with \n \r \t \\ \0 \x41 for characters", param_hint=option)
    return b"".join(piece for piece in pieces if piece) % ()


def _pieces(text: str, null: bytes) -> list[Piece]:
    known = _tokens(null)
    found: list[Piece] = []
    for match in PIECES.finditer(text):
        token = known.get(match["token"]) if match["token"] is not None else None
        between = _between(match)
        if token is None and between is None:
            raise click.BadParameter(f"{match[0]!r} in {text!r} is none of {TOKENS}", param_hint="--format")
        if token is not None:
            found.append(token)
        elif found and found[-1][1] is None:
            found[-1] = found[-1][0] + (between or b""), None
        else:
            found.append((between or b"", None))
    return found


def _between(match: re.Match[str]) -> bytes | None:
    """The text of a match that is not a token, with each `%` doubled for the format; None for a token or an unknown escape."""
    if (escape := match["escape"]) is not None:
        found = bytes.fromhex(escape[1:]) if len(escape) == 3 else ESCAPED.get(escape)
    else:
        found = None if match["text"] is None else to_bytes(match["text"])
    return None if found is None else found.replace(b"%", b"%%")


def _tokens(null: bytes) -> Mapping[str, Piece]:
    names = cache(str.encode)  # a command reads few topics
    return {
        "t": (b"%b", lambda records: map(names, map(TOPIC, records))),
        "p": (b"%d", lambda records: map(PARTITION, records)),
        "o": (b"%d", lambda records: map(OFFSET, records)),
        "T": (b"%d", lambda records: map(TIMESTAMP, records)),
        "k": (b"%b", _bytes_of(KEY, null)),
        "s": (b"%b", _bytes_of(VALUE, null)),
        "K": (b"%d", _sizes(KEY)),
        "S": (b"%d", _sizes(VALUE)),
        "R": (b"%b", lambda records: map(LENGTH.pack, _sizes(VALUE)(records))),
        "h": (b"%b", lambda records: map(_headers, records)),
        "%": (b"%%", None),
    }


def _bytes_of(get: attrgetter[bytes | None], null: bytes) -> Column:
    def column(records: Records) -> Iterable[bytes]:
        found: list[bytes | None] = [*map(get, records)]
        if None in found:  # most lists have no null
            return [null if each is None else each for each in found]
        return found  # type: ignore[return-value]  # mypy does not know the condition

    return column


def _sizes(get: attrgetter[bytes | None]) -> Callable[[Records], Iterable[int]]:
    return lambda records: [-1 if each is None else len(each) for each in map(get, records)]


def _headers(record: Record[Any, Any]) -> bytes:
    return b",".join(b"%b=%b" % (name.encode(), b"NULL" if value is None else value) for name, value in record.headers)
