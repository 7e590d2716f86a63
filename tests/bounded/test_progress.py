"""Progress of a bounded read: what is drawn, and how seldom."""

from __future__ import annotations

import gc
import io
import sys
from typing import Any, TextIO

import pytest

from pykafka4.bounded.progress import Lines, Progress, RichBar, Silence, duration, progress_for, rate
from pykafka4.testing import ModelServer
from tests.bounded.conftest import Reads
from tests.consumer.consuming import topic

CURSOR = "\x1b[?25h"  # shows the cursor


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_terminal_has_one_line_that_is_drawn_again() -> None:
    out, clock = Terminal(), Clock()
    lines = Lines(out, clock)
    lines.begin("orders", 200)
    assert not lines.due()
    clock.now += 10
    assert lines.due()
    lines.show(40, 50)
    assert out.getvalue() == "\rorders: 25 %, 40 records, 4 records/s, 0:30 left"
    assert not lines.due()
    lines.show(40, 50)
    assert out.getvalue().count("\r") == 1, "nothing changed"
    clock.now += 30
    lines.end(160, 200)
    lines.end(160, 200)
    assert out.getvalue().splitlines()[-1].strip() == "orders: 100 %, 160 records, 4 records/s, in 0:40"
    assert out.getvalue().endswith("\n")


def test_a_file_has_a_line_every_few_seconds() -> None:
    out, clock = io.StringIO(), Clock()
    lines = Lines(out, clock)
    lines.begin("orders", 200)
    clock.now += 1
    assert not lines.due()
    clock.now += 4
    assert lines.due()
    lines.show(40, 50)
    assert out.getvalue() == "orders: 25 %, 40 records, 8 records/s, 0:15 left\n"


def test_a_bar_of_rich_has_records_and_rate() -> None:
    pytest.importorskip("rich")
    out, clock = Terminal(), Clock()
    bar = RichBar(out, clock)
    bar.begin("orders", 200)
    clock.now += 10
    assert bar.due()
    bar.show(40, 50)
    bar.end(160, 200)
    bar.end(160, 200)
    drawn = out.getvalue()
    assert "25%" in drawn
    assert "40 records" in drawn
    assert "16 records/s" in drawn


def test_without_rich_a_terminal_has_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert isinstance(progress_for(True), RichBar | Lines)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert isinstance(progress_for(True), Lines)
    assert isinstance(progress_for(False), Silence)


def test_a_read_shows_its_end_on_stderr(server: ModelServer, reads: Reads, capsys: pytest.CaptureFixture[str]) -> None:
    topic(server, 100, 0, 7)
    assert len(list(reads(progress=True))) == 107
    assert "t: 100 %, 107 records" in capsys.readouterr().err
    assert len(list(reads())) == 107
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("count", "seconds", "text"), [(0, 0, "0"), (12_345, 1, "12,300"), (1_234_567, 2, "617,000"), (7, 1, "7")])
def test_rate_has_three_digits(count: int, seconds: float, text: str) -> None:
    assert rate(count, seconds) == f"{text} records/s"


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "0:00"), (61, "1:01"), (3_723, "1:02:03")])
def test_duration(seconds: float, text: Any) -> None:
    assert duration(seconds) == text


def bar_in(terminal: Terminal, stdout: TextIO, monkeypatch: pytest.MonkeyPatch) -> Progress:
    """The bar of rich, with `terminal` as stderr. Called by the test itself: pytest replaces both streams after each fixture."""
    pytest.importorskip("rich")
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setenv("TERM", "xterm")
    return progress_for(True)


def test_a_bar_leaves_stdout_to_a_file_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, file = Terminal(), io.StringIO()
    bar = bar_in(terminal, file, monkeypatch)
    bar.begin("t", 10)
    print("data")
    bar.end(10, 10)
    assert file.getvalue() == "data\n"
    assert "data" not in terminal.getvalue()


def test_lines_of_stdout_in_the_same_terminal_are_printed_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    bar = bar_in(terminal, Terminal(), monkeypatch)
    bar.begin("t", 10)
    print("data")
    bar.end(10, 10)
    assert "\x1b[2Kdata\n" in terminal.getvalue()


def test_a_bar_that_nobody_ends_gives_the_cursor_back(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    bar = bar_in(terminal, io.StringIO(), monkeypatch)
    bar.begin("t", 10)
    assert CURSOR not in terminal.getvalue()
    del bar
    gc.collect()
    assert CURSOR in terminal.getvalue()
