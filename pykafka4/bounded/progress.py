"""Shows the progress of a bounded read on stderr. Invariant: `show` draws only changes.

A terminal gets rich's progress bar if rich is installed, otherwise a line that is redrawn. A file or pipe gets a line every few seconds.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any, Final, Protocol, TextIO

from pykafka4.net import system

__all__ = ["Lines", "Progress", "Silence", "counted", "progress_for"]

REDRAW_S: Final = 0.1  # seconds between two drawings in a terminal, at least
LINE_S: Final = 5.0  # seconds between two lines of a file or pipe, at least


class Progress(Protocol):
    """The display of a read's progress."""

    def begin(self, topics: str, offsets: int) -> None:
        """Begin the display of a read of `topics`, with `offsets` offsets in all partitions."""

    def due(self) -> bool:
        """Whether it is time for `show`."""

    def show(self, records: int, offsets: int) -> None:
        """Show the number of returned `records`, and the number of `offsets` that the read has passed."""

    def end(self, records: int, offsets: int) -> None:
        """End the display: the read has ended, or was left early. May be called twice."""


class Silence:
    """A `Progress` that shows nothing."""

    def begin(self, topics: str, offsets: int) -> None:
        """See Progress."""

    def due(self) -> bool:
        return False

    def show(self, records: int, offsets: int) -> None:
        """See Progress."""

    def end(self, records: int, offsets: int) -> None:
        """See Progress."""


class Lines:
    """A `Progress` of text."""

    def __init__(self, out: TextIO, clock: Callable[[], float]) -> None:
        self._out, self._clock = out, clock
        self._redraws = out.isatty()
        self._every = REDRAW_S if self._redraws else LINE_S
        self._topics, self._total = "", 0
        self._began = self._drawn_at = clock()
        self._drawn = ""
        self._over = False

    def begin(self, topics: str, offsets: int) -> None:
        self._topics, self._total = topics, offsets
        self._began = self._drawn_at = self._clock()

    def due(self) -> bool:
        return self._clock() - self._drawn_at >= self._every

    def show(self, records: int, offsets: int) -> None:
        self._drawn_at = self._clock()
        line = self._line(records, offsets)
        if line != self._drawn:
            self._write(line)

    def _write(self, line: str) -> None:
        before, self._drawn = self._drawn, line
        self._out.write(f"\r{line.ljust(len(before))}" if self._redraws else f"{line}\n")
        self._out.flush()

    def end(self, records: int, offsets: int) -> None:
        if not self._over:
            self._over = True
            self._write(self._line(records, offsets))
            if self._redraws:
                self._out.write("\n")
                self._out.flush()

    def _line(self, records: int, offsets: int) -> str:
        seconds = self._clock() - self._began
        left = max(0, self._total - offsets)
        shown = [f"{self._topics}: {_percent(offsets, self._total)}", counted(records), rate(records, seconds)]
        if left and offsets:
            shown.append(f"{duration(seconds * left / offsets)} left")
        elif not left:
            shown.append(f"in {duration(seconds)}")
        return ", ".join(shown)


class RichBar:
    """A `Progress` with rich's bar, but without rich's own thread, which would also redraw an unchanged bar."""

    def __init__(self, out: TextIO, clock: Callable[[], float]) -> None:
        """Raises ImportError without rich."""
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        columns = TextColumn("{task.fields[records]}"), TextColumn("{task.fields[rate]}"), TimeRemainingColumn()
        # rich redirects stdout, to print the program's output above the bar, on `out`. Output to a file or pipe must not be redirected.
        in_terminal = sys.stdout is not None and sys.stdout.isatty()
        how: dict[str, Any] = {"console": Console(file=out), "auto_refresh": False, "redirect_stdout": in_terminal}
        self._bars: Any = Bars(TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), *columns, **how)
        self._stop = weakref.finalize(self, self._bars.stop)  # also at exit: without `stop` the terminal has no cursor afterwards
        self._clock = clock
        self._began = self._drawn_at = clock()
        self._task: Any = None
        self._drawn = (-1, -1)

    def begin(self, topics: str, offsets: int) -> None:
        self._began = self._drawn_at = self._clock()
        self._bars.start()
        self._task = self._bars.add_task(topics, total=max(1, offsets), completed=0 if offsets else 1, records=counted(0), rate="")

    def due(self) -> bool:
        return self._clock() - self._drawn_at >= REDRAW_S

    def show(self, records: int, offsets: int) -> None:
        self._drawn_at = self._clock()
        if (records, offsets) != self._drawn and self._task is not None:
            self._drawn = records, offsets
            passed = rate(records, self._drawn_at - self._began)
            self._bars.update(self._task, completed=offsets, records=counted(records), rate=passed, refresh=True)

    def end(self, records: int, offsets: int) -> None:
        if self._task is not None:
            self.show(records, offsets)
            self._task = None
            self._stop()


def progress_for(wanted: object) -> Progress:
    if not wanted or sys.stderr is None:
        return Silence()
    if sys.stderr.isatty():
        try:
            return RichBar(sys.stderr, system.monotonic)
        except ImportError:
            pass
    return Lines(sys.stderr, system.monotonic)


def counted(records: int) -> str:
    return f"{records:,} {'record' if records == 1 else 'records'}"


def rate(records: int, seconds: float) -> str:
    """A text such as `12,300 records/s`, rounded down to three significant digits."""
    if seconds <= 0:
        return "0 records/s"
    number = records / seconds
    step = 10 ** max(0, len(str(int(number))) - 3)
    return f"{int(number) // step * step:,} records/s"


def duration(seconds: float) -> str:
    """A text such as `1:02:03` or `2:03`."""
    hours, rest = divmod(int(seconds + 0.5), 3600)
    minutes, rest = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _percent(done: int, total: int) -> str:
    return f"{100 * done // total} %" if total else "100 %"
