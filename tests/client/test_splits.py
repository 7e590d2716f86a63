"""`Client.splits` on model brokers: ranges that are fixed by the call, and their sizes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pykafka4 import AuthorizationError, BrokerError, Client, ConfigError, PartialFailure, Producer, Span
from pykafka4.testing import ModelServer
from tests.client.lowlevel import T0, T1, T2
from tests.consumer.consuming import fill, topic


def ranges(splits: Any) -> dict[Any, list[tuple[int, int]]]:
    found: dict[Any, list[tuple[int, int]]] = {}
    for split in splits:
        for tp, span in split.ranges.items():
            found.setdefault(tp, []).append((span.start, span.until))
    return found


def test_a_topic_is_divided_by_size(server: ModelServer, client: Client) -> None:
    server.create_topic("t", 2)
    fill(server, "t", 0, [b""] * 100)
    fill(server, "t", 1, [b"x" * 10_000] * 10)
    splits = client.splits("t", 4)
    assert len(splits) == 4
    assert splits[0].ranges[T0] == Span(0, 100, 0), "the small partition goes with a part of the large one"
    assert max(split.bytes for split in splits) < 2 * min(split.bytes for split in splits)
    assert ranges(splits)[T1][-1][1] == 10


def test_the_size_of_a_split_is_its_part_of_the_log(server: ModelServer, client: Client) -> None:
    topic(server, 100)
    (whole,), (part,) = client.splits("t", 1), client.splits("t", 1, start={0: 90})
    assert part.bytes == pytest.approx(whole.bytes / 10, abs=1)


def test_sizes_are_those_of_all_topics_also_of_one_that_is_counted_late(server: ModelServer, client: Client) -> None:
    topic(server, 10)
    server.create_topic("u", 1)
    fill(server, "u", 0, [b"x" * 1_000] * 10)
    client.splits("t", 1)
    server.fail("Metadata", "LEADER_NOT_AVAILABLE", topic="u")
    (split,) = client.splits(["t", "u"], 1)
    assert split.bytes > 10_000


def test_offsets_are_divided_if_sizes_are_denied(server: ModelServer, client: Client) -> None:
    topic(server, 30, 30)
    server.fail("DescribeLogDirs", "CLUSTER_AUTHORIZATION_FAILED", times=3)
    splits = client.splits(["t"], 3)
    assert [(len(split), split.bytes) for split in splits] == [(20, 0)] * 3
    assert ranges(splits) == {T0: [(0, 20), (20, 30)], T1: [(0, 10), (10, 30)]}


@pytest.mark.model(release="2.8")
def test_offsets_are_divided_if_brokers_are_too_old_for_sizes(server: ModelServer, client: Client) -> None:
    topic(server, 4, 4)
    assert [len(split) for split in client.splits("t", 2)] == [4, 4]


def test_a_silent_broker_delays_sizes_for_a_while_only(server: ModelServer, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykafka4.core.admin.locating.SIZES_S", 0.1)
    topic(server, 4)
    server.delay("DescribeLogDirs", 30.0, times=3)
    assert [(len(split), split.bytes) for split in client.splits("t", 2)] == [(2, 0), (2, 0)]


def test_bounds(server: ModelServer, client: Client) -> None:
    topic(server, 10, 10, 10)
    server.do(lambda cluster: cluster.delete_records("t", 0, 3))
    assert ranges(client.splits("t", 1)) == {T0: [(3, 10)], T1: [(0, 10)], T2: [(0, 10)]}
    assert ranges(client.splits("t", 1, start={0: 5, 1: 6}, until={0: 7, 1: 8}, partitions=[0, 1])) == {T0: [(5, 7)], T1: [(6, 8)]}
    assert ranges(client.splits("t", 1, "latest", "now")) == {}
    late = client.splits("t", 1, until={T1: 4}, partitions=[T1])
    assert ranges(late) == {T1: [(0, 4)]}
    assert ranges(client.splits("t", 1, start=datetime.fromtimestamp(20_000_000_000, UTC), partitions=[1])) == {}


def test_read_committed_ends_at_an_open_transaction(server: ModelServer, client: Client) -> None:
    topic(server, 2)
    with Producer(client, transactional_id="tx") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"open", partition=0).result(10)
        assert ranges(client.splits("t", 1)) == {T0: [(0, 2)]}
        assert ranges(client.splits("t", 1, isolation_level="read_uncommitted")) == {T0: [(0, 3)]}
        producer.abort_transaction()


def test_errors_are_raised(server: ModelServer, client: Client) -> None:
    topic(server, 2)
    server.create_topic("secret", 1)
    server.do(lambda cluster: cluster.deny("topic", "secret", "DESCRIBE"))
    with pytest.raises(AuthorizationError, match="secret"):
        client.splits(["t", "secret"], 2)
    with pytest.raises(BrokerError, match="none"):
        client.splits("none", 2)
    with pytest.raises(BrokerError, match="t-9: UNKNOWN_TOPIC_OR_PARTITION"):
        client.splits("t", 2, partitions=[9])
    with pytest.raises(PartialFailure, match="offsets of 2 partitions or topics cannot be looked up"):
        client.splits(["none", "secret"], 2)
    with pytest.raises(ConfigError, match="beyond the end of the log"):
        client.splits("t", 2, until={0: 99})


@pytest.mark.parametrize(
    ("n", "options", "message"),
    [
        (0, {}, r"n, the number of splits, must be at least 1"),
        ("4", {}, r"n, the number of splits, must be an int, not '4'"),
        (1, {"start": "yesterday"}, r"start='yesterday': takes"),
        (1, {"partitions": "t"}, r"partitions='t': takes a list"),
    ],
)
def test_a_wrong_argument_is_named(client: Client, n: Any, options: Any, message: str) -> None:
    with pytest.raises((ConfigError, TypeError), match=message):
        client.splits("t", n, **options)
