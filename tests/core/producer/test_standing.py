"""Standing: for each partition whether its records can be sent now, since when not, and why."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from sender_harness import LOST, SenderHarness

from pykafka4.core import INFINITY
from pykafka4.core.producer.identity import Identity
from pykafka4.core.producer.standing import show
from pykafka4.records import TopicPartition

TP = TopicPartition("t", 0)


def rows(harness: SenderHarness) -> dict[str, dict[str, Any]]:
    standings = [harness.sender.standings.of(queue, harness.now) for queue in harness.sender.queues.values()]
    return show(harness.now, standings, harness.acc.census())


def stuck(harness: SenderHarness) -> dict[str, Any]:
    """The row of partition 0, with one record in it that was sent 3 s ago."""
    harness.acc.send("t", b"v", partition=0)
    harness.poll()
    harness.poll(3.0)
    return rows(harness)["t-0"]


def test_a_partition_without_trouble_is_online() -> None:
    harness = SenderHarness().proven()
    assert rows(harness)["t-0"] == {
        "state": "online",
        "since": None,
        "reason": None,
        "queued": 0,
        "queued_bytes": 0,
        "oldest_age": None,
        "in_flight": 0,
        "last_error": None,
    }


def test_records_in_flight_and_queued_are_counted_with_the_age_of_the_oldest() -> None:
    harness = SenderHarness().proven()
    for _ in range(3):
        harness.acc.send("t", b"v", partition=0)
    harness.settle()
    harness.poll(2.0)
    harness.acc.send("t", b"v" * 100, partition=0)
    row = rows(harness)["t-0"]
    assert (row["state"], row["in_flight"], row["queued"]) == ("online", 3, 1)
    assert row["queued_bytes"] > 100
    assert row["oldest_age"] >= 2.0


def test_a_partition_that_the_loop_has_not_seen_yet_is_there() -> None:
    harness = SenderHarness()
    harness.acc.set_partitions("t", 2, [0, 1])
    harness.acc.send("t", b"v", partition=1)
    assert (rows(harness)["t-1"]["state"], rows(harness)["t-1"]["queued"]) == ("online", 1)


def test_offline_because_requests_fail() -> None:
    harness = SenderHarness().proven()
    harness.recovery.offline[TP] = SimpleNamespace(since=harness.now - 7.0, reason=LOST)
    row = rows(harness)["t-0"]
    assert (row["state"], row["since"], row["reason"]) == ("offline", pytest.approx(7.0), str(LOST))


def test_offline_because_there_is_no_leader() -> None:
    harness = SenderHarness().proven()
    harness.recovery.leaders.pop(TP)
    harness.cluster.leaderless.add(TP)
    harness.cluster.change()
    harness.poll()
    harness.poll(4.0)
    row = rows(harness)["t-0"]
    assert (row["state"], row["since"], row["reason"]) == ("offline", pytest.approx(4.0), "no leader")
    harness.cluster.leaderless.clear()
    harness.recovery.leaders[TP] = 1
    harness.cluster.change()
    harness.poll()
    assert rows(harness)["t-0"]["state"] == "online"
    assert harness.sender.queues[TP].leaderless_since is None


def test_offline_because_the_broker_cannot_be_reached() -> None:
    harness = SenderHarness().proven()
    harness.network.up.discard(1)
    row = stuck(harness)
    assert (row["state"], row["reason"], row["since"]) == ("offline", "h1:9092 connection refused", pytest.approx(harness.now - 990.0))


def test_offline_because_the_broker_throttles_the_client() -> None:
    harness = SenderHarness().proven()
    harness.network.throttled[1] = harness.now + 5.0
    row = stuck(harness)
    assert row["reason"] == "broker 1 throttles this client for 2 s"
    assert row["since"] == pytest.approx(3.0)


def test_offline_because_there_is_no_producer_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Identity, "poll", lambda self, now, send: INFINITY)  # no answer arrives
    harness = SenderHarness()
    harness.acc.set_partitions("t", 2, [0, 1])
    harness.acc.send("t", b"v", partition=0)
    harness.settle()
    assert rows(harness)["t-0"]["reason"] == "waits for a producer id"


def test_the_last_error_is_that_of_the_oldest_batch() -> None:
    harness = SenderHarness().proven()
    harness.batch()
    harness.answer(harness.requests[-1], "NOT_ENOUGH_REPLICAS")
    row = rows(harness)["t-0"]
    assert "NOT_ENOUGH_REPLICAS" in row["last_error"]
    assert (row["state"], row["queued"], row["in_flight"]) == ("offline", 1, 0)
