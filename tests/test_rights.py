"""Rights: an error names what is missing, and the command that grants it."""

from __future__ import annotations

import pickle

import pytest

from pykafka4.errors import AuthorizationError, BrokerError, broker_error
from pykafka4.errors.codes import BY_NAME, CODES
from pykafka4.errors.rights import Right, needed

TOPIC, GROUP, CLUSTER = (f"{resource}_AUTHORIZATION_FAILED" for resource in ("TOPIC", "GROUP", "CLUSTER"))


# From KafkaApis: what each request needs.
@pytest.mark.parametrize(
    ("request_", "error", "right"),
    [
        ("Metadata", TOPIC, ("DESCRIBE", "topic", "t")),
        ("Produce", TOPIC, ("WRITE", "topic", "t")),
        ("Produce", CLUSTER, ("IDEMPOTENT_WRITE", "cluster", "kafka-cluster")),
        ("Fetch", TOPIC, ("READ", "topic", "t")),
        ("ListOffsets", TOPIC, ("DESCRIBE", "topic", "t")),
        ("FindCoordinator", GROUP, ("DESCRIBE", "group", "g")),
        ("JoinGroup", GROUP, ("READ", "group", "g")),
        ("SyncGroup", GROUP, ("READ", "group", "g")),
        ("Heartbeat", GROUP, ("READ", "group", "g")),
        ("ConsumerGroupHeartbeat", GROUP, ("READ", "group", "g")),
        ("ConsumerGroupHeartbeat", TOPIC, ("DESCRIBE", "topic", "t")),
        ("OffsetCommit", GROUP, ("READ", "group", "g")),
        ("OffsetCommit", TOPIC, ("READ", "topic", "t")),
        ("OffsetFetch", GROUP, ("DESCRIBE", "group", "g")),
        ("OffsetFetch", TOPIC, ("DESCRIBE", "topic", "t")),
        ("DescribeAcls", CLUSTER, ("DESCRIBE", "cluster", "kafka-cluster")),
        ("DeleteAcls", CLUSTER, ("ALTER", "cluster", "kafka-cluster")),
        ("AlterUserScramCredentials", CLUSTER, ("ALTER", "cluster", "kafka-cluster")),
        ("DescribeClientQuotas", CLUSTER, ("DESCRIBE_CONFIGS", "cluster", "kafka-cluster")),
        ("AlterClientQuotas", CLUSTER, ("ALTER_CONFIGS", "cluster", "kafka-cluster")),
        ("InitProducerId", CLUSTER, ("WRITE", "topic", "t")),
    ],
)
def test_a_denied_request_says_which_right_it_needs(request_: str, error: str, right: tuple[str, str, str]) -> None:
    found = broker_error(BY_NAME[error].code, "what was done", None, request_, topic="t", group="g")
    assert isinstance(found, AuthorizationError)
    assert (found.operation, found.resource, found.resource_name) == right
    where = "the cluster" if right[1] == "cluster" else f"{right[1]} {right[2]!r}"
    assert str(found).startswith(f"what was done: {error} (needs {right[0]} on {where}")
    assert str(found).endswith(", or ask an administrator)")


def test_a_dump_of_the_request_is_not_shown() -> None:
    error = broker_error(BY_NAME[CLUSTER].code, "ACLs", "Request Request(processor=0, …) is not authorized.", "CreateAcls")
    assert str(error).startswith("ACLs: CLUSTER_AUTHORIZATION_FAILED (needs ALTER on the cluster; grant it")


@pytest.mark.parametrize(
    ("right", "command"),
    [
        (Right("WRITE", "topic", "t"), "--operation Write --topic t`"),
        (Right("READ", "group", "g"), "--operation Read --group g`"),
        (Right("IDEMPOTENT_WRITE", "cluster", "kafka-cluster"), "--operation IdempotentWrite --cluster`"),
        (Right("CREATE_TOKENS", "user", "User:bob"), "--operation CreateTokens --user-principal User:bob`"),
        (Right("WRITE", "transactional id", "x"), "--operation Write --transactional-id x`"),
        (Right("DESCRIBE or CREATE", "topic", "t"), "--operation Describe --topic t`"),
    ],
)
def test_the_way_out_is_a_command(right: Right, command: str) -> None:
    assert f"grant it with `kafka-acls --add --allow-principal User:<name> {command}" in right.way_out


def test_a_topic_that_would_have_been_created_may_lack_either_right() -> None:
    right = needed(TOPIC, "Metadata", topic="t", creating=True)
    assert str(right) == "DESCRIBE or CREATE on topic 't' (CREATE, also on the cluster, if it does not exist)"


def test_a_producer_id_without_a_topic_names_the_right_of_old_brokers() -> None:
    assert needed(CLUSTER, "InitProducerId") == Right("IDEMPOTENT_WRITE", "cluster", "kafka-cluster")


def test_what_the_broker_said_stays_in_the_message() -> None:
    error = broker_error(BY_NAME[GROUP].code, "joining group g", "not you", "JoinGroup", group="g")
    assert "(not you; needs READ on group 'g'" in str(error)


def test_an_unexpected_denial_says_what_is_known() -> None:
    error = broker_error(BY_NAME[CLUSTER].code, "Metadata", "why", "Metadata")
    assert isinstance(error, AuthorizationError)
    assert str(error) == f"Metadata: {CLUSTER} (why)"
    assert (error.operation, error.resource, error.resource_name) == (None, None, None)


def test_every_denial_has_its_class_and_no_other_code_has() -> None:
    for row in CODES.values():
        error = broker_error(row.code, "x", None, "Produce", topic="t")
        assert isinstance(error, AuthorizationError) == row.denied == ("AUTHORIZATION" in row.name)


def test_all_partitions_of_a_topic_lack_the_same() -> None:
    def fetching(topic: str, partition: int) -> BrokerError:
        return broker_error(BY_NAME[TOPIC].code, f"fetching {topic}-{partition}", None, "Fetch", topic=topic)

    def subject(error: BrokerError) -> tuple[str, ...]:
        assert isinstance(error, AuthorizationError)
        return error.subject

    assert subject(fetching("t", 0)) == subject(fetching("t", 1)) != subject(fetching("u", 1))
    assert subject(broker_error(BY_NAME[TOPIC].code, "a")) != subject(broker_error(BY_NAME[TOPIC].code, "b"))


def test_the_right_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(broker_error(BY_NAME[TOPIC].code, "x", None, "Fetch", topic="t")))
    assert (error.operation, error.resource, error.resource_name) == ("READ", "topic", "t")
