"""Columns: which record a row becomes, and the error for a wrong column."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

import pytest
from pyspark.sql import Row
from pyspark.sql.types import _create_row

from pykafka4.errors import ConfigError
from pykafka4.spark.rows.columns import columns, send_rows


def call(row, **names):
    """The arguments that one row gives to `send`."""
    return calls([row], **names)[0]


def calls(rows, **names):
    """The arguments that rows give to `send`; None for a key that is not passed."""
    sent = []

    def send(topic, value=None, **rest):
        sent.append({"value": value, **rest} if "value" in names else rest)

    send_rows(send, "t", columns(**names), rows, lambda: 0.0, lambda: 1.0)
    return sent


def test_columns_are_found_by_name_whatever_their_order():
    assert call(Row(payload=b"v", id="k"), key="id", value="payload") == {"key": "k", "value": b"v"}


def test_an_option_left_out_is_not_passed_on():
    assert call(Row(value="v"), key=None, value="value") == {"value": "v"}


def test_dicts_are_rows_too():
    assert call({"value": "v", "key": None}, key="key", value="value") == {"key": None, "value": "v"}


def test_rows_whose_fields_change_on_the_way_are_read_by_name_all_the_same():
    rows = [Row(a="1", b="2"), Row(b="3", a="4"), {"a": "5", "b": "6"}]
    assert [r["value"] for r in calls(rows, value="a")] == ["1", "4", "5"]


def test_a_dict_with_the_fields_of_the_row_before_it_is_read_by_name():
    rows = [Row(a="1", b="2"), {"a": "3", "b": "4"}, Row(a="5", b="6")]
    assert [r["value"] for r in calls(rows, value="a")] == ["1", "3", "5"]
    assert calls(rows, value="a", partition=None, headers=None, key="b")[1] == {"value": "3", "key": "4"}


def test_rows_that_share_their_list_of_names_are_read_like_others():
    fields = ["k", "v"]
    rows = [_create_row(fields, [f"k{n}", f"v{n}"]) for n in range(2)]
    assert calls(rows, key="k", value="v") == [{"value": "v0", "key": "k0"}, {"value": "v1", "key": "k1"}]
    assert calls(rows, value="v") == [{"value": "v0"}, {"value": "v1"}]
    with pytest.raises(TypeError, match=r"column 'v' \(option value\) is int"):
        calls([*rows, _create_row(fields, ["k", 7])], key="k", value="v")
    with pytest.raises(TypeError, match=r"column 'k' \(option key\) is float"):
        calls([*rows, _create_row(fields, [1.5, "v"])], key="k", value="v")


@pytest.mark.parametrize("value", [None, b"", "", b"x", bytearray(b"x"), "ü"])
def test_null_empty_and_binary_values_pass_unchanged(value):
    assert call(Row(value=value), value="value") == {"value": value}


def test_a_missing_column_is_named_with_its_option_and_the_nearest_one():
    with pytest.raises(ConfigError, match=r"column 'custmer' \(option key\).*customer, payload.*did you mean 'customer'"):
        call(Row(customer="c", payload="p"), key="custmer", value="payload")


def test_a_column_that_is_there_twice_is_refused():
    with pytest.raises(ConfigError, match=r"column 'value' \(option value\) appears 2 times"):
        call(Row("value", "value")("a", "b"), value="value")


@pytest.mark.parametrize(
    ("option", "bad", "wanted"),
    [
        ("key", 7, "string or binary"),
        ("key", 7.5, "string or binary"),
        ("value", True, "string or binary"),
        ("value", Row(a=1), "string or binary"),
        ("partition", "3", "int"),
        ("partition", True, "int"),
        ("timestamp", "2013-01-01", "timestamp"),
        ("headers", [("name", 7)], "array<struct<key:string,value:binary>>"),
        ("headers", [(None, b"x")], "array<struct<key:string,value:binary>>"),
        ("headers", [None], "array<struct<key:string,value:binary>>"),
        ("headers", "text", "array<struct<key:string,value:binary>>"),
        ("headers", {7: b"x"}, "array<struct<key:string,value:binary>>"),
    ],
)
def test_a_wrong_type_names_column_and_option_and_what_it_must_be(option, bad, wanted):
    with pytest.raises(TypeError) as caught:
        call(Row(it=bad), **{option: "it"})
    assert "column 'it'" in str(caught.value)
    assert f"option {option}" in str(caught.value)
    assert wanted in str(caught.value)


def test_rows_without_names_are_refused_with_the_way_out():
    with pytest.raises(TypeError, match="rows are tuple, which has no column names; use a DataFrame"):
        call(("k", "v"), value="value")


@pytest.mark.parametrize("bad", ["", 7, b"value"])
def test_a_column_name_that_is_no_text_is_refused_before_any_row(bad):
    with pytest.raises(ConfigError, match="key="):
        columns(key=bad)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (None, None),
        ([], []),
        ([Row(key="a", value=b"1"), Row(key="a", value=None)], [("a", b"1"), ("a", None)]),
        ([Row("value", "key")(b"1", "a")], [("a", b"1")]),
        ([("a", bytearray(b"1"))], [("a", bytearray(b"1"))]),
        ({"a": b"1", "b": None}, [("a", b"1"), ("b", None)]),
    ],
)
def test_headers_keep_order_repetition_and_nulls(headers, expected):
    assert call(Row(headers=headers), headers="headers") == {"headers": expected}


@pytest.mark.parametrize("millis", [0, 1, 1_001, 1_356_998_400_001, 4_102_444_799_999, -1])
def test_timestamps_are_exact_to_the_millisecond(millis):
    moment = datetime.fromtimestamp(millis // 1000, UTC).replace(microsecond=millis % 1000 * 1000 + 999)
    assert call(Row(at=moment), timestamp="at") == {"timestamp_ms": millis}
    assert call(Row(at=millis), timestamp="at") == {"timestamp_ms": millis}


def test_a_naive_datetime_is_in_the_workers_time_zone_as_spark_makes_it(monkeypatch):
    monkeypatch.setitem(os.environ, "TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert call(Row(at=datetime(1970, 1, 1, 5, 30, 0, 2000)), timestamp="at") == {"timestamp_ms": 2}
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_null_timestamp_and_a_null_partition_leave_the_choice_to_the_producer():
    assert call(Row(t=None, p=None), timestamp="t", partition="p") == {"timestamp_ms": None, "partition": None}
