"""A member that is slow, forgotten, refused, or whose brokers fail."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from pykafka4.consumer import Consumer
from pykafka4.consumer.waits import at_once
from pykafka4.core.group.membership.classic import MemberState
from pykafka4.core.subscription import Assigned, Claim
from pykafka4.errors import AuthorizationError, BrokerError, ConfigError, ConnectionLost, GroupError
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.testing import Fault, ModelServer
from pykafka4.wire.protocol.messages_cluster import FindCoordinatorRequest, MetadataRequest
from pykafka4.wire.protocol.messages_fetch import FetchRequest, ListOffsetsRequest
from pykafka4.wire.protocol.messages_group import HeartbeatRequest, JoinGroupRequest, OffsetFetchRequest
from tests.consumer.consuming import LONG, Listener, Maker, fill, numbers, poll_until, read, topic
from tests.inspection import inspect


def test_a_member_that_polls_too_rarely_loses_its_partitions_and_joins_again(server: ModelServer, make: Maker) -> None:
    topic(server, 0)
    consumer = make(group_id="g", max_poll_interval_ms=200)
    told = Listener()
    consumer.subscribe(["t"], told)
    poll_until(consumer, consumer.assignment)
    server.wait_for(lambda cluster: not cluster.group("g").members)
    with pytest.raises(GroupError, match="max_poll_interval_ms"):
        consumer.commit({("t", 0): 1})
    poll_until(consumer, lambda: told.kinds == ["assigned", "lost", "assigned"])


def test_what_one_subscription_lost_is_no_error_of_the_next(server: ModelServer, make: Maker) -> None:
    topic(server, 0)
    consumer = make(group_id="g", max_poll_interval_ms=200, enable_auto_commit=False)
    told = Listener()
    consumer.subscribe(["t"], told)
    poll_until(consumer, consumer.assignment)
    server.wait_for(lambda cluster: not cluster.group("g").members)
    consumer.poll(0)
    assert told.kinds == ["assigned", "lost"]
    with pytest.raises(GroupError, match="max_poll_interval_ms"):
        consumer.commit({("t", 0): 1})
    consumer.unsubscribe()
    consumer.subscribe(["t"])
    consumer.commit()  # nothing has been read


def test_the_member_lives_on_while_the_application_works(server: ModelServer, make: Maker) -> None:
    topic(server, 0)
    consumer = make(group_id="g", session_timeout_ms=300, enable_auto_commit=False)
    told = Listener()
    consumer.subscribe(["t"], told)
    poll_until(consumer, consumer.assignment)
    beats = server.do(lambda cluster: cluster.requests["Heartbeat"])
    server.wait_for(lambda cluster: cluster.requests["Heartbeat"] >= beats + 12)  # twice the session without a poll
    consumer.commit({("t", 0): 1})
    consumer.poll(0)
    assert told.kinds == ["assigned"]


def test_a_coordinator_change_is_no_rebalance(server: ModelServer, make: Maker) -> None:
    topic(server, 0, 0)
    consumer = make(group_id="g")
    told = Listener()
    consumer.subscribe(["t"], told)
    poll_until(consumer, consumer.assignment)
    node = server.do(lambda cluster: cluster.coordinator("g"))
    server.do(lambda cluster: cluster.stop_broker(node, failover=0.1))
    fill(server, "t", 0, numbers(0, 5))
    fill(server, "t", 1, numbers(0, 5))
    read(consumer, 10)
    consumer.commit()
    assert told.kinds == ["assigned"]
    assert consumer.status()["consumer"]["coordinator"] != node


@pytest.mark.parametrize("error", ["UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"])
def test_a_member_the_coordinator_forgot_loses_its_partitions_and_joins_again(server: ModelServer, make: Maker, error: str) -> None:
    topic(server, 0)
    consumer = make(group_id="g", session_timeout_ms=500)
    told = Listener()
    consumer.subscribe(["t"], told)
    poll_until(consumer, consumer.assignment)
    server.do(lambda cluster: cluster.push_error(HeartbeatRequest, error))
    poll_until(consumer, lambda: told.kinds == ["assigned", "lost", "assigned"])


@pytest.mark.parametrize(
    ("api", "error"),
    [
        (JoinGroupRequest, "GROUP_MAX_SIZE_REACHED"),
        (HeartbeatRequest, "FENCED_INSTANCE_ID"),
        (FindCoordinatorRequest, "INVALID_GROUP_ID"),
    ],
)
def test_a_permanent_error_is_raised_from_every_poll(server: ModelServer, make: Maker, api: Any, error: str) -> None:
    topic(server, 0)
    consumer = make(group_id="g")
    server.do(lambda cluster: cluster.push_error(api, error))
    consumer.subscribe(["t"])
    for _ in range(2):
        with pytest.raises(BrokerError, match=error):
            poll_until(consumer, lambda: False)
    consumer.unsubscribe()
    consumer.subscribe(["t"])
    poll_until(consumer, consumer.assignment)


@pytest.mark.parametrize(
    ("api", "error"),
    [
        (JoinGroupRequest, "COORDINATOR_LOAD_IN_PROGRESS"),
        (JoinGroupRequest, "NOT_COORDINATOR"),
        (JoinGroupRequest, "UNKNOWN_MEMBER_ID"),
        (JoinGroupRequest, "UNKNOWN_SERVER_ERROR"),
        (FindCoordinatorRequest, "COORDINATOR_NOT_AVAILABLE"),
        (OffsetFetchRequest, "COORDINATOR_LOAD_IN_PROGRESS"),
        (OffsetFetchRequest, "NOT_COORDINATOR"),
        (ListOffsetsRequest, "NOT_LEADER_OR_FOLLOWER"),
        (ListOffsetsRequest, "OFFSET_NOT_AVAILABLE"),
        (FetchRequest, "NOT_LEADER_OR_FOLLOWER"),
        (FetchRequest, "UNKNOWN_LEADER_EPOCH"),
        (FetchRequest, "KAFKA_STORAGE_ERROR"),
        (FetchRequest, "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_transient_errors_are_retried_silently(server: ModelServer, make: Maker, api: Any, error: str) -> None:
    topic(server, 5)
    server.do(lambda cluster: cluster.push_error(api, error, times=3))
    consumer = make.member(retry_backoff_ms=10, retry_backoff_max_ms=50)
    assert [r.offset for r in read(consumer, 5)] == list(range(5))


def test_a_damaged_log_is_raised_once_and_reading_goes_on_when_it_is_cured(server: ModelServer, make: Maker) -> None:
    topic(server, 5)
    server.do(lambda cluster: cluster.push_error(FetchRequest, "CORRUPT_MESSAGE", times=3))
    consumer = make.assigned(0, retry_backoff_ms=10, retry_backoff_max_ms=50)
    with pytest.raises(BrokerError, match="t-0 at offset 0: the leader's log is corrupt"):
        poll_until(consumer, lambda: False)
    assert [r.offset for r in read(consumer, 5)] == list(range(5))


def test_authorization_errors_are_raised_and_reading_goes_on_when_they_are_cured(server: ModelServer, make: Maker) -> None:
    topic(server, 0)
    server.do(lambda cluster: cluster.push_error(FetchRequest, "TOPIC_AUTHORIZATION_FAILED", times=1))
    consumer = make.assigned(0)
    with pytest.raises(AuthorizationError, match="t-0"):
        poll_until(consumer, lambda: False)
    fill(server, "t", 0, numbers(0, 1))
    read(consumer, 1)


def test_a_subscribed_topic_that_may_not_be_described_is_named_by_poll_and_the_others_are_read(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    server.do(lambda cluster: cluster.push_error(MetadataRequest, "TOPIC_AUTHORIZATION_FAILED", topic="secret", times=100))
    listener = Listener()
    consumer = make(group_id="g")
    consumer.subscribe(["t", "secret"], listener)
    with pytest.raises(AuthorizationError, match="topic secret: TOPIC_AUTHORIZATION_FAILED"):
        poll_until(consumer, lambda: listener.told)
    read(consumer, 3)


def test_one_damaged_answer_is_not_reported_and_a_broker_that_always_sends_damaged_ones_is(server: ModelServer, make: Maker) -> None:
    topic(server, 5, 5, 5)
    consumer = make.assigned(0, 1, 2, retry_backoff_ms=10, reconnect_backoff_ms=10)
    server.do(lambda cluster: cluster.inject(FetchRequest, Fault.GARBAGE))
    read(consumer, 15)
    server.do(lambda cluster: cluster.inject(FetchRequest, Fault.GARBAGE, times=1_000_000))
    with pytest.raises(ConnectionLost, match="cannot decode the response to FetchRequest"):
        poll_until(consumer, lambda: False)
    server.do(lambda cluster: cluster.heal())
    fill(server, "t", 0, numbers(0, 1))
    deadline = time.monotonic() + LONG
    while True:  # errors of other brokers come first
        assert time.monotonic() < deadline
        try:
            if consumer.poll(0.2):
                break
        except ConnectionLost:
            continue


def test_leaders_that_move_and_brokers_that_go_cost_no_record(server: ModelServer, make: Maker) -> None:
    topic(server, 0, 0, 0)
    consumer = make.assigned(0, 1, 2, reconnect_backoff_ms=10, retry_backoff_ms=10)
    seen: list[tuple[int, int]] = []
    for round_ in range(6):
        for p in range(3):
            fill(server, "t", p, numbers(0, 20))
        if round_ == 1:
            server.do(lambda cluster: cluster.move_leader("t", 0))
        elif round_ == 3:
            server.do(lambda cluster: cluster.stop_broker(1, failover=0.05))
        elif round_ == 4:
            server.do(lambda cluster: cluster.drop_connections())
        seen += [(r.partition, r.offset) for r in read(consumer, 60)]
    assert len(seen) == 360
    for p in range(3):
        assert [offset for partition, offset in seen if partition == p] == list(range(120))


@pytest.mark.parametrize("release", ["0.11", "2.1", "2.8", "3.9", "4.0", "4.4"])
def test_groups_and_reading_work_on_every_release(release: str) -> None:
    with ModelServer(brokers=2, release=release) as server:
        topic(server, 0, 0)
        for p in (0, 1):
            fill(server, "t", p, numbers(0, 10))
        for rest in (20, 0):
            with Consumer(bootstrap_servers=server.bootstrap_servers, group_id="g", auto_offset_reset="earliest") as consumer:
                consumer.subscribe(["t"])
                records = read(consumer, rest)
                poll_until(consumer, consumer.assignment)
                consumer.commit()
                assert {(r.partition, r.offset) for r in records} == {(p, i) for p in (0, 1) for i in range(rest // 2)}
                assert {tp: place.offset for tp, place in consumer.committed(consumer.assignment()).items()} == {("t", 0): 10, ("t", 1): 10}


def test_calls_are_answered_while_another_member_holds_the_join_back(server: ModelServer, make: Maker) -> None:
    topic(server, 0, 0)
    slow, quick = make.member(enable_auto_commit=False), make.member(enable_auto_commit=False)
    poll_until(slow, lambda: quick.poll(0.01) is not None and quick.assignment() and slow.assignment())
    (owned,) = quick.assignment()
    quick.commit({owned: 1})
    new = make.member(group_instance_id="new")
    new.poll(0.1)
    poll_until(quick, lambda: quick.status()["consumer"]["state"] == MemberState.JOINING.value)
    began = time.monotonic()
    assert quick.committed(owned, 5.0) == OffsetAndMetadata(1)
    with pytest.raises(GroupError):
        quick.commit({owned: 2}, 5.0)
    new.close()
    quick.close()
    assert time.monotonic() - began < 3.0
    server.wait_for(lambda cluster: len(cluster.group("g").members) == 2)  # a static member stays until its session ends


def test_partitions_that_were_lost_before_the_application_saw_them_are_not_taken_up(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    listener = Listener()
    consumer = make(group_id="g")
    inspect(consumer).session.selection.listener = listener
    claim = Claim(TopicPartition("t", 0))
    claim.ended = True
    at_once(inspect(consumer).session.assignment.adopt(Assigned((claim,))))
    assert consumer.assignment() == set()
    assert listener.told == []


def test_a_listener_without_on_partitions_lost_hears_of_a_loss_as_a_revocation(server: ModelServer, make: Maker) -> None:
    topic(server, 0)
    told: list[str] = []

    class TwoMethods:
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            told.append("assigned")

        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            told.append("revoked")

    consumer = make(group_id="g", max_poll_interval_ms=200)
    consumer.subscribe(["t"], TwoMethods())
    poll_until(consumer, consumer.assignment)
    server.wait_for(lambda cluster: not cluster.group("g").members)
    poll_until(consumer, lambda: told[:3] == ["assigned", "revoked", "assigned"])


def test_a_listener_that_hangs_does_not_hold_its_partitions(server: ModelServer, make: Maker) -> None:
    topic(server, 0)
    gone: list[bool] = []

    class Hanging(Listener):
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            super().on_partitions_assigned(partitions)
            if self.kinds == ["assigned"]:
                server.wait_for(lambda cluster: not cluster.group("g").members)
                gone.append(True)

    consumer = make(group_id="g", max_poll_interval_ms=1000)
    told = Hanging()
    consumer.subscribe(["t"], told)
    assert not poll_until(consumer, lambda: len(told.kinds) >= 3)
    assert gone
    assert told.kinds == ["assigned", "lost", "assigned"]
    fill(server, "t", 0, numbers(0, 3))
    assert [r.offset for r in read(consumer, 3)] == [0, 1, 2]


# -- an extended lease


@pytest.mark.parametrize("elsewhere", [False, True], ids=["by the thread that polls", "by another thread"])
def test_an_extended_lease_outlasts_max_poll_interval_ms(server: ModelServer, make: Maker, elsewhere: bool) -> None:
    topic(server, 0)
    consumer, told = make(group_id="g", max_poll_interval_ms=200), Listener()
    consumer.subscribe(["t"], told)
    poll_until(consumer, consumer.assignment)
    extend = threading.Thread(target=consumer.extend_lease, args=(LONG,)) if elsewhere else None
    if extend is None:
        consumer.extend_lease(LONG)
    else:
        extend.start()
        extend.join(LONG)
    beats = server.do(lambda cluster: cluster.requests["Heartbeat"])
    server.wait_for(lambda cluster: cluster.requests["Heartbeat"] >= beats + 12)  # three times the interval
    consumer.commit({("t", 0): 1})
    consumer.poll(0)
    assert told.kinds == ["assigned"]
    server.wait_for(lambda cluster: not cluster.group("g").members)  # the poll has ended the extension
    with pytest.raises(GroupError, match=r"extend_lease: .*max_poll_interval_ms=200 exceeded"):
        consumer.extend_lease(1)
    poll_until(consumer, lambda: told.kinds == ["assigned", "lost", "assigned"])


def test_a_lease_is_extended_for_one_record_of_a_loop(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    consumer, told = make(group_id="g", max_poll_interval_ms=200), Listener()
    consumer.subscribe(["t"], told)
    seen = []
    for record in consumer:
        seen.append(record.offset)
        if len(seen) == 1:
            consumer.extend_lease(LONG)
            beats = server.do(lambda cluster: cluster.requests["Heartbeat"])
            server.wait_for(lambda cluster, beats=beats: cluster.requests["Heartbeat"] >= beats + 12)
            assert "lost" not in told.kinds
        if len(seen) == 2:
            server.wait_for(lambda cluster: not cluster.group("g").members)
        if len(seen) > 2:
            break
    assert seen[:2] == [0, 1]
    assert told.kinds == ["assigned", "lost", "assigned"]


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), 300_000, True, "5", None])
def test_a_wrong_time_for_a_lease_is_refused(make: Maker, seconds: Any) -> None:
    with pytest.raises(ConfigError, match=r"extend_lease\(.*takes seconds, more than 0 and at most 86,400"):
        make(group_id="g").extend_lease(seconds)


def test_there_is_a_lease_only_with_a_subscription_and_from_the_first_poll_on(make: Maker) -> None:
    consumer = make(group_id="g")
    with pytest.raises(ConfigError, match="needs subscribe"):
        consumer.extend_lease(1)
    consumer.subscribe(["t"])
    with pytest.raises(GroupError, match="the lease begins with the first poll"):
        consumer.extend_lease(1)
