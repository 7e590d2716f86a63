"""A rebalance that one member holds back: what the other members' calls cost meanwhile, on real brokers."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import pytest

from integration.cluster import Cluster
from integration.waiting import until
from pykafka4 import Consumer, GroupError, KafkaError, TopicPartition
from pykafka4.core.group.membership.classic import ClassicProtocol, MemberState
from tests.consumer.api_calls import ATTEMPTS
from tests.integration.reading import GROUP, LONG_S, SECONDS, Notes, poll_until, produce, read

pytestmark = pytest.mark.cluster

HELD_S = 45.0  # seconds: longer than the request timeout of 30 s


@pytest.fixture
def joins(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many JoinGroups each client id has sent."""
    sent: Counter[str] = Counter()
    join = ClassicProtocol._join

    def counted(self: ClassicProtocol, now: float, node: int) -> None:
        sent[self._config.client_id] += 1
        join(self, now, node)

    monkeypatch.setattr(ClassicProtocol, "_join", counted)
    return sent


def timed(call: Any) -> tuple[float, Any]:
    """Seconds taken, and what was returned or raised."""
    began = time.monotonic()
    try:
        result = call()
    except KafkaError as error:
        result = error
    return time.monotonic() - began, result


def soon(call: Any, limit: float) -> Any:
    """What it returns or raises within `limit` seconds; a late call is made again before it counts as late."""
    took: list[float] = []
    for _ in range(ATTEMPTS):
        each, result = timed(call)
        took.append(each)
        if each < limit:
            return result
    pytest.fail(f"{took} s; {limit:g} s is the limit")


def call_while_held(member: Consumer, owned: list[TopicPartition], told: threading.Event) -> None:
    """Makes calls for HELD_S seconds while the join of `member` is held back. Commits must raise; a callback that is called sets `told`."""
    began = time.monotonic()
    while time.monotonic() < began + HELD_S:
        stored = soon(lambda: member.committed(owned, 5.0), 1.0)
        assert {tp: place.offset for tp, place in stored.items()} == dict.fromkeys(owned, 2)
        for call in (
            lambda: member.commit({owned[0]: 3}, 2.0),
            lambda: member.commit_async({owned[0]: 3}, lambda places, error: told.set()),
        ):
            outcome = soon(call, 2.0)
            assert isinstance(outcome, GroupError)  # the next owner starts at the stored offsets
        assert member.poll(0.5) == []


@pytest.mark.parametrize(
    "instances", [(None, None, None), pytest.param(("slow", "quick", "new"), marks=pytest.mark.lengthy)], ids=["dynamic", "static"]
)
def test_calls_are_answered_while_a_slow_member_holds_a_rebalance_back(
    cluster: Cluster, topic: str, joins: Counter[str], instances: tuple[str | None, ...]
) -> None:
    cluster.create_topic(topic, 6)
    produce(cluster, topic, 0, 60)
    options = {**cluster.client, **GROUP, "group_id": topic, "enable_auto_commit": False}
    slow, quick, new = (
        Consumer(**options, client_id=name, group_instance_id=instance)
        for name, instance in zip(("slow", "quick", "new"), instances, strict=True)
    )
    notes = {consumer: Notes() for consumer in (slow, quick, new)}
    ends: list[float] = []
    try:
        slow.subscribe([topic], notes[slow])
        quick.subscribe([topic], notes[quick])
        until(
            lambda: slow.poll(0.05) is not None and quick.poll(0.05) is not None and len(quick.assignment()) == len(slow.assignment()) == 3,
            LONG_S,
            "both to have their share",
        )
        owned = sorted(quick.assignment())
        quick.commit(dict.fromkeys(owned, 1))
        joined_before = joins["quick"]
        new.subscribe([topic], notes[new])
        poll_until(new, lambda: new.status()["consumer"]["state"] == MemberState.JOINING.value)
        quick.commit_async(dict.fromkeys(owned, 2))  # on its way when the rebalance takes the partitions
        poll_until(quick, lambda: quick.status()["consumer"]["state"] == MemberState.JOINING.value)
        told = threading.Event()
        call_while_held(quick, owned, told)
        assert joins["quick"] - joined_before == 1
        assert joins["new"] <= 2
        took, _ = timed(new.close)
        ends.append(took)

        until(
            lambda: slow.poll(0.05) is not None and quick.poll(0.05) is not None and quick.assignment() and slow.assignment(),
            LONG_S,
            "the rebalance to end",
        )
        if instances[0] is None:
            assert joins["quick"] - joined_before <= 2
        for consumer in (slow, quick):
            assert "lost" not in notes[consumer].kinds
            assert {tp: stored.offset for tp, stored in consumer.committed(owned, SECONDS).items()} == dict.fromkeys(owned, 2)
        assert not told.is_set(), "a commit that raised called back as well"
    finally:
        for consumer in (new, quick, slow):
            took, _ = timed(consumer.close)
            ends.append(took)
    assert max(ends) < 5.0


def test_a_commit_on_its_way_when_partitions_are_revoked_is_stored(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 2)
    produce(cluster, topic, 0, 20)
    options = {**cluster.client, **GROUP, "group_id": topic, "enable_auto_commit": False}
    outcomes: list[Any] = []
    with Consumer(**options) as first, Consumer(**options) as second:

        class Committing:
            def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
                for _ in range(20):
                    first.commit_async(None, lambda places, error: outcomes.append(error))

        first.subscribe([topic], Committing())
        read(first, 20)
        second.subscribe([topic])
        poll_until(second, lambda: first.poll(0.05) is not None and second.assignment())
        until(lambda: len(outcomes) == 20, SECONDS, "every commit to be answered")
        assert outcomes == [None] * 20
