"""A consumer with deserializers, and what it does with records that they refuse."""

from __future__ import annotations

import asyncio
import gc
import json
import pickle
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from integration.waiting import until
from pykafka4 import ConfigError, Consumer, DeserializationError, Producer, aio
from pykafka4 import read as bounded_read
from pykafka4.testing import ModelServer
from tests.consumer.consuming import LONG, Maker, fill, numbers, poll_until, read
from tests.inspection import loop_threads

POISON = [b"0", b"x", b"2", b"y", b"4"]  # of which JSON does not have two


@pytest.fixture
def poisoned(server: ModelServer) -> ModelServer:
    """Partition 0 of `t` has POISON."""
    server.create_topic("t", 2)
    fill(server, "t", 0, POISON)
    return server


def values(records: list[Any]) -> list[Any]:
    return [record.value for record in records]


def committed(consumer: Consumer[Any, Any]) -> int | None:
    consumer.commit()
    place = consumer.committed(("t", 0))
    return None if place is None else place.offset


def test_keys_and_values_are_deserialized_and_the_raw_record_has_their_bytes(server: ModelServer, make: Maker) -> None:
    server.create_topic("t", 1)
    with Producer(bootstrap_servers=server.bootstrap_servers) as producer:
        producer.send("t", b'{"a":1}', key="k", headers={"h": b"1"})
        producer.send("t", None, key=None)
    first, null = read(make.assigned(0, key_deserializer="str", value_deserializer={"other": "str", "*": "json"}), 2)
    assert (first.key, first.value, first.headers, first.offset) == ("k", {"a": 1}, (("h", b"1"),), 0)
    assert (first.raw.key, first.raw.value, first.raw.headers) == (b"k", b'{"a":1}', (("h", b"1"),))
    assert (null.key, null.value, null.raw.value) == (None, None, None)  # null is never deserialized


def test_a_topic_without_a_deserializer_has_bytes(server: ModelServer, make: Maker) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 1))
    (record,) = read(make.assigned(0, value_deserializer={"other": "str"}), 1)
    assert record.value == b"0"
    assert record.raw is record


@pytest.mark.parametrize(
    ("deserializer", "expected"),
    [
        (int, 7),
        (lambda data: data.decode(), "7"),
        (lambda topic, data: (topic, data), ("t", b"7")),
        (lambda topic, data, headers: (topic, data, headers), ("t", b"7", ())),
    ],
)
def test_a_callable_gets_as_much_as_it_has_arguments(server: ModelServer, make: Maker, deserializer: Any, expected: object) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, [b"7"])
    assert values(read(make.assigned(0, value_deserializer=deserializer), 1)) == [expected]


READS: list[Callable[[Any], list[Any]]] = [
    lambda consumer: read(consumer, 3),
    lambda consumer: list(islice(consumer, 3)),
    lambda consumer: next(filter(None, consumer.batches(1.0))),
]


@pytest.mark.parametrize("reads", READS, ids=["poll", "iteration", "batches"])
def test_every_way_of_reading_deserializes(server: ModelServer, make: Maker, reads: Callable[[Any], list[Any]]) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 3))
    assert values(reads(make.assigned(0, value_deserializer="json"))) == [0, 1, 2]


def test_handlers_and_streams_get_deserialized_records(poisoned: ModelServer, make: Maker) -> None:
    seen: list[Any] = []
    consumer = make.member(value_deserializer="json", on_poison="skip", enable_auto_commit=False)

    class Stop:
        def is_set(self) -> bool:
            return len(seen) == 3

    consumer.process(lambda record: seen.append(record.value), stop=Stop())
    assert sorted(seen) == [0, 2, 4]
    again = make(group_id="h", value_deserializer="json", on_poison="skip", enable_auto_commit=False)
    with again.streams({"t": 1}) as (stream,):
        assert [next(stream).value for _ in range(3)] == [0, 2, 4]


def test_a_dead_letter_of_process_is_the_record_as_it_was_fetched(server: ModelServer, make: Maker) -> None:
    server.create_topic("t", 1)
    server.create_topic("dead", 1)
    fill(server, "t", 0, [b'{"a": 1}'])
    consumer = make.member(value_deserializer="json", enable_auto_commit=False)
    with Producer(bootstrap_servers=server.bootstrap_servers) as producer:

        class Stop:
            def is_set(self) -> bool:
                return bool(server.records("dead"))

        consumer.process(lambda record: 1 / 0, dead_letter="dead", producer=producer, stop=Stop())
    assert server.records("dead")[0].value == b'{"a": 1}'


# ---- on_poison="raise"


