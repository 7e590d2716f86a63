"""Reads and writes the text of files of offsets: the CSV of `kafka-consumer-groups --export` and `--from-file`, and JSON.

CSV: `topic,partition,offset` for one group, `group,topic,partition,offset` for several, without a header. JSON: a list of objects with
these keys. The text shows the format; the file's name does not matter. A group id can be any text, so spaces around it and line ends
in it belong to the id.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from pykafka4.errors import ConfigError, shown
from pykafka4.misuse import check_count, topic_partition
from pykafka4.records import OffsetAndMetadata, TopicPartition

__all__ = ["FIELDS", "from_text", "to_csv", "to_json"]

BYTE_ORDER_MARK: Final = "\ufeff"
FIELDS: Final = ("group", "topic", "partition", "offset")
Offsets = Mapping[TopicPartition, "int | OffsetAndMetadata"]


def to_csv(groups: Mapping[str, Offsets], *, named: bool) -> str:
    """Return the CSV of Kafka's tool. `named` puts the group's id in each row, as the tool does for several groups."""
    lines = (row if named else row[1:] for row in _rows(groups))
    return "".join(",".join(map(_cell, line)) + "\n" for line in lines)


def _cell(value: object) -> str:
    """A cell, in quotes if necessary. Before Python 3.13, `csv.writer` can leave a carriage return unquoted, and readers see a line end.

    Readers would take an unquoted byte order mark in the first cell for the file's own mark, and drop it.
    """
    text = str(value)
    needs_quotes = any(c in text for c in ',"\r\n') or text != text.strip() or text.startswith(BYTE_ORDER_MARK)
    return '"' + text.replace('"', '""') + '"' if needs_quotes else text


def to_json(groups: Mapping[str, Offsets]) -> str:
    """Return a JSON list of objects, always with the group's id."""
    return json.dumps([dict(zip(FIELDS, row)) for row in _rows(groups)], indent=1) + "\n"


def _rows(groups: Mapping[str, Offsets]) -> Iterator[tuple[str, str, int, int]]:
    for group, offsets in groups.items():
        for (topic, partition), at in sorted(offsets.items()):
            yield group, topic, partition, at.offset if isinstance(at, OffsetAndMetadata) else at


def from_text(text: str, group: str, where: str) -> dict[TopicPartition, int]:
    """Return the offsets of `group` in a file's text. `where` is the file's name, for messages.

    Raises ConfigError for a line or item in another format, a partition that is listed twice, and a file without offsets of the group.
    """
    rows = _rows_of(text, where)
    found: dict[TopicPartition, int] = {}
    others: dict[str, None] = {}
    for place, of, topic, partition, offset in rows:
        if of not in (None, group):
            others[str(of)] = None
            continue
        try:
            tp = topic_partition((topic, partition))
            found_at = check_count(offset, f"the offset of {tp}")
        except (ConfigError, TypeError) as error:
            raise ConfigError(f"{place}: {error}") from None
        if tp in found:
            raise ConfigError(f"{place}: {tp} is listed twice")
        found[tp] = found_at
    if not found:
        named = f", only of {', '.join(map(shown, others))}" if others else ""
        raise ConfigError(f"{where}: has no offsets of group {group!r}{named}")
    return found


Row = tuple[str, Any, Any, Any, Any]  # place, group or None, topic, partition, offset


def _rows_of(text: str, where: str) -> Iterable[Row]:
    """A group id can begin with `[`, so a text that is not valid JSON might still be CSV: the text is CSV if its first row is valid."""
    if not text.lstrip().startswith("["):
        return _of_csv(text, where)
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        lines = _of_csv(text, where)
        try:
            first = next(lines)
        except ConfigError:
            raise ConfigError(f"{where}: is not valid JSON: {error}") from None
        return chain([first], lines)
    return _of_json(rows, where)


def _of_csv(text: str, where: str) -> Iterator[Row]:
    """The place of a row is the row's first line, because quoted cells can have line ends."""
    reader = csv.reader(io.StringIO(text, newline=""))
    while True:
        place = f"{where}, line {reader.line_num + 1}"
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise ConfigError(f"{place}: is not valid CSV: {error}; is a quotation mark missing?") from None
        if cells is None:
            return
        if not "".join(cells).strip() and len(cells) < 2:  # a blank line
            continue
        if len(cells) not in (3, 4):
            raise ConfigError(f"{place}: {shown(','.join(cells))}: must be topic,partition,offset or group,topic,partition,offset")
        topic, partition, offset = (cell.strip() for cell in cells[-3:])
        yield place, cells[0] if len(cells) == 4 else None, topic, _number(place, partition), _number(place, offset)


def _number(place: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise ConfigError(f"{place}: {shown(text)} must be a number of 1 to 19 digits")
    return int(text)


def _of_json(rows: list[Any], where: str) -> Iterable[Row]:
    for number, row in enumerate(rows, 1):
        place = f"{where}, item {number}"
        if not isinstance(row, dict) or not {*FIELDS[1:]} <= row.keys() <= {*FIELDS}:
            raise ConfigError(f"{place}: {shown(row)}: must be an object with {', '.join(FIELDS[1:])}, and group for several groups")
        if not isinstance(row.get("group"), str | None):
            raise ConfigError(f"{place}: group must be text, not {shown(row['group'])}")
        yield place, row.get("group"), row["topic"], row["partition"], row["offset"]
