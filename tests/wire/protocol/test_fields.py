from __future__ import annotations

import attrs
import pytest

from pykafka4.wire.protocol.fields import NO_UUID, Spec, Versions, array, default_of, fields_at, int8, records, spec_of, string, uuid, wire
from pykafka4.wire.protocol.messages_fetch import FetchRequest
from pykafka4.wire.protocol.schema import struct


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("0+", (0, 1, 32767), (-1,)), ("3-5", (3, 5), (2, 6)), ("4", (4,), (3, 5)), ("none", (), (0, 1)), ("12+", (12,), (11,))],
)
def test_versions_read_and_print_as_in_kafkas_json(text: str, inside: tuple[int, ...], outside: tuple[int, ...]) -> None:
    versions = Versions.parse(text)
    assert all(version in versions for version in inside)
    assert not any(version in versions for version in outside)
    assert str(versions) == text
    assert "3" not in versions


def test_a_missing_range_is_none() -> None:
    assert Versions.parse(None) == Versions.parse("none")
    assert 0 not in Versions.parse(None)


def test_fields_are_in_line_tagged_or_absent_by_version() -> None:
    names = [[field.name for field in row] for row in fields_at(FetchRequest, 15)]
    assert names[1] == ["cluster_id", "replica_state"]
    assert names[2] == ["replica_id"]
    assert names[0][:3] == ["max_wait_ms", "min_bytes", "max_bytes"]
    assert [field.name for field in fields_at(FetchRequest, 4)[1]] == []


def test_defaults_are_kafkas_where_none_is_given() -> None:
    @struct
    class Part:
        number: int = wire(int8)
        text: str = wire(string)
        raw: bytes | None = wire(records)
        many: list[int] = wire(array(int8))
        identity: object = wire(uuid)
        told: int = wire(int8, default=4)

    defaults = [default_of(field) for field in attrs.fields(Part)]
    assert defaults == [0, "", None, [], NO_UUID, 4]
    assert default_of(attrs.fields(Part).many) is not default_of(attrs.fields(Part).many)


def test_a_tagged_field_is_tagged_in_all_its_versions_unless_told_otherwise() -> None:
    @struct
    class Part:
        plain: int = wire(int8, "1+")
        tagged: int = wire(int8, "1+", tag=0)
        later: int = wire(int8, "1+", tag=1, tagged="3+", ignorable=True)

    specs: list[Spec] = [spec_of(field) for field in attrs.fields(Part)]
    assert [str(spec.tagged) for spec in specs] == ["none", "1+", "3+"]
    assert [spec.ignorable for spec in specs] == [False, False, True]
