"""All machines of a consumer together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from pykafka4.core import INFINITY, Request
from pykafka4.core.group.membership.classic import MemberState
from pykafka4.core.subscription import Claim, Ended, Ending, Start
from pykafka4.errors import KafkaError
from pykafka4.errors.codes import CODES
from pykafka4.wire.protocol.messages_cluster import FindCoordinatorRequest, FindCoordinatorResponse
from pykafka4.wire.protocol.messages_fetch import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from pykafka4.wire.protocol.messages_group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.core.consumer_harness import LOST, ConsumerHarness, batch, tp
from tests.core.member_harness import keep_alive, steady


@pytest.fixture
def harness() -> ConsumerHarness:
    harness = ConsumerHarness(group_id="g", fetch_max_wait_ms=500, auto_commit_interval_ms=5_000)
    harness.cluster.set("t", [1, 2])
    return harness


def test_from_subscribe_to_the_first_record(harness: ConsumerHarness) -> None:
    harness.stable(tp(0), tp(1))
    harness.committed({tp(0): 5})
    harness.ends(0)
    harness.fetched(harness.fetch_at(1), {tp(0): batch(5, 2)})
    harness.fetched(harness.fetch_at(2), {tp(1): batch(0, 2)})
    assert [(r.partition, r.offset) for r in harness.poll()] == [(0, 5), (0, 6), (1, 0), (1, 1)]
    harness.poll()
    harness.run(5)
    assert harness.commits() == {tp(0): 7, tp(1): 2}


def test_offsets_known_to_the_coordinator_are_not_committed_again(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    harness.committed({tp(0): 5})
    harness.poll()
    harness.poll()
    harness.run(5)
    assert harness.pending(OffsetCommitRequest) == []


def test_an_offset_known_from_an_earlier_assignment_is_committed_again(harness: ConsumerHarness) -> None:
    """Another member may have committed more in between; a seek back to that place must reach the coordinator."""
    harness.stable(tp(0))
    harness.committed({tp(0): 5})
    before = list(harness.reader.claims.values())
    harness.machine.fetcher.drop(before)
    harness.reader.release(before)
    claims = [Claim(tp(0))]
    harness.reader.adopt(claims)
    harness.machine.fetcher.adopt(claims, Start.COMMITTED)
    harness.reader.seek(tp(0), 5)
    harness.poll()
    harness.run(5)
    assert harness.commits() == {tp(0): 5}


def test_a_reset_invalidates_the_offset_known_to_the_coordinator(harness: ConsumerHarness) -> None:
    """Brokers forget the committed offsets of a deleted topic: its namesake's must be committed, even where it is the same offset."""
    harness.cluster.set("t", topic_id=UUID(int=1))
    harness.stable(tp(0))
    harness.committed({tp(0): 5})
    harness.poll()
    harness.cluster.set("t", topic_id=UUID(int=2))
    harness.run()
    harness.ends(0)
    harness.fetched(harness.pending(FetchRequest)[-1], {tp(0): batch(0, 5)})
    assert len(harness.poll()) == 5
    harness.poll()
    harness.run(5)
    assert harness.commits() == {tp(0): 5}


