"""Names of other clients get a hint that is true: what it names is there, and what it says is missing is not."""

from __future__ import annotations

import re
from typing import Any

import attrs
import pytest

from pykafka4 import AdminClient, Client, ConfigError, Consumer, Delivery, Producer, Record, ShareConsumer, aio
from pykafka4.options.config import ClientConfig, ConsumerConfig, ProducerConfig
from pykafka4.other_clients.tables import CLASSES, METHODS, OPTIONS, NoCounterpart, method_hint
from pykafka4.testing import ModelServer

B = {"bootstrap_servers": "b:9092"}
CONFIGS = (ClientConfig, ProducerConfig, ConsumerConfig)
ALL = {a.name for config in CONFIGS for a in attrs.fields(config)}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_peers_option_is_none_of_ours_and_its_counterpart_is_one(name: str) -> None:
    assert name not in ALL
    assert isinstance(OPTIONS[name], NoCounterpart) or OPTIONS[name] in ALL


@pytest.mark.parametrize("spell", [str, lambda name: name.replace("_", ".")])
@pytest.mark.parametrize("name", OPTIONS)
def test_a_peers_option_gets_its_hint(name: str, spell: Any) -> None:
    config = next((c for c in (ProducerConfig, ConsumerConfig) if OPTIONS[name] in attrs.fields_dict(c)), ProducerConfig)
    with pytest.raises(ConfigError, match=re.escape(OPTIONS[name])):
        config.parse({**B, spell(name.replace("*", "anything")): 1})


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("schema.registry.url", "there is no client of a schema registry"),
        ("transactional.id", "did you mean 'transactional_id'?"),
        ("sasl.mechanisms", "did you mean 'sasl_mechanism'?"),
        ("sasl_plain_password", "did you mean 'sasl_password'?"),
        ("sasl.jaas.config", "from_properties"),
        ("ssl.truststore.location", "convert the store to PEM"),
        ("ssl.ca.location", "did you mean 'ssl_cafile'?"),
        ("enable.ssl.certificate.verification", "always verified"),
        ("message_send_max_retries", "did you mean 'retries'?"),
        ("api_version", "negotiated"),
        ("max.in.flight", "max_in_flight_requests_per_connection"),
        ("qwertyuiop", "docs/options.md lists all options"),
    ],
)
def test_hints_of_options(name: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ProducerConfig.parse({**B, name: 1})


def test_an_option_of_the_other_class_is_named_as_such() -> None:
    with pytest.raises(ConfigError, match="unknown producer option 'group_id'; it is a consumer option"):
        ProducerConfig.parse({**B, "group_id": "g"})
    with pytest.raises(ConfigError, match=r"unknown consumer option 'linger\.ms'; it is a producer option"):
        ConsumerConfig.parse({**B, "linger.ms": 5})


def test_an_option_of_consumers_is_not_recommended_to_producers() -> None:
    with pytest.raises(ConfigError) as caught:
        ProducerConfig.parse({**B, "fetch_wait_max_ms": 1})
    assert "fetch_max_wait_ms" not in str(caught.value)


@pytest.mark.parametrize("kind", [Producer, aio.Producer, Consumer, aio.Consumer, ShareConsumer, Client, AdminClient, Delivery, Record])
def test_a_peers_method_is_none_of_ours_and_its_counterpart_is_one(kind: type[Any]) -> None:
    for name, instead in METHODS[kind.__name__].items():
        assert not hasattr(kind, name) or kind is Record, name
        assert instead in method_hint(kind.__name__, name, dir(kind))
        if not isinstance(instead, NoCounterpart):
            owner, _, method = re.match(r"\w+(?:\.\w+)?", instead).group().rpartition(".")  # type: ignore[union-attr]
            assert hasattr({"Client": Client}.get(owner, kind), method), instead


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("commitSync", "use 'commit'"),
        ("commitAsync", "use 'commit_async'"),
        ("currentLag", "use 'lag'"),
        ("positionOf", "did you mean 'position'"),
        ("create_topics", "has no 'create_topics'$"),
    ],
)
def test_a_name_of_java_and_one_that_all_clients_have_get_the_hint(name: str, says: str) -> None:
    with pytest.raises(AttributeError, match=says), Consumer(**B) as consumer:
        getattr(consumer, name)


CALLS = {  # calls of other clients' users on `producer`, `consumer`, `record` and `delivery`
    "delivery.get(timeout=1)": r"Delivery has no 'get'; use 'result'",
    "delivery.add_callback(print)": r"Delivery has no 'add_callback'; use 'add_done_callback'",
    "delivery.is_done": r"Delivery has no 'is_done'; use 'done'",
    "record.timestamp": r"Record has no 'timestamp'; use 'timestamp_ms'",
    "record.error()": r"Record has no 'error': poll raises errors",
    "consumer.poll(timeout_ms=5)": r"Consumer\.poll\(\) has no argument 'timeout_ms'; use timeout, in seconds",
    "consumer.subscribe(pattern='a.*')": r"Consumer\.subscribe\(\) has no argument 'pattern'; use topics: a text",
    "consumer.subscribe(['a'], on_assign=print)": r"use listener, an object with on_partitions_assigned",
    "consumer.commit(message=record)": r"use offsets=\{\(record\.topic, record\.partition\): record\.offset \+ 1\}",
    "consumer.commit(asynchronous=True)": r"use commit, which waits, or commit_async",
    "consumer.poll(max_rows=5)": r"Consumer\.poll\(\) has no argument 'max_rows'; use max_records",
    "consumer.poll_arrow(max_records=5)": r"Consumer\.poll_arrow\(\) has no argument 'max_records'; use max_rows",
    "consumer.poll(qwertyuiop=5)": r"Consumer\.poll\(\) has no argument 'qwertyuiop'$",
    "consumer.highwater([])": r"Consumer has no 'highwater'; use 'end_offsets'",
    "consumer.get_watermark_offsets([])": r"use 'beginning_offsets and end_offsets'",
    "len(producer)": r"stats\(\)\.queued \+ stats\(\)\.in_flight",
    "producer.send('t', b'v', b'k')": r"(?s)positional argument.*(send\(topic, value, key=key\)|given)",
    "producer.send('t', b'v', callback=print)": r"unexpected keyword argument 'callback'",
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_of_another_client_gets_a_hint(call: str) -> None:
    record = Record("t", 0, 5)
    with ModelServer() as server:
        options = {"bootstrap_servers": server.bootstrap_servers}
        with Producer(**options) as producer, Consumer(group_id="g", **options) as consumer:
            assert producer
            delivery = producer.send("t", b"x")
            scope = {"producer": producer, "consumer": consumer, "record": record, "delivery": delivery}
            with pytest.raises((AttributeError, TypeError), match=CALLS[call]):
                eval(call, scope)  # the calls above


def test_names_of_peers_are_no_attributes_of_records() -> None:
    assert not any(hasattr(Record("t", 0, 5), name) for name in METHODS["Record"])


@pytest.mark.parametrize("name", CLASSES)
def test_the_class_of_another_client_is_named_at_its_import(name: str) -> None:
    with pytest.raises(ImportError, match=f"pykafka4 has no '{name}'; use {re.escape(CLASSES[name])}"):
        exec(f"from pykafka4 import {name}")
