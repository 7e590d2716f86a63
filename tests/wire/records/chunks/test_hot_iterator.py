"""RecordIterator: one by one, stopped and resumed; both cores alike."""

from __future__ import annotations

from operator import length_hint
from typing import Any

import pytest


@pytest.fixture(params=["pykafka4.wire.records.compiled._hot", "pykafka4.wire.records.reference"])
def make(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param).RecordIterator


def test_an_iterator_yields_each_item_once_and_counts(make: Any) -> None:
    iterator = make([1, 2, 3])
    assert iter(iterator) is iterator
    assert (iterator.given, length_hint(iterator)) == (0, 3)
    assert next(iterator) == 1
    assert (iterator.given, length_hint(iterator)) == (1, 2)
    assert list(iterator) == [2, 3]
    assert (iterator.given, length_hint(iterator)) == (3, 0)
    assert next(iterator, None) is None


def test_a_stopped_iterator_ends_and_continues_later(make: Any) -> None:
    iterator = make([1, 2, 3])
    next(iterator)
    iterator.stopped = True
    assert list(iterator) == []
    assert length_hint(iterator) == 2
    iterator.stopped = False
    assert list(iterator) == [2, 3]


def test_a_list_that_shrinks_or_grows_meanwhile_is_followed(make: Any) -> None:
    records = [1, 2, 3, 4]
    iterator = make(records)
    next(iterator), next(iterator)
    del records[1:]
    assert length_hint(iterator) == 0
    assert list(iterator) == []
    records[1:] = [5, 6]
    assert list(iterator) == [6]
    assert iterator.records is records


def test_an_iterator_can_be_set_back(make: Any) -> None:
    iterator = make([1, 2])
    assert list(iterator) == [1, 2]
    iterator.given = 1
    assert list(iterator) == [2]


def test_the_compiled_one_refuses_what_would_read_outside_of_its_list() -> None:
    make: Any = pytest.importorskip("pykafka4.wire.records.compiled._hot").RecordIterator
    iterator = make([1, 2])
    for given in (-1, -(2**62)):
        with pytest.raises(ValueError, match="given"):
            iterator.given = given
    for wrong in (None, (1, 2)):
        with pytest.raises(TypeError):
            make(wrong)
