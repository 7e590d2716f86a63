"""Dealing: what an assignor is given, and what may come of what it returns."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from pykafka4.assignors import GroupMember, RangeAssignor
from pykafka4.assignors.interface import PartitionInfo
from pykafka4.core.group.encoding import assigned_partitions
from pykafka4.core.group.leading.assigning import MOST_ON_LOOP, AssignorRun, Placement
from pykafka4.core.metadata.topic import Leader
from pykafka4.errors import KafkaError
from tests.core.consumer_harness import tp

MEMBERS = (GroupMember("m", frozenset({"t"})), GroupMember("n", frozenset({"t", "u"})))


@attrs.define
class Mine:
    """An application's assignor."""

    returns: Any
    name: str = "mine"
    cooperative: bool = False

    def assign(self, members: Any, topics: Any) -> Any:
        return self.returns(members, topics) if callable(self.returns) else self.returns


def new_run(assignor: Any, members: tuple[GroupMember, ...] = MEMBERS, **more: Any) -> AssignorRun:
    placements = {"t": Placement([Leader(1, 0), None]), "u": Placement([Leader(2, 5)])}
    return AssignorRun(assignor, members, **{"placements": placements, "where": "c: group g", **more})


def assignment(assignor: Any) -> dict[str, Any]:
    shares = new_run(assignor).attempt()
    assert isinstance(shares, dict), shares
    return {name: assigned_partitions(share) for name, share in shares.items()}


def test_an_assignor_gets_the_members_and_all_partitions_with_leaders_and_racks() -> None:
    seen: list[Any] = []
    placements = {"t": Placement([Leader(1, 0), None, Leader(3, 0)], [frozenset("ab"), frozenset(), frozenset("a")])}
    new_run(Mine(lambda *args: seen.append(args) or {}), placements=placements).attempt()
    ((members, topics),) = seen
    assert members == MEMBERS
    assert topics == {
        "t": [PartitionInfo("t", 0, 1, frozenset("ab")), PartitionInfo("t", 1, None), PartitionInfo("t", 2, 3, frozenset("a"))]
    }
    assert topics["t"][2].tp == tp(2)


def test_members_that_are_left_out_get_nothing_and_pairs_are_partitions() -> None:
    assert assignment(Mine({"n": iter([("t", 1), tp(0, "u")])})) == {"m": [], "n": [tp(1), tp(0, "u")]}


@pytest.mark.parametrize(
    ("returns", "says"),
    [
        (None, "returned None, not a mapping from member id to partitions"),
        ({"x": []}, "returned partitions for 'x', which is not a member of the group"),
        ({"m": 5}, "returned 5 for member m, not a list of TopicPartition"),
        ({"m": ["t-0"]}, "returned 't-0', which is not a TopicPartition"),
        ({"m": [("t", True)]}, "returned ('t', True), which is not a TopicPartition"),
        ({"m": [tp(0, "u")]}, "returned u-0 for member m, which is not subscribed to that topic"),
        ({"m": [tp(2)]}, "returned t-2 for member m, and the leader knows no such partition"),
        ({"m": [tp(-1)]}, "returned t--1 for member m, and the leader knows no such partition"),
        ({"m": [tp(0)], "n": [tp(0)]}, "returned t-0 twice, for members m and n"),
        ({"m": [tp(0), tp(0)]}, "returned t-0 twice, for members m and m"),
    ],
)
def test_nonsense_is_an_error_that_names_it(returns: Any, says: str) -> None:
    refused = new_run(Mine(returns)).attempt()
    assert isinstance(refused, KafkaError)
    assert str(refused).startswith(f"c: group g: assignor 'mine' {says}. This member led the group, and cannot continue: correct")


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3)])
def test_what_it_raises_is_logged_and_becomes_the_cause(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*args: Any) -> Any:
        raise error

    with caplog.at_level(logging.ERROR):
        refused = new_run(Mine(fail)).attempt()
    assert isinstance(refused, KafkaError)
    assert f"assignor 'mine' raised {error!r}" in str(refused)
    assert refused.__cause__ is error
    assert [record.exc_info is not None for record in caplog.records] == [True]


def lazily(error: BaseException) -> Any:
    """What a generator raises after the first partition."""
    yield tp(0)
    raise error


class Unreadable(dict[str, Any]):
    """A mapping that raises when it is read."""

    def get(self, *args: Any) -> Any:
        raise RuntimeError("no")


@pytest.mark.parametrize("returns", [lambda *_: {"m": lazily(ValueError("no"))}, lambda *_: {"m": lazily(SystemExit(3))}, Unreadable(m=[])])
def test_what_its_result_raises_while_it_is_read_counts_as_raised_by_the_assignor(returns: Any) -> None:
    refused = new_run(Mine(returns)).attempt()
    assert isinstance(refused, KafkaError)
    assert f"assignor 'mine' raised {refused.__cause__!r}" in str(refused)


def test_an_assignor_may_take_the_partitions_out_of_the_lists_that_it_gets() -> None:
    assert assignment(Mine(lambda members, topics: {"m": [topics["t"].pop().tp, topics.pop("t")[0].tp]})) == {"m": [tp(1), tp(0)], "n": []}


def test_a_cooperative_assignor_must_not_move_a_partition_that_is_owned() -> None:
    members = (GroupMember("m", frozenset("t"), owned=(tp(0),)), GroupMember("n", frozenset("t")))
    shares: Callable[[Any, Any], Any] = lambda *_: {"n": [tp(0)]}  # noqa: E731
    refused = new_run(Mine(shares, cooperative=True), members).attempt()
    assert "is cooperative, and gave t-0 to member n while m owns it; it must first leave the partition out" in str(refused)
    assert isinstance(new_run(Mine(shares), members).attempt(), dict)
    assert isinstance(new_run(Mine(lambda *_: {"m": [tp(0)]}, cooperative=True), members).attempt(), dict)


def test_only_small_groups_and_assignors_of_ours_run_on_the_loop() -> None:
    assert new_run(RangeAssignor()).may_run_here
    assert not new_run(Mine({})).may_run_here
    assert not new_run(RangeAssignor(), placements={"t": Placement([None] * MOST_ON_LOOP)}).may_run_here
    assert not new_run(RangeAssignor(), MEMBERS * (MOST_ON_LOOP // 2)).may_run_here
