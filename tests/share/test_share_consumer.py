"""ShareConsumer against the model, whose share groups have short locks and heartbeats; real brokers are in tests/integration."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from pykafka4.core.share.values import AcknowledgeType, ranges, shown_offsets
from pykafka4.errors import (
    AuthorizationError,
    BrokerError,
    ClosedError,
    ConfigError,
    CorruptRecord,
    KafkaError,
    RecordLockLost,
    UnsupportedVersion,
)
from pykafka4.records import TopicPartition
from pykafka4.share import ShareConsumer
from pykafka4.share.record import ShareRecord
from pykafka4.testing import ModelServer
from pykafka4.wire.records.checksum import crc32c
from pykafka4.wire.records.encoder import encode_content, encode_record
from tests.consumer.consuming import damage, fill, numbers, topic
from tests.inspection import inspect

SECONDS = 20.0  # nothing that works takes so long
T0 = TopicPartition("t", 0)
Make = Callable[..., ShareConsumer]


@pytest.fixture
def quick(server: ModelServer) -> ModelServer:
    """Groups begin at the first record; heartbeats are frequent."""

    def hurry(cluster: Any) -> None:
        shares = cluster.shares
        shares.auto_offset_reset, shares.heartbeat_interval, shares.session_timeout = "earliest", 0.05, 2.0

    server.do(hurry)
    return server


@pytest.fixture
def make(quick: ModelServer) -> Iterator[Make]:
    """Makes members of group `g` that have subscribed to `t`; explicit, unless an option says otherwise."""
    made: list[ShareConsumer] = []

    def new(**options: Any) -> ShareConsumer:
        usual = {"group_id": "g", "fetch_max_wait_ms": 50, "share_acknowledgement_mode": "explicit"}
        made.append(ShareConsumer(bootstrap_servers=quick.bootstrap_servers, **{**usual, **options}))
        made[-1].subscribe(["t"])
        return made[-1]

    yield new
    for consumer in made:
        consumer.close(2)


def take(consumer: ShareConsumer, count: int = 1) -> list[ShareRecord]:
    """Records of one poll, at least `count`."""
    found: list[ShareRecord] = []
    deadline = time.monotonic() + SECONDS
    while len(found) < count:
        assert time.monotonic() < deadline, (found, consumer.status())
        assert not found, "they came in several polls"
        found = consumer.poll(0.2)
    return found


def until(condition: Callable[[], Any], consumer: ShareConsumer) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, (consumer.status(), consumer.stats())


def offsets(records: list[ShareRecord]) -> list[int]:
    return [record.offset for record in records]


def set_lock(server: ModelServer, seconds: float) -> None:
    server.do(lambda cluster: setattr(cluster.shares, "lock_seconds", seconds))


def test_each_kind_of_acknowledgement_has_its_effect(quick: ModelServer, make: Make) -> None:
    topic(quick, 4)
    consumer = make()
    accepted, released, rejected, renewed = take(consumer, 4)
    consumer.accept(accepted)
    consumer.release(released)
    consumer.reject(rejected)
    consumer.renew(renewed)
    assert consumer.commit() == {T0: None}
    (again,) = take(consumer)
    assert (again.offset, again.delivery_count) == (1, 2)
    consumer.acknowledge(again, "accept")
    consumer.acknowledge(renewed)
    assert consumer.commit() == {T0: None}
    assert consumer.poll(0.2) == []
    assert consumer.stats() == {"delivered": 5, "acknowledged": 5, "failed": 0, "dropped": 0, "in_hand": 0, "buffered": 0}


def test_a_record_has_what_a_record_has(quick: ModelServer, make: Make) -> None:
    topic(quick, 1)
    (record,) = take(make())
    assert (record.topic, record.partition, record.offset, record.value, record.key) == ("t", 0, 0, b"0", None)
    assert (record.timestamp_ms, record.timestamp_type, record.headers, record.leader_epoch) == (1_000, "CREATE_TIME", (), 0)
    assert record.delivery_count == 1
    assert repr(record) == "<ShareRecord t-0 offset 0, delivery 1>"


def test_the_last_acknowledgement_before_it_is_sent_counts(quick: ModelServer, make: Make) -> None:
    topic(quick, 1)
    consumer = make()
    (record,) = take(consumer)
    consumer.reject(record)
    consumer.release(record)
    assert consumer.commit() == {T0: None}
    assert offsets(take(consumer)) == [0]


def test_implicit_acknowledgement_accepts_with_the_next_poll(quick: ModelServer, make: Make) -> None:
    topic(quick, 10)
    consumer = make(share_acknowledgement_mode="implicit")
    assert len(take(consumer, 10)) == 10
    until(lambda: consumer.poll(0.05) == [] and consumer.stats()["acknowledged"] == 10, consumer)
    quick.wait_for(lambda cluster: all(partition.start == 10 for partition in cluster.shares.partitions.values()))


def test_poll_returns_at_most_the_limit_and_the_rest_later(quick: ModelServer, make: Make) -> None:
    topic(quick, 10)
    consumer = make(share_acknowledgement_mode="implicit", max_poll_records=4)
    assert offsets(take(consumer)) == [0, 1, 2, 3]  # the broker has locked the whole batch
    assert offsets(consumer.poll(0.0)) == [4, 5, 6, 7]
    assert offsets(consumer.poll(0.0, 1)) == [8]
    assert consumer.stats()["buffered"] == 1
    assert offsets(consumer.poll(0.0)) == [9]


def test_a_loop_over_records_goes_on_after_an_exception(quick: ModelServer, make: Make) -> None:
    topic(quick, 2)
    consumer = make(share_acknowledgement_mode="implicit")
    records = iter(consumer)
    assert next(records).offset == 0
    consumer.unsubscribe()
    with pytest.raises(ConfigError, match="no topics"):
        next(records)
    consumer.subscribe(["t"])
    assert [next(records).offset for _ in range(2)] == [0, 1]


def test_record_limit_locks_no_more_than_one_poll_returns(quick: ModelServer, make: Make) -> None:
    topic(quick, 10)
    consumer = make(max_poll_records=4, share_acquire_mode="record_limit")
    assert offsets(take(consumer)) == [0, 1, 2, 3]
    other = make(max_poll_records=4, share_acquire_mode="record_limit")
    assert offsets(take(other)) == [4, 5, 6, 7]


def test_nothing_is_acquired_while_no_poll_waits(quick: ModelServer, make: Make) -> None:
    topic(quick, 1)
    consumer = make(share_acknowledgement_mode="implicit")
    take(consumer)
    until(lambda: consumer.poll(0.0) == [] and consumer.stats()["acknowledged"] == 1, consumer)
    count = quick.do(lambda cluster: cluster.requests["ShareFetch"])
    quick.wait_for(lambda cluster, now=None: cluster.requests["ShareGroupHeartbeat"] > 20)
    assert quick.do(lambda cluster: cluster.requests["ShareFetch"]) <= count + 3  # one for each broker, that the last poll asked for


def test_poll_refuses_to_go_on_with_unacknowledged_records(quick: ModelServer, make: Make) -> None:
    topic(quick, 5)
    consumer = make()
    records = take(consumer, 5)
    with pytest.raises(KafkaError, match=r"unacknowledged records of the last poll: t-0 offset 0, .* and 2 more; accept"):
        consumer.poll(0)
    for record in records:
        consumer.accept(record)
    assert consumer.poll(0) == []


def test_misuse(quick: ModelServer, make: Make) -> None:
    topic(quick, 3)
    consumer = make()
    first, second, _ = take(consumer, 3)
    with pytest.raises(ConfigError, match="'agree' must be one of accept, release, reject, renew"):
        consumer.acknowledge(first, "agree")
    with pytest.raises(ConfigError, match="must be one of"):
        consumer.acknowledge(first, AcknowledgeType.GAP)
    with pytest.raises(TypeError, match="not bytes"):
        consumer.acknowledge(b"x", "accept")  # type: ignore[arg-type]
    stranger = ShareRecord(second._record, 1, inspect(second).acquired)
    with pytest.raises(ConfigError, match="t-0 offset 1 is not in hand"):
        consumer.accept(stranger)
    consumer.accept(first)
    consumer.commit()
    with pytest.raises(ConfigError, match="its acknowledgement has been sent"):
        consumer.accept(first)
    with pytest.raises(TypeError, match="no patterns"):
        consumer.subscribe("t.*")
    with pytest.raises(ConfigError, match=r"unsubscribe\(\)"):
        consumer.subscribe([])
    with pytest.raises(AttributeError, match="no positions"):
        consumer.seek  # noqa: B018
    with pytest.raises(TypeError, match="callable"):
        consumer.set_acknowledgement_callback(1)  # type: ignore[arg-type]
    implicit = make(share_acknowledgement_mode="implicit")
    with pytest.raises(ConfigError, match="share_acknowledgement_mode='explicit'"):
        implicit.accept(second)
    implicit.unsubscribe()
    with pytest.raises(ConfigError, match="call subscribe first"):
        implicit.poll(0)
    implicit.close()
    with pytest.raises(ClosedError):
        implicit.poll(0)
    with pytest.raises(ConfigError, match="group_id is missing"):
        ShareConsumer(bootstrap_servers=quick.bootstrap_servers)
    with pytest.raises(ConfigError, match="unknown share consumer option 'enable_auto_commit'; it is a consumer option"):
        ShareConsumer(bootstrap_servers=quick.bootstrap_servers, group_id="g", enable_auto_commit=True)  # type: ignore[call-arg]


def test_a_lock_that_has_ended_is_told_and_the_record_comes_again(quick: ModelServer, make: Make) -> None:
    topic(quick, 2)
    set_lock(quick, 0.3)
    consumer = make()
    told: list[Any] = []
    consumer.set_acknowledgement_callback(told.append)
    first, second = take(consumer, 2)
    assert consumer.acquisition_lock_timeout_ms() == 300

    with pytest.raises(RecordLockLost) as caught:
        until(lambda: consumer.accept(first), consumer)
    assert (caught.value.topic, caught.value.partition, caught.value.offsets) == ("t", 0, (0,))
    again = take(consumer, 2)  # the other one keeps no poll from going on
    assert [(r.offset, r.delivery_count) for r in again] == [(0, 2), (1, 2)]
    until(lambda: told, consumer)
    (error,) = told[0].values()
    assert isinstance(error, RecordLockLost)
    assert error.offsets == (second.offset,)
    assert consumer.stats()["failed"] == 1


def test_a_buffered_record_is_not_returned_after_its_lock(quick: ModelServer, make: Make) -> None:
    topic(quick, 3)
    set_lock(quick, 0.3)
    consumer = make(share_acknowledgement_mode="implicit", max_poll_records=1)
    (first,) = take(consumer)
    quick.wait_for(
        lambda cluster: all(slot.state.value == "available" for p in cluster.shares.partitions.values() for slot in p.slots.values())
    )
    until(lambda: inspect(first).acquired.until < inspect(consumer).loop.now(), consumer)
    found = take(consumer)
    assert (found[0].offset, found[0].delivery_count) == (0, 2)
    assert consumer.stats()["dropped"] == 2


def test_the_brokers_verdict_is_in_the_result_of_commit(quick: ModelServer, make: Make) -> None:
    topic(quick, 2)
    consumer = make()
    first, second = take(consumer, 2)
    quick.do(lambda cluster: [p.drop_ended() or p._free(1, p.slots[1], "expired") for p in cluster.shares.partitions.values()])
    consumer.accept(first)
    assert consumer.commit() == {T0: None}
    consumer.accept(second)
    (error,) = consumer.commit().values()
    assert isinstance(error, RecordLockLost)
    assert error.offsets == (1,)


def test_a_refused_commit_is_in_the_result_and_in_the_callback(quick: ModelServer, make: Make) -> None:
    topic(quick, 2)
    consumer = make()
    first, second = take(consumer, 2)
    quick.fail("ShareAcknowledge", "INVALID_REQUEST", topic="t", partition=0, times=2)
    consumer.accept(first)
    (error,) = consumer.commit().values()
    assert isinstance(error, BrokerError)
    assert error.code.name == "INVALID_REQUEST"
    told: list[Any] = []
    consumer.accept(second)
    consumer.commit_async(told.append)
    until(lambda: told, consumer)
    assert [error.code.name for error in told[0].values()] == ["INVALID_REQUEST"]
    assert consumer.commit() == {}


def test_a_broker_that_cannot_store_it_now_is_asked_again(quick: ModelServer, make: Make) -> None:
    topic(quick, 1)
    consumer = make()
    (record,) = take(consumer)
    quick.fail("ShareAcknowledge", "COORDINATOR_NOT_AVAILABLE", topic="t", partition=0, times=3)
    consumer.accept(record)
    assert consumer.commit() == {T0: None}


@pytest.mark.parametrize("error", ["SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH"])
def test_a_lost_session_ends_the_locks_and_the_records_come_again(quick: ModelServer, make: Make, error: str) -> None:
    topic(quick, 2)
    consumer = make()
    first, second = take(consumer, 2)
    quick.fail("ShareAcknowledge", error)
    consumer.accept(first)
    (lost,) = consumer.commit().values()
    assert isinstance(lost, RecordLockLost)
    with pytest.raises(RecordLockLost, match="share session"):
        consumer.accept(second)
    assert [(r.offset, r.delivery_count) for r in take(consumer, 2)] == [(0, 2), (1, 2)]


def test_a_lost_connection_releases_the_records(quick: ModelServer, make: Make) -> None:
    topic(quick, 1)
    consumer = make()
    (record,) = take(consumer)
    quick.do(lambda cluster: [broker.close_sessions() for broker in cluster.brokers.values()])
    consumer.accept(record)
    (error,) = consumer.commit().values()
    assert error is not None
    (again,) = take(consumer)
    assert again.delivery_count == 2


def test_a_moved_leader_releases_the_records(quick: ModelServer, make: Make) -> None:
    topic(quick, 2)
    consumer = make()
    first, second = take(consumer, 2)
    quick.do(lambda cluster: cluster.move_leader("t", 0))
    consumer.accept(first)
    (error,) = consumer.commit().values()
    assert isinstance(error, RecordLockLost)
    again = take(consumer, 2)
    assert [(r.offset, r.delivery_count) for r in again] == [(0, 2), (1, 2)]
    with pytest.raises(RecordLockLost):
        consumer.accept(second)


def test_gaps_are_acknowledged_so_that_the_group_goes_on(quick: ModelServer, make: Make) -> None:
    topic(quick, 0)
    fill(quick, "t", 0, numbers(0, 4))

    def compact(cluster: Any) -> None:
        """The records at offsets 1 and 2 are gone, as after compaction."""
        for copy in cluster.partition("t", 0).copies.values():
            batch = copy.log.batches[0]
            kept = [record for record in batch.records() if record.offset in (0, 3)]
            copy.log.batches[0] = attrs.evolve(batch, data=rewritten(batch.data, kept))

    quick.do(compact)
    consumer = make()
    records = take(consumer, 2)
    assert offsets(records) == [0, 3]
    for record in records:
        consumer.accept(record)
    assert consumer.commit() == {T0: None}
    quick.wait_for(lambda cluster: all(partition.start == 4 for partition in cluster.shares.partitions.values()))


def rewritten(data: bytes, kept: list[Any]) -> bytes:
    """The batch with only these records, its offsets unchanged."""
    body = b"".join(encode_record(0, record.offset, encode_content(None, record.value, ())) for record in kept)
    head = bytearray(data[:61])
    struct.pack_into(">i", head, 57, len(kept))
    struct.pack_into(">i", head, 8, len(head) + len(body) - 12)
    whole = head + body
    struct.pack_into(">I", whole, 17, crc32c(memoryview(whole)[21:]))
    return bytes(whole)


def test_a_batch_that_cannot_be_read_is_rejected_and_told_once(quick: ModelServer, make: Make) -> None:
    topic(quick, 2)
    fill(quick, "t", 0, numbers(2, 4))
    fill(quick, "t", 0, numbers(4, 6))
    damage(quick, 1)
    consumer = make(share_acknowledgement_mode="implicit")
    found: list[int] = []
    with pytest.raises(CorruptRecord, match="t-0 at offset 2"):
        until(lambda: found.extend(offsets(consumer.poll(0.1))), consumer)
    until(lambda: found.extend(offsets(consumer.poll(0.1))) or found == [0, 1, 4, 5], consumer)
    consumer.commit()
    quick.wait_for(lambda cluster: all(partition.start == 6 for partition in cluster.shares.partitions.values()))


def test_brokers_without_share_groups_are_refused_with_the_way_out() -> None:
    with ModelServer(release="4.0") as old, ShareConsumer(bootstrap_servers=old.bootstrap_servers, group_id="g") as consumer:
        old.create_topic("t", 1)
        consumer.subscribe(["t"])
        with pytest.raises(UnsupportedVersion, match=r"Kafka 4\.2 or newer.*share\.version=1.*does not support it"):
            until(lambda: consumer.poll(0.2), consumer)
        assert consumer.status()["share_consumer"]["state"] == "fatal"


def test_a_group_that_refuses_the_member_is_told_until_it_subscribes_again(quick: ModelServer, make: Make) -> None:
    topic(quick, 1)
    quick.fail("ShareGroupHeartbeat", "GROUP_ID_NOT_FOUND")
    consumer = make()
    for _ in range(2):
        with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
            until(lambda: consumer.poll(0.2), consumer)
    consumer.subscribe(["t"])
    assert offsets(take(consumer)) == [0]


def test_a_missing_right_is_told_and_asked_for_again(quick: ModelServer, make: Make) -> None:
    topic(quick, 1)
    quick.fail("ShareGroupHeartbeat", "GROUP_AUTHORIZATION_FAILED")
    consumer = make()
    with pytest.raises(AuthorizationError, match="needs READ on group 'g'"):
        until(lambda: consumer.poll(0.2), consumer)
    assert offsets(take(consumer)) == [0]


def test_a_member_that_the_coordinator_forgot_joins_again(quick: ModelServer, make: Make) -> None:
    topic(quick, 1)
    consumer = make()
    consumer.accept(take(consumer)[0])
    quick.do(lambda cluster: cluster.shares.group("g").members.clear())
    fill(quick, "t", 0, numbers(1, 2))
    assert offsets(take(consumer)) == [1]
    quick.wait_for(lambda cluster: len(cluster.shares.group("g").members) == 1)


def test_a_member_that_does_not_poll_leaves_and_joins_again(quick: ModelServer, make: Make) -> None:
    topic(quick, 1)
    consumer = make(max_poll_interval_ms=200, share_acknowledgement_mode="implicit")
    take(consumer)
    quick.wait_for(lambda cluster: not cluster.shares.group("g").members)
    fill(quick, "t", 0, numbers(1, 2))
    assert offsets(take(consumer)) == [1]


def test_close_releases_what_was_not_acknowledged_and_leaves(quick: ModelServer, make: Make) -> None:
    topic(quick, 4)
    consumer, other = make(), make()
    records = take(consumer, 4)
    consumer.accept(records[0])
    consumer.close()
    assert quick.do(lambda cluster: len(cluster.shares.group("g").members)) <= 1
    assert [(r.offset, r.delivery_count) for r in take(other, 3)] == [(1, 2), (2, 2), (3, 2)]


def test_a_destructor_on_the_loop_has_another_thread_close_it(quick: ModelServer, make: Make) -> None:
    topic(quick, 4)
    consumer, other = make(), make()
    consumer.accept(take(consumer, 4)[0])
    returned = threading.Event()
    inspect(consumer).loop.call(lambda now: (consumer.close(10 * SECONDS), returned.set()))
    assert returned.wait(SECONDS), "the loop waits for what only the loop does"
    assert [(r.offset, r.delivery_count) for r in take(other, 3)] == [(1, 2), (2, 2), (3, 2)]
    until(lambda: inspect(consumer).session.closed, other)


@pytest.mark.model(brokers=1)
def test_close_releases_what_is_locked_of_a_topic_that_is_no_longer_subscribed(quick: ModelServer, make: Make) -> None:
    topic(quick, 1)
    quick.create_topic("u", 1)
    fill(quick, "u", 0, numbers(0, 1))
    consumer = make()
    (record,) = take(consumer)
    consumer.renew(record)
    consumer.subscribe(["u"])
    assert [each.topic for each in take(consumer)] == ["u"]
    sessions = quick.do(lambda cluster: list(cluster.shares.sessions.values()))
    assert sum(len(session.partitions) for session in sessions) == 1
    consumer.close()
    (again,) = take(make())
    assert (again.offset, again.delivery_count) == (0, 2)


@pytest.mark.parametrize(("timeout", "options"), [(0.5, {}), (None, {"close_timeout_ms": 500})], ids=["argument", "option"])
def test_close_without_brokers_ends_in_time(quick: ModelServer, make: Make, timeout: float | None, options: dict[str, Any]) -> None:
    topic(quick, 1)
    consumer = make(share_acknowledgement_mode="implicit", **options)
    take(consumer)
    quick.do(lambda cluster: [cluster.freeze(node, 60.0) for node in cluster.brokers])
    begin = time.monotonic()
    consumer.close(timeout)
    assert time.monotonic() - begin < 1.5
    consumer.close()


def test_two_threads_are_told_apart(quick: ModelServer, make: Make) -> None:
    topic(quick, 0)
    consumer = make()
    thread = threading.Thread(target=lambda: consumer.poll(SECONDS), name="first")
    thread.start()
    until(lambda: inspect(consumer).session.mailbox.waiting, consumer)
    with pytest.raises(KafkaError, match="while thread 'first' is in poll"):
        consumer.poll(0)
    consumer.wakeup()
    thread.join(SECONDS)
    assert not thread.is_alive()


def test_the_record_of_a_loop_is_not_accepted_by_another_thread(quick: ModelServer, make: Make) -> None:
    topic(quick, 3)
    consumer = make(share_acknowledgement_mode="implicit")
    first, told = iter(consumer), list[Exception]()
    assert next(first).offset == 0

    def attempt() -> None:
        try:
            consumer.poll(0)
        except KafkaError as error:
            told.append(error)

    thread = threading.Thread(target=attempt, name="second")
    thread.start()
    thread.join(SECONDS)
    assert "'second' called poll while thread 'MainThread' is in a loop" in str(told[0])
    assert consumer.stats()["in_hand"] == 1
    assert next(iter(consumer)).offset == 1  # the same thread, in another loop
    del first
    assert offsets(take(consumer)) == [2]


def test_an_interrupted_poll_loses_no_record(quick: ModelServer, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    topic(quick, 3)
    consumer = make()
    end = inspect(consumer).session._end_poll
    interrupted = [True]

    def interrupt() -> None:
        if interrupted and inspect(consumer).session.records.held:
            interrupted.clear()
            raise KeyboardInterrupt
        end()

    monkeypatch.setattr(inspect(consumer).session, "_end_poll", interrupt)
    with pytest.raises(KeyboardInterrupt):
        until(lambda: consumer.poll(0.2), consumer)
    found = take(consumer, 3)
    assert [(r.offset, r.delivery_count) for r in found] == [(0, 1), (1, 1), (2, 1)]


def test_runs_of_offsets_are_named_in_messages() -> None:
    assert list(ranges([5, 1, 2, 3, 9])) == [(1, 3), (5, 5), (9, 9)]
    assert shown_offsets([7]) == "offset 7"
    assert shown_offsets([3, 4, 5, 7]) == "offsets 3-5, 7"
    assert shown_offsets(range(0, 20, 2)) == "offsets 0, 2, 4, 6, 8 and 5 more ranges"
