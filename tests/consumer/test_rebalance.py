"""Rebalances: which member reads which partitions, and which calls listeners get."""

from __future__ import annotations

import threading
import time
from itertools import islice

import pytest

from pykafka4.consumer import Consumer, assignment
from pykafka4.consumer.assignment import LAST_COMMIT_TIMEOUT_S
from pykafka4.errors import ClosedError, ConfigError
from pykafka4.net.handoff.waiting import Signal
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.testing import Fault, ModelServer
from pykafka4.wire.protocol.messages_group import HeartbeatRequest, OffsetCommitRequest
from tests.consumer.consuming import LONG, Listener, Maker, fill, numbers, poll_until, read, topic
from tests.inspection import inspect
from tests.net.net_helpers import until


def test_members_share_out_partitions_and_take_over_from_each_other(server: ModelServer, make: Maker) -> None:
    topic(server, 0, 0, 0, 0)
    first, second = make(group_id="g"), make(group_id="g")
    told, told_second = Listener(), Listener()
    first.subscribe(["t"], told)
    poll_until(first, lambda: len(first.assignment()) == 4)
    second.subscribe(["t"], told_second)
    poll_until(first, lambda: second.poll(0.01) is not None and len(second.assignment()) == 2 and len(first.assignment()) == 2)
    assert first.assignment() | second.assignment() == {("t", p) for p in range(4)}
    assert told.kinds == ["assigned", "revoked", "assigned"]
    second.close()
    poll_until(first, lambda: len(first.assignment()) == 4)
    assert told_second.kinds == ["assigned", "revoked"]


def test_no_record_is_skipped_or_regressed_when_members_come_and_go(server: ModelServer, make: Maker) -> None:
    topic(server, 300, 300, 300, 300)
    first, second = make(group_id="g"), make(group_id="g")
    first.subscribe(["t"])
    seen = {(r.partition, r.offset) for r in read(first, 200, max_records=50)}
    second.subscribe(["t"])
    deadline = time.monotonic() + LONG
    while len(seen) < 1200:
        assert time.monotonic() < deadline
        for consumer in (first, second):
            seen |= {(r.partition, r.offset) for r in consumer.poll(0.02, max_records=50)}
    assert seen == {(p, i) for p in range(4) for i in range(300)}


def test_commit_in_on_partitions_revoked_works(server: ModelServer, make: Maker) -> None:
    topic(server, 10, 0)
    first = make(group_id="g", enable_auto_commit=False)
    handed = finished = 0

    class Committing(Listener):
        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            nonlocal finished
            finished = handed
            first.commit(timeout=LONG)
            super().on_partitions_revoked(partitions)

    told = Committing()
    first.subscribe(["t"], told)
    handed = len(read(first, 4, max_records=4))
    second = make.member(enable_auto_commit=False)

    def revoked() -> bool:
        nonlocal handed
        handed += len(first.poll(0.01, max_records=1))
        return bool(second.assignment() and "revoked" in told.kinds)

    poll_until(second, revoked)
    assert finished >= 4
    assert second.committed(("t", 0)) == OffsetAndMetadata(finished, 0)


def test_records_of_revoked_partitions_are_dropped_before_the_listener_runs(server: ModelServer, make: Maker) -> None:
    topic(server, 500, 500)
    first = make(group_id="g")
    buffered: list[int] = []

    class Looking(Listener):
        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            buffered.append(first.stats()["buffered_bytes"])

    first.subscribe(["t"], Looking())
    read(first, 10, max_records=10)
    second = make.member()
    poll_until(second, lambda: first.poll(0.01, max_records=1) is not None and buffered)
    assert buffered[0] == 0


