"""Files of offsets: both formats, and what is wrong with a line."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from pykafka4.admin.files import from_text, to_csv, to_json
from pykafka4.errors import ConfigError
from pykafka4.records import OffsetAndMetadata, TopicPartition

A = {TopicPartition("t", 1): 7, TopicPartition("t", 0): OffsetAndMetadata(5, metadata="m")}
B = {TopicPartition("u", 0): 1}


def test_one_group_has_no_column_for_its_id_and_several_have() -> None:
    assert to_csv({"a": A}, named=False) == "t,0,5\nt,1,7\n"
    assert to_csv({'a, "b"': A, "c": B}, named=True) == '"a, ""b""",t,0,5\n"a, ""b""",t,1,7\nc,u,0,1\n'
    assert to_csv({"c": B}, named=True) == "c,u,0,1\n"  # several were asked for, and one answered
    assert to_csv({}, named=True) == ""


def named(groups: Mapping[str, Mapping[TopicPartition, int | OffsetAndMetadata]]) -> str:
    return to_csv(groups, named=True)


IDS = ('a, "b"', "c ", " c", "\tc", "a\nb", "a\rb", "a\r\nb", "a\x0bb", "a\x85b", "a\u2028b", "[x", "[", "null", "größe", '"')


@pytest.mark.parametrize("write", [named, to_json])
@pytest.mark.parametrize("group", IDS)
def test_what_is_written_is_read_back(write: Callable[..., str], group: str) -> None:
    text = write({group: A, "c": B})
    assert from_text(text, group, "f") == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 7}
    assert from_text(text, "c", "f") == B
    assert from_text(write({"c": B}), "c", "f") == B
    assert from_text(to_csv({group: B}, named=False), group, "f") == B


@pytest.mark.parametrize("write", [named, to_json])
def test_ids_that_differ_in_spaces_are_those_of_different_groups(write: Callable[..., str]) -> None:
    text = write({"g": {TopicPartition("t", 0): 2}, "g ": {TopicPartition("t", 0): 9}})
    assert from_text(text, "g", "f") == {TopicPartition("t", 0): 2}
    assert from_text(text, "g ", "f") == {TopicPartition("t", 0): 9}
    with pytest.raises(ConfigError, match="has no offsets of group ' g', only of 'g', 'g '"):
        from_text(text, " g", "f")


def test_files_of_kafkas_tool_are_read() -> None:
    """It quotes names, and older ones have no group."""
    assert from_text('"t_x",0,5\r\n"t_x",1,7\r\n\r\n', "any", "f") == {TopicPartition("t_x", 0): 5, TopicPartition("t_x", 1): 7}
    assert from_text(" t , 0 , 5 \n", "any", "f") == {TopicPartition("t", 0): 5}
    assert from_text('[{"topic": "t", "partition": 0, "offset": 5}]', "any", "f") == {TopicPartition("t", 0): 5}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "f: has no offsets of group 'g'"),
        ("h,t,0,1\ni,t,0,1", "f: has no offsets of group 'g', only of 'h', 'i'"),
        ("t,0,1\n\n \nt,1,x", "f, line 4: 'x' must be a number of 1 to 19 digits"),
        ('"a\nb",t,0,1\nt,0', "f, line 3: 't,0': must be"),
        ('t,0,1\n"' + "x" * 200_000, "f, line 2: is not valid CSV: .*quotation mark"),
        ("[" * 100_000, "f: is not valid JSON"),
        ("t,0,1\nt,0", "f, line 2: 't,0': must be topic,partition,offset"),
        ("t,0,x", "f, line 1: 'x' must be a number of 1 to 19 digits"),
        ("t,-1,5", "f, line 1: '-1' must be a number of 1 to 19 digits"),
        ("t,0,99999999999999999999", "must be a number of 1 to 19 digits"),
        ("t,0,9999999999999999999", "f, line 1: the offset of t-0 must be from 0"),
        ("t,9999999999,1", "f, line 1: the partition of topic 't' must be from 0"),
        ("a b,0,1", "f, line 1: topic 'a b': a name has"),
        ("t,0,1\ng,t,0,2", "f, line 2: t-0 is listed twice"),
        ("topic,partition,offset", "'partition' must be a number of 1 to 19 digits"),
        ("[", "f: is not valid JSON"),
        ("[g],t,0,1\n[g],t,1,x", "f, line 2: 'x' must be a number of 1 to 19 digits"),
        ('[{"topic": "t", "partition": 0, "offset": 1},\n{"topic": "t", "partition": 1, "offset": }]', "f: is not valid JSON: .*line 2"),
        ("[1]", "f, item 1: 1: must be an object with topic, partition, offset"),
        ('[{"topic": "t", "partition": 0}]', "f, item 1: .*must be an object"),
        ('[{"topic": "t", "partition": 0, "offset": 1, "more": 2}]', "must be an object"),
        ('[{"topic": "t", "partition": "0", "offset": 1}]', "f, item 1: the partition of topic 't' must be an int"),
        ('[{"group": ["g"], "topic": "t", "partition": 0, "offset": 1}]', r"f, item 1: group must be text, not \['g'\]"),
        ('[{"topic": 7, "partition": 0, "offset": 1}]', "f, item 1: topic must be a str"),
    ],
)
def test_what_is_not_understood_is_named(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        from_text(text, "g", "f")
