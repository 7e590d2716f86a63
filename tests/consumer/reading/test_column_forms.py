"""Columns out of the reader: the same positions, errors and returns after Ctrl-C as with records."""

from __future__ import annotations

import gc
import itertools
import weakref
from typing import Any

import pytest

from pykafka4.consumer.reading.column_forms import MOST_FORMS, ColumnForms
from pykafka4.consumer.reading.forms import LoopForm
from pykafka4.errors import ConfigError, CorruptRecord
from pykafka4.records import OffsetAndMetadata
from pykafka4.wire.records.columns import COLUMN_NAMES
from tests.consumer.reader_harness import ReaderHarness, offsets
from tests.core.consumer_harness import batch, tp
from tests.wire.records.columns.reading import lists_of


def offsets_of(columns: Any) -> list[int]:
    return lists_of(columns)["offset"]


@pytest.fixture
def form(harness: ReaderHarness) -> Any:
    return harness.reader.columns.form(["offset"])


def test_columns_have_the_positions_and_commits_of_records(harness: ReaderHarness, form: Any) -> None:
    harness.put(0, 6)
    columns = harness.poll(4, form)
    assert offsets_of(columns) == [0, 1, 2, 3]
    assert columns.positions == {tp(0): OffsetAndMetadata(4, leader_epoch=columns.positions[tp(0)].leader_epoch)}
    assert (harness.finished(), harness.reached()) == (None, 4)
    assert offsets_of(harness.poll(4, form)) == [4, 5]
    assert (harness.finished(), harness.reached()) == (4, 6)


def test_a_poll_takes_the_chunks_of_all_partitions() -> None:
    harness = ReaderHarness(2)
    for partition in (0, 1):
        harness.put(0, 2, partition)
    columns = harness.poll(100, harness.reader.columns.form(["partition", "offset"]))
    assert lists_of(columns) == {"partition": [0, 0, 1, 1], "offset": [0, 1, 0, 1]}
    assert {place: at.offset for place, at in columns.positions.items()} == {tp(0): 2, tp(1): 2}


def test_a_poll_without_records_returns_empty_columns_with_a_schema(harness: ReaderHarness, form: Any) -> None:
    columns = harness.poll(4, form)
    assert not columns
    assert (columns.names, columns.positions, offsets_of(columns)) == (("offset",), {}, [])


def test_columns_of_an_interrupted_poll_are_fetched_again(harness: ReaderHarness, form: Any) -> None:
    harness.put(0, 6)
    harness.poll(1, form)
    harness.enter()
    assert offsets_of(harness.take(3, form)) == [1, 2, 3]  # KeyboardInterrupt comes here
    assert not harness.poll(4, form)
    assert (harness.reached(), [start for _, _, start in harness.seeks]) == (1, [1])


def test_rows_of_a_poll_that_was_interrupted_while_it_added_chunks_are_not_in_the_next_one(harness: ReaderHarness, form: Any) -> None:
    form.begin(10)
    form.add(harness.put(0, 3), 1 << 20)  # KeyboardInterrupt comes here
    harness.reader.arrivals.clear()
    harness.put(0, 2)
    assert offsets_of(harness.poll(10, form)) == [0, 1]


def test_the_rest_of_a_loops_list_is_fetched_again_for_columns(harness: ReaderHarness, form: Any) -> None:
    harness.put(0, 6)
    loop = harness.loop()
    assert next(loop).offset == 0
    assert not harness.poll(10, form)
    assert [start for _, _, start in harness.seeks] == [1]
    assert list(loop) == [], "the loop asks for its next list"
    harness.put(1, 5)
    assert offsets_of(harness.poll(10, form)) == [1, 2, 3, 4, 5]
    assert harness.reached() == 6


def test_records_follow_columns(harness: ReaderHarness, form: Any) -> None:
    harness.put(0, 6)
    assert offsets_of(harness.poll(2, form)) == [0, 1]
    assert offsets(harness.poll(2)) == [2, 3]
    assert offsets(harness.take(2, LoopForm(2))) == [4, 5]


def test_an_error_comes_after_the_rows_before_it(harness: ReaderHarness, form: Any) -> None:
    harness.put(0, 2, data=batch(0, 2) + batch(2, 2)[:-1] + b"?")
    assert offsets_of(harness.poll(10, form)) == [0, 1]
    with pytest.raises(CorruptRecord):
        harness.poll(10, form)
    assert harness.reached() == 2


def test_a_poll_ends_when_its_columns_take_the_memory_of_a_poll() -> None:
    harness = ReaderHarness(max_bytes=8 * 3)
    harness.put(0, 5)
    form = harness.reader.columns.form(["offset"])
    assert [offsets_of(harness.poll(100, form)) for _ in range(2)] == [[0, 1, 2], [3, 4]]


def test_columns_count_until_they_are_freed(harness: ReaderHarness) -> None:
    harness.put(0, 100)
    few, all_ = (harness.poll(50, harness.reader.columns.form(names)) for names in (["offset"], None))
    assert harness.reader.held == few.nbytes + all_.nbytes > 0
    exported = all_.__arrow_c_array__()
    del few, all_
    assert harness.reader.held > 0
    del exported
    assert harness.reader.held == 0


def test_forms_of_columns_that_nobody_has_are_forgotten(harness: ReaderHarness) -> None:
    forms, chosen = harness.reader.columns, itertools.permutations(COLUMN_NAMES)
    kept = forms.form(next(chosen))
    harness.put(0, 2)
    columns = harness.poll(2, kept)
    made = [weakref.ref(forms.form(next(chosen))) for _ in range(3 * MOST_FORMS)]
    gc.collect()
    assert sum(form() is not None for form in made) <= MOST_FORMS
    assert forms.held_bytes == columns.nbytes


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("value", "must be a list of names"),
        (5, "columns=5: must be a list of names"),
        (["vaule"], "did you mean 'value'"),
        ([["value"]], "there is no column"),
        ([], "name at least one"),
        (["key", "key"], "is listed 2 times"),
    ],
)
def test_columns_that_do_not_exist_are_refused(columns: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ColumnForms().form(columns)
