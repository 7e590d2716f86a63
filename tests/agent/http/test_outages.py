"""The time line of outages: when an outage begins and ends, what it names, and that it is bounded."""

from __future__ import annotations

import attrs

from pykafka4.agent.http.look import AgentLook
from pykafka4.agent.http.troubles import troubles
from pykafka4.agent.spool.values import SpoolState
from pykafka4.pages.outages import MOST_ENDED, MOST_OPEN, Outage, Outages
from tests.agent.http.fake_agent import QUIET, broker, partition, status


def note(outages: Outages, look: AgentLook) -> None:
    outages.note(look.at, troubles(look))


AWAY = status(state="unreachable", reason="no broker reachable: b1:9092 connection refused")


def test_an_outage_lasts_from_the_first_look_that_shows_it_to_the_first_that_does_not() -> None:
    outages = Outages()
    for second, state in enumerate([QUIET.status, AWAY, AWAY, AWAY, QUIET.status]):
        note(outages, attrs.evolve(QUIET, at=100.0 + second, status=state))
    assert outages.all() == [Outage("cluster", "no broker reachable: b1:9092 connection refused", 101.0, 104.0)]
    assert outages.since("cluster") is None


def test_an_outage_that_goes_on_has_no_end_and_the_newest_reason() -> None:
    outages = Outages()
    for second, reason in enumerate(["refused", "refused", "no route"]):
        outages.note(100.0 + second, {"cluster": reason})
    assert outages.all() == [Outage("cluster", "no route", 100.0)]
    assert outages.since("cluster") == 100.0


def test_what_only_one_look_shows_is_no_outage() -> None:
    outages = Outages()
    for second, found in enumerate([{"broker 1": "reset"}, {}, {"broker 1": "reset"}, {}]):
        outages.note(float(second), found)
    assert outages.all() == []


def test_brokers_partitions_and_the_spool_have_lines_of_their_own() -> None:
    outages = Outages()
    trouble = status(
        brokers=[broker(1), broker(2, "b2:9092 connection refused"), {**broker(3, "x"), "node": -1}],
        offline={"t-0": {"since": 3.0, "reason": "no leader"}, "t-1": {"since": 3.0, "reason": "no leader"}},
    )
    look = attrs.evolve(QUIET, status=trouble, spool=SpoolState(0, 10, {}, failure="No space left on device"))
    note(outages, look)
    note(outages, attrs.evolve(look, at=look.at + 1))
    assert {row.subject: row.reason for row in outages.all()} == {
        "broker 2": "b2:9092 connection refused",
        "partitions": "t-0: no leader (and 1 more)",
        "spool": "No space left on device",
    }


def test_a_topic_that_brokers_do_not_know_is_no_partition_that_is_offline() -> None:
    unknown = partition(3, 0, 3, state="offline", reason="the brokers report UNKNOWN_TOPIC_OR_PARTITION", since=2.0)
    late = partition(5, 5, state="offline", reason="waits for a broker that can take a batch", since=2.0)
    rows = {"new (no partition yet)": unknown, "t (no partition yet)": late}
    found = status(partitions=rows, offline={name: {"since": 2.0, "reason": row["reason"]} for name, row in rows.items()})
    assert troubles(attrs.evolve(QUIET, status=found)) == {
        "partitions": "t (any partition): waits for a broker that can take a batch",
        "unknown topics": "new: the brokers report UNKNOWN_TOPIC_OR_PARTITION",
    }


def test_the_cluster_comes_first_then_the_newest() -> None:
    outages = Outages()
    outages.note(1.0, {"cluster": "away"})
    outages.note(2.0, {"cluster": "away", "broker 1": "away"})
    outages.note(3.0, {"cluster": "away", "broker 1": "away"})
    assert [row.subject for row in outages.all()] == ["cluster", "broker 1"]


def test_outages_are_bounded() -> None:
    outages = Outages()
    for number in range(2 * MOST_ENDED):
        outages.note(float(3 * number), {"cluster": "x" * 1000})
        outages.note(float(3 * number + 1), {"cluster": "x" * 1000})
        outages.note(float(3 * number + 2), {})
    many = {f"broker {number}": "away" for number in range(3 * MOST_OPEN)}
    outages.note(5000.0, many)
    outages.note(5001.0, many)
    assert len(outages.all()) == MOST_ENDED + MOST_OPEN
    assert max(len(row.reason) for row in outages.all()) == 300


def test_a_clock_that_is_set_back_ends_no_outage_before_its_start() -> None:
    outages = Outages()
    for at in (100.0, 101.0):
        outages.note(at, {"cluster": "away"})
    outages.note(50.0, {})
    assert outages.all() == [Outage("cluster", "away", 100.0, 100.0)]
