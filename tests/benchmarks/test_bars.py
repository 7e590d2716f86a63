"""Bars: medians are judged, a row is met only if each of its bars is, and what is doubtful or missing says so."""

from __future__ import annotations

import pytest

from benchmarks.bars import OURS, PEER, Row, Table


def row(ours: list[float], theirs: list[float], most: float | None = None, times: float | None = None) -> Row:
    return Row("idle", most, times, {OURS: ours, PEER: theirs})


def test_the_median_of_all_rounds_is_judged() -> None:
    assert row([1.0, 9.0, 2.0], [], most=2.0).met is True
    assert row([1.0, 9.0, 3.0], [], most=2.0).met is False


def test_the_ratio_is_that_of_the_medians() -> None:
    assert row([2.0, 4.0, 9.0], [8.0, 1.0, 2.0]).ratio == 2.0


@pytest.mark.parametrize(("ours", "met"), [(1.0, True), (2.0, True), (2.5, False), (4.0, False)])
def test_every_bar_of_a_row_has_to_be_met(ours: float, met: bool) -> None:
    """At most 3, and at most the peer's 2."""
    assert row([ours], [2.0], most=3.0, times=1.0).met is met


def test_a_bar_that_is_met_beside_one_that_is_missed_does_not_count() -> None:
    assert row([4.0], [9.0], most=3.0, times=1.0).met is False


def test_a_row_without_a_bar_or_without_our_figures_is_not_judged() -> None:
    assert row([1.0], [2.0]).met is None
    assert row([], [2.0], most=1.0, times=1.0).met is None
    assert row([1.0], [], times=1.0).met is None


def test_a_peer_that_costs_nothing_gives_no_ratio() -> None:
    assert row([1.0], [0.0], times=1.0).met is None


def test_a_table_keeps_each_round_and_names_what_is_missed() -> None:
    table = Table()
    for figure in (1.0, 3.0, 5.0):
        table.note("fast", OURS, figure, most=3.0)
        table.note("slow", OURS, figure, most=2.0)
        table.note("told", OURS, figure)
    table.note("fast", PEER, 7.0, most=3.0)
    assert table.missed == ["slow"]
    assert table.as_json()[0] == {
        "name": "fast",
        "bar": "3",
        "met": True,
        "doubts": [],
        "figures": {"pykafka4": [1.0, 3.0, 5.0], "confluent": [7.0]},
    }


def test_a_doubt_is_printed_once_beside_the_verdict_and_names_the_client() -> None:
    table = Table()
    for _ in range(2):
        table.note("idle", OURS, 1.0, most=2.0, doubt="late")
    table.note("idle", PEER, 1.0, most=2.0)
    assert table.rows["idle"].verdict == "met (in doubt: pykafka4: late)"


def test_the_table_shows_figures_bars_verdicts_and_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table()
    table.note("idle", OURS, 0.01, most=0.005, times=1.0)
    table.note("idle", PEER, 0.02, most=0.005, times=1.0)
    table.note("alone", OURS, 3.0)
    table.show()
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["idle", "0.01", "0.02", "0.5", "0.005,", "1", "x", "its", "MISSED"]
    assert lines[3].split() == ["alone", "3", "-", "-"]
    assert lines[4] == "MISSED: idle"


def test_a_table_whose_bars_are_met_says_so_and_one_without_bars_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table()
    table.note("told", OURS, 1.0)
    table.show()
    assert len(capsys.readouterr().out.splitlines()) == 3  # an empty line, the heading, the row
    table.note("idle", OURS, 1.0, most=1.0)
    table.show()
    assert capsys.readouterr().out.splitlines()[-1] == "every bar is met"
