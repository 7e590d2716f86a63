"""Makes the rows of partitions that a status page shows. Invariant: a response has at most MOST_ROWS rows; the worst rows come first,
unless the reader has chosen a column.

Rule: a new column goes to the end of its tuple. The functions `_badness_…` and `client_headline` find values of a row by number. A column
also needs a heading in `COLUMNS` of page/client.js, and `cli.watch` shows the column under its own name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import nlargest
from typing import Any, Final

import attrs

from pykafka4.pages.watched import Kind, Look

__all__ = ["MOST_ROWS", "Partitions", "Query", "is_bad", "partitions"]

MOST_ROWS: Final = 1_000
STOPPED: Final = "stopped"

Row = list[Any]


@attrs.frozen
class Query:
    """A reader's choice: at most `most` rows whose names contain `text`, sorted by the column `sort` (empty: the worst first)."""

    text: str = ""
    sort: str = ""
    down: bool = True
    most: int = 100


@attrs.frozen
class Partitions:
    """All rows of a look. `offline` is the number of partitions that cannot be used now."""

    columns: tuple[str, ...]
    rows: Sequence[Row]
    offline: int
    badness: Callable[[Row], Any]

    def answer(self, query: Query) -> dict[str, Any]:
        text = query.text.lower()
        found = [row for row in self.rows if text in row[0].lower()] if text else self.rows
        most = min(max(query.most, 0), MOST_ROWS)
        return {
            "columns": self.columns,
            "rows": [_rounded(row) for row in self._chosen(found, query, most)],
            "count": len(self.rows),
            "found": len(found),
            "offline": self.offline,
        }

    def _chosen(self, found: Sequence[Row], query: Query, most: int) -> list[Row]:
        if query.sort not in self.columns:
            return nlargest(most, found, key=self.badness)
        at = self.columns.index(query.sort)
        known = sorted((row for row in found if row[at] is not None), key=lambda row: row[at], reverse=query.down)
        return [*known, *(row for row in found if row[at] is None)][:most]  # rows without a value come last


def partitions(kind: Kind, look: Look) -> Partitions:
    return MAKERS[kind](look.status)


def is_bad(state: str) -> bool:
    return state in ("offline", STOPPED)


def _rounded(row: Row) -> Row:
    return [round(value, 1) if isinstance(value, float) else value for value in row]


# -- producers

PRODUCER_COLUMNS: Final = ("name", "state", "reason", "since_s", "queued", "queued_bytes", "oldest_s", "in_flight", "last_error")


def _of_producer(status: Mapping[str, Any]) -> Partitions:
    own, offline = status.get("partitions", {}), status.get("offline", {})
    rows = [
        [
            *(name, row["state"], row["reason"], row["since"], row["queued"], row["queued_bytes"]),
            *(row["oldest_age"], row["in_flight"], row["last_error"]),
        ]
        for name, row in own.items()
    ]
    rows += [[name, "offline", row["reason"], row["since"], 0, 0, None, 0, None] for name, row in offline.items() if name not in own]
    return Partitions(PRODUCER_COLUMNS, rows, len(offline), _badness_of_producer)


def _badness_of_producer(row: Row) -> tuple[bool, float, int]:
    return row[1] == "offline", row[6] or 0.0, row[4] + row[7]


# -- consumers

CONSUMER_COLUMNS: Final = ("name", "state", "reason", "since_s", "position", "lag", "buffered", "leader", "fetched_from")


def _of_consumer(status: Mapping[str, Any]) -> Partitions:
    offline = status.get("offline", {})
    rows: list[Row] = []
    for name, row in status.get("consumer", {}).get("partitions", {}).items():
        down = offline.get(name)
        state = "offline" if down is not None else row["state"]
        reason = row["waits_for"] or row["reason"] if down is None else down["reason"]
        since = None if down is None else down["since"]
        rows.append([name, state, reason, since, row.get("position"), row.get("lag"), row["buffered"], row["leader"], row["fetched_from"]])
    return Partitions(CONSUMER_COLUMNS, rows, sum(is_bad(row[1]) for row in rows), _badness_of_consumer)


def _badness_of_consumer(row: Row) -> tuple[bool, bool, int]:
    return is_bad(row[1]), row[2] is not None, row[5] or 0


# -- share consumers, and clients alone

FEW_COLUMNS: Final = ("name", "state", "reason", "since_s")


def _of_share_consumer(status: Mapping[str, Any]) -> Partitions:
    offline, member = status.get("offline", {}), status.get("share_consumer", {})
    errors = member.get("errors", {})
    rows: list[Row] = []
    for name in map(str, member.get("partitions", ())):
        down, error = offline.get(name), errors.get(name)
        state = "offline" if down is not None else "waiting" if error else "acquiring"
        rows.append([name, state, error if down is None else down["reason"], None if down is None else down["since"]])
    return Partitions(FEW_COLUMNS, rows, sum(is_bad(row[1]) for row in rows), _badness_of_few)


def _of_client(status: Mapping[str, Any]) -> Partitions:
    rows: list[Row] = [[name, "offline", row["reason"], row["since"]] for name, row in status.get("offline", {}).items()]
    return Partitions(FEW_COLUMNS, rows, len(rows), _badness_of_few)


def _badness_of_few(row: Row) -> tuple[bool, bool, float]:
    return is_bad(row[1]), row[2] is not None, row[3] or 0.0


MAKERS: Final[Mapping[Kind, Callable[[Mapping[str, Any]], Partitions]]] = {
    Kind.PRODUCER: _of_producer,
    Kind.CONSUMER: _of_consumer,
    Kind.SHARE_CONSUMER: _of_share_consumer,
    Kind.CLIENT: _of_client,
}
