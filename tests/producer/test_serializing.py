"""A producer with serializers, and many records in one call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykafka4 import ClosedError, DeliveryFailed, ProducerRecord
from pykafka4.testing import ModelServer
from pykafka4.wire.records import hot
from tests.inspection import inspect
from tests.net.net_helpers import SECONDS
from tests.producer.producing import Maker, balanced, stop_all, values


def stored(server: ModelServer) -> list[tuple[bytes | None, bytes | None]]:
    return sorted(((record.key, record.value) for record in server.records("t")), key=repr)


def test_keys_and_values_are_serialized(server: ModelServer, make: Maker) -> None:
    producer = make(key_serializer="str", value_serializer={"other": "str", "*": "json"})
    producer.send("t", {"a": 1}, key="k").result(SECONDS)
    producer.send("t", None, key=None).result(SECONDS)  # null stays null
    assert stored(server) == [(None, None), (b"k", b'{"a":1}')]


def test_a_serializer_that_raises_fails_that_one_send(server: ModelServer, make: Maker) -> None:
    producer = make(value_serializer=lambda topic, value: str(1 // value))
    with pytest.raises(ZeroDivisionError) as caught:
        producer.send("t", 0)
    assert caught.value.__notes__ == ["pykafka4: raised by value_serializer for topic 't', which was given the topic and a int"]
    producer.send("t", 1).result(SECONDS)
    assert values(server) == [b"1"]
    assert producer.stats().accepted == 1


def test_a_result_that_cannot_be_sent_is_refused(make: Maker) -> None:
    producer = make(key_serializer=lambda topic, key: 5)
    with pytest.raises(TypeError, match=r"t: key_serializer .* returned int; it must return bytes, str or None"):
        producer.send("t", b"v", key="k")


def test_a_serializer_may_send(server: ModelServer, make: Maker) -> None:
    def audit(topic: str, value: Any) -> bytes:
        if value < 3:
            producer.send("t", value + 1)
        return b"%d" % value

    producer = make(value_serializer=audit)
    producer.send("t", 1)
    producer.flush(SECONDS)
    assert values(server) == [b"1", b"2", b"3"]


def test_without_serializers_send_is_the_accumulators(make: Maker) -> None:
    producer = make()
    assert hot.IMPLEMENTATION == "python" or producer.send == inspect(producer).session.acc.send


def test_a_topic_that_is_no_str_is_refused_as_without_serializers(make: Maker) -> None:
    producer = make(value_serializer="json")
    for wrong in (5, [], None):
        with pytest.raises(TypeError, match="topic must be"):
            producer.send(wrong, 1)
        with pytest.raises(TypeError):
            producer.send_many(wrong, [1])


@pytest.mark.parametrize("serializers", [{}, {"value_serializer": "str", "key_serializer": lambda topic, key: key}], ids=["none", "str"])
def test_send_many(server: ModelServer, make: Maker, serializers: dict[str, Any]) -> None:
    producer = make(**serializers)
    deliveries = producer.send_many("t", ["a", "b", "c"], keys=[b"k", None, b"l"])
    assert sorted(d.result(SECONDS).serialized_key_size for d in deliveries) == [-1, 1, 1]
    assert values(server) == [b"a", b"b", b"c"]
    assert producer.send_many("t", []) == []


def test_a_serializer_that_raises_ends_send_many_with_what_was_accepted(server: ModelServer, make: Maker) -> None:
    producer = make(value_serializer="str")
    with pytest.raises(TypeError, match="takes str, not int") as caught:
        producer.send_many("t", ["a", "b", 5, "c"])
    assert len(caught.value.accepted) == 2  # type: ignore[attr-defined]
    producer.send_many("t", ["c"])
    producer.flush(SECONDS)
    assert values(server) == [b"a", b"b", b"c"]
    with pytest.raises(ValueError, match="keys has 1 items, but values has 2"):
        producer.send_many("t", ["a", "b"], keys=["k"])


def test_records_that_were_not_delivered_are_sent_again_without_serializing_twice(server: ModelServer, make: Maker) -> None:
    server.create_topic("u", 1)
    first = make(value_serializer="json", max_block_ms=0)
    first.send("t", "v", partition=1).result(SECONDS)
    stop_all(server)
    first.send("t", "w", key=b"k", partition=2, headers=[("h", b"x")], timestamp_ms=7)
    lost = first.close(0)
    assert [record.value for record in lost] == [b'"w"']
    server.do(lambda cluster: [cluster.start_broker(node) for node in cluster.brokers])
    second = make(value_serializer="json")
    deliveries = second.send_many([*lost, ProducerRecord("u", b"plain")])
    assert [d.result(SECONDS).topic for d in deliveries] == ["t", "u"]
    (record,) = [record for record in server.records("t") if record.key == b"k"]
    assert (record.value, record.headers, record.timestamp_ms) == (b'"w"', (("h", b"x"),), 7)
    assert balanced(second)


def test_what_send_many_cannot_take_is_named(make: Maker) -> None:
    producer = make()
    with pytest.raises(TypeError, match="record 1 must be a ProducerRecord, not bytes") as caught:
        producer.send_many([ProducerRecord("t", b"v"), b"w"])  # type: ignore[list-item]
    assert len(caught.value.accepted) == 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="a topic and values, or an iterable of ProducerRecord, not int"):
        producer.send_many(5)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="takes a topic and values, or only an iterable"):
        producer.send_many("t")  # type: ignore[call-overload]


def test_a_serialized_record_that_fails_has_its_bytes(server: ModelServer, make: Maker) -> None:
    producer = make(value_serializer="json", delivery_timeout_ms=200, request_timeout_ms=100, linger_ms=0)
    stop_all(server)
    with pytest.raises(DeliveryFailed) as caught:
        producer.send("t", [1]).result(SECONDS)
    assert caught.value.record is not None
    assert caught.value.record.value == b"[1]"


def test_a_closed_producer_asks_no_serializer_and_no_hook(make: Maker) -> None:
    asked: list[Any] = []
    producer = make(value_serializer=lambda topic, value: asked.append(value), hooks=SimpleNamespace(on_send=asked.append))
    producer.close(SECONDS)
    with pytest.raises(ClosedError):
        producer.send("t", 1)
    with pytest.raises(ClosedError):
        producer.send_many("t", [1])
    assert asked == []


def test_an_exception_that_is_raised_again_and_again_keeps_one_note(make: Maker) -> None:
    always = ValueError("always the same")

    def fail(topic: str, value: Any) -> bytes:
        raise always

    producer = make(value_serializer=fail)
    for topic in ("t", "t", "u"):
        with pytest.raises(ValueError, match="always the same"):
            producer.send(topic, 1)
        with pytest.raises(ValueError, match="always the same"):
            producer.send_many(topic, [1])
    always.add_note("mine")
    with pytest.raises(ValueError, match="always the same"):
        producer.send_many("u", [1])
    assert [note[:36] for note in always.__notes__] == [
        "mine",
        "pykafka4: raised by value_serializer",
        "pykafka4: send_many to 'u' ended at ",
    ]
