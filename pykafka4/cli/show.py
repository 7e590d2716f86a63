"""Shows results as tables and as JSON. Invariant: no text from a cluster, such as a client id, is shown with its control characters."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

import attrs
import click
from rich.console import Console

from pykafka4.admin.values import GroupLag, OffsetPlan, PartitionLag
from pykafka4.cli.tables import Table
from pykafka4.core.admin.values import GroupDescription, GroupListing
from pykafka4.errors import KafkaError, short_name
from pykafka4.errors.peer_text import escaped
from pykafka4.records import MemberDescription, TopicPartition

__all__ = [
    *("as_json", "at_time", "console", "counted", "error_json", "group_json", "lag_json", "lag_table", "member_table", "cell_text"),
    *("plan_json", "plan_table", "print_json", "table"),
]

WIDE: Final = 10**9  # columns; output to a pipe or file has whole lines
NOTHING: Final = "-"


class Screen(Console):
    """A Rich console that does not end the process when a pipe is closed."""

    def on_broken_pipe(self) -> None:
        raise  # the current BrokenPipeError, which ends the command in `main`


def console() -> Console:
    """A pipe or file gets whole lines without colours, even if the environment asks for colours."""
    if sys.stdout.isatty():
        return Screen(markup=False, highlight=False, emoji=False)
    return Screen(markup=False, highlight=False, emoji=False, force_terminal=False, color_system=None, width=WIDE)


def cell_text(value: object) -> str:
    if value is None or value == "":
        return NOTHING
    return escaped(str(value))


def counted(number: int, noun: str) -> str:
    """A number with its noun, such as "1 ACL" and "2 ACLs"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> Table:
    """A row with an error in a cell is red."""
    kept = list(rows)
    failed = frozenset(number for number, row in enumerate(kept) if any(isinstance(cell, KafkaError) for cell in row))
    return Table(columns, [list(map(cell_text, row)) for row in kept], failed, cell_text(title) if title else "")


def at_time(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_json(value: object) -> str:
    """Escape control characters, and characters that standard output cannot write. JSON readers see no difference."""
    text = json.dumps(value, ensure_ascii=False)
    encoding = sys.stdout.encoding or "ascii"
    if text.isprintable() and _fits(text, encoding):  # nearly all texts
        return text
    return "".join(c if c.isprintable() and _fits(c, encoding) else json.dumps(c)[1:-1] for c in text)


def print_json(*values: object) -> None:
    for value in values:
        click.echo(as_json(value))


def _fits(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return text.isascii()
    return True


def error_json(error: KafkaError) -> dict[str, Any]:
    return {"error": {"code": short_name(error), "message": str(error)}}


# -- groups


def group_json(group: GroupListing | GroupDescription) -> dict[str, Any]:
    found = {field.name: getattr(group, field.name) for field in attrs.fields(type(group))}
    if isinstance(group, GroupDescription):
        found["members"] = [_member_json(member) for member in group.members]
    return found


def _member_json(member: MemberDescription) -> dict[str, Any]:
    return {
        **attrs.asdict(member, recurse=False),
        "partitions": [_tp_json(tp) for tp in member.partitions],
        "target": None if member.target is None else [_tp_json(tp) for tp in member.target],
    }


def _tp_json(tp: TopicPartition) -> dict[str, Any]:
    return {"topic": tp.topic, "partition": tp.partition}


def member_table(group: GroupDescription) -> Table:
    rows = [
        (m.member_id, m.client_id, m.host, m.instance_id, len(m.partitions), _shares(m) if m.is_readable else "in an unknown format")
        for m in group.members
    ]
    return table(("member", "client", "host", "instance", "partitions", "assigned"), rows)


def _shares(member: MemberDescription) -> str:
    """The partitions of a member in the form of the option --topic: `orders:0,1 payments:3`."""
    topics: dict[str, list[str]] = {}
    for tp in member.partitions:
        topics.setdefault(tp.topic, []).append(str(tp.partition))
    return " ".join(f"{topic}:{','.join(numbers)}" for topic, numbers in topics.items())


# -- lag


def lag_table(groups: Mapping[str, GroupLag | KafkaError], title: str = "", most: int | None = None) -> Table:
    """The partitions of groups as a table, or the error of a group. `most` limits the rows."""
    rows = (row for name, found in groups.items() for row in _lag_rows(name, found))  # lazy: only `most` rows are made
    return table(("group", "topic", "partition", "committed", "end", "lag", "owner", "host"), islice(rows, most), title)


def _lag_rows(group: str, found: GroupLag | KafkaError) -> Iterator[Sequence[object]]:
    if isinstance(found, KafkaError):
        yield group, None, None, None, None, None, None, found
        return
    for row in found.partitions:
        committed = None if row.committed is None else row.committed.offset
        owner, host = (row.owner.member_id, row.owner.host) if row.owner is not None else (None, None)
        yield group, row.partition.topic, row.partition.partition, committed, row.end, row.lag, owner, row.error or host


def lag_json(found: GroupLag) -> dict[str, Any]:
    return {**group_json(found.description), "lag": found.lag, "partitions": [_partition_json(row) for row in found.partitions]}


def _partition_json(row: PartitionLag) -> dict[str, Any]:
    return {
        **_tp_json(row.partition),
        "committed": None if row.committed is None else row.committed.offset,
        "metadata": None if row.committed is None else row.committed.metadata,
        "end": row.end,
        "lag": row.lag,
        "owner": None if row.owner is None else row.owner.member_id,
        **(error_json(row.error) if row.error is not None else {}),
    }


# -- plans


def plan_table(plan: OffsetPlan, errors: Mapping[TopicPartition, KafkaError]) -> Table:
    rows = [(*r.partition, r.current, r.new, short_name(errors[r.partition]) if r.partition in errors else r.note) for r in plan]
    return table(("topic", "partition", "current", "new", "note"), rows)


def plan_json(plan: OffsetPlan, errors: Mapping[TopicPartition, KafkaError], executed: bool) -> Iterator[dict[str, Any]]:
    """`executed`: whether the plan was carried out, except for partitions with an error."""
    for row in plan:
        error = errors.get(row.partition)
        yield {
            "group_id": plan.group_id,
            **_tp_json(row.partition),
            **{name: getattr(row, name) for name in ("current", "new", "start", "end", "note")},
            "executed": executed and error is None,
            **(error_json(error) if error is not None else {}),
        }
