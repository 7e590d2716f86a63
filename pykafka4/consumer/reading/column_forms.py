"""Collects records as Arrow columns for `poll_arrow`. Invariant: `ColumnForms.held_bytes` counts all columns that the
application has not freed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pykafka4.consumer.arguments import MOST_RECORDS, check_limit
from pykafka4.consumer.reading.cursors import HandedOut
from pykafka4.consumer.reading.forms import Added, Form
from pykafka4.core.subscription import Claim, OffsetAndEpoch
from pykafka4.wire.records.columns import COLUMN_NAMES, checked_columns
from pykafka4.wire.records.hot import Chunk, ColumnsBuilder, RecordColumns
from pykafka4.wire.records.layout import INT64_MAX

__all__ = ["ColumnForms", "ColumnsForm"]

MOST_FORMS: Final = 64  # forms that are kept, one for each choice of columns; at this number, forms without columns in use are dropped
USUAL_BYTES: Final = 8 << 20  # bytes of a poll without max_rows: larger columns do not fit into caches, and double the CPU time per record


class ColumnsForm(Form[RecordColumns]):
    call = "poll_arrow"

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._builder = ColumnsBuilder(names)
        self._limit = self._room = 0

    @property
    def held_bytes(self) -> int:
        """Bytes of columns that the application has not freed. Any thread may read it."""
        return self._builder.held_bytes

    def limit(self, most: int | None) -> int:
        return check_limit(most, MOST_RECORDS, "max_rows", "up to about 8 MiB of columns")

    def begin(self, limit: int) -> None:
        self._builder.finish()  # drops the rows and positions of a poll that Ctrl-C ended
        self._limit, self._room = limit, INT64_MAX if limit < MOST_RECORDS else USUAL_BYTES

    def __len__(self) -> int:
        return len(self._builder)

    @property
    def full(self) -> bool:
        return self._builder.full or self._room <= 0 or len(self._builder) >= self._limit

    def add(self, chunk: Chunk, room: int) -> Added | None:
        builder = self._builder
        builder.add(chunk, self._limit - len(builder), min(room, self._room))
        self._room -= chunk.decoded
        return builder.added

    def finish(self, positions: Mapping[Claim, OffsetAndEpoch]) -> tuple[RecordColumns, HandedOut]:
        return self._builder.finish(), HandedOut(positions)

    def go_on(self, handed: HandedOut, limit: int) -> None:
        return None

    def nothing(self) -> RecordColumns:
        self._builder.finish()  # drops the positions after a gap without records
        return self._builder.finish()  # so these columns have no positions


class ColumnForms:
    """The forms of a consumer, one for each choice of columns."""

    def __init__(self) -> None:
        self._forms: dict[tuple[str, ...], ColumnsForm] = {}

    def form(self, columns: Iterable[str] | None) -> ColumnsForm:
        """`columns=None` means all columns. Raises ConfigError for a column that does not exist."""
        names = COLUMN_NAMES if columns is None else checked_columns(columns)
        form = self._forms.get(names)
        if form is None:
            if len(self._forms) >= MOST_FORMS:
                # A form with columns in use stays: only its builder counts their bytes against `prefetch_bytes`.
                self._forms = {kept: each for kept, each in self._forms.items() if each.held_bytes}
            form = self._forms[names] = ColumnsForm(names)
        return form

    @property
    def held_bytes(self) -> int:
        return sum(form.held_bytes for form in self._forms.copy().values())
