"""Strategies: an application's assignor in the option, on the way to JoinGroup and SyncGroup. None of its code runs on the loop."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from pykafka4.core import Threads
from pykafka4.core.group.encoding import group_member
from pykafka4.core.group.leading.assigning import MOST_ON_LOOP
from pykafka4.errors import KafkaError
from pykafka4.wire.protocol.messages_group import JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from tests.core.consumer_harness import ConsumerHarness, tp
from tests.core.member_harness import keep_alive, other, state


@attrs.define
class Mine:
    """Everything to the first member."""

    returns: Any = None
    name: str = "mine"
    cooperative: bool = False

    def assign(self, members: Any, topics: Any) -> Any:
        if self.returns is not None:
            return self.returns
        return {members[0].member_id: [each.tp for partitions in topics.values() for each in partitions]}


@attrs.define
class Talkative(Mine):
    """Sends what it is asked."""

    name: str = "talkative"
    data: Any = None
    asked: list[Any] = attrs.Factory(list)

    def user_data(self, topics: Any, previous: Any, generation: Any) -> Any:
        self.asked.append((topics, previous, generation))
        if isinstance(self.data, BaseException):
            raise self.data
        return self.data() if isinstance(self.data, Released) else self.data


class Released:
    """Makes a memoryview that was released."""

    def __call__(self) -> memoryview:
        view = memoryview(b"x")
        view.release()
        return view


def member(*strategies: Any, **options: Any) -> ConsumerHarness:
    """A member that has found its coordinator."""
    harness = ConsumerHarness(group_id="g", partition_assignment_strategy=strategies, **options)
    harness.cluster.set("t", [1, 1])
    harness.machine.membership.subscribe(("t",))
    keep_alive(harness)
    harness.find_coordinator()
    return harness


def lead(harness: ConsumerHarness, protocol: str = "mine") -> None:
    harness.join(leader="m", members=[other("m", "t"), other("n", "t")], protocol=protocol)


def troubles(harness: ConsumerHarness) -> list[KafkaError]:
    """What every `poll` raises."""
    harness.reader.drain()
    return [] if harness.reader.fatal is None else [harness.reader.fatal]


def test_a_join_lists_all_assignors_in_order_with_their_user_data() -> None:
    talkative = Talkative(data=bytearray(b"x"))
    harness = member("roundrobin", talkative, "range")
    assert not harness.pending(JoinGroupRequest)
    assert not talkative.asked, "it is not called on the loop"
    harness.work()
    sent = harness.one(JoinGroupRequest).message.protocols
    assert [p.name for p in sent] == ["roundrobin", "talkative", "range"]
    assert [group_member("m", None, p.metadata, "").user_data for p in sent] == [None, b"x", None]
    assert talkative.asked == [(frozenset({"t"}), (), -1)]


def test_user_data_is_asked_with_the_last_assignment_that_this_assignor_made() -> None:
    first, second = Talkative(), Talkative(name="second")
    harness = member(first, second)
    harness.work()
    harness.join(protocol="talkative", generation=4)
    harness.sync([tp(1)])
    harness.machine.membership.protocol.drop_out()
    harness.machine.membership._claims.clear()
    harness.run(1.0)
    harness.work()
    assert first.asked[1:] == [(frozenset({"t"}), (tp(1),), 4)]
    assert second.asked[1:] == [(frozenset({"t"}), (), -1)]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (ValueError("no"), "user_data of assignor 'talkative' raised ValueError('no')"),
        (SystemExit(1), "user_data of assignor 'talkative' raised SystemExit(1)"),
        (Released(), "user_data of assignor 'talkative' raised ValueError('operation forbidden on released memoryview object')"),
        ("text", "user_data of assignor 'talkative' returned 'text', which is neither bytes nor None"),
    ],
)
def test_an_assignor_without_user_data_ends_the_member_with_the_reason(data: Any, says: str) -> None:
    harness = member(Talkative(data=data))
    harness.work()
    (error,) = troubles(harness)
    assert f"{says}. This member cannot join: correct the assignor, then call subscribe again" in str(error)
    assert state(harness).value == "fatal"
    assert not harness.pending(JoinGroupRequest)
    harness.run(60.0)
    assert not harness.jobs


def test_user_data_that_does_not_come_ends_the_member_at_half_of_the_session() -> None:
    harness = member(Talkative(), session_timeout_ms=10_000)
    (job,) = harness.jobs
    harness.jobs.clear()
    keep_alive(harness)
    harness.run(4.9)
    assert state(harness).value == "joining"
    assert harness.wake_at <= 105.0
    harness.run(0.2)
    assert "an assignor did not return user data in time (session_timeout_ms limits it)" in str(troubles(harness)[0])
    harness.machine.membership.subscribe(("t",))
    harness.run(1.0)
    assert not harness.jobs, "one thread at most waits for it"
    keep_alive(harness)
    harness.run(5.0)
    assert state(harness).value == "fatal"
    job.then(harness.now, {"talkative": b""})
    harness.machine.membership.subscribe(("t",))
    harness.run(1.0)
    harness.work()
    assert harness.pending(JoinGroupRequest)


def test_a_join_that_begins_again_while_user_data_is_made_waits_for_it_and_asks_again() -> None:
    """The coordinator moved. What the assignor makes meanwhile is for a join that is over."""
    talkative = Talkative(data=b"x")
    harness = member(talkative)
    (first,) = harness.jobs
    harness.jobs.clear()
    harness.machine.coordinator.lost(harness.now, 1, KafkaError("it moved"))
    harness.run(1.0)
    harness.find_coordinator(2)
    harness.run(1.0)
    assert (state(harness).value, harness.jobs) == ("joining", [])
    first.then(harness.now, first.run())
    harness.run()
    assert not harness.pending(JoinGroupRequest)
    harness.work()
    assert len(talkative.asked) == 2
    assert harness.pending(JoinGroupRequest)
    assert not troubles(harness)


def test_user_data_that_nobody_waits_for_any_more_is_not_asked_again() -> None:
    harness = member(Talkative())
    (first,) = harness.jobs
    harness.jobs.clear()
    harness.machine.coordinator.lost(harness.now, 1, KafkaError("it moved"))
    harness.run(1.0)
    harness.find_coordinator(2)
    harness.run(1.0)
    harness.machine.membership.leave(harness.now, 0.0, lambda: None, "")
    first.then(harness.now, first.run())
    harness.run(1.0)
    assert not harness.jobs


def test_the_leader_runs_it_on_a_helper_and_sends_what_it_returns() -> None:
    harness = member(Mine())
    lead(harness)
    assert not harness.pending(SyncGroupRequest)
    assert [job.threads for job in harness.jobs] == [Threads.ASSIGNORS]
    harness.work()
    assert harness.shares() == {"m": [tp(0), tp(1)], "n": []}


def test_a_result_that_comes_after_the_next_generation_is_dropped() -> None:
    harness = member(Mine())
    lead(harness)
    (late,) = harness.jobs
    harness.jobs.clear()
    protocol: Any = harness.machine.membership.protocol
    protocol._rejoin(harness.now)
    late.then(harness.now, {"m": b"late"})
    keep_alive(harness)
    harness.run(2.0)
    lead(harness)
    assert not harness.pending(SyncGroupRequest)
    harness.work()
    assert harness.shares()["m"] == [tp(0), tp(1)]


@pytest.mark.parametrize("instance", [None, "i"])
def test_a_leader_whose_assignor_fails_ends_and_leaves_so_that_the_group_does_not_rebalance_without_end(instance: str | None) -> None:
    """A static member does not leave: it may come back within its session."""
    harness = member(Mine({"x": []}), group_instance_id=instance)
    lead(harness)
    harness.work()
    (error,) = troubles(harness)
    assert "assignor 'mine' returned partitions for 'x', which is not a member of the group" in str(error)
    assert state(harness).value == "fatal"
    leaves = harness.pending(LeaveGroupRequest)
    assert len(leaves) == (instance is None)
    for leave in leaves:
        assert harness.as_sent(LeaveGroupRequest, 5).members[0].member_id == "m"
        harness.left(leave)
    keep_alive(harness)
    harness.run(300.0)
    assert not harness.pending(JoinGroupRequest)
    harness.machine.membership.subscribe(("t",))
    keep_alive(harness)
    harness.run(2.0)
    assert harness.one(JoinGroupRequest).message.member_id == ("" if instance is None else "m")


def test_an_assignor_that_hangs_ends_the_leader_before_its_session_is_over() -> None:
    harness = member(Mine(), session_timeout_ms=10_000)
    lead(harness)
    harness.run(7.4)
    assert state(harness).value == "syncing"
    harness.run(0.2)
    assert "assignor 'mine' did not return in time (session_timeout_ms limits it)" in str(troubles(harness)[0])
    harness.jobs.clear()
    harness.machine.membership.subscribe(("t",))
    keep_alive(harness)
    harness.run(2.0)
    lead(harness)
    assert not harness.jobs, "one thread at most waits for it"
    keep_alive(harness)
    harness.run(7.6)
    assert state(harness).value == "fatal"


def test_a_leader_that_is_called_again_before_its_assignor_has_returned_waits_for_it() -> None:
    """The application left the group and subscribed again: nothing is wrong with an assignor that needs some seconds."""
    harness = member(Mine())
    lead(harness)
    (first,) = harness.jobs
    harness.jobs.clear()
    protocol: Any = harness.machine.membership.protocol
    protocol._rejoin(harness.now)
    keep_alive(harness)
    harness.run(2.0)
    lead(harness)
    assert (state(harness).value, harness.jobs) == ("syncing", [])
    first.then(harness.now, first.run())
    harness.run()
    assert not harness.pending(SyncGroupRequest)
    harness.work()
    assert harness.shares()["m"] == [tp(0), tp(1)]


def test_a_large_group_that_changes_to_a_built_in_assignor_leaves_the_thread_of_the_one_that_hangs_alone() -> None:
    harness = member(Mine(), "range")
    harness.cluster.set("t", [1] * MOST_ON_LOOP)
    lead(harness)
    protocol: Any = harness.machine.membership.protocol
    for protocol_name, threads in (("range", [Threads.HELPER]), ("mine", [])):
        harness.jobs.clear()
        protocol._rejoin(harness.now)
        keep_alive(harness)
        harness.run(2.0)
        lead(harness, protocol_name)
        assert [job.threads for job in harness.jobs] == threads, "one thread at most waits for an assignor that hangs"
        for job in harness.jobs:
            job.then(harness.now, job.run())
