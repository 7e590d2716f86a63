"""The serializers that are shipped, and which of them a topic gets."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest

from pykafka4 import ConfigError
from pykafka4.options.config import ProducerConfig
from pykafka4.options.serializers import deserializer_finder, parse_value_deserializers, parse_value_serializers, serializer_finder
from pykafka4.serializers import bytes_deserializer, bytes_serializer, json_deserializer, json_serializer, str_deserializer, str_serializer


def test_json_is_compact_utf8() -> None:
    assert json_serializer("t", {"ü": [1, 2.5, None, True, "x"]}) == '{"ü":[1,2.5,null,true,"x"]}'.encode()


@pytest.mark.parametrize("wrong", [math.nan, math.inf, {1, 2}, b"bytes", object()])
def test_json_refuses_what_json_does_not_have(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        json_serializer("orders", wrong)
    assert "orders: the serializer 'json' cannot encode this" in caught.value.__notes__[0]


def test_str_and_bytes_take_only_their_type() -> None:
    assert str_serializer("t", "ü") == "ü".encode()
    assert bytes_serializer("t", bytearray(b"b")) == bytes_serializer("t", memoryview(b"b")) == b"b"
    with pytest.raises(TypeError, match="orders: the serializer 'str' takes str, not bytes"):
        str_serializer("orders", b"b")
    with pytest.raises(TypeError, match="orders: the serializer 'bytes' takes bytes, not str; encode it first"):
        bytes_serializer("orders", "b")


def test_an_exact_name_comes_before_the_first_pattern_that_matches() -> None:
    find = serializer_finder(parse_value_serializers({"orders-*": "json", "*-eu": bytes_serializer, "orders-eu": "str", "x": "str"}))
    assert find("orders-eu") is str_serializer
    assert find("orders-us") is json_serializer
    assert find("prices-eu") is bytes_serializer
    assert find("X") is None
    assert serializer_finder(None)("any") is None
    assert serializer_finder("str")("any") is str_serializer


def test_a_configuration_with_serializers_for_topics_is_a_key_and_does_not_change() -> None:
    given = {"orders": "str", "*": "json"}
    options = {"bootstrap_servers": "a:1", "value_serializer": given}
    config, same = ProducerConfig.parse(options), ProducerConfig.parse(options)
    given.clear()
    assert {config: 1}[same] == 1
    assert attrs.evolve(config).value_serializer == config.value_serializer
    assert serializer_finder(config.value_serializer)("orders") is str_serializer


@pytest.mark.parametrize("wrong", ["avro", 5, {"t": "avro"}, {5: "str"}, {"": "str"}, ["str"]])
def test_what_is_no_serializer_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="value_serializer"):
        parse_value_serializers(wrong)


@pytest.mark.parametrize("alone", [lambda v: v.encode(), str.encode, lambda v, encoding="utf-8": v.encode(encoding), bytes.fromhex])
def test_a_serializer_of_one_argument_gets_the_value(alone: Any) -> None:
    find = serializer_finder(parse_value_serializers({"*": alone}))
    serializer = find("orders")
    assert serializer is not None
    assert serializer("orders", "61") in (b"61", b"a")


@pytest.mark.parametrize("usual", [lambda topic, value: value, lambda *args: args[1], lambda topic, value, more=None: value])
def test_a_serializer_of_two_arguments_is_called_itself(usual: Any) -> None:
    assert serializer_finder(parse_value_serializers(usual))("orders") is usual


def test_a_serializer_that_needs_more_arguments_is_refused_at_construction() -> None:
    with pytest.raises(ConfigError, match="needs 3 arguments; a serializer gets topic and value, or only the value"):
        parse_value_serializers(lambda topic, value, schema: value)


@pytest.mark.parametrize("value", [{"ü": [1, 2.5, None]}, "x", 7])
def test_the_shipped_deserializers_undo_the_serializers(value: Any) -> None:
    assert json_deserializer("t", json_serializer("t", value)) == value
    assert str_deserializer("t", str_serializer("t", "ü")) == "ü"
    assert bytes_deserializer("t", bytes_serializer("t", b"b")) == b"b"


@pytest.mark.parametrize("wrong", ["avro", 5, {"t": "avro"}, {5: "str"}, {"": "str"}, ["str"]])
def test_what_is_no_deserializer_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="value_deserializer"):
        parse_value_deserializers(wrong)


def test_the_class_str_is_refused_because_it_does_not_decode() -> None:
    with pytest.raises(ConfigError, match=r'value_deserializer=str: .*; pass the name: value_deserializer="str"'):
        parse_value_deserializers(str)
    with pytest.raises(ConfigError, match=r"value_deserializer\['t'\]=str"):
        parse_value_deserializers({"t": str})


def test_a_deserializer_that_needs_more_arguments_is_refused_at_construction() -> None:
    with pytest.raises(ConfigError, match="needs 4 arguments; a deserializer gets topic and data, or topic, data and headers, or only the"):
        parse_value_deserializers(lambda topic, data, headers, schema: data)


def test_the_deserializer_of_a_topic_is_that_of_its_name_or_first_pattern() -> None:
    find = deserializer_finder(parse_value_deserializers({"orders-*": int, "*": "str"}))
    orders, others = find("orders-eu"), find("x")
    assert orders is not None
    assert others is not None
    assert (orders("orders-eu", b"7", None), others("x", b"7", None)) == (7, "7")
