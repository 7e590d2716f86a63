"""The comparison of commits: what is judged is the median of the rounds' ratios, in relation to the limit of the run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import against, contender
from benchmarks.against import Comparison
from benchmarks.meter import Spec
from benchmarks.plan import Entry


def test_the_median_of_the_rounds_is_judged_by_the_limit() -> None:
    rounds = {"before": [1.0, 2.0, 4.0], "after": [1.04, 2.08, 8.0]}
    assert Comparison("x", **rounds).ratio == pytest.approx(1.04)
    assert not Comparison("x", 1.03, **rounds).met
    assert Comparison("x", 1.05, **rounds).met


def test_a_row_with_a_peer_shows_both_ratios_to_it() -> None:
    row = Comparison("x", 1.05, [1.0], [1.2], [4.0])
    assert (row.of_peer(row.before), row.of_peer(row.after)) == (0.25, pytest.approx(0.3))
    assert str(row).split() == ["x", "1.000", "1.200", "4.000", "0.250", "0.300", "1.200", "more", "than", "1.05"]


def commit_with(root: Path, *cases: str) -> Path:
    clients = root / "benchmarks" / "clients"
    clients.mkdir(parents=True)
    (clients / "ours.py").write_text("".join(f'"{case}": {case},\n' for case in cases))
    return root


def test_a_case_that_the_other_commit_lacks_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(against, "produce", lambda entry, records, place: {"cpu": 1.0})
    monkeypatch.setattr(against, "consume", lambda entry, records, place: {"cpu": 1.0})
    rows = against.compare(commit_with(tmp_path, "produce", "consume"), 1, 1_000, "", 1.05)
    assert "produce, send and forget" in {row.title for row in rows}
    assert "produce, columns" not in {row.title for row in rows}


def test_all_three_have_their_turn_in_every_round_and_the_better_peer_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[str] = []

    def run(entry: Entry, records: int, place: Path | None) -> dict[str, Any]:
        turns.append("before" if place else "after" if entry.client == "pykafka4" else "peer")
        return {"cpu": {"before": 1.0, "after": 2.0}.get(turns[-1], 8.0 if entry.options else 4.0)}

    monkeypatch.setattr(against, "produce", run)
    monkeypatch.setattr(against, "consume", run)
    (row,) = against.compare(commit_with(tmp_path, "produce"), 2, 1_000, "send and forget", 1.05, peers=True)
    assert turns == ["after", "before", "peer", "peer", "before", "after", "peer", "peer"]
    assert (row.before, row.after, row.peer) == ([1.0, 1.0], [2.0, 2.0], [4.0, 4.0])


def test_the_plain_core_is_measured_only_where_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout whose core was built from other sources would otherwise be measured with the plain core."""
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "contender.py").write_text("import os; print('{\"core\": \"' + os.environ['PYKAFKA4_IMPL'] + '\"}')")
    monkeypatch.delenv("PYKAFKA4_IMPL", raising=False)
    spec = Spec("pykafka4", "produce", "", "", 1, {}, {})
    assert contender.run(spec, tmp_path) == {"core": "compiled"}
    monkeypatch.setenv("PYKAFKA4_IMPL", "python")
    assert contender.run(spec, tmp_path) == {"core": "python"}
