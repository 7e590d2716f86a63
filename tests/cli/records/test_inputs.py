"""Input as blocks of items, whatever the chunks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("click")

from pykafka4.cli.records import inputs
from pykafka4.cli.records.inputs import Block, CutOff, Items, blocks, by_lengths, by_separator, size_of, whole


def joined(parts: Iterator[tuple[Items, int]]) -> tuple[list[bytes | None], int]:
    items: list[bytes | None] = []
    total = 0
    for part, size in parts:
        items += part
        total += size
    return items, total


def chunks_of(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return (data[a:b] for a, b in itertools.pairwise(places) if a < b)


CUTS = st.lists(st.integers(0, 99), max_size=5)


@given(st.lists(st.binary(max_size=3)), st.sampled_from([b"\n", b"ab", b"aa"]), CUTS)
def test_chunks_do_not_change_what_is_between_separators(parts: list[bytes], separator: bytes, cuts: list[int]) -> None:
    data = separator.join(parts)
    expected = data.split(separator)
    if expected[-1] == b"":
        expected.pop()
    assert joined(by_separator(separator)(chunks_of(data, cuts))) == (expected, len(data))


@given(st.lists(st.none() | st.binary(max_size=3)), CUTS)
def test_chunks_do_not_change_what_is_behind_lengths(parts: list[bytes | None], cuts: list[int]) -> None:
    data = b"".join((-1 if part is None else len(part)).to_bytes(4, "big", signed=True) + (part or b"") for part in parts)
    assert joined(by_lengths(chunks_of(data, cuts))) == (parts, len(data))


@pytest.mark.parametrize(("data", "text"), [(b"\0\0\0\2a", "in the middle of an item"), (b"\xff\0\0\0", "is not a length")])
def test_a_wrong_length_is_told_with_file_and_place(tmp_path: Path, data: bytes, text: str) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"\0\0\0\1x" + data)
    with pytest.raises(CutOff, match=rf"f: .*{text}"):
        list(blocks([str(file)], by_lengths))


def test_lines_are_numbered_in_each_file_and_the_last_one_needs_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "CHUNK", 5)
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_bytes(b"1\n2\n3\n\n5\n")
    b.write_bytes(b"x\ny")
    found = list(blocks([str(a), str(b)], by_separator(b"\n")))
    assert [(block.source, block.name_of(0), list(block.items)) for block in found] == [
        (str(a), f"{a} line 1", [b"1", b"2"]),
        (str(a), f"{a} line 3", [b"3", b"", b"5"]),
        (str(b), f"{b} line 1", [b"x"]),
        (str(b), f"{b} line 2", [b"y"]),
    ]
    assert sum(block.size for block in found) == size_of([str(a), str(b)]) == 12
    assert [block.items for block in blocks([str(a)], whole)] == [[b"1\n2\n3\n\n5\n"]]
    assert size_of(["-", str(a)]) is None


def test_parts_of_a_block_keep_their_numbers() -> None:
    parts = list(Block("-", 11, [b"a", b"b", b"c"], 6).parts(2))
    assert [(part.name_of(0), part.items, part.size) for part in parts] == [("line 11", [b"a", b"b"], 4), ("line 13", [b"c"], 2)]


def test_items_before_an_impossible_length_are_there_before_the_error(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"\0\0\0\1a\0\0\0\1b\xff\0\0\0")
    found: list[object] = []
    with pytest.raises(CutOff, match=r"is not a length, after item 2"):
        for block in blocks([str(file)], by_lengths):
            found += block.items
    assert found == [b"a", b"b"]
