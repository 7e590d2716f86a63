"""Settings of topics of a model cluster: what clients give and change is described, and counts for records."""

from __future__ import annotations

import pytest

from pykafka4 import AdminClient, Append, AuthorizationError, BrokerError, ConfigEntry, DeliveryFailed, Producer, Subtract
from pykafka4.testing import ModelServer

T = ("topic", "t")


def given(admin: AdminClient) -> dict[str, str | None]:
    return {name: one.value for name, one in admin.describe_config(*T).items() if one.source == "DYNAMIC_TOPIC_CONFIG"}


def test_settings_are_set_extended_and_taken_back(server: ModelServer) -> None:
    with AdminClient(bootstrap_servers=server.bootstrap_servers) as admin:
        admin.create_topics({"t": 1}, configs={"retention.ms": 1000})
        admin.alter_configs({T: {"min.insync.replicas": 2, "cleanup.policy": Append("compact", "delete")}})
        assert given(admin) == {"retention.ms": "1000", "min.insync.replicas": "2", "cleanup.policy": "delete,compact"}
        admin.alter_configs({T: {"min.insync.replicas": None, "cleanup.policy": Subtract("delete")}})
        assert given(admin) == {"retention.ms": "1000", "cleanup.policy": "compact"}
        assert admin.describe_config(*T)["min.insync.replicas"] == ConfigEntry("min.insync.replicas", "1", "DEFAULT_CONFIG", False, False)


def test_a_changed_limit_counts_for_the_next_record_and_a_refused_one_does_not(server: ModelServer) -> None:
    where = {"bootstrap_servers": server.bootstrap_servers}
    with AdminClient(**where) as admin, Producer(**where) as producer:
        admin.create_topics({"t": 1})
        producer.send("t", b"x" * 1000).result(10)
        admin.alter_configs({T: {"max.message.bytes": 500}}, validate_only=True)
        with pytest.raises(BrokerError, match="INVALID_CONFIG"):
            admin.alter_configs({T: {"max.message.bytes": "many"}})
        producer.send("t", b"x" * 1000).result(10)
        admin.alter_configs({T: {"max.message.bytes": 500}})
        with pytest.raises(DeliveryFailed, match="TOO_LARGE"):
            producer.send("t", b"x" * 1000).result(10)


def test_a_limit_of_both_directions_is_taken_back(server: ModelServer) -> None:
    """`message.timestamp.difference.max.ms` of old releases; the limit of one direction has precedence."""
    both, before = "message.timestamp.difference.max.ms", "message.timestamp.before.max.ms"
    where = {"bootstrap_servers": server.bootstrap_servers}

    def take_old_record() -> None:
        producer.send("t", b"v", timestamp_ms=1000).result(10)

    with AdminClient(**where) as admin, Producer(**where) as producer:
        admin.create_topics({"t": 1})
        admin.alter_configs({T: {both: 1000}})
        with pytest.raises(DeliveryFailed, match="INVALID_TIMESTAMP"):
            take_old_record()
        admin.alter_configs({T: {before: 2**62}})
        take_old_record()
        admin.alter_configs({T: {before: None}})
        with pytest.raises(DeliveryFailed, match="INVALID_TIMESTAMP"):
            take_old_record()
        admin.alter_configs({T: {both: None}})
        take_old_record()


def test_a_right_that_is_missing_changes_nothing(server: ModelServer) -> None:
    with AdminClient(bootstrap_servers=server.bootstrap_servers) as admin:
        admin.create_topics({"t": 1})
        server.do(lambda cluster: cluster.controls.deny("topic", "t", ["ALTER_CONFIGS"]))
        with pytest.raises(AuthorizationError, match="topic t"):
            admin.alter_configs({T: {"retention.ms": 1}})
        assert given(admin) == {}
