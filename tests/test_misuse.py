"""Misuse: the message names the thing and the way out."""

from __future__ import annotations

import logging
import pickle
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

import pykafka4
from integration.waiting import until
from pykafka4 import AdminClient, Client, ClosedError, ConfigError, Consumer, KafkaError, Producer, RecordTooLarge, TopicPartition
from pykafka4.core.group.membership.classic import MemberState
from pykafka4.core.subscription import Stage
from pykafka4.misuse import check_count, check_timeout, check_topic, topic_partition
from pykafka4.testing import ModelServer


@pytest.fixture
def producer(server: ModelServer) -> Iterator[Producer]:
    with Producer(bootstrap_servers=server.bootstrap_servers) as made:
        yield made


@pytest.mark.parametrize("name", ["aio", "spark", "testing"])
def test_a_package_that_nobody_has_imported_is_named_with_its_import(name: str) -> None:
    """`import pykafka4` is not enough for `pykafka4.aio`; to say that there is no such thing would be wrong."""
    with pytest.raises(AttributeError, match=f"module 'pykafka4' has no '{name}' until it is imported: import pykafka4.{name}$"):
        pykafka4.__getattr__(name)


@pytest.mark.parametrize("name", ["", "a b", "ü", "a" * 250, ".", "..", "a/b"])
def test_illegal_topic_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="a name has 1 to 249"):
        check_topic(name)


@pytest.mark.parametrize("wrong", ["t", ("t",), ("t", "0"), ("t", True), (5, 0), 7])
def test_what_is_no_partition_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError):
        topic_partition(wrong)


def test_a_negative_partition_is_named() -> None:
    with pytest.raises(ConfigError, match="the partition of topic 't' must be from 0 to 2,147,483,647, not -1"):
        topic_partition(("t", -1))


def test_a_pair_is_a_partition() -> None:
    assert topic_partition(("t", 3)) == TopicPartition("t", 3)
    assert str(TopicPartition("t", 3)) == "t-3"


def test_a_partition_is_made_of_plain_values() -> None:
    class Topic(str):
        pass

    class Number(int):
        pass

    plain = TopicPartition("t", 3)
    assert topic_partition(plain) is plain
    made = topic_partition(TopicPartition(Topic("t"), Number(3)))
    assert (made, type(made.topic), type(made.partition)) == (plain, str, int)
    assert type(topic_partition(TopicPartition(Topic("t"), 3)).topic) is str
    assert type(topic_partition(("t", 3))) is TopicPartition


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"value": 5}, TypeError, "value"),
        ({"key": 5.0}, TypeError, "key"),
        ({"topic": "a b"}, ConfigError, "'a b'"),
        ({"topic": 5}, TypeError, "topic"),
        ({"partition": -1}, ValueError, "-1"),
        ({"partition": 99}, ValueError, "99"),
        ({"partition": "0"}, TypeError, "partition"),
        ({"timestamp_ms": -1}, ValueError, "timestamp_ms"),
        ({"timestamp_ms": "now"}, TypeError, "timestamp_ms"),
        ({"headers": [("h", 5)]}, TypeError, "'h'"),
        ({"headers": 5}, TypeError, "headers"),
        ({"value": bytes(2_000_000)}, RecordTooLarge, "max_request_size"),
    ],
)
def test_a_wrong_argument_of_send_is_named_and_nothing_is_lost(
    producer: Producer, arguments: dict[str, Any], error: type[BaseException], says: str
) -> None:
    producer.send("misuse", b"before").result(10)
    before = producer.stats().accepted
    with pytest.raises(error, match=says):
        producer.send(**{"topic": "misuse", "value": b"v", **arguments})
    assert producer.stats().accepted == before
    producer.send("misuse", b"after").result(10)


def test_a_closed_producer_says_so(server: ModelServer) -> None:
    producer = Producer(bootstrap_servers=server.bootstrap_servers)
    producer.close()
    assert producer.close() == []
    for call in (lambda: producer.send("t", b""), producer.flush, lambda: producer.partitions_for("t"), producer.__enter__):
        with pytest.raises(ClosedError):
            call()
    assert producer.stats().accepted == 0
    assert producer.status()["state"] == "closed"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("produce", "use 'send'"),
        ("poll", "Producer has no 'poll': callbacks run on a thread of their own; no polling is needed"),
        ("flsh", "did you mean 'flush'"),
        ("xyzzy", "has no 'xyzzy'"),
    ],
)
def test_a_peers_name_or_a_slip_gets_a_hint(producer: Producer, name: str, says: str) -> None:
    with pytest.raises(AttributeError, match=says):
        getattr(producer, name)


