"""Follower fetching (KIP-392) with model brokers: leaders choose a follower in the consumer's rack, and only they decide errors."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4 import Consumer
from pykafka4.core.consumer import followers
from pykafka4.messages import FetchResponse
from pykafka4.testing import LATER, Call, ModelServer
from tests.consumer.consuming import Maker, fill, numbers, poll_until, read

FOLLOWER = 2


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followers, "BOUND_S", 0.3)


@pytest.fixture
def led(server: ModelServer) -> ModelServer:
    """Topic `t`, led by broker 1, with 5 records; each broker has a rack of its own."""
    server.do(lambda cluster: cluster.set_racks({1: "a", 2: "b", 3: "c"}))
    server.do(lambda cluster: cluster.create_topic("t", 1, leaders=[1]))
    fill(server, "t", 0, numbers(0, 5))
    return server


def fetched_from(consumer: Consumer) -> int | None:
    node: int | None = consumer.status()["consumer"]["partitions"]["t-0"]["fetched_from"]
    return node


def follow(consumer: Consumer, node: int = FOLLOWER) -> list[Any]:
    return poll_until(consumer, lambda: fetched_from(consumer) == node)


def offsets(records: list[Any]) -> list[int]:
    return [record.offset for record in records]


def test_the_follower_in_the_rack_serves_and_the_leader_serves_other_racks(led: ModelServer, make: Maker) -> None:
    for rack, node in (("b", 2), ("c", 3), ("a", 1), ("elsewhere", 1), (None, 1)):
        consumer = make.assigned(0, client_rack=rack)
        records = read(consumer, 5)
        assert offsets(records) == list(range(5))
        follow(consumer, node)
        consumer.close()


def test_the_fetch_names_the_rack(led: ModelServer, make: Maker) -> None:
    racks = list[str]()
    led.do(lambda cluster: cluster.control("Fetch", lambda call: racks.append(call.message.rack_id), keep=True))
    consumer = make.assigned(0, client_rack="b")
    read(consumer, 5)
    assert set(racks) == {"b"}


@pytest.mark.parametrize(
    "error", ["OFFSET_OUT_OF_RANGE", "OFFSET_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER", "UNKNOWN_LEADER_EPOCH", "KAFKA_STORAGE_ERROR"]
)
def test_after_an_error_of_the_follower_the_leader_serves_and_chooses_it_again(led: ModelServer, make: Maker, error: str) -> None:
    """An offset that is out of range at a follower is no reset."""
    consumer = make.assigned(0, client_rack="b", auto_offset_reset="none")
    consumer.seek(("t", 0), 0)
    records = read(consumer, 5)
    follow(consumer)
    led.fail("Fetch", error, topic="t", partition=0)
    poll_until(consumer, lambda: fetched_from(consumer) == 1)
    fill(led, "t", 0, numbers(5, 8))
    records += read(consumer, 3)
    assert offsets(records) == list(range(8))
    follow(consumer)
    fill(led, "t", 0, numbers(8, 9))
    assert offsets(read(consumer, 1)) == [8]


def test_a_follower_that_dies_costs_nothing(led: ModelServer, make: Maker) -> None:
    consumer = make.assigned(0, client_rack="b")
    records = read(consumer, 5) + follow(consumer)
    led.do(lambda cluster: cluster.stop_broker(FOLLOWER))
    fill(led, "t", 0, numbers(5, 8))
    records += read(consumer, 3)
    assert fetched_from(consumer) == 1
    led.do(lambda cluster: cluster.start_broker(FOLLOWER))
    records += follow(consumer)
    assert offsets(records) == list(range(8))


def test_a_leader_that_changes_chooses_anew(led: ModelServer, make: Maker) -> None:
    consumer = make.assigned(0, client_rack="b", metadata_max_age_ms=500)
    records = read(consumer, 5) + follow(consumer)
    led.do(lambda cluster: cluster.stop_broker(1))
    fill(led, "t", 0, numbers(5, 8))
    records += read(consumer, 3)
    records += follow(consumer)
    led.do(lambda cluster: cluster.move_leader("t", 0, FOLLOWER))
    fill(led, "t", 0, numbers(8, 11))
    records += read(consumer, 3)
    led.do(lambda cluster: cluster.move_leader("t", 0, 3))
    fill(led, "t", 0, numbers(11, 14))
    records += read(consumer, 3)
    records += follow(consumer)
    assert offsets(records) == list(range(14))


def test_a_follower_whose_log_ends_before_the_position_is_left_without_a_step_back(led: ModelServer, make: Maker) -> None:
    """With the epoch of the last record, a log that lacks it looks like one that was truncated."""
    fill(led, "t", 0, numbers(5, 8))
    consumer = make.assigned(0, client_rack="b", fetch_max_wait_ms=20)
    records = read(consumer, 8) + follow(consumer)

    def lag(cluster: Any) -> None:
        cluster.partition("t", 0).copies[FOLLOWER].log.truncate(5)

    led.do(lag)
    records += poll_until(consumer, lambda: fetched_from(consumer) == 1)
    fill(led, "t", 0, numbers(8, 10))
    records += read(consumer, 2)
    assert offsets(records) == list(range(10))


def test_the_choice_expires_with_the_metadata(led: ModelServer, make: Maker) -> None:
    consumer = make.assigned(0, client_rack="b", metadata_max_age_ms=300)
    read(consumer, 5)
    follow(consumer)
    led.do(lambda cluster: cluster.set_racks({1: "b", 2: "a"}))
    follow(consumer, 1)


def test_old_brokers_serve_from_the_leader(make: Maker) -> None:
    with ModelServer(release="2.1") as server:
        server.do(lambda cluster: cluster.set_racks({1: "a", 2: "b", 3: "c"}))
        server.create_topic("t", 1)
        fill(server, "t", 0, numbers(0, 5))
        with Consumer(bootstrap_servers=server.bootstrap_servers, client_rack="b", auto_offset_reset="earliest") as consumer:
            consumer.assign([("t", 0)])
            assert offsets(read(consumer, 5)) == list(range(5))


DIVERGING = FetchResponse.Topic.Partition.EpochEndOffset(epoch=0, end_offset=2)


@pytest.mark.parametrize("late", [{"error_code": 1}, {"diverging_epoch": DIVERGING}], ids=["out of range", "diverging"])
def test_an_error_of_a_follower_that_serves_no_more_is_ignored(led: ModelServer, make: Maker, late: dict[str, Any]) -> None:
    """Its choice expired while its Fetch was held back: the error says as little about the log as before."""
    consumer = make.assigned(0, client_rack="b", auto_offset_reset="none", metadata_max_age_ms=400)
    consumer.seek(("t", 0), 0)
    records = read(consumer, 5) + follow(consumer)
    held = list[Call]()

    def hold(call: Call) -> Any:
        if call.broker.node != FOLLOWER:
            return None
        held.append(call)
        return LATER

    led.do(lambda cluster: cluster.control("Fetch", hold, keep=True))
    led.do(lambda cluster: cluster.set_racks({1: "b", 2: "a"}))
    records += follow(consumer, 1)
    led.do(lambda cluster: [call.answer(answer(call, **late)) for call in held])
    fill(led, "t", 0, numbers(5, 8))
    records += read(consumer, 3)
    assert offsets(records) == list(range(8))
    assert consumer.stats()["lost_offsets"] == 0


def answer(call: Call, **fields: Any) -> FetchResponse:
    """A response to the Fetch of `t-0`."""
    kind = FetchResponse.Topic
    row = kind.Partition(partition_index=0, high_watermark=-1, aborted_transactions=None, records=None, **fields)
    topic_id = call.cluster.topics["t"].id
    return FetchResponse(session_id=call.message.session_id, responses=[kind(topic_id=topic_id, partitions=[row])])
