"""Settings on real brokers: those of topics, brokers, groups and client metrics, as another client and Kafka's own tool see them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient as Foreign
from confluent_kafka.admin import ConfigResource, ResourceType

from integration.cluster import Cluster
from integration.java.client import run_tool
from integration.waiting import until
from pykafka4 import AdminClient, Append, BrokerError, ConfigEntry, KafkaError, PartialFailure, Subtract
from pykafka4.cli.main import run
from tests.integration.command_line import call_of, tools_bootstrap
from tests.integration.reading import LONG_S

pytestmark = pytest.mark.cluster

METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
SOURCES = (  # of librdkafka, at its numbers
    *("UNKNOWN", "DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG", "STATIC_BROKER_CONFIG"),
    *("DEFAULT_CONFIG", "GROUP_CONFIG"),
)


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[AdminClient]:
    with AdminClient(**cluster.client) as it:
        yield it


def ours(found: dict[str, ConfigEntry]) -> dict[str, tuple[object, ...]]:
    return {name: (one.value, one.source, one.is_sensitive, one.read_only, {s.name for s in one.synonyms}) for name, one in found.items()}


def theirs(cluster: Cluster, kind: ResourceType, name: str) -> dict[str, tuple[object, ...]]:
    resource, foreign = ConfigResource(kind, name), Foreign(cluster.librdkafka)
    found = foreign.describe_configs([resource])[resource].result(LONG_S)
    return {
        name: (
            one.value,
            SOURCES[one.source],
            one.is_sensitive,
            one.is_read_only,
            set(one.synonyms),  # one for each name
        )
        for name, one in found.items()
    }


def given(admin: AdminClient, kind: str, name: str | int | None) -> dict[str, str | None]:
    """The settings that somebody gave this resource."""
    found = admin.describe_config(kind, name)
    return {key: one.value for key, one in found.items() if one.source.startswith("DYNAMIC_") and "DEFAULT" not in one.source}


def test_settings_of_a_topic_and_a_broker_are_those_that_another_client_sees(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    admin.create_topics({topic: 1}, configs={"retention.ms": "3600000"}, wait=True)
    assert ours(admin.describe_config("topic", topic)) == theirs(cluster, ResourceType.TOPIC, topic)
    assert ours(admin.describe_config("broker", 2)) == theirs(cluster, ResourceType.BROKER, "2")
    entry = admin.describe_config("topic", topic, documentation=True)["retention.ms"]
    assert (entry.value, entry.type, entry.is_default) == ("3600000", "LONG", False)
    assert entry.documentation is not None
    assert "retain a log" in entry.documentation


def test_single_settings_of_a_topic_change_and_the_others_stay(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    admin.create_topics({topic: 1}, configs={"retention.ms": "3600000", "min.insync.replicas": 1}, wait=True)
    where = ("topic", topic)
    admin.alter_configs({where: {"retention.ms": 7_200_000, "cleanup.policy": Append("compact"), "preallocate": True}})
    changed = {"retention.ms": "7200000", "min.insync.replicas": "1", "cleanup.policy": "delete,compact", "preallocate": "true"}
    until(lambda: given(admin, *where) == changed, LONG_S, "the broker that is asked to know the change")
    admin.alter_configs({where: {"cleanup.policy": Subtract("delete"), "preallocate": None}})
    admin.alter_configs({where: {"retention.ms": 1}}, validate_only=True)
    left = {"retention.ms": "7200000", "min.insync.replicas": "1", "cleanup.policy": "compact"}
    until(lambda: given(admin, *where) == left, LONG_S, "the broker that is asked to know the change")
    seen = theirs(cluster, ResourceType.TOPIC, topic)
    assert {name: seen[name][0] for name in left} == left


def test_what_brokers_refuse_is_named_and_the_rest_is_done(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    admin.create_topics({topic: 1}, wait=True)
    with pytest.raises(BrokerError, match=rf"settings of topic {topic}: INVALID_CONFIG .*retention.millis"):
        admin.alter_configs({("topic", topic): {"retention.millis": 1}})
    with pytest.raises(PartialFailure, match=f"settings of topic {topic}-none: UNKNOWN_TOPIC_OR_PARTITION") as caught:
        admin.alter_configs({("topic", topic): {"retention.ms": 5000}, ("topic", f"{topic}-none"): {"retention.ms": 1}})
    assert set(caught.value.done) == {("topic", topic)}
    found = admin.describe_configs([("topic", topic), ("topic", f"{topic}-none"), ("broker", 99)])
    assert [isinstance(one, KafkaError) for one in found.values()] == [False, True, True]
    assert "has no broker 99" in str(found["broker", 99])


def test_settings_of_brokers_groups_and_client_metrics_change(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    changes: dict[tuple[str, str | int | None], dict[str, str | int | float | bool | Append | Subtract | None]] = {
        ("broker", 1): {"log.cleaner.backoff.ms": 14_001},
        ("broker", None): {"log.cleaner.io.buffer.load.factor": 0.8},
        ("broker-logger", 1): {"kafka.server.ReplicaManager": "DEBUG"},
        ("group", topic): {"consumer.session.timeout.ms": 46_000},
        ("client-metrics", topic): {"metrics": "org.apache.kafka.", "interval.ms": 60_000},
    }
    admin.alter_configs(changes)
    try:
        for (kind, name), settings in changes.items():
            wanted = {key: str(value) for key, value in settings.items()}

            def shows(kind: str = kind, name: str | int | None = name, wanted: dict[str, str] = wanted) -> bool:
                found = admin.describe_config(kind, name)
                return {key: found[key].value for key in wanted if key in found} == wanted

            until(shows, LONG_S, f"{kind} {name} to have {wanted}")
        assert given(admin, "broker", 1) == {"log.cleaner.backoff.ms": "14001"}
        assert admin.describe_config("broker", 2)["log.cleaner.io.buffer.load.factor"].source == "DYNAMIC_DEFAULT_BROKER_CONFIG"
        listed = admin.list_config_resources()
        assert {("broker", 1), ("broker-logger", 1), ("group", topic), ("client-metrics", topic)} <= set(listed)
        assert admin.list_config_resources(["client-metrics"]) == [("client-metrics", topic)]
        told = run_tool(METRICS, "--bootstrap-server", tools_bootstrap(cluster), "--describe", "--name", topic)
        rows = dict(line.strip().split("=", 1) for line in told.splitlines() if "=" in line)
        assert {key: rows[key] for key in ("metrics", "interval.ms")} == {"metrics": "org.apache.kafka.", "interval.ms": "60000"}
    finally:
        admin.alter_configs({resource: dict.fromkeys(settings) for resource, settings in changes.items()})
    until(lambda: ("client-metrics", topic) not in admin.list_config_resources(), LONG_S, "the subscription to be gone")
    until(lambda: given(admin, "broker", 1) == {}, LONG_S, "the broker to have its own setting no more")


def test_the_command_line_does_the_same(cluster: Cluster, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    def call(*line: str) -> list[dict[str, Any]]:
        assert run([*call_of(cluster, *line)[3:], "--json"]) == 0, capsys.readouterr().err
        return [json.loads(text) for text in capsys.readouterr().out.splitlines()]

    (created,) = call("topics", "create", topic, "--replicas", "2,1", "--setting", "retention.ms=5000")
    call("topics", "alter", topic, "--partitions", "3")
    (found,) = call("topics", "describe", created["topic_id"])
    assert (found["name"], [part["partition"] for part in found["partitions"]]) == (topic, [0, 1, 2])
    call("settings", "set", f"topic:{topic}", "cleanup.policy+=compact")
    call("settings", "unset", f"topic:{topic}", "retention.ms")

    def given() -> dict[str, str]:
        found = call("settings", "get", f"topic:{topic}", "broker:1", "broker", f"group:{topic}", "--all")
        assert {one["kind"] for one in found} == {"topic", "broker", "group"}
        return {one["setting"]: one["value"] for one in found if one["source"] == "DYNAMIC_TOPIC_CONFIG"}

    until(lambda: given() == {"cleanup.policy": "delete,compact"}, LONG_S, "the broker that is asked to know the change")
    assert {one["name"] for one in call("settings", "list", "--kind", "topic")} >= {topic}
    assert call("topics", "delete", topic)[0]["deleted"] is False
    assert call("topics", "delete", topic, "--execute")[0]["deleted"] is True
    assert topic not in {one["name"] for one in call("topics", "list")}
