"""What a send takes: values, keys, headers, partitions, timestamps and callbacks; what cannot be is refused and says why."""

from __future__ import annotations

import enum
from collections import deque
from types import ModuleType
from typing import Any

import pytest

from tests.wire.records.hot_world import World, each_core, plain_records, wire_bytes

pytestmark = each_core


def test_every_kind_of_value_is_taken_as_its_bytes(core: ModuleType) -> None:
    world = World(core)
    values = [b"bytes", "téxt", bytearray(b"array"), memoryview(b"view"), None, b""]
    for value in values:
        world.send(value=value, key=value)
    expected = [b"bytes", "téxt".encode(), b"array", b"view", None, b""]
    (batch,) = world.seal_all()
    assert [(r[1], r[2]) for r in plain_records(wire_bytes(batch))] == list(zip(expected, expected, strict=True))


@pytest.mark.parametrize("value", [1, 1.5, object(), ["list"], {"a": 1}, memoryview(b"abcdef")[::2]])
@pytest.mark.parametrize("argument", ["value", "key"])
def test_what_is_no_bytes_is_a_type_error_naming_topic_and_argument(core: ModuleType, argument: str, value: object) -> None:
    world = World(core, {"orders": 1})
    with pytest.raises(TypeError, match=f"orders: {argument} must be"):
        world.send("orders", **({"value": value} if argument == "value" else {"key": value}))
    assert world.acc.accepted == 0


@pytest.mark.parametrize(
    "headers",
    [
        [("a", b"1"), ("b", None), ("c", "text"), ("a", bytearray(b"2"))],
        (("a", b"1"), ("b", None), ["c", b"text"], ("a", b"2")),
        deque([("a", b"1"), ("b", None), ("c", b"text"), ("a", memoryview(b"2"))]),
    ],
)
def test_headers_keep_order_and_repetition(core: ModuleType, headers: Any) -> None:
    world = World(core)
    world.send(headers=headers)
    (batch,) = world.seal_all()
    assert plain_records(wire_bytes(batch))[0][3] == (("a", b"1"), ("b", None), ("c", b"text"), ("a", b"2"))


def test_headers_may_be_a_mapping(core: ModuleType) -> None:
    world = World(core)
    world.send(headers={"schlüssel": b"1", "b": None})
    (batch,) = world.seal_all()
    assert plain_records(wire_bytes(batch))[0][3] == (("schlüssel", b"1"), ("b", None))


@pytest.mark.parametrize("headers", [5, "ab", b"ab", ["ab"], [("a",)], [("a", b"1", b"2")], [(None, b"1")], [(b"a", b"1")], [("a", 5)]])
def test_bad_headers_are_a_type_error_naming_the_topic(core: ModuleType, headers: Any) -> None:
    world = World(core, {"orders": 1})
    with pytest.raises(TypeError, match="orders: "):
        world.send("orders", headers=headers)


def test_lone_surrogates_are_refused(core: ModuleType) -> None:
    with pytest.raises(UnicodeEncodeError):
        World(core).send(value="\ud800")


@pytest.mark.parametrize(
    ("partition", "error"), [(-1, ValueError), (3, ValueError), (2**40, ValueError), (2**80, ValueError), ("0", TypeError)]
)
def test_a_partition_that_cannot_be_is_refused_with_its_value(core: ModuleType, partition: Any, error: type[Exception]) -> None:
    world = World(core, {"orders": 3})
    with pytest.raises(error, match=f"orders.*{partition}" if error is ValueError else "orders"):
        world.send("orders", partition=partition)


@pytest.mark.parametrize(("timestamp", "error"), [(-1, ValueError), (2**63, ValueError), (1.5, TypeError)])
def test_a_timestamp_that_cannot_be_is_refused(core: ModuleType, timestamp: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="t: timestamp_ms"):
        World(core).send(timestamp_ms=timestamp)


def test_a_callback_that_cannot_be_called_is_refused(core: ModuleType) -> None:
    with pytest.raises(TypeError, match="t: on_delivery"):
        World(core).send(on_delivery=5)


def test_a_topic_must_be_text(core: ModuleType) -> None:
    with pytest.raises(TypeError, match="topic must be str, not bytes"):
        World(core).send(b"t")


class Place(enum.StrEnum):
    ORDERS = "orders"


class OldPlace(str, enum.Enum):  # noqa: UP042
    ORDERS = "orders"


class Vague(str):
    """A str that says of itself what is not true."""

    def __str__(self) -> str:
        return "elsewhere"

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return False


@pytest.mark.parametrize("topic", [Place.ORDERS, OldPlace.ORDERS, Vague("orders")], ids=["StrEnum", "str and Enum", "own methods"])
def test_a_topic_of_a_subclass_of_str_is_its_text(core: ModuleType, topic: str) -> None:
    world = World(core, {})
    parked = [world.send(topic), world.send("orders"), world.send(topic)]
    assert world.new_topics == ["orders"]
    assert type(world.new_topics[0]) is str
    world.acc.set_partitions(topic, 1, [0])
    assert world.acc.parked(topic)[0] == 3
    world.acc.designate(topic)
    placed = [world.send(topic), world.send("orders")]
    assert [(d.topic, type(d.topic), d.partition) for d in parked + placed] == [("orders", str, 0)] * 5
    assert world.acc.room(topic, 0, 10)
    assert world.acc.fail_parked(topic, ValueError()) == (0, None)
    assert world.ack_all() == 5


@pytest.mark.parametrize("topic", [None, 5, b"t", ["t"], object()])
def test_a_first_topic_that_is_no_text_is_a_type_error(core: ModuleType, topic: Any) -> None:
    world = World(core)
    for _ in range(2):  # before and after a good send: that one is remembered
        with pytest.raises(TypeError, match=f"topic must be str, not {type(topic).__name__}"):
            world.acc.send(topic, b"x")
        world.send()


def test_equal_names_of_different_objects_share_the_memory_of_the_last_send(core: ModuleType) -> None:
    world = World(core, {"some-topic": 1, "other": 1})
    sent = [world.send("".join(["some-", "topic"])) for _ in range(3)] + [world.send("other"), world.send("".join(["some-", "topic"]))]
    assert [d.topic for d in sent] == ["some-topic"] * 3 + ["other", "some-topic"]


@pytest.mark.parametrize("argument", ["key", "value"])
def test_a_text_of_an_own_type_is_its_own_bytes(core: ModuleType, argument: str) -> None:
    world = World(core)
    world.send(**{argument: Place.ORDERS})
    (batch,) = world.seal_all()
    assert plain_records(wire_bytes(batch))[0][1 if argument == "key" else 2] == b"orders"


class Boasting(str):
    """A str that encodes itself as something else."""

    def encode(self, *_: Any) -> Any:
        return "no bytes"


@pytest.mark.parametrize("name", [Place.ORDERS, OldPlace.ORDERS, Vague("orders"), Boasting("orders")], ids=range(4))
@pytest.mark.parametrize("value", [b"v", "v", Boasting("v"), None], ids=range(4))
@pytest.mark.parametrize("shape", [lambda n, v: [(n, v)], lambda n, v: {n: v}, lambda n, v: ([n, v],)], ids=["list", "dict", "tuple"])
def test_a_header_of_a_subclass_of_str_is_its_text(core: ModuleType, name: str, value: Any, shape: Any) -> None:
    world = World(core)
    world.send(headers=shape(name, value))
    (batch,) = world.seal_all()
    assert plain_records(wire_bytes(batch))[0][3] == (("orders", None if value is None else b"v"),)
