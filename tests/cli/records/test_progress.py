"""The progress of commands that move records: on a terminal only, and only of what takes long."""

from __future__ import annotations

import io
import sys

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")

from pykafka4.cli.records import progress
from pykafka4.cli.records.progress import Meter


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Not a fixture: pytest replaces standard error between a fixture and its test."""
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    return out


def test_what_is_over_soon_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    out = terminal(monkeypatch)
    with Meter("orders", 100, shows=True) as meter:
        meter.advance(10, 1_000, 100)
    assert out.getvalue() == ""


@pytest.mark.parametrize(("total", "ends"), [(100, True), (None, False)])
def test_bytes_records_and_rate_are_shown_and_time_left_to_an_end(monkeypatch: pytest.MonkeyPatch, total: int | None, ends: bool) -> None:
    out = terminal(monkeypatch)
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    with Meter("orders", total, shows=True) as meter:
        meter.advance(1_234, 2_500_000, 50)
        meter.show_error("line 7: refused")
    shown = out.getvalue()
    assert "orders" in shown
    assert "1,234 records, 2.5 MB, " in shown
    assert "records/s" in shown
    assert ("50%" in shown) is ends
    assert "error: line 7: refused" in shown
    assert (meter.records, meter.bytes) == (1_234, 2_500_000)


def test_figures_are_whole_beside_a_long_name_in_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    out = terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    with Meter("customers.orders.payments.created-events-v2-eu-central", 20_000_000, shows=True) as meter:
        meter.advance(15_000_015, 114_400_000, 15_000_015)
    shown = out.getvalue()
    assert "custome…" in shown
    assert "75%" in shown
    assert "15,000,015 records, 114.4 MB, " in shown
    assert "records/s" in shown


@pytest.mark.parametrize("shows", [True, False])
def test_nothing_is_shown_without_a_terminal_or_beside_records(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shows: bool
) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    if not shows:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Meter("orders", 100, shows=shows) as meter:
        meter.advance(1, 1, 1)
    assert capsys.readouterr().err == ""