def test_clients_refuse_pickling_and_say_what_to_send(server: ModelServer) -> None:
    with (
        Client(bootstrap_servers=server.bootstrap_servers) as client,
        Producer(client=client) as producer,
        Consumer(client=client) as consumer,
    ):
        for thing in (client, producer, consumer):
            with pytest.raises(TypeError, match="Pass its options"):
                pickle.dumps(thing)


def test_options_of_a_shared_client_belong_to_it(server: ModelServer) -> None:
    with Client(bootstrap_servers=server.bootstrap_servers) as client:
        with pytest.raises(ConfigError, match="client_id: set by the shared Client"):
            Producer(client=client, client_id="mine")
        for kind in (Producer, Consumer, AdminClient):
            with pytest.raises(ConfigError, match=rf"must be a pykafka4\.Client.* {kind.__name__}\(bootstrap_servers=…\)"):
                kind("localhost:9092")  # type: ignore[arg-type]


def test_a_client_made_of_an_address_is_an_error_that_names_the_option() -> None:
    with pytest.raises(ConfigError, match=r"'localhost:9092'.*pass options as keywords: Client\(bootstrap_servers=…\)"):
        Client("localhost:9092")  # type: ignore[arg-type]


def test_flush_inside_a_callback_is_refused(producer: Producer) -> None:
    caught: list[BaseException] = []

    def callback(_: object) -> None:
        try:
            producer.flush()
        except KafkaError as error:
            caught.append(error)

    producer.send("misuse", b"v", on_delivery=callback).result(10)
    producer.flush(10)
    assert "inside a callback" in str(caught[0])


def test_every_public_name_is_there() -> None:
    for name in pykafka4.__all__:
        assert getattr(pykafka4, name) is not None
    with pytest.raises(AttributeError, match="Foo"):
        pykafka4.Foo  # type: ignore[attr-defined]  # noqa: B018


def test_log_lines_of_the_loop_name_the_client(server: ModelServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pykafka4"):
        with Producer(bootstrap_servers=server.bootstrap_servers, client_id="billing-7") as producer:
            producer.send("misuse", b"v").result(10)
        with Consumer(
            bootstrap_servers=server.bootstrap_servers, client_id="billing-8", group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe(["misuse"])
            while not consumer.poll(0.1):
                assert consumer.status()["consumer"]["state"].isidentifier()
            states = consumer.status()["consumer"]

    def lines() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name.startswith("pykafka4.") and record.levelno == logging.INFO]

    def logged(client_id: str, text: str) -> bool:
        return any(line.startswith(f"{client_id}: ") and text in line for line in lines())

    # The thread that runs the handlers may have work of other clients first.
    until(lambda: logged("billing-7", "connected to broker") and logged("billing-8", "generation"), 10.0, "the log lines")
    for line in lines():  # clients that other tests left open log, too
        assert re.match(r"[\w.-]+: ", line), line
    assert (states["state"], states["reason"]) == ("stable", None)
    assert all(partition["state"].isidentifier() for partition in states["partitions"].values())


def test_states_are_identifiers_and_reasons_are_for_people() -> None:
    for kind in (MemberState, Stage):
        for state in kind:
            assert state.value.isidentifier()
            assert state.meaning is None or " " in state.meaning


@pytest.mark.parametrize(
    "wrong", [-1, -0.001, float("nan"), True, "1", b"1", 1j, -(10**400), pytest.param(-(10**5000), id="too long to print")]
)
def test_what_is_no_timeout_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="must be a non-negative number of seconds, or None"):
        check_timeout(wrong)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (None, None),
        (0, 0),
        (1.5, 1.5),
        (Fraction(1, 2), 0.5),
        (1e300, 1e9),
        (float("inf"), 1e9),
        (10**400, 1e9),
        (Fraction(10**400, 3), 1e9),
    ],
)
def test_a_timeout_is_seconds_that_the_system_can_wait(given: Any, seconds: float | None) -> None:
    assert check_timeout(given) == seconds


def test_a_number_of_too_many_digits_is_refused_as_others_are() -> None:
    with pytest.raises(ConfigError, match="the offset must be from 0 to"):
        check_count(10**5000, "the offset")


def test_a_topic_of_a_subclass_of_str_is_its_text_whatever_its_methods_say() -> None:
    class Topic(str):
        def __str__(self) -> str:
            return "other"

    topic = check_topic(Topic("orders"))
    assert topic == "orders"
    assert type(topic) is str


def test_a_partition_that_no_broker_can_have_is_named() -> None:
    assert topic_partition(("t", 2**31 - 1)).partition == 2**31 - 1
    with pytest.raises(ConfigError, match="not 2147483648"):
        topic_partition(("t", 2**31))


def test_a_method_of_another_clients_client_gets_a_hint(server: ModelServer) -> None:
    with Client(bootstrap_servers=server.bootstrap_servers) as client, pytest.raises(AttributeError, match="use 'partitions_for'"):
        client.partitions_for_topic  # noqa: B018
