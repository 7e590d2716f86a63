"""Reads input as blocks of items. Items are numbered like the lines in an editor, from 1 in each file, for messages about failures.

A block has the items that one read completes (with `whole`, the file), so a line that a person types is sent at once.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

import attrs

from pykafka4.cli.streams import STDIN as STANDARD_INPUT
from pykafka4.cli.streams import named

__all__ = ["STDIN", "Block", "CutOff", "Split", "blocks", "by_lengths", "by_separator", "size_of", "whole"]

STDIN: Final = "-"
CHUNK: Final = 1 << 18  # bytes; a larger block may not fit into the CPU's caches
LENGTH: Final = struct.Struct(">i")
NULL_LENGTH: Final = -1


class CutOff(OSError):
    """Raised if the input ends in the middle of an item, or an item has an impossible length."""


Items = Sequence[bytes | None]
Split = Callable[[Iterator[bytes]], Iterator[tuple[Items, int]]]  # turns chunks into items, with the number of their bytes


@attrs.frozen
class Block:
    """Items of an input. `first` is the number of the first item, `size` the number of bytes, including separators."""

    source: str
    first: int
    items: Items
    size: int

    def name_of(self, index: int) -> str:
        """The name of an item for messages: `line 7`, or `orders.txt line 7`."""
        where = f"line {self.first + index}"
        return where if self.source == STDIN else f"{self.source} {where}"

    def parts(self, count: int) -> Iterator[Block]:
        for at in range(0, len(self.items), count):
            items = self.items[at : at + count]
            yield Block(self.source, self.first + at, items, self.size * len(items) // len(self.items))


def blocks(sources: Sequence[str], split: Split) -> Iterator[Block]:
    """`-` is standard input. Raises OSError, such as CutOff."""
    for source in sources:
        first = 1
        with named(STANDARD_INPUT if source == STDIN else source), _opened(source) as file:
            try:
                for items, size in split(_chunks(file)):
                    if items:
                        yield Block(source, first, items, size)
                    first += len(items)
            except CutOff as error:
                raise CutOff(f"{source}: {error}, after item {first - 1}") from None


def size_of(sources: Sequence[str]) -> int | None:
    """None if a source is not a file."""
    paths = [Path(source) for source in sources]
    return sum(path.stat().st_size for path in paths) if all(path.is_file() for path in paths) else None


def _opened(source: str) -> BinaryIO:
    # Without a buffer, a read returns as soon as some bytes are there.
    if source == STDIN:
        return open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)  # a descriptor, not a path
    return open(source, "rb", buffering=0)  # noqa: PTH123


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk


# ---------------------------------------------------------------- items


def by_separator(separator: bytes) -> Split:
    """The text after the last separator is an item if it is not empty."""

    def split(chunks: Iterator[bytes]) -> Iterator[tuple[Items, int]]:
        rest: list[bytes] = []
        for chunk in chunks:
            rest.append(chunk)
            # Only a chunk with the separator's last byte can end an item. Other chunks are kept apart: a join for each chunk would copy a
            # long item again and again.
            if separator[-1:] in chunk:
                joined = b"".join(rest)
                *items, last = joined.split(separator)
                yield items, len(joined) - len(last)
                rest = [last]
        if last := b"".join(rest):
            yield [last], len(last)

    return split


def whole(chunks: Iterator[bytes]) -> Iterator[tuple[Items, int]]:
    data = b"".join(chunks)
    yield [data], len(data)


def by_lengths(chunks: Iterator[bytes]) -> Iterator[tuple[Items, int]]:
    """Each item follows its length in four bytes, the most significant first; the length -1 is a null."""
    data = b""
    for chunk in chain(chunks, (b"",)):  # the empty chunk is for an impossible length after the last items
        data += chunk
        items, at = _measured(data)
        yield items, at
        data = data[at:]
    if data:
        raise CutOff("it ends in the middle of an item")


def _measured(data: bytes) -> tuple[list[bytes | None], int]:
    items: list[bytes | None] = []
    at = 0
    while at + LENGTH.size <= len(data):
        (size,) = LENGTH.unpack_from(data, at)
        if size < NULL_LENGTH:
            if items:  # they are sent before the error
                break
            raise CutOff(f"{size} is not a length")
        end = at + LENGTH.size + max(0, size)
        if end > len(data):
            break
        items.append(None if size == NULL_LENGTH else data[at + LENGTH.size : end])
        at = end
    return items, at
