"""The record type: a value that cannot be changed."""

from __future__ import annotations

import pickle
import weakref
from types import ModuleType
from typing import Any

import attrs
import pytest

from pykafka4.wire.records import hot
from tests.wire.records.hot_world import each_core


@each_core
def test_records_are_values(core: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot, "Record", core.Record)  # pickles name the class by the module that exports it
    full = core.Record("t", 1, 2, 3, "CREATE_TIME", b"k", b"v", (("h", b"1"),), 4)
    assert full == core.Record(
        topic="t",
        partition=1,
        offset=2,
        timestamp_ms=3,
        timestamp_type="CREATE_TIME",
        key=b"k",
        value=b"v",
        headers=(("h", b"1"),),
        leader_epoch=4,
    )
    assert hash(full) == hash(pickle.loads(pickle.dumps(full)))
    assert pickle.loads(pickle.dumps(full)) == full
    assert full != core.Record("t", 1, 3)
    assert full != "t"
    bare = core.Record("t", 1, 2)
    assert (bare.timestamp_ms, bare.timestamp_type, bare.key, bare.value, bare.headers, bare.leader_epoch) == (
        -1,
        "CREATE_TIME",
        None,
        None,
        (),
        -1,
    )
    assert repr(bare) == (
        "Record(topic='t', partition=1, offset=2, timestamp_ms=-1, timestamp_type='CREATE_TIME', "
        "key=None, value=None, headers=(), leader_epoch=-1)"
    )


@each_core
def test_records_cannot_be_changed(core: ModuleType) -> None:
    record = core.Record("t", 1, 2)
    with pytest.raises(AttributeError):
        record.value = b"x"
    with pytest.raises(AttributeError):
        record.other = 1


@each_core
@pytest.mark.parametrize("arguments", [(), ("t",), ("t", 1), ("t", 1, 2, 3, 4, 5, 6, 7, 8, 9)])
def test_a_record_needs_its_place(core: ModuleType, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        core.Record(*arguments)


@each_core
def test_a_record_can_be_referred_to_weakly(core: ModuleType) -> None:
    record, ended = core.Record("t", 1, 2), []
    there = weakref.ref(record, lambda _: ended.append(True))
    assert there() is record
    del record
    assert there() is None
    assert ended == [True]
    again = core.Record("t", 1, 3)  # in the memory of the one before, perhaps
    assert weakref.getweakrefcount(again) == 0


@each_core
def test_a_record_can_be_matched_by_position(core: ModuleType) -> None:
    kind = core.Record
    match core.Record("t", 1, 2, key=b"k"):
        case kind(topic, partition, offset, key=b"k"):
            assert (topic, partition, offset) == ("t", 1, 2)
        case other:
            pytest.fail(f"not matched: {other!r}")
    assert kind.__match_args__ == tuple(a.name for a in attrs.fields(kind))


@each_core
def test_a_record_is_an_attrs_value(core: ModuleType) -> None:
    record = core.Record("t", 1, 2, key=b"k", headers=(("h", b"1"),))
    assert attrs.asdict(record) == {
        "topic": "t",
        "partition": 1,
        "offset": 2,
        "timestamp_ms": -1,
        "timestamp_type": "CREATE_TIME",
        "key": b"k",
        "value": None,
        "headers": (("h", b"1"),),
        "leader_epoch": -1,
    }
    assert attrs.evolve(record, value=b"new") == core.Record("t", 1, 2, key=b"k", value=b"new", headers=(("h", b"1"),))


@each_core
def test_records_of_unhashable_parts_compare_but_have_no_hash(core: ModuleType) -> None:
    assert core.Record("t", 1, 2, value=[1]) == core.Record("t", 1, 2, value=[1])
    with pytest.raises(TypeError):
        hash(core.Record("t", 1, 2, value=[1]))
