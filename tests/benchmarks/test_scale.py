"""The arithmetic of `make bench-scale`, and that processes which obey end, fail and answer as their orders say."""

from __future__ import annotations

import sys
from collections import Counter

import pytest

from benchmarks.scale.assigned import doubt, per_change
from benchmarks.scale.memory import per_partition
from benchmarks.scale.orders import Failed, Process, obey
from benchmarks.scale.shape import Shape

SHAPE = Shape(brokers=5, topics=4, partitions=10)


def test_every_broker_leads_as_many_partitions_and_the_base_has_one_of_each() -> None:
    leaders = {(name, number): leader for topic, name in enumerate(SHAPE.names) for number, leader in enumerate(SHAPE.leaders(topic))}
    assert list(leaders) == SHAPE.places
    assert Counter(leaders.values()) == dict.fromkeys(range(1, 6), 8)
    assert sorted(leaders[place] for place in SHAPE.base) == [1, 2, 3, 4, 5]


def test_the_cost_of_a_change_is_what_the_window_costs_more_than_an_idle_one() -> None:
    """1 % of a core over 5 s is 50 ms; 20 changes at 3 % of a core cost 100 ms more."""
    assert per_change(idle=0.01, changing=0.03, seconds=5.0, changes=20) == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("client", "fetches", "doubtful"),
    [("confluent", 10.0, False), ("confluent", 9.0, False), ("confluent", 8.9, True), ("pykafka4", 0.9, False), ("pykafka4", 0.8, True)],
)
def test_an_idle_share_is_doubtful_where_brokers_were_asked_too_seldom(client: str, fetches: float, doubtful: bool) -> None:
    """Five brokers that hold a Fetch for half a second get ten in a second; those that hold it for five seconds get one."""
    assert (doubt(client, fetches, brokers=5) is not None) is doubtful


def test_memory_is_counted_for_the_partitions_beyond_the_base() -> None:
    """35 partitions more: 2 KiB each, half a KiB of it stays, and the second time a quarter more."""
    unit = 35 * 1024
    steps = [1000, 1000 + 2 * unit, 1000 + unit // 2, 1000 + unit // 2 + unit // 4]
    figures = [{"resident": step, "allocated": 0} for step in steps]
    assert per_partition(figures, "resident", SHAPE) == (2.0, 0.5, 0.25)


def test_a_process_answers_ends_with_its_owner_and_fails_loudly() -> None:
    with Process(__name__) as process:
        assert process.ask("add", 2, 3) == 5
        process.begin("add", 4, 4)
        assert process.answer() == 8
        process.begin("wait")
        with pytest.raises(Failed, match=r"did not answer within 0\.1 s"):
            process.answer(0.1)
    with Process(__name__) as process:
        with pytest.raises(Failed, match="ended; its output is above"):
            process.ask("unknown")
        with pytest.raises(Failed, match="ended"):
            process.ask("add", 1, 1)


class Orders:
    def add(self, one: int, other: int) -> int:
        return one + other

    def wait(self) -> None:
        sys.stdin.readline()


if __name__ == "__main__":
    obey(Orders())