def test_records_before_a_poison_record_are_returned_then_each_poll_raises_until_a_seek(poisoned: ModelServer, make: Maker) -> None:
    consumer = make.assigned(0, group_id="g", value_deserializer="json")
    assert values(read(consumer, 1)) == [0]
    for _ in range(2):
        with pytest.raises(DeserializationError, match="t-0 at offset 1: the value could not be deserialized: JSONDecodeError") as caught:
            consumer.poll(LONG)
        error = caught.value
        assert (error.topic, error.partition, error.offset, error.next_offset, error.part) == ("t", 0, 1, 2, "value")
        assert error.record.value == b"x"
        assert isinstance(error.__cause__, json.JSONDecodeError)
        assert consumer.position(("t", 0)) == committed(consumer) == 1
    assert pickle.loads(pickle.dumps(error)).record == error.record
    consumer.seek((error.topic, error.partition), error.next_offset)
    assert values(read(consumer, 1)) == [2]
    assert consumer.stats()["poison_records"] == 0


def test_the_other_partitions_can_be_read_while_one_has_poison_at_its_head(poisoned: ModelServer, make: Maker) -> None:
    consumer = make.assigned(0, 1, value_deserializer="json")
    assert values(read(consumer, 1)) == [0]
    with pytest.raises(DeserializationError) as caught:
        consumer.poll(LONG)
    consumer.pause([(caught.value.topic, caught.value.partition)])
    fill(poisoned, "t", 1, numbers(7, 8))
    assert values(read(consumer, 1)) == [7]
    consumer.resume([("t", 0)])
    with pytest.raises(DeserializationError):
        consumer.poll(LONG)


def test_a_loop_raises_behind_its_list_and_goes_on_behind_a_seek(poisoned: ModelServer, make: Maker) -> None:
    consumer = make.assigned(0, value_deserializer="json")
    loop = iter(consumer)
    assert next(loop).value == 0
    with pytest.raises(DeserializationError) as caught:
        next(loop)
    consumer.seek(("t", 0), caught.value.next_offset)
    assert next(loop).value == 2


def test_a_key_that_cannot_be_deserialized_is_named(server: ModelServer, make: Maker) -> None:
    server.create_topic("t", 1)
    with Producer(bootstrap_servers=server.bootstrap_servers) as producer:
        producer.send("t", b"v", key=b"\xff")
    with pytest.raises(DeserializationError, match="the key could not be deserialized: UnicodeDecodeError") as caught:
        make.assigned(0, key_deserializer="str").poll(LONG)
    assert caught.value.part == "key"


def test_ctrl_c_in_a_deserializer_loses_no_record(server: ModelServer, make: Maker) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 5))
    calls: list[bytes] = []

    def deserialize(data: bytes) -> int:
        calls.append(data)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return int(data)

    consumer = make.assigned(0, value_deserializer=deserialize)
    with pytest.raises(KeyboardInterrupt):
        read(consumer, 5)
    assert values(read(consumer, 5)) == [0, 1, 2, 3, 4]


def test_a_deserializer_cannot_call_its_consumer(server: ModelServer, make: Maker) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 1))
    consumer = make.assigned(0, value_deserializer=lambda data: consumer.seek(("t", 0), 0))
    with pytest.raises(DeserializationError, match="KafkaError: a signal handler, destructor or callback called seek during poll"):
        consumer.poll(LONG)


# ---- on_poison="skip"


def test_skipped_records_are_counted_logged_and_committed(poisoned: ModelServer, make: Maker, caplog: pytest.LogCaptureFixture) -> None:
    consumer = make.assigned(0, group_id="g", value_deserializer="json", on_poison="skip")
    assert values(read(consumer, 3)) == [0, 2, 4]
    assert consumer.stats()["poison_records"] == 2
    assert committed(consumer) == 5
    assert "records left out so far by on_poison=skip: 1; the last one: t-0 at offset 1" in caplog.text


def test_a_partition_that_ends_with_skipped_records_is_committed_to_its_end(server: ModelServer, make: Maker) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, [b"x", b"y"])
    consumer = make.assigned(0, group_id="g", value_deserializer="json", on_poison="skip")
    poll_until(consumer, lambda: consumer.position(("t", 0)) == 2)
    assert committed(consumer) == 2


# ---- on_poison="dead-letter:…"


def test_poison_becomes_a_dead_letter_and_the_rest_is_returned(poisoned: ModelServer, make: Maker) -> None:
    poisoned.create_topic("dead", 1)
    consumer = make.assigned(0, group_id="g", value_deserializer="json", on_poison="dead-letter:dead")
    assert values(read(consumer, 3)) == [0, 2, 4]
    assert committed(consumer) == 5
    assert consumer.stats()["poison_records"] == 2
    letters = poisoned.records("dead")
    assert [letter.value for letter in letters] == [b"x", b"y"]
    headers = dict(letters[0].headers)
    assert headers["dead_letter.topic"] == b"t"
    assert headers["dead_letter.offset"] == b"1"
    assert headers["dead_letter.group"] == b"g"
    assert headers["dead_letter.exception"] == b"json.decoder.JSONDecodeError"