def test_the_polling_thread_is_woken_by_whatever_arrives(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    harness.committed({tp(0): 0})
    harness.poll()
    before = harness.notified
    harness.fetched(harness.fetch_at(1), {tp(0): batch(0, 1)})
    assert harness.notified > before


def test_a_poll_with_nothing_to_do_asks_nothing_and_sleeps_till_the_next_timer(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    harness.committed({tp(0): 0})
    keep_alive(harness)
    steady(harness, seconds=6.0)
    effects = [harness.machine.poll(harness.now + 0.001 * n) for n in range(100)]
    assert all(not e.requests for e in effects)
    assert all(e.wake_at > harness.now + 1 for e in effects)


def test_a_consumer_that_reads_nothing_sleeps_for_ever() -> None:
    harness = ConsumerHarness()
    harness.run()
    assert harness.wake_at == INFINITY


def test_a_removed_consumer_keeps_no_partition_and_no_lane(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    harness.one(OffsetFetchRequest)
    harness.reader.arrivals.clear()
    harness.machine.dispose()
    assert harness.machine.fetcher.positions == {}
    assert sorted(harness.network.dropped) == [1, 2, 3, 4]
    assert not harness.reader.arrivals  # a lookup that ends with its partitions is no error


def test_status_says_what_each_partition_waits_for(harness: ConsumerHarness) -> None:
    harness.stable(tp(0), tp(1), topics=("t", "missing"))
    harness.committed({tp(0): 0, tp(1): 0})
    harness.answer(harness.fetch_at(1), LOST)
    status = harness.machine.status(harness.now)
    assert status["state"] == "stable"
    assert status["coordinator"] == 1
    assert status["unknown_topics"] == ["missing"]
    assert status["partitions"]["t-0"]["waits_for"] == "127.0.0.1:9092: connection refused"
    assert status["partitions"]["t-1"]["state"] == "fetching"


# ---------------------------------------------------------------- every error code, everywhere


def _rows(request: Request, make: Callable[[Any], Any], partitions: str) -> list[Any]:
    return [(t, [make(p) for p in getattr(t, partitions)]) for t in request.message.topics]


def find(request: Request, code: int) -> Any:
    return FindCoordinatorResponse(error_code=code, error_message=None, node_id=1, host="h", port=1)


def join(request: Request, code: int) -> Any:
    return JoinGroupResponse(error_code=code, generation_id=1, protocol_name="range", leader="x", member_id="m", members=[])


def sync(request: Request, code: int) -> Any:
    return SyncGroupResponse(error_code=code, assignment=b"")


def beat(request: Request, code: int) -> Any:
    return HeartbeatResponse(error_code=code)


def commit(request: Request, code: int) -> Any:
    made = _rows(request, lambda p: OffsetCommitResponse.Topic.Partition(partition_index=p.partition_index, error_code=code), "partitions")
    return OffsetCommitResponse(topics=[OffsetCommitResponse.Topic(name=t.name, partitions=parts) for t, parts in made])


def lookup(request: Request, code: int) -> Any:
    return OffsetFetchResponse(topics=[], error_code=code, groups=[])


def lookup_of_one(request: Request, code: int) -> Any:
    row = OffsetFetchResponse.Topic.Partition
    made = _rows(request, lambda i: row(partition_index=i, committed_offset=-1, metadata=None, error_code=code), "partition_indexes")
    return OffsetFetchResponse(topics=[OffsetFetchResponse.Topic(name=t.name, partitions=parts) for t, parts in made], groups=[])


def ends(request: Request, code: int) -> Any:
    row = ListOffsetsResponse.Topic.Partition
    made = _rows(request, lambda p: row(partition_index=p.partition_index, error_code=code, offset=0), "partitions")
    return ListOffsetsResponse(topics=[ListOffsetsResponse.Topic(name=t.name, partitions=parts) for t, parts in made])


def fetch(request: Request, code: int) -> Any:
    row = FetchResponse.Topic.Partition
    made = _rows(
        request, lambda p: row(partition_index=p.partition, error_code=code, high_watermark=0, aborted_transactions=None), "partitions"
    )
    return FetchResponse(session_id=0, responses=[FetchResponse.Topic(topic=t.topic, partitions=parts) for t, parts in made])


def fetch_as_a_whole(request: Request, code: int) -> Any:
    return FetchResponse(error_code=code, session_id=0, responses=[])


PLACES: list[tuple[type, Callable[[Request, int], Any]]] = [
    (FindCoordinatorRequest, find),
    (JoinGroupRequest, join),
    (SyncGroupRequest, sync),
    (HeartbeatRequest, beat),
    (OffsetCommitRequest, commit),
    (OffsetFetchRequest, lookup),
    (OffsetFetchRequest, lookup_of_one),
    (ListOffsetsRequest, ends),
    (FetchRequest, fetch),
    (FetchRequest, fetch_as_a_whole),
]
WELL: dict[type, Callable[[Request, int], Any]] = dict(reversed(PLACES))


class Application:
    """Polls, takes up partitions and gives them back, and answers the requests of its harness."""

    def __init__(self, kind: type, answer: Callable[[Request, int], Any]) -> None:
        self.kind, self.bad_answer = kind, answer
        self.harness = harness = ConsumerHarness(group_id="g", auto_commit_interval_ms=500, heartbeat_interval_ms=1_000)
        harness.cluster.set("t", [1, 1])
        harness.assign(tp(1))
        harness.machine.membership.subscribe(("t",))
        self.told = False
        self.asked = 0

    def pass_time(self, seconds: float, code: int) -> None:
        """Answers to requests of the kind say `code`, if it is not 0; the others say that all is well."""
        until = self.harness.now + seconds
        while self.harness.now < until:
            self.harness.run(0.25)
            self.poll()
            for _ in range(5):  # a request that is repeated at once shows here
                self.answer(code)
            self.harness.recovery.bring_back()

    def poll(self) -> None:
        harness = self.harness
        try:
            harness.poll()
        except KafkaError:
            self.told = True
        self.told = self.told or harness.reader.fatal is not None
        while harness.reader.events:
            event = harness.reader.events.popleft()
            if isinstance(event, Ended):
                harness.machine.membership.released(event)
        harness.reader.finished[tp(1)] = (int(harness.now * 10), 0)

    def answer(self, code: int) -> None:
        for request in list(self.harness.sent):
            bad = code if isinstance(request.message, self.kind) else 0
            self.asked += bool(bad)
            if bad:
                self.harness.answer(request, self.bad_answer(request, bad))
            elif not isinstance(request.message, FetchRequest):  # a Fetch with nothing new waits
                make = WELL.get(type(request.message))
                if make is None:
                    self.harness.sent.remove(request)
                else:
                    self.harness.answer(request, make(request, 0))


@pytest.mark.parametrize(("kind", "answer"), PLACES, ids=[make.__name__ for _, make in PLACES])
def test_every_error_code_in_every_answer_is_dealt_with_and_never_hammered(kind: type, answer: Callable[[Request, int], Any]) -> None:
    """The same code for four seconds: no exception, few requests, and the member is stable afterwards, or the error was raised."""
    for code in [*sorted(CODES.keys() - {0}), 32_767]:
        application = Application(kind, answer)
        application.pass_time(4, code)
        assert application.asked < 40, code
        application.pass_time(4, 0)
        state = application.harness.machine.membership.state
        assert state is MemberState.STABLE or (state is MemberState.FATAL and application.told), (code, state)


def test_topics_are_wanted_as_long_as_they_are_subscribed_to_or_read() -> None:
    harness = ConsumerHarness(group_id="g")
    harness.cluster.set("t", [1, 1])
    harness.cluster.set("u", [1])
    membership, fetcher = harness.machine.membership, harness.machine.fetcher
    membership.subscribe(("t", "u"))
    assert set(harness.cluster.users) == {"t", "u"}
    membership.subscribe(("t",))
    assert set(harness.cluster.users) == {"t"}
    claims = [Claim(tp(0)), Claim(tp(1)), Claim(tp(0, "s"))]
    fetcher.adopt(claims, Start.EARLIEST)
    membership.leave(harness.now, 0.0, lambda: None, "")
    assert set(harness.cluster.users) == {"t", "s"}
    fetcher.drop(claims[:1])
    assert set(harness.cluster.users) == {"t", "s"}, "one partition of t is still read"
    fetcher.drop(claims[1:2])
    assert set(harness.cluster.users) == {"s"}
    membership.subscribe(("u",))
    harness.machine.dispose()
    assert not harness.cluster.users


def test_a_slow_loop_is_not_evicted_and_its_records_are_committed_while_it_runs() -> None:
    harness = ConsumerHarness(group_id="g", max_poll_interval_ms=20_000, session_timeout_ms=10_000, auto_commit_interval_ms=5_000)
    harness.cluster.set("t", [1])
    harness.stable(tp(0))
    harness.committed({tp(0): 0})
    harness.fetched(harness.fetch_at(1), {tp(0): batch(0, 50)})
    iterator = harness.loop(500)
    stored = []
    for record in iterator:
        harness.run(2)
        for request in harness.pending(HeartbeatRequest):
            harness.beat(request)
        if harness.pending(OffsetCommitRequest):
            (place,) = harness.commits().values()
            assert place <= record.offset
            stored.append(place)
    assert harness.now > 150
    assert harness.machine.membership.state is MemberState.STABLE
    assert stored[-1] >= 45
    assert stored == sorted(stored)
    for _ in range(12):
        harness.run(2)
        for request in harness.pending(HeartbeatRequest):
            harness.beat(request)
    assert [ended.ending for ended in harness.machine.membership._ending] == [Ending.LOST]
