"""`Client.fetch` on model brokers: records by offset, from any partitions, each with its own outcome."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4 import (
    EARLIEST,
    AuthorizationError,
    BrokerError,
    Client,
    ConfigError,
    CorruptRecord,
    KafkaTimeoutError,
    Producer,
    RecordTooLarge,
    TopicPartition,
)
from pykafka4.testing import ModelServer
from pykafka4.wire.records.batch import WireRecord
from tests.client.lowlevel import T0, T1, T2, code_of
from tests.consumer.consuming import LONG, damage, fill, numbers, topic

LATE_S = 0.3  # seconds, until a call ends that nobody answers


def test_records_of_several_partitions_come_from_their_leaders(server: ModelServer, client: Client) -> None:
    topic(server, 3, 2, 0)
    found = client.fetch({T0: 1, ("t", 1): (0, 10_000), T2: 0})
    assert list(found) == [T0, T1, T2]
    assert [[(record.topic, record.partition, record.offset) for record in one.records] for one in found.values()] == [
        [("t", 0, 1), ("t", 0, 2)],
        [("t", 1, 0), ("t", 1, 1)],
        [],
    ]
    assert [(one.next_offset, one.high_watermark, one.last_stable_offset, one.log_start_offset) for one in found.values()] == [
        (3, 3, 3, 0),
        (2, 2, 2, 0),
        (0, 0, 0, 0),
    ]
    assert not any(one.error for one in found.values())


def test_a_bad_partition_does_not_hide_the_others(server: ModelServer, client: Client) -> None:
    topic(server, 3, 3)
    server.create_topic("secret", 1)
    server.do(lambda cluster: cluster.deny("topic", "secret", "READ"))
    found = client.fetch({T0: 0, T1: 7, ("secret", 0): 0, ("t", 9): 0, ("none", 0): 0})
    errors = list(found.values())
    assert (len(errors[0].records), errors[0].error) == (3, None)
    assert code_of(errors[1].error) == "OFFSET_OUT_OF_RANGE"
    assert "t-1" in str(errors[1].error)
    assert "offset 7 is not in the log; list_offsets returns its ends" in str(errors[1].error)
    assert isinstance(errors[2].error, AuthorizationError)
    assert errors[2].error.resource_name == "secret"
    assert [code_of(one.error) for one in errors[3:]] == ["UNKNOWN_TOPIC_OR_PARTITION"] * 2
    assert [one.next_offset for one in errors] == [3, 7, 0, 0, 0]


def test_a_new_leader_is_followed(server: ModelServer, client: Client) -> None:
    topic(server, 3)
    assert len(client.fetch({T0: 0})[T0].records) == 3
    server.do(lambda cluster: cluster.move_leader("t", 0))
    assert len(client.fetch({T0: 0})[T0].records) == 3


def test_a_partition_for_which_a_response_had_no_room_is_asked_for_again(server: ModelServer, client: Client) -> None:
    """The first partition of a response has a whole batch in any case, the others have to fit."""
    server.create_topic("t", 2)
    server.do(lambda cluster: [cluster.move_leader("t", number, 1) for number in range(2)])
    for number in range(2):
        fill(server, "t", number, [b"x" * 5_000, b"y" * 5_000])
    found = client.fetch({T0: (0, 100), T1: (0, 100)})
    assert [(len(one.records), one.next_offset, one.error) for one in found.values()] == [(2, 2, None)] * 2


def test_records_of_aborted_transactions_are_passed_over(server: ModelServer, client: Client) -> None:
    server.create_topic("t", 1)
    with Producer(client, transactional_id="tx") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("t", b"good")
        producer.begin_transaction()
        producer.send("t", b"bad").result(10)
        producer.abort_transaction()
    committed = client.fetch({T0: 0}, isolation_level="read_committed")[T0]
    assert [record.value for record in committed.records] == [b"good"]
    assert committed.next_offset == committed.last_stable_offset == 4
    assert [record.value for record in client.fetch({T0: 0})[T0].records] == [b"good", b"bad"]


def test_records_before_a_corrupt_batch_come_without_its_error(server: ModelServer, client: Client) -> None:
    topic(server, 2)
    fill(server, "t", 0, numbers(2, 4))
    damage(server, 1)
    found = client.fetch({T0: 0})[T0]
    assert (len(found.records), found.next_offset, found.error) == (2, 2, None)
    found = client.fetch({T0: 2})[T0]
    assert isinstance(found.error, CorruptRecord)
    assert (found.records, found.next_offset, found.error.next_offset) == ((), 2, 4)


def test_a_fetch_waits_for_records_only_if_it_may(server: ModelServer, client: Client) -> None:
    topic(server, 1)
    assert client.fetch({T0: 1})[T0].records == ()
    waiting = client.futures.fetch({T0: 1}, max_wait_ms=30_000, timeout=60)
    assert client.list_offsets({T0: 0})[T0].offset == 0  # meanwhile
    fill(server, "t", 0, [b"new"])
    assert [record.value for record in waiting.result(10)[T0].records] == [b"new"]


def test_a_fetch_may_wait_for_longer_than_request_timeout_ms(server: ModelServer) -> None:
    topic(server, 1)
    with Client(bootstrap_servers=server.bootstrap_servers, request_timeout_ms=100) as client:
        found = client.fetch({T0: 1}, 5, max_wait_ms=300)[T0]
    assert (found.records, found.error) == ((), None)


def test_each_partition_that_is_late_has_a_time_out(server: ModelServer, client: Client) -> None:
    topic(server, 1, 1)
    client.fetch({T0: 0, T1: 0})
    leader = server.do(lambda cluster: cluster.topics["t"].partitions[0].leader)
    server.do(lambda cluster: cluster.freeze(leader, 5.0))
    found = client.fetch({T0: 0, T1: 0}, LATE_S)
    assert isinstance(found[T0].error, KafkaTimeoutError)
    assert "t-0: Fetch: no answer within 0.3 s" in str(found[T0].error)


@pytest.mark.parametrize(
    ("wrong", "options", "message"),
    [
        ([("t", 0)], {}, r"fetch takes a mapping of partitions to offsets, or to \(offset, max_bytes\), not \["),
        ({"t": 0}, {}, r"expected a TopicPartition or a \(topic, partition\) pair, not 't'"),
        ({T0: -1}, {}, r"the offset of t-0 must be from 0 to"),
        ({T0: "0"}, {}, r"the offset of t-0 must be an int, not '0'"),
        ({T0: EARLIEST}, {}, r"fetch takes the offset of t-0 as a number, which list_offsets returns for EARLIEST"),
        ({T0: (0, 0)}, {}, r"max_bytes of t-0 must be at least 1"),
        ({T0: 0}, {"isolation_level": "committed"}, r"isolation_level='committed': must be read_uncommitted or read_committed"),
        ({T0: 0}, {"max_wait_ms": 5_000, "timeout": 5}, r"max_wait_ms=5000 must be less than timeout=5, which is in seconds"),
        ({T0: 0}, {"min_bytes": -1}, r"min_bytes must be from 0"),
        ({T0: 0}, {"timeout": -1}, r"timeout=-1: must be"),
    ],
)
def test_a_wrong_argument_is_named(client: Client, wrong: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, TypeError), match=message):
        client.fetch(wrong, **options)


def test_nothing_is_asked_for_no_partitions(client: Client) -> None:
    assert client.fetch({}) == {}


@pytest.mark.model(release="0.11")
def test_an_old_broker_is_read_from(server: ModelServer, client: Client) -> None:
    topic(server, 3)
    found = client.fetch({T0: 1}, isolation_level="read_committed")[T0]
    assert [record.offset for record in found.records] == [1, 2]
    assert isinstance(client.fetch({T0: 9})[T0].error, BrokerError)
    assert TopicPartition(*T0) in client.fetch({T0: 0})


def test_a_batch_that_exceeds_the_limit_of_responses_does_not_hide_the_others(server: ModelServer) -> None:
    """Brokers return a first batch whole, whatever the limit."""
    server.do(lambda cluster: cluster.create_topic("t", 5, leaders=[1] * 5))
    for partition in range(5):
        value = b"x" * (200_000 if partition in {1, 4} else 5)
        server.do(lambda cluster, p=partition, v=value: cluster.append("t", p, [WireRecord(timestamp_ms=1, value=v)]))
    with Client(bootstrap_servers=server.bootstrap_servers, receive_message_max_bytes=100_000) as client:
        futures = [client.futures.fetch({("t", partition): 0 for partition in range(first, 5)}, LONG) for first in (0, 2)]
        for found in (outcome for future in futures for outcome in future.result(LONG).values()):
            if found.partition.partition in {1, 4}:
                assert isinstance(found.error, RecordTooLarge)
                assert "receive_message_max_bytes=100000" in str(found.error)
            else:
                assert [record.value for record in found.records] == [b"xxxxx"]
