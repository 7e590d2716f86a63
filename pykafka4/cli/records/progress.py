"""Shows progress on a terminal: bytes, records a second, time left. A run of less than a second shows no progress,
and does not import rich."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

from pykafka4.cli.invocation import show_error
from pykafka4.errors.peer_text import escaped

__all__ = ["Meter"]

PATIENCE_S: Final = 1.0  # seconds until the bar appears
REDRAW_S: Final = 0.2
FIGURES, LEAST_NAME = 72, 8  # columns of the bar with its figures; least columns of the name


class Meter:
    """The counter of records and bytes, with a bar on standard error if that is a terminal and `shows` is true."""

    def __init__(self, what: str, total: int | None, *, shows: bool) -> None:
        """`total` is the expected sum of the steps; None if it is unknown."""
        self.records = self.bytes = 0
        self._what, self._total, self._done = what, total, 0
        self._began = time.monotonic()
        self._next = self._began + PATIENCE_S if shows and sys.stderr.isatty() else float("inf")
        self._bars: Any = None

    def advance(self, records: int, size: int, steps: int) -> None:
        self.records += records
        self.bytes += size
        self._done += steps
        if (now := time.monotonic()) >= self._next:
            self._next = now + REDRAW_S
            self._show(now)

    def show_error(self, text: str) -> None:
        """Show an error, above the bar if there is one."""
        if self._bars is None:
            show_error(text)
        else:
            self._bars.console.print(escaped(f"error: {text}"), markup=False, highlight=False)

    def _show(self, now: float) -> None:
        if self._bars is None:
            self._bars = _bars(self._total)
            self._bars.start()
            self._bars.add_task(self._name(self._bars.console.width), total=self._total, figures="")
        rate = self.records / (now - self._began)
        figures = f"{self.records:,} records, {self.bytes / 1e6:,.1f} MB, {rate:,.0f} records/s"
        self._bars.update(self._bars.task_ids[0], completed=self._done, figures=figures, refresh=True)

    def _name(self, width: int) -> str:
        room = max(LEAST_NAME, width - FIGURES)
        return self._what if len(self._what) <= room else f"{self._what[: room - 1]}…"

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bars is not None:
            self._show(time.monotonic())
            self._bars.stop()


def _bars(total: int | None) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    to_an_end = (BarColumn(), TaskProgressColumn()) if total is not None else ()
    rest = (TimeRemainingColumn(),) if total is not None else ()
    columns = TextColumn("{task.description}"), *to_an_end, TextColumn("{task.fields[figures]}"), *rest
    return Progress(*columns, console=Console(file=sys.stderr), auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
