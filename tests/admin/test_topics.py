"""Topics, settings and records of a model cluster: outcomes, refused arguments, brokers that are too old."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest

from pykafka4 import (
    LATEST,
    MAX_TIMESTAMP,
    AdminClient,
    Append,
    BrokerError,
    ClosedError,
    ConfigError,
    KafkaTimeoutError,
    NewPartitions,
    NewTopic,
    PartialFailure,
    TopicDescription,
    TopicPartition,
    UnsupportedVersion,
)
from pykafka4.client.answers import Deadline
from pykafka4.core.admin.question_run import DOUBT
from pykafka4.testing import ModelServer
from tests.consumer.consuming import LONG


def code(error: BaseException) -> str:
    assert isinstance(error, BrokerError), error
    return error.code.name


def test_topics_are_created_described_extended_and_deleted(admin: AdminClient) -> None:
    created = admin.create_topics({"orders": 2, "placed": NewTopic(assignments={0: [1]})}, configs={"max.message.bytes": 5000}, wait=True)
    assert created["orders"].partitions == 2
    found = admin.describe_topic("orders")
    assert (found.topic_id, found.is_internal) == (created["orders"].topic_id, False)
    assert [part.partition for part in found.partitions] == [0, 1]
    assert admin.describe_config("topic", "orders")["max.message.bytes"].value == "5000"
    admin.create_partitions({"orders": NewPartitions(5)}, wait=True)
    assert admin.list_topics()["orders"].partitions == 5
    admin.delete_topics(["orders", "placed"], wait=True)
    assert admin.list_topics() == {}


def test_an_unknown_topic_is_the_outcome_of_its_own(admin: AdminClient) -> None:
    admin.create_topics(["known"])
    found = admin.describe_topics(["known", "none"])
    assert isinstance(found["known"], TopicDescription)
    assert code(found["none"]) == "UNKNOWN_TOPIC_OR_PARTITION"  # type: ignore[arg-type]


def test_a_change_that_fails_in_part_says_which_part_is_done(admin: AdminClient) -> None:
    admin.create_topics(["a"])
    with pytest.raises(PartialFailure) as caught:
        admin.create_topics(["a", "b"])
    assert set(caught.value.done) == {"b"}
    assert code(caught.value.errors["a"]) == "TOPIC_ALREADY_EXISTS"
    with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topics(["a"])


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [("retention.ms", 1e6, "1000000"), ("min.cleanable.dirty.ratio", 0.5, "0.5"), ("preallocate", False, "false")],
)
def test_a_setting_is_written_as_kafka_reads_it(admin: AdminClient, name: str, value: object, text: str) -> None:
    admin.create_topics(["t"], configs={name: value})
    admin.create_topics({"u": 1})
    admin.alter_configs({("topic", "u"): {name: value}})
    assert [admin.describe_config("topic", topic)[name].value for topic in ("t", "u")] == [text, text]


def test_records_are_deleted_and_the_first_offset_is_returned(admin: AdminClient) -> None:
    admin.create_topics({"t": 2})
    assert admin.delete_records({("t", 0): LATEST, ("t", 1): 0}) == {TopicPartition("t", 0): 0, TopicPartition("t", 1): 0}
    assert admin.list_offsets({("t", 0): LATEST})[TopicPartition("t", 0)].offset == 0


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda admin: admin.create_topics("orders"), "mapping of topic names"),
        (
            lambda admin: admin.create_topics({"t": 0}),
            "the number of partitions of topic 't' must be from 1 to .*, or -1 for .* default, not 0",
        ),
        (
            lambda admin: admin.create_topics({"t": -5}),
            "the number of partitions of topic 't' must be from 1 to .*, or -1 for .* default, not -5",
        ),
        (lambda admin: admin.create_topics(["t"], replication_factor=40_000), "replication_factor must be from 1 to 32,767, or -1"),
        (lambda admin: admin.create_topics({"t": NewTopic(3, assignments={0: [1]})}), "at -1"),
        (lambda admin: admin.create_topics({"t": NewTopic(assignments=[[1], [2]])}), "a mapping of partitions to brokers"),
        (lambda admin: admin.create_partitions({"t": NewPartitions(3, 5)}), "the brokers of each new partition"),
        (lambda admin: admin.create_partitions({"t": NewPartitions(3, {0: [1]})}), "the brokers of each new partition"),
        (lambda admin: admin.describe_topics("orders"), "list of topic names or ids"),
        (lambda admin: admin.delete_share_group_offsets("g", "orders"), "list of topic names$"),
        (lambda admin: admin.create_partitions(["orders"]), "new number of partitions"),
        (lambda admin: admin.describe_configs(("topic", "orders")), "list of pairs"),
        (lambda admin: admin.describe_configs([("topics", "orders")]), "pair of a kind"),
        (lambda admin: admin.describe_configs([([], 1)]), "pair of a kind"),
        (lambda admin: admin.list_config_resources([[]]), r"kinds: \[\] is none of topic"),
        (lambda admin: admin.update_features({"a": 1}, downgrade=[]), r"downgrade=\[\]: must be one of no, safe, unsafe"),
        (lambda admin: admin.alter_configs({("topic", "orders"): {}}), "mapping of at least one setting to its value"),
        (lambda admin: admin.alter_configs({("topic", "orders"): {"a": ["b"]}}), "neither text nor a number"),
        (lambda admin: admin.delete_records({("orders", 0): MAX_TIMESTAMP}), "no record can be deleted before MAX_TIMESTAMP"),
    ],
)
def test_a_wrong_argument_is_named(admin: AdminClient, call: Callable[[Any], object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        call(admin)


def test_a_list_as_the_name_of_a_topic_is_named(admin: AdminClient) -> None:
    with pytest.raises(TypeError, match="topic must be a str, not list"):
        admin.create_topics([["orders"]])  # type: ignore[list-item]


@pytest.mark.model(release="2.1")
def test_old_brokers_are_asked_in_their_way(admin: AdminClient, server: ModelServer) -> None:
    admin.create_topics({"orders": 1}, replication_factor=1)
    found = admin.describe_topic("orders")  # by Metadata, as it has no DescribeTopicPartitions
    assert (found.topic_id, len(found.partitions)) == (None, 1)
    with pytest.raises(UnsupportedVersion, match=r"Kafka 2\.3 or newer"):
        admin.alter_configs({("topic", "orders"): {"cleanup.policy": Append("compact")}})
    with pytest.raises(PartialFailure) as caught:  # the name is deleted, whatever the broker says of the id
        admin.delete_topics(["orders", UUID(int=1)])
    assert set(caught.value.done) == {"orders"}


def test_a_change_whose_response_is_lost_is_done_once(admin: AdminClient, server: ModelServer) -> None:
    server.disconnect("CreateTopics", after=True)
    created = admin.create_topics({"t": 2})["t"]
    assert created.topic_id == admin.describe_topic("t").topic_id
    server.disconnect("CreatePartitions", after=True)
    admin.create_partitions({"t": 4})
    assert admin.list_topics()["t"].partitions == 4
    server.disconnect("DeleteTopics", after=True)
    admin.delete_topics(["t"])
    assert admin.list_topics() == {}


@pytest.mark.model(brokers=1, topics={"t": 1})
@pytest.mark.parametrize(
    ("api", "change"),
    [
        ("CreateTopics", lambda admin: admin.create_topics({"u": 1})),
        ("CreatePartitions", lambda admin: admin.create_partitions({"t": 2})),
        ("IncrementalAlterConfigs", lambda admin: admin.alter_configs({("topic", "t"): {"retention.ms": 5000}})),
    ],
)
def test_looks_are_answered_while_a_change_waits_for_the_controller(
    admin: AdminClient, server: ModelServer, api: Any, change: Callable[[AdminClient], object]
) -> None:
    admin.list_topics()  # the controller is known
    server.delay(api, LONG)
    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(change, admin)
        server.wait_for(lambda cluster: cluster.requests[api])
        assert list(admin.list_topics(timeout=2.0)) == ["t"]
        assert admin.describe_cluster(timeout=2.0).brokers
        admin.close()
        assert isinstance(changing.exception(LONG), ClosedError)


def test_a_topic_of_somebody_else_is_not_taken_for_the_one_that_was_to_be_created(admin: AdminClient, server: ModelServer) -> None:
    server.create_topic("t", 3)
    server.disconnect("CreateTopics")
    with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS") as caught:
        admin.create_topics({"t": 2})
    assert caught.value.__notes__ == [DOUBT]


def test_a_broker_that_does_not_know_of_a_change_is_waited_for(admin: AdminClient, server: ModelServer) -> None:
    server.fail("Metadata", "LEADER_NOT_AVAILABLE", topic="t", times=1000)
    with pytest.raises(KafkaTimeoutError, match=r"t: created, but not known to every broker .*broker 1 does not know of the change yet"):
        admin.create_topics({"t": 1}, wait=True, timeout=1.0)
    server.do(lambda cluster: cluster.heal())
    admin.create_partitions({"t": 2}, wait=True)
    assert admin.list_topics()["t"].partitions == 2


def test_a_change_that_takes_all_the_time_names_what_was_waited_for(
    admin: AdminClient, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = vars(Deadline)["left"].fget
    is_created = lambda: server.do(lambda cluster: "t" in cluster.topics)  # noqa: E731
    monkeypatch.setattr(Deadline, "left", property(lambda deadline: 0.0 if is_created() else left(deadline)))
    with pytest.raises(KafkaTimeoutError, match=r"t: created, but not known to every broker.*: \S"):
        admin.create_topics({"t": 1}, wait=True)


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        (lambda admin: admin.create_topics({"old": 1, "t": 1}, wait=True, timeout=1.0), "TOPIC_ALREADY_EXISTS"),
        (lambda admin: admin.create_partitions({"old": 1, "new": 2}, wait=True, timeout=1.0), "INVALID_PARTITIONS"),
        (lambda admin: admin.delete_topics(["none", "new"], wait=True, timeout=1.0), "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_a_wait_that_fails_does_not_hide_the_errors_of_other_topics(
    admin: AdminClient, server: ModelServer, change: Callable[[AdminClient], object], failed: str
) -> None:
    admin.create_topics({"old": 1, "new": 1})
    server.delay("Metadata", LONG, times=1000)
    with pytest.raises(PartialFailure) as caught:
        change(admin)
    one, late = caught.value.errors.values()
    assert code(one) == failed
    assert isinstance(late, KafkaTimeoutError)
    assert "but not known to every broker" in str(late)