def test_nothing_from_a_poison_record_on_is_returned_or_committed_before_its_letter_is_acknowledged(
    poisoned: ModelServer, make: Maker
) -> None:
    how = {"on_poison": "dead-letter:dead", "allow_auto_create_topics": False}  # the letters wait until that topic is created
    consumer = make.assigned(0, 1, group_id="g", value_deserializer="json", **how)
    assert values(read(consumer, 1)) == [0]
    fill(poisoned, "t", 1, numbers(7, 8))
    assert values(read(consumer, 1)) == [7]  # other partitions go on
    assert consumer.poll(0.1) == []
    assert committed(consumer) == 1
    poisoned.create_topic("dead", 1)
    assert values(read(consumer, 2)) == [2, 4]
    assert committed(consumer) == 5


def test_a_letter_that_cannot_be_written_is_an_error_and_a_seek_tries_again(poisoned: ModelServer, make: Maker) -> None:
    how = {"on_poison": "dead-letter:dead", "allow_auto_create_topics": False, "unknown_topic_timeout_ms": 200}
    consumer = make.assigned(0, group_id="g", value_deserializer="json", **how)
    assert values(read(consumer, 1)) == [0]
    with pytest.raises(DeserializationError, match="t-0 at offset 1") as caught:
        consumer.poll(LONG)
    assert "its dead letter was not acknowledged (DeliveryFailed" in caught.value.__notes__[0]
    assert committed(consumer) == 1
    poisoned.create_topic("dead", 1)
    consumer.seek(("t", 0), 1)
    assert values(read(consumer, 2)) == [2, 4]
    assert [letter.value for letter in poisoned.records("dead")] == [b"x", b"y"]


def test_a_topic_that_is_its_own_dead_letter_topic_raises(poisoned: ModelServer, make: Maker) -> None:
    consumer = make.assigned(0, value_deserializer="json", on_poison="dead-letter:t")
    read(consumer, 1)
    with pytest.raises(DeserializationError):
        consumer.poll(LONG)
    assert len(poisoned.records("t")) == len(POISON)


def test_a_bounded_read_ends_behind_its_dead_letters(poisoned: ModelServer) -> None:
    poisoned.create_topic("dead", 1)
    fill(poisoned, "t", 0, [b"z"])
    reading = bounded_read("t", value_deserializer="json", on_poison="dead-letter:dead", bootstrap_servers=poisoned.bootstrap_servers)
    assert [record.value for record in reading] == [0, 2, 4]
    assert [letter.value for letter in poisoned.records("dead")] == [b"x", b"y", b"z"]


def test_the_consumer_for_asyncio_deserializes_and_waits_for_dead_letters(poisoned: ModelServer) -> None:
    poisoned.create_topic("dead", 1)

    async def main() -> list[Any]:
        how = {"value_deserializer": "json", "on_poison": "dead-letter:dead", "group_id": "g", "auto_offset_reset": "earliest"}
        async with aio.Consumer(bootstrap_servers=poisoned.bootstrap_servers, **how) as consumer:  # type: ignore[call-overload]
            consumer.assign([("t", 0)])
            found = [record.value async for record in consumer.until_end()]
            await consumer.commit()
            place = await consumer.committed(("t", 0))
            return [*found, place.offset]

    assert asyncio.run(main()) == [0, 2, 4, 5]
    assert [letter.value for letter in poisoned.records("dead")] == [b"x", b"y"]


# ---- options


@pytest.mark.parametrize("wrong", ["ignore", "dead-letter:", "dead-letter", 5, None])
def test_what_is_no_reaction_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"on_poison=.*must be 'raise', 'skip', or 'dead-letter:' and the name of a topic"):
        Consumer(bootstrap_servers="localhost:1", value_deserializer="json", on_poison=wrong)


def test_a_reaction_without_a_deserializer_is_refused() -> None:
    with pytest.raises(ConfigError, match="on_poison='skip' needs key_deserializer or value_deserializer"):
        Consumer(bootstrap_servers="localhost:1", on_poison="skip")


def test_a_dead_letter_topic_that_cannot_exist_is_refused(server: ModelServer) -> None:
    before = loop_threads()
    with pytest.raises(ConfigError, match="topic"):
        Consumer(bootstrap_servers=server.bootstrap_servers, value_deserializer="json", on_poison="dead-letter:a/b")
    gc.collect()  # a private client ends with its last reference
    until(lambda: not loop_threads() - before, LONG, "the client of the refused consumer has ended")
