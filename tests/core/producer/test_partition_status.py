"""Standing: for each partition whether its records can be sent now, since when not, and why."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykafka4.core import INFINITY
from pykafka4.core.producer.outcomes.ledger import take_census
from pykafka4.core.producer.partition_status import show
from pykafka4.core.producer.sequences.identity import Identity
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition
from tests.core.producer.sender_harness import LOST, SenderHarness

TP = TopicPartition("t", 0)


def rows(harness: SenderHarness) -> dict[str, dict[str, Any]]:
    partition_status, census = harness.sender.partition_status, take_census(harness.acc)
    found = partition_status.look(harness.sender.queues.values(), harness.now)
    return show(harness.now, found, census, partition_status.look_at_parked([topic for topic, _ in census[2]], harness.acc, harness.now))


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
        "open": 0,
        "parked": 0,
        "oldest_age": None,
        "in_flight": 0,
        "last_error": None,
        "last_error_age": None,
    }


def test_records_in_flight_and_queued_are_counted_with_the_age_of_the_oldest() -> None:
    harness = SenderHarness().proven()
    for _ in range(3):
        harness.acc.send("t", b"v", partition=0)
    harness.settle()
    harness.poll(1.5)
    harness.acc.send("t", b"v" * 100, partition=0)
    row = rows(harness)["t-0"]
    assert (row["state"], row["in_flight"], row["queued"], row["open"], row["parked"]) == ("online", 3, 1, 1, 0)
    assert row["queued_bytes"] > 100
    assert row["oldest_age"] >= 1.5


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
    assert (row["state"], row["since"], row["reason"]) == ("offline", pytest.approx(4.0), "t-0: no leader")
    harness.cluster.leaderless.clear()
    harness.recovery.offline.clear()
    harness.recovery.leaders[TP] = 1
    harness.cluster.change()
    harness.poll()
    assert rows(harness)["t-0"]["state"] == "online"


def test_offline_because_the_broker_cannot_be_reached() -> None:
    harness = SenderHarness().proven()
    harness.network.up.discard(1)
    row = stuck(harness)
    assert (row["state"], row["reason"], row["since"]) == ("offline", "h1:9092 connection refused", pytest.approx(harness.now - 990.0))


def test_a_partition_for_which_nothing_waits_is_online_while_its_idle_connection_is_lost() -> None:
    harness = SenderHarness().proven()
    harness.network.up.discard(1)
    harness.network.down_at = None
    assert rows(harness)["t-0"]["state"] == "online"
    assert stuck(harness)["reason"] == "h1:9092 connection refused"


def test_offline_because_the_broker_throttles_the_client() -> None:
    harness = SenderHarness().proven()
    harness.network.throttled[1] = harness.now + 5.0
    row = stuck(harness)
    assert row["reason"] == "broker 1 throttles this client for 2 s"
    assert row["since"] == pytest.approx(3.0)


def test_a_partition_for_which_nothing_waits_is_online_while_its_broker_throttles_the_client() -> None:
    harness = SenderHarness().proven()
    harness.network.throttled[1] = harness.now + 5.0
    assert rows(harness)["t-0"]["state"] == "online"


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


def test_offline_because_the_leader_does_not_respond() -> None:
    harness = SenderHarness().proven()
    harness.batch()
    assert rows(harness)["t-0"]["state"] == "online"
    harness.poll(3.0)
    row = rows(harness)["t-0"]
    assert (row["state"], row["reason"], row["since"]) == ("offline", "broker 1 has not responded for 3 s", pytest.approx(3.0))


def test_a_partition_of_a_silent_broker_to_which_nothing_was_sent_is_online() -> None:
    harness = SenderHarness().proven()
    harness.recovery.leaders[TopicPartition("t", 1)] = 1
    harness.batch()
    harness.poll(3.0)
    assert rows(harness)["t-1"]["state"] == "online"


def test_offline_because_requests_with_purged_records_have_not_ended() -> None:
    harness = SenderHarness(enable_idempotence=False)
    harness.acc.set_partitions("t", 2, [0, 1])
    harness.batch()
    harness.sender.purge(harness.now, KafkaError("purged"), in_flight=True)
    harness.batch()
    row = rows(harness)["t-0"]
    assert (row["state"], row["reason"]) == ("offline", "waits for the end of 1 request whose records already have outcomes")


@pytest.mark.parametrize("answered", [False, True])
def test_offline_because_writing_is_denied_until_it_is_allowed(answered: bool) -> None:
    harness = SenderHarness().proven()
    harness.sender.ledger.clock = lambda: harness.now
    for _ in range(2):
        harness.batch()
        harness.answer(harness.requests.pop(), "TOPIC_AUTHORIZATION_FAILED")
        harness.poll(5.0)
    row = rows(harness)["t-0"]
    assert (row["state"], row["queued"], row["since"]) == ("offline", 0, pytest.approx(10.0))
    assert "TOPIC_AUTHORIZATION_FAILED" in row["reason"]
    assert (row["last_error"], row["last_error_age"]) == (row["reason"], pytest.approx(5.0))
    harness.batch()
    harness.answer(harness.requests.pop())
    after = rows(harness)["t-0"]
    assert (after["state"], after["reason"], after["last_error"]) == ("online", None, row["last_error"])


def test_a_record_that_failed_alone_leaves_the_partition_online() -> None:
    harness = SenderHarness().proven()
    harness.batch()
    harness.answer(harness.requests.pop(), "INVALID_RECORD")
    row = rows(harness)["t-0"]
    assert (row["state"], "INVALID_RECORD" in row["last_error"]) == ("online", True)


def test_an_error_that_a_retry_has_overcome_is_still_the_last_one() -> None:
    harness = SenderHarness().proven()
    harness.batch()
    harness.answer(harness.requests.pop(), "NOT_ENOUGH_REPLICAS")
    harness.poll(1.0)
    harness.answer(harness.requests.pop())
    row = rows(harness)["t-0"]
    assert (row["state"], "NOT_ENOUGH_REPLICAS" in row["last_error"]) == ("online", True)


def test_what_the_application_gave_up_is_no_error_of_the_partition() -> None:
    harness = SenderHarness().proven()
    harness.network.up.clear()
    harness.batch()
    reason = KafkaError("purged")
    reason.code = "PURGED"
    harness.sender.purge(harness.now, reason, in_flight=False)
    assert rows(harness)["t-0"]["last_error"] is None


@pytest.mark.parametrize(
    ("up", "error", "reason"),
    [
        (True, None, "the partitions of the topic are not known yet"),
        (True, "UNKNOWN_TOPIC_OR_PARTITION", "the brokers report UNKNOWN_TOPIC_OR_PARTITION"),
        (False, None, "no broker reachable: h1:9092 connection refused"),
    ],
)
def test_records_of_an_unknown_topic_are_in_a_row_without_a_partition(up: bool, error: str | None, reason: str) -> None:
    harness = SenderHarness()
    (harness.cluster.hidden if error else harness.cluster.unheard).add("new")
    if not up:
        harness.network.up.clear()
    for _ in range(3):
        harness.acc.send("new", b"v")
    harness.poll()
    harness.poll(2.0)
    row = rows(harness)["new (no partition yet)"]
    assert (row["state"], row["queued"], row["parked"], row["reason"]) == ("offline", 3, 3, reason)
    assert row["oldest_age"] == row["since"] == pytest.approx(2.0)


def test_a_producer_that_has_ended_sends_to_no_partition() -> None:
    harness = SenderHarness().proven()
    found = harness.sender.partition_status.look(harness.sender.queues.values(), harness.now)
    shown = show(harness.now, found, take_census(harness.acc), final=(LOST, harness.now - 4.0))
    assert {(row["state"], row["reason"], row["since"]) for row in shown.values()} == {("offline", str(LOST), 4.0)}


def test_offline_because_the_epoch_has_ended_while_a_batch_is_in_doubt() -> None:
    harness = SenderHarness().proven()
    for _ in range(2):
        harness.batch()
    first, _second = harness.requests
    harness.answer(first, "INVALID_PRODUCER_EPOCH")
    harness.batch()
    row = rows(harness)["t-0"]
    assert (row["state"], row["reason"]) == ("offline", "its epoch has ended; waits until no batch of that epoch is in doubt")


def test_offline_because_the_broker_does_not_let_the_client_in(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = SenderHarness().proven()
    harness.network.up.discard(1)
    monkeypatch.setattr(harness.network, "why_down", lambda node: "h1:9092 refused the password of user 'u' (SASL PLAIN)")
    assert rows(harness)["t-0"]["reason"] == "h1:9092 refused the password of user 'u' (SASL PLAIN)"


def test_offline_because_of_a_back_off() -> None:
    harness = SenderHarness().proven()
    harness.batch()
    harness.answer(harness.requests.pop(), "KAFKA_STORAGE_ERROR")
    harness.sender.queues[TP].held_until = harness.now + 0.5
    assert rows(harness)["t-0"]["reason"] == "sends again in 0.5 s"
