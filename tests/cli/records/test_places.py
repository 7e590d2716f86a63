"""`--from` and `--until`."""

from __future__ import annotations

import pytest

pytest.importorskip("click")

import click

from pykafka4.bounds import EARLIEST, LATEST
from pykafka4.cli.records.places import LOG_END, LOG_START, Place, PlaceType, spans, timestamps
from pykafka4.records import TopicPartition

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", LOG_START),
        ("beginning", LOG_START),
        ("latest", LOG_END),
        ("now", LOG_END),
        ("0", Place(offset=0)),
        ("99999999999", Place(offset=99_999_999_999)),
        ("1769860800000", Place(1_769_860_800_000)),
        ("2026-01-31T12:00:00", Place(1_769_860_800_000)),
        ("2026-01-31T13:00:00+01:00", Place(1_769_860_800_000)),
        ("1969-12-31T23:59:59.999", Place(0)),
        ("-99999w", Place(0)),
        ("-100", Place(before_end=100)),
    ],
)
def test_a_place_is_read(text: str, place: Place) -> None:
    assert PlaceType().convert(text, None, None) == place


def test_a_duration_counts_back_from_now() -> None:
    hour, day = (PlaceType().convert(text, None, None).timestamp or 0 for text in ("-1h", "-1d"))
    assert 22.9 * 3_600_000 < hour - day < 23.1 * 3_600_000


@pytest.mark.parametrize("text", ["", "-", "-1y", "yesterday", "-1.5", "1h"])
def test_what_is_no_place_is_told_with_what_is_one(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is none of: earliest, latest"):
        PlaceType().convert(text, None, None)


@pytest.mark.parametrize(
    ("place", "offset"),
    [
        (LOG_START, 5),
        (LOG_END, 20),
        (Place(offset=7), 7),
        (Place(offset=0), 5),
        (Place(offset=99), 20),
        (Place(before_end=3), 17),
        (Place(before_end=99), 5),
        (Place(1_000), 12),
        (Place(2_000), 20),
    ],
)
def test_an_end_lies_inside_of_the_log(place: Place, offset: int) -> None:
    found = {T0: {EARLIEST: 5, LATEST: 20, 1_000: 12, 2_000: None}}
    assert set(timestamps(place)) <= found[T0].keys()
    assert spans(found, place, LOG_END)[T0].start == offset
    assert spans(found, LOG_START, place)[T0].until == offset
