"""What is read, and from where to where: subscribe, assign, startingOffsets and their like."""

from __future__ import annotations

import json

import pytest

from pykafka4.bounds import EARLIEST, LATEST
from pykafka4.errors import ConfigError
from pykafka4.records import TopicPartition
from pykafka4.spark.options import Given, Use
from pykafka4.spark.source.subscription import ReadEnd, parse_read_end, parse_subscription

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def given(**options: str) -> Given:
    return Given.of(Use.BATCH_READ, options)


def test_subscriptions() -> None:
    assert parse_subscription(given(subscribe="a, b ,a,")).topics == ("a", "b")
    assert parse_subscription(given(subscribePattern="ord.*")).pattern == "ord.*"
    assert parse_subscription(given(assign='{"t":[1,0,1]}')).partitions == (T0, T1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "and assign; this read has none of them: add"),
        ({"path": "orders"}, r"this read has none of them: .* leave load\(\) empty"),
        ({"subscribe": "a", "assign": '{"t":[0]}'}, "this read has subscribe and assign"),
        ({"subscribe": " , "}, r"option subscribe=' ?,': takes topics"),
        ({"subscribe": "a b"}, "option subscribe: topic 'a b': a name has"),
        ({"subscribePattern": "*"}, r"option subscribePattern='\*': must be a valid and unambiguous regular expression of Python"),
        ({"subscribePattern": "[a-z&&[^q]]+"}, "must be a valid and unambiguous regular expression of Python .*set intersection"),
        ({"subscribePattern": ""}, "option subscribePattern='': takes a regular expression"),
        ({"assign": "t"}, r'option assign=\'t\': is not JSON .*; takes {"topic": \[0, 1\]}'),
        ({"assign": "{}"}, "option assign='{}': takes"),
        ({"assign": '{"t":[]}'}, "option assign=.*: takes"),
        ({"assign": '{"t":0}'}, "option assign=.*: takes"),
        ({"assign": '{"t":["0"]}'}, "option assign=.*: '0' of topic t is not the number of a partition"),
        ({"assign": '{"t":[-1]}'}, "option assign=.*: -1 of topic t is not the number of a partition"),
        ({"assign": '{"t":[true]}'}, "option assign=.*: True of topic t is not the number of a partition"),
        ({"assign": '{"a/b":[0]}'}, "option assign: topic 'a/b'"),
    ],
)
def test_wrong_subscriptions(options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        parse_subscription(given(**options))


def test_places_of_words_offsets_and_times() -> None:
    assert parse_read_end(given(), "starting", EARLIEST) == ReadEnd("startingOffsets", EARLIEST)
    assert parse_read_end(given(startingOffsets="LATEST"), "starting", EARLIEST) == ReadEnd("startingOffsets", LATEST)
    found = parse_read_end(given(endingOffsets='{"t":{"0":5,"1":-1}}'), "ending", LATEST)
    assert found.offsets == {T0: 5, T1: LATEST}
    assert parse_read_end(given(startingTimestamp="17"), "starting", EARLIEST) == ReadEnd("startingTimestamp", 17)
    found = parse_read_end(given(startingOffsetsByTimestamp='{"t":{"0":1700000000000}}'), "starting", EARLIEST)
    assert found.times == {T0: 1_700_000_000_000}
    assert found.is_chosen


def test_a_time_wins_over_times_of_partitions_and_these_over_offsets() -> None:
    options = {"startingTimestamp": "5", "startingOffsetsByTimestamp": '{"t":{"0":7}}', "startingOffsets": "earliest"}
    assert parse_read_end(given(**options), "starting", EARLIEST).timestamp == 5
    del options["startingTimestamp"]
    assert parse_read_end(given(**options), "starting", EARLIEST).times == {T0: 7}


@pytest.mark.parametrize(
    "text",
    [
        *("first", "[]", "{}", '{"t":{}}', '{"t":5}', '{"t":[0]}', '{"t":{"0":-3}}', '{"t":{"0":"5"}}', '{"t":{"0":1.5}}'),
        *('{"t":{"0":true}}', '{"t":{"x":5}}', '{"t":{"0":9223372036854775808}}'),
    ],
)
def test_wrong_offsets_name_option_and_form(text: str) -> None:
    with pytest.raises(ConfigError, match=r"option startingOffsets=") as caught:
        parse_read_end(given(startingOffsets=text), "starting", EARLIEST)
    assert text in str(caught.value).replace("\\", "")


def test_times_may_not_be_negative() -> None:
    with pytest.raises(ConfigError, match=r"option endingOffsetsByTimestamp=.*-1 of partition 0 of t must be a whole number, at least 0"):
        parse_read_end(given(endingOffsetsByTimestamp='{"t":{"0":-1}}'), "ending", LATEST)
    with pytest.raises(ConfigError, match="option endingTimestamp='-1': takes a whole number, at least 0"):
        parse_read_end(given(endingTimestamp="-1"), "ending", LATEST)


def test_offsets_must_name_exactly_the_partitions_of_the_read() -> None:
    read_end = parse_read_end(given(startingOffsets=json.dumps({"t": {"0": 5}})), "starting", EARLIEST)
    read_end.check_names([T0])
    with pytest.raises(ConfigError, match=r"option startingOffsets lacks t-1: each partition of the read needs one value \(-2 is earliest"):
        read_end.check_names([T0, T1])
    with pytest.raises(ConfigError, match="option startingOffsets names t-0, and the read has only t-1"):
        ReadEnd("startingOffsets", offsets={T0: 1, T1: 1}).check_names([T1])
    ReadEnd("startingOffsets", EARLIEST).check_names([T0, T1])
