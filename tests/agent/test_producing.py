"""Options of the agent's producer: settings of topics, what [kafka] may set, and what the producer does with them."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4 import Producer
from pykafka4.agent.producing import NEVER_MS, UNKNOWN_TOPIC_MS, producer_options
from pykafka4.agent.settings.values import (
    AgentSettings,
    Batching,
    InputSettings,
    Offline,
    ServiceSettings,
    TcpSettings,
    TopicSettings,
    TopicsSettings,
)
from pykafka4.errors import ConfigError
from pykafka4.options.config import ProducerConfig
from pykafka4.testing import ModelServer
from tests.net.net_helpers import SECONDS, until

KAFKA = {"bootstrap_servers": "h:1"}
COMBINED = TopicSettings(batching=Batching.COMBINED, linger_ms=10_000)


def settings(topics: TopicsSettings | None = None, kafka: dict[str, Any] | None = None, **more: Any) -> AgentSettings:
    return AgentSettings(InputSettings(tcp=TcpSettings(port=1)), {**KAFKA, **(kafka or {})}, topics or TopicsSettings(), **more)


def of_topic(own: TopicSettings, default: TopicSettings = COMBINED) -> dict[str, Any]:
    """What the producer has for a topic with settings of its own, its own options filled in."""
    options = producer_options(settings(TopicsSettings(default=default, named={"t": own})))
    return {**options, **options["topic_policies"]["t"]}


def test_settings_without_topics_are_enough() -> None:
    options = producer_options(settings())
    ProducerConfig.parse(options)
    assert {name: options[name] for name in ("batching", "linger_ms", "partitioner", "partitioner_ignore_keys")} == {
        "batching": "combined",
        "linger_ms": 10_000,
        "partitioner": "late_partition_key_wait",
        "partitioner_ignore_keys": True,
    }
    assert (options["on_full"], options["allow_auto_create_topics"], options["buffer_memory"]) == ("raise", False, 128 * 2**20)


def test_messages_wait_for_their_cluster_as_long_as_there_is_memory_unless_kafka_says_otherwise() -> None:
    options = producer_options(settings())
    assert (options["delivery_timeout_ms"], options["unknown_topic_timeout_ms"]) == (NEVER_MS, UNKNOWN_TOPIC_MS)
    given = {"delivery_timeout_ms": 60_000, "unknown_topic_timeout_ms": 1_000, "client_id": "mine", "max_failed_attempts": 5}
    options = producer_options(settings(kafka=given))
    assert {name: options[name] for name in given} == given


def test_settings_outside_of_kafka_reach_the_producer() -> None:
    topics = TopicsSettings(autocreate=True, offline=Offline.NEXT)
    options = producer_options(settings(topics, service=ServiceSettings(shutdown_ms=5)))
    assert (options["allow_auto_create_topics"], options["partitioner"], options["close_timeout_ms"]) == (True, "late_partition_key", 5)


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("transactional_id", "x", "messages of the agent belong to no transaction"),
        ("on_full", "block", "the agent never waits"),
        ("hooks", object(), "the agent has its own"),
        ("value_serializer", "json", "values of messages are bytes"),
        ("partitioner", "murmur2", "each message chooses"),
        ("buffer_memory", 5, "set it in [inputs]: max_buffer"),
        ("batching", "combined", "set it in [topics.default]"),
        ("rate_limits", {}, 'set them in [topics."name"]'),
    ],
)
def test_options_that_the_agent_depends_on_are_refused_by_name(option: str, value: object, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        producer_options(settings(kafka={option: value}))
    assert str(caught.value).startswith(f"kafka.{option}: {why}")


def test_a_topic_without_a_setting_has_that_of_the_default_topic() -> None:
    default = TopicSettings(
        batching=Batching.COMBINED, linger_ms=500, batch_records=7, compression_type="gzip", compression_level=3, max_message_bytes=5_000
    )
    found = of_topic(TopicSettings(batch_bytes=99), default)
    wanted = {
        "batching": "combined",
        "linger_ms": 500,
        "batch_records": 7,
        "batch_bytes": 99,
        "compression_type": "gzip",
        "compression_level": 3,
        "max_message_bytes": 5_000,
    }
    assert {name: found[name] for name in wanted} == wanted


def test_a_topic_with_another_codec_does_not_get_the_level_of_the_default_topic() -> None:
    default = TopicSettings(compression_type="gzip", compression_level=9)
    found = of_topic(TopicSettings(compression_type="lz4"), default)
    assert (found["compression_type"], found["compression_level"]) == ("lz4", None)


def test_without_batching_no_limit_of_the_default_topic_holds() -> None:
    found = of_topic(TopicSettings(batching=Batching.OFF), attrs_default())
    assert [found[name] for name in ("batching", "linger_ms", "batch_bytes", "batch_records")] == ["partition", 0, None, None]


def test_a_topic_has_batches_although_the_default_topic_has_none() -> None:
    found = of_topic(TopicSettings(batching=Batching.PER_TOPIC), TopicSettings(batching=Batching.OFF, linger_ms=700))
    assert (found["batching"], found["linger_ms"]) == ("partition", 700)
    found = of_topic(TopicSettings(batching=Batching.PER_TOPIC), TopicSettings(batching=Batching.OFF))
    assert found["linger_ms"] == 5, "the producer's default"


def attrs_default() -> TopicSettings:
    return TopicSettings(batching=Batching.COMBINED, linger_ms=500, batch_bytes=5, batch_records=7)


def producing(server: ModelServer, topics: TopicsSettings) -> Producer:
    return Producer(**producer_options(settings(topics, {"bootstrap_servers": server.bootstrap_servers})))


def test_combined_batches_of_all_topics_leave_together_and_others_stay() -> None:
    limited = TopicSettings(batching=Batching.COMBINED, linger_ms=60_000, batch_records=6)
    named = {"alone": TopicSettings(batching=Batching.PER_TOPIC, batch_records=3), "now": TopicSettings(batching=Batching.OFF)}
    with ModelServer() as server:
        for topic in ("a", "b", "alone", "now"):
            server.create_topic(topic, 2)
        producer = producing(server, TopicsSettings(default=limited, named=named))
        try:
            for topic in ("a", "b", "alone", "now"):
                producer.partitions_for(topic)
            producer.send("now", b"v").result(SECONDS)
            sent = [producer.send(topic, b"v") for topic in ("a", "b", "a", "alone", "b", "alone", "a")]
            until(lambda: producer.stats().queued == 7, "the batches to be open")
            assert not any(delivery.done() for delivery in sent)
            producer.send("b", b"v", partition=7).result(SECONDS)
            until(lambda: producer.stats().acked == 7, "all combined batches to be acknowledged")
            assert [delivery.topic for delivery in sent if not delivery.done()] == ["alone", "alone"]
            producer.send("alone", b"v").result(SECONDS)
            assert all(delivery.result(SECONDS) for delivery in sent)
        finally:
            producer.close(0)