def test_seek_in_on_partitions_assigned_decides_where_to_begin(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    consumer = make(group_id="g", auto_offset_reset="none")

    class Seeking(Listener):
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            for tp in partitions:
                consumer.seek(tp, 7)

    consumer.subscribe(["t"], Seeking())
    assert [r.offset for r in read(consumer, 3)] == [7, 8, 9]


def test_an_exception_in_a_listener_comes_out_of_poll_and_the_consumer_goes_on(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    consumer = make(group_id="g")

    class Failing(Listener):
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            raise ZeroDivisionError

    consumer.subscribe(["t"], Failing())
    with pytest.raises(ZeroDivisionError):
        poll_until(consumer, consumer.assignment)
    assert [r.offset for r in read(consumer, 3)] == [0, 1, 2]


def test_new_partitions_of_a_subscribed_topic_are_read_from_their_beginning(server: ModelServer, make: Maker) -> None:
    topic(server, 0)
    consumer = make.member(auto_offset_reset="latest", metadata_max_age_ms=200)
    poll_until(consumer, lambda: consumer.assignment() == {("t", 0)})
    server.do(lambda cluster: cluster.add_partitions("t", 3))
    fill(server, "t", 2, numbers(0, 3))
    assert [(r.partition, r.offset) for r in read(consumer, 3)] == [(2, 0), (2, 1), (2, 2)]


def test_a_static_member_comes_back_without_a_rebalance(server: ModelServer, make: Maker) -> None:
    topic(server, 0, 0)
    other, told = make(group_id="g"), Listener()
    other.subscribe(["t"], told)
    static = make.member(group_instance_id="s1")
    poll_until(static, lambda: other.poll(0.01) is not None and len(static.assignment()) == 1 and len(other.assignment()) == 1)
    before = len(told.told)
    had = static.assignment()
    static.close()
    back = make.member(group_instance_id="s1")
    poll_until(back, lambda: other.poll(0.01) is not None and back.assignment())
    assert back.assignment() == had
    assert len(told.told) == before


@pytest.mark.parametrize("leads", [False, True], ids=["follower", "leader"])
def test_a_static_member_that_unsubscribes_and_subscribes_again_causes_no_rebalance(server: ModelServer, make: Maker, leads: bool) -> None:
    topic(server, 0, 0)
    told = Listener()
    if leads:
        static = make.member(group_instance_id="s1")
        poll_until(static, static.assignment)
    other = make.member(told)
    if not leads:
        poll_until(other, other.assignment)
        static = make.member(group_instance_id="s1")
    poll_until(static, lambda: other.poll(0.01) is not None and len(static.assignment()) == 1 and len(other.assignment()) == 1)
    had, before = static.assignment(), list(told.told)
    for _ in range(2):
        static.unsubscribe()
        static.subscribe(["t"])
        poll_until(static, lambda: other.poll(0.01) is not None and static.assignment())
    poll_until(static, lambda: other.poll(0.1) is not None)
    assert (static.assignment(), told.told) == (had, before)


def test_subscribed_and_assigned_partitions_live_side_by_side(server: ModelServer, make: Maker) -> None:
    topic(server, 0)
    server.create_topic("u", 1)
    fill(server, "t", 0, numbers(0, 3))
    fill(server, "u", 0, numbers(0, 3))
    consumer = make(group_id="g")
    consumer.assign([("u", 0)])
    consumer.subscribe(["t"])
    assert {(r.topic, r.offset) for r in read(consumer, 6)} == {(t, i) for t in "tu" for i in range(3)}
    consumer.commit()
    assert consumer.committed([("t", 0), ("u", 0)]) == {("t", 0): OffsetAndMetadata(3, 0), ("u", 0): OffsetAndMetadata(3, 0)}
    with pytest.raises(ConfigError, match="'u'"):
        consumer.subscribe(["u"])
    with pytest.raises(ConfigError, match="'t'"):
        consumer.assign([("t", 0)])


def test_unsubscribe_leaves_the_group_and_subscribe_joins_again(server: ModelServer, make: Maker) -> None:
    topic(server, 0)
    consumer, told = make(group_id="g"), Listener()
    consumer.subscribe(["t"], told)
    poll_until(consumer, consumer.assignment)
    consumer.unsubscribe()
    assert consumer.assignment() == set()
    assert consumer.subscription() == set()
    assert told.kinds == ["assigned", "revoked"]
    server.wait_for(lambda cluster: not cluster.group("g").members)
    consumer.subscribe(["t"])
    poll_until(consumer, consumer.assignment)


def test_a_listener_hears_nothing_of_the_subscription_before(server: ModelServer, make: Maker) -> None:
    topic(server, 1)
    consumer, told = make(group_id="g"), Listener()
    consumer.subscribe(["v"])
    consumer.poll(0)
    deadline = time.monotonic() + LONG
    while consumer.status()["consumer"]["state"] != "stable":
        assert time.monotonic() < deadline
    consumer.unsubscribe()
    consumer.subscribe(["t"], told)
    poll_until(consumer, consumer.assignment)
    assert told.told == [("assigned", [("t", 0)])]


def test_what_was_finished_is_committed_before_the_listener_hears_of_the_revocation(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    seen: list[dict[TopicPartition, int]] = []

    class Looks(Listener):
        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            seen.append(server.committed("g"))

    never = {"auto_commit_interval_ms": 600_000}
    first = make.member(Looks(), **never)
    read(first, 10)
    first.poll(0)
    assert server.committed("g").get(TopicPartition("t", 0), 0) == 0, "nothing but the revocation commits here"
    second = make.member(**never)

    def revoked() -> bool:
        second.poll(0)
        return bool(seen)

    poll_until(first, revoked)
    assert seen == [{TopicPartition("t", 0): 10}]


@pytest.mark.parametrize("seen", [True, False], ids=["assignment taken up", "assignment not seen yet"])
def test_partitions_assigned_by_hand_are_read_on_when_the_group_takes_its_share_of_them_back(
    server: ModelServer, make: Maker, seen: bool
) -> None:
    topic(server, 5, 5)
    server.create_topic("u", 1)
    consumer = make.member()
    if seen:
        read(consumer, 10)
    else:
        consumer.poll(0)
        deadline = time.monotonic() + LONG
        while consumer.status()["consumer"]["state"] != "stable":
            assert time.monotonic() < deadline
    consumer.subscribe(["u"])
    consumer.assign([("t", 0)])
    poll_until(consumer, lambda: consumer.assignment() == {("t", 0), ("u", 0)})
    fill(server, "t", 0, numbers(5, 8))
    fill(server, "t", 1, numbers(5, 8))
    found: list[object] = []
    deadline = time.monotonic() + LONG
    while (0, 7) not in found:
        assert time.monotonic() < deadline, consumer.status()
        found += [(r.partition, r.offset) for r in consumer.poll(0.05)]
    assert [f for f in found if f[0] == 0] == [(0, i) for i in range(8) if (0, i) in found]
    assert all(partition == 0 for partition, _ in found)
    assert consumer.assignment() == {("t", 0), ("u", 0)}


@pytest.mark.parametrize("lost", [False, True], ids=["rebalance", "member expelled"])
def test_a_paused_partition_that_comes_straight_back_is_still_paused(server: ModelServer, make: Maker, lost: bool) -> None:
    topic(server, 3, 3)
    told = Listener()
    consumer = make.member(told)
    read(consumer, 6)
    consumer.commit()
    consumer.pause(consumer.assignment())
    assigned = told.kinds.count("assigned")
    if lost:
        server.do(lambda cluster: cluster.push_error(HeartbeatRequest, "ILLEGAL_GENERATION"))
    else:
        other = make.member()
    poll_until(consumer, lambda: (lost or other.poll(0) is not None) and told.kinds.count("assigned") > assigned)
    assert consumer.paused() == consumer.assignment() != set()
    for partition in (0, 1):
        fill(server, "t", partition, numbers(3, 6))
    held = consumer.assignment()
    assert consumer.poll(0.3) == []
    consumer.resume(held)
    assert {record.partition for record in read(consumer, 3 * len(held))} == {tp.partition for tp in held}


def test_a_partition_that_comes_back_after_another_assignment_is_not_paused(server: ModelServer, make: Maker) -> None:
    topic(server, 3, 3)
    consumer = make.member()
    read(consumer, 6)
    consumer.pause(consumer.assignment())
    other = make.member()
    poll_until(consumer, lambda: other.poll(0) is not None and len(consumer.assignment()) == 1 and len(other.assignment()) == 1)
    other.close()
    poll_until(consumer, lambda: len(consumer.assignment()) == 2)
    assert len(consumer.paused()) == 1


@pytest.mark.parametrize("rebalances", [False, True], ids=["stable", "in a rebalance"])
def test_unsubscribe_forgets_pauses(server: ModelServer, make: Maker, rebalances: bool) -> None:
    topic(server, 3)
    consumer = make.member()
    read(consumer, 3)
    consumer.pause(consumer.assignment())
    if rebalances:
        server.delay("JoinGroup", 0.3)
        server.do(lambda cluster: cluster.push_error(HeartbeatRequest, "ILLEGAL_GENERATION"))
        poll_until(consumer, lambda: not consumer.assignment())
    consumer.unsubscribe()
    consumer.subscribe(["t"])
    poll_until(consumer, consumer.assignment)
    assert consumer.paused() == set()


def commit_without_response(server: ModelServer, make: Maker) -> Consumer:
    """A member that has to release its partitions and has no response to its last commit."""
    topic(server, 5, 5)
    server.create_topic("u", 1)
    member = make.member(request_timeout_ms=20_000, auto_commit_interval_ms=60_000)
    member.assign([("u", 0)])
    read(member, 10)
    server.do(lambda cluster: cluster.inject(OffsetCommitRequest, Fault.SWALLOW, times=100))
    poll_until(make.member(), lambda: member.poll(0) == [] and inspect(member).session.assignment.last_commit is not None)
    return member


def test_a_poll_that_waits_for_the_last_commit_of_a_revocation_returns_no_records(
    server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assignment, "LAST_COMMIT_WAIT_S", 60.0)
    consumer = commit_without_response(server, make)
    session, before = inspect(consumer).session, consumer.stats()["fetched_bytes"]
    for tp in (TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)):
        fill(server, *tp, numbers(5, 8))
    deadline = time.monotonic() + LONG
    while consumer.stats()["fetched_bytes"] == before:
        assert time.monotonic() < deadline
        assert consumer.poll(0.01) == []
    assert consumer.poll(0) == []
    assert session.reader.ready, "the event of the revocation is not done with"
    assert not session._has_news(), "the poll would not wait, but run in circles"
    consumer.wakeup()
    assert session._has_news()


@pytest.mark.parametrize("loop", [False, True], ids=["poll", "for"])
def test_partitions_that_stay_are_read_on_while_the_last_commit_of_a_revocation_takes_long(
    server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch, loop: bool
) -> None:
    monkeypatch.setattr(assignment, "LAST_COMMIT_WAIT_S", 0.05)
    consumer = commit_without_response(server, make)
    session = inspect(consumer).session
    for tp in (TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)):
        fill(server, *tp, numbers(0, 3))
    if loop:
        found = list(islice(consumer, 3))
    else:
        found = []
        while len(found) < 3:
            found += consumer.poll(LONG)
    assert [(r.topic, r.offset) for r in found] == [("u", 0), ("u", 1), ("u", 2)]
    assert session.assignment.last_commit is not None
    assert consumer.poll(0.01) == []
    assert not session._has_news(), "the poll would not wait, but run in circles"
    assert consumer.assignment() >= {("u", 0)}


def test_the_list_of_a_for_loop_over_partitions_that_stay_ends_when_the_last_commit_of_a_revocation_has_its_outcome(
    server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assignment, "LAST_COMMIT_WAIT_S", 0.0)
    consumer = commit_without_response(server, make)
    fill(server, "u", 0, numbers(0, 50))
    commit, places = inspect(consumer).session.assignment.last_commit, []
    assert commit is not None
    for record in consumer:
        places.append((record.topic, record.offset))
        if len(places) == 1:
            server.do(lambda cluster: (cluster.heal(), cluster.drop_connections()))
            until(commit.done, "the last commit's outcome")
        elif commit is not inspect(consumer).session.assignment.last_commit:
            break
    assert places == [("u", 0), ("u", 1)], "the rebalance went on before the third record, of a list of fifty"


def test_a_for_loop_goes_on_after_a_revocation_without_anything_to_commit(server: ModelServer, make: Maker) -> None:
    topic(server, 0, 0)
    server.create_topic("u", 1)
    server.do(lambda cluster: setattr(cluster.coordinators, "heartbeat_interval", 0.1))
    options = {"group_protocol": "consumer", "enable_auto_commit": False}  # what stays is not assigned again
    member = make.member(**options)
    member.assign([("u", 0)])
    poll_until(member, lambda: len(member.assignment()) == 3)
    fill(server, "u", 0, numbers(0, 50))
    other, offsets = make.member(**options), list[int]()
    late = threading.Timer(LONG, member.close)  # otherwise the loop would wait for ever
    late.start()
    for record in member:
        offsets.append(record.offset)
        if record.offset == 3:
            until(lambda: other.poll(0.01) or member.status()["consumer"]["state"] == "revoking", "the rebalance")
        if record.offset == 49:
            break
    late.cancel()
    assert offsets == list(range(50))


def test_a_poll_of_zero_seconds_does_not_wait_for_the_last_commit_of_a_revocation(
    server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = commit_without_response(server, make)
    waits: list[float | None] = []
    monkeypatch.setattr(Signal, "wait", lambda self, predicate, timeout=None: waits.append(timeout))
    assert consumer.poll(0) == []
    assert waits == []
    monkeypatch.undo()


@pytest.mark.parametrize("how", ["wakeup", "close"])
def test_a_poll_that_waits_for_the_last_commit_of_a_revocation_ends_when_asked_to(
    server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(assignment, "LAST_COMMIT_WAIT_S", 60.0)
    first = commit_without_response(server, make)
    ended: list[object] = []

    def wait() -> None:
        try:
            ended.append(first.poll(None))
        except ClosedError as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    deadline = time.monotonic() + LONG
    while inspect(first).session.signal.waiting == 0:
        assert time.monotonic() < deadline
    began = time.monotonic()
    first.wakeup() if how == "wakeup" else first.close(0)
    thread.join(LONG)
    assert ended
    assert time.monotonic() - began < LAST_COMMIT_TIMEOUT_S / 3
    assert ended == [[]] if how == "wakeup" else isinstance(ended[0], ClosedError)


def test_records_written_after_the_beginning_was_found_are_not_skipped_by_a_rebalance_before_the_next_poll(
    server: ModelServer, make: Maker
) -> None:
    """With latest: the offset where reading begins is committed although no poll has taken it yet."""
    topic(server, 5)
    server.create_topic("u", 1)
    consumer = make(group_id="g", auto_offset_reset="latest")
    consumer.subscribe(["t"])
    until(lambda: consumer.poll(0) or consumer.assignment(), "an assignment")  # these polls do not wait for the offset
    assert consumer.position(("t", 0), LONG) == 5
    fill(server, "t", 0, numbers(5, 8))
    consumer.subscribe(["t", "u"])
    until(lambda: consumer.status()["consumer"]["state"] == "revoking", "the rebalance")
    assert [record.offset for record in read(consumer, 3)] == [5, 6, 7]
