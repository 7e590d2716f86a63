"""Records as lines of JSON, and back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("click")

from pykafka4.cli.records.json_text import NotSendable, json_form, read_row
from pykafka4.wire.records.hot import Record

DATA = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)
HEADERS = st.lists(st.tuples(st.text(max_size=5), DATA), max_size=3)


@given(DATA, DATA, HEADERS)
def test_a_line_that_is_written_is_read_as_the_same_record(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]
) -> None:
    line = json_form([Record("t", 3, 7, 123, "CREATE_TIME", key, value, tuple(headers))])
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    row = read_row(line)
    assert (row.key, row.value, row.headers, row.partition, row.timestamp_ms) == (key, value, headers, 3, 123)


def test_text_is_text_other_bytes_are_base64_and_control_characters_are_escaped() -> None:
    line = json_form([Record("t", 3, 7, 123, "CREATE_TIME", b"\xff", "ü\x9b".encode(), (("a", b"1"), ("b", None)))])
    assert json.loads(line) == {
        "topic": "t", "partition": 3, "offset": 7, "timestamp": 123, "key_base64": "/w==",
        "headers": [{"name": "a", "value": "1"}, {"name": "b", "value": None}], "value": "ü\x9b",
    }  # fmt: skip
    assert b"\xc2\x9b" not in line


@pytest.mark.parametrize(
    ("line", "key", "value", "headers"),
    [
        ('{"value": "a"}', None, b"a", []),
        ('{"value": {"b": [1, null]}, "key": 5}', b"5", b'{"b":[1,null]}', []),
        ('{"value": null, "headers": {"h": "x", "n": null}}', None, None, [("h", b"x"), ("n", None)]),
        ('{"value": "", "key": ""}', b"", b"", []),
    ],
)
def test_what_people_write_is_accepted(line: str, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]) -> None:
    row = read_row(line.encode())
    assert (row.key, row.value, row.headers, row.partition, row.timestamp_ms) == (key, value, headers, None, None)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("", "is not JSON"),
        ("\xff", "is not JSON"),
        ("5", "must be an object"),
        ('{"values": "a"}', "unknown field 'values'"),
        ('{"value_base64": "?"}', "value_base64 is not base64"),
        ('{"value_base64": 5}', "value_base64 is not base64"),
        ('{"headers": [1]}', "headers must be"),
        ('{"headers": [{"value": "a"}]}', "headers must be"),
        ('{"partition": -1}', "partition must be a non-negative integer"),
        ('{"timestamp": true}', "timestamp must be a non-negative integer"),
    ],
)
def test_what_is_no_record_is_told(line: str, text: str) -> None:
    with pytest.raises(NotSendable, match=text):
        read_row(line.encode("latin-1"))


def test_the_line_of_a_record_without_a_timestamp_can_be_sent() -> None:
    assert read_row(b'{"value": "v", "timestamp": -1}').timestamp_ms is None
