"""docs/states.md shows every table of states, and `--check` notices when a table has changed."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pykafka4.core.network import connection
from pykafka4.core.network.connection import ConnectionState
from tools import states

ROOT = Path(__file__).resolve().parents[2]


def check(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("sys.argv", ["states", "--check"])
    return states.main()


def test_every_table_of_the_client_is_drawn() -> None:
    declared = re.compile(r'Transitions(?:\[\w+\])?\(\s*"([^"]+)"')
    names = [name for path in (ROOT / "pykafka4" / "core").rglob("*.py") for name in declared.findall(path.read_text())]
    assert sorted([*names, "batch"]) == sorted(machine.name for machine in states.machines())


def test_a_changed_table_fails_the_check_until_it_is_rendered_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(monkeypatch) == 0
    monkeypatch.setitem(connection.TABLE.table, ConnectionState.READY, set())
    assert check(monkeypatch) == 1
    assert capsys.readouterr().err.splitlines() == [
        "docs/states.md is out of date: run `make states`",
        "docs/assets/states/connection.svg is out of date: run `make states`",
    ]


def test_a_state_without_a_meaning_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(connection.TABLE.meanings, ConnectionState.READY)
    with pytest.raises(KeyError, match="READY"):
        states.render()


def test_a_diagram_without_a_table_fails_the_check_until_it_is_deleted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("tools.rendered.ROOT", tmp_path)
    monkeypatch.setattr(states, "PAGE", tmp_path / "states.md")
    monkeypatch.setattr(states, "PICTURES", tmp_path / "states")
    orphan = tmp_path / "states" / "gone.svg"
    orphan.parent.mkdir()
    orphan.touch()
    monkeypatch.setattr("sys.argv", ["states"])
    assert states.main() == 0
    assert not orphan.exists()
    assert check(monkeypatch) == 0
    orphan.touch()
    assert check(monkeypatch) == 1
    assert capsys.readouterr().err == "states/gone.svg is rendered from nothing: run `make states`\n"


def test_a_diagram_has_each_state_and_an_arrow_to_each_that_follows_another() -> None:
    table = {"A": ["B", "C"], "B": ["C", "A"], "C": ["A"], "D": []}
    svg = ElementTree.fromstring(states.draw(table))
    space = "{http://www.w3.org/2000/svg}"
    assert [text.text for text in svg.iter(f"{space}text")] == list(table)
    arrows = [path for path in svg.iter(f"{space}path") if "marker-end" in path.attrib]
    assert len(arrows) == 4  # A to B and B to C straight; beside the column one line to C and one to A
    assert states.lines(table, down=True) == [(2, [0])]
    assert states.lines(table, down=False) == [(0, [1, 2])]
