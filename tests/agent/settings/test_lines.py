"""Lines of keys."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping

import pytest

from pykafka4.agent.settings.lines import Lines

TEXT = '''\
# a comment
top = 1

[a]
# b = 2
b = { c = 1, d = { e = 2 } }
f.g = "[h]"
text = """
[a.no]
b = 3
"""
list = [
  { x = 1 },
  # ]
  2,
]

[a."q r".s]
t = 1
"u.v" = 2
[b]
[[c]]
d = 1
'''
LINES = {
    ("top",): 2,
    ("a",): 4,
    ("a", "b"): 6,
    ("a", "b", "d", "e"): 6,
    ("a", "f", "g"): 7,
    ("a", "text"): 8,
    ("a", "list"): 12,
    ("a", "q r", "s"): 18,
    ("a", "q r", "s", "t"): 19,
    ("a", "q r", "s", "u.v"): 20,
    ("b",): 21,
    ("c",): 22,
}


@pytest.mark.parametrize(("keys", "line"), LINES.items(), ids=[".".join(keys) for keys in LINES])
def test_the_line_of_a_key_is_the_first_of_its_statement(keys: tuple[str, ...], line: int) -> None:
    assert Lines(TEXT).find(keys) == line


def test_windows_line_ends() -> None:
    assert Lines(TEXT.replace("\n", "\r\n")).find(("a", "list")) == LINES[("a", "list")]


@pytest.mark.parametrize("character", ["\u2028", "\x85"])
def test_only_line_feeds_end_lines(character: str) -> None:
    assert Lines(f"# a{character}b\nkey = '{character}'\nlast = 1").find(("last",)) == 3


def test_a_key_that_is_missing_has_the_line_of_its_table() -> None:
    lines = Lines(TEXT)
    assert lines.find(("a", "b", "missing")) == 6
    assert lines.find(("b", "missing")) == 21
    assert lines.find(("missing",)) is None


def test_each_key_of_a_text_is_found() -> None:
    table = tomllib.loads(TEXT)

    def keys(table: Mapping[str, object], above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        return [
            each
            for key, value in table.items()
            for each in [(*above, key), *(keys(value, (*above, key)) if isinstance(value, Mapping) else [])]
        ]

    lines, source = Lines(TEXT), TEXT.splitlines()
    for each in keys(table):
        line = lines.find(each)
        assert line is not None
        assert each[-1].split(".")[0] in source[line - 1]
