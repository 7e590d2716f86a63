"""The state in plain words: the worst comes first, with the reason and the time."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from pykafka4.agent.account.values import Discards
from pykafka4.agent.http.headline import headline
from pykafka4.agent.http.look import AgentLook
from pykafka4.agent.http.troubles import troubles
from pykafka4.agent.message import Reason
from pykafka4.agent.spool.values import SpoolState
from pykafka4.pages.headline import Level
from pykafka4.pages.outages import Outages
from tests.agent.http.fake_agent import QUIET, account, broker, partition, status, topic

OFFLINE = {"t-0": {"since": 3.0, "reason": "no leader"}, "t-1": {"since": 3.0, "reason": "no leader"}}
LOST = Discards({Reason.RATE_LIMIT: 3, Reason.NO_MEM: 4000})
UNKNOWN = partition(3, 0, 3, state="offline", reason="the brokers report UNKNOWN_TOPIC_OR_PARTITION", since=2.0)


def note(outages: Outages, found: AgentLook) -> None:
    outages.note(found.at, troubles(found))


def look(topics: Any = None, spool: SpoolState | None = None, **more: Any) -> AgentLook:
    return attrs.evolve(QUIET, account=account(topics or {}), status=status(**more), spool=spool)


@pytest.mark.parametrize(
    ("found", "level", "text"),
    [
        (look(), Level.OK, "Waiting for messages"),
        (look({"t": topic(5)}), Level.OK, "All messages are delivered"),
        (look({"t": topic(5, discards=LOST)}), Level.OK, "No message waits"),
        (look({"t": topic(5, 1)}), Level.OK, "Messages flow"),
        (look({"t": topic(5, 0, 1)}), Level.OK, "Messages flow"),
        (look(brokers=[broker(1), broker(2, "b2 refused")]), Level.WARNING, "Broker 2 is away"),
        (look(brokers=[broker(1, "x"), broker(2, "b2 refused")]), Level.WARNING, "2 brokers are away"),
        (look(offline=OFFLINE, brokers=[broker(2, "b2 refused")]), Level.WARNING, "2 partitions are offline"),
        (look(offline={"t-0": OFFLINE["t-0"]}), Level.WARNING, "t-0 is offline"),
        (look(spool=SpoolState(1, 2, {}, failure="No space left"), offline=OFFLINE), Level.TROUBLE, "The spool cannot be written"),
        (
            look(spool=SpoolState(1, 2, {}, failure="cannot sync /s", only_syncs_fail=True)),
            Level.WARNING,
            "A loss of power would lose messages",
        ),
        (attrs.evolve(look(producer={"buffered_bytes": 95}), max_buffer=100), Level.WARNING, "The memory for messages is nearly full"),
        (attrs.evolve(look(producer={"buffered_bytes": 80}), max_buffer=100), Level.OK, "Waiting for messages"),
        (look(partitions={"new (no partition yet)": UNKNOWN}), Level.WARNING, "Messages for new wait"),
        (look(state="connecting", reason=None), Level.WARNING, "Connecting to the brokers"),
        (look(state="unreachable", reason="no broker reachable: b1 refused", offline=OFFLINE), Level.TROUBLE, "No broker can be reached"),
        (look(state="unresponsive", reason="x"), Level.TROUBLE, "The producer does not respond"),
        (look(state="crashed", reason="x"), Level.TROUBLE, "The producer has crashed"),
    ],
)
def test_the_worst_is_said_first(found: AgentLook, level: Level, text: str) -> None:
    words = headline(found, Outages(), 0.0)
    assert (words.level, words.text) == (level, text)


def test_the_reason_is_said_once_with_where_messages_go() -> None:
    found = look({"t": topic(5, 1200)}, state="unreachable", reason="no broker reachable: b1:9092 connection refused")
    outages = Outages()
    note(outages, found)
    note(outages, attrs.evolve(found, at=found.at + 1))
    words = headline(found, outages, 0.0)
    assert words.details == (
        "b1:9092 connection refused",
        "New messages wait in memory: 1,200 so far. When it is full, new messages are discarded.",
    )
    assert words.since == found.at
    with_spool = headline(attrs.evolve(found, spool=SpoolState(0, 10, {})), outages, 0.0)
    assert with_spool.details[1] == "New messages wait in memory and on disk: 1,200 and 0 so far."
    full = headline(attrs.evolve(found, spool=SpoolState(0, 10, {}, failure="cannot write to /s: full")), outages, 0.0)
    assert (
        full.details[1]
        == "The spool cannot write to /s: full. New messages wait in memory: 1,200 so far. Messages without room are discarded."
    )


def test_discards_that_go_on_are_a_warning_with_the_reasons() -> None:
    found = look({"t": topic(5, discards=LOST)})
    words = headline(found, Outages(), 12.4)
    assert (words.level, words.text) == (Level.WARNING, "Messages are being discarded")
    assert words.details[0].startswith("Discarded since the start: NO_MEM (4,000), RATE_LIMIT (3). Now 12 a second.")


def test_discards_that_are_over_are_still_said() -> None:
    words = headline(look({"t": topic(5, 1, discards=LOST)}), Outages(), 0.0)
    assert (words.level, words.text) == (Level.OK, "Messages flow")
    assert words.details == (
        "Discarded since the start: NO_MEM (4,000), RATE_LIMIT (3). The table of discarded messages lists the topics.",
    )


def test_a_cluster_that_is_away_does_not_hide_discards() -> None:
    found = look({"t": topic(5, 9, discards=LOST)}, state="unreachable", reason="no broker reachable: b1 refused")
    assert "Now 12 a second" in headline(found, Outages(), 12.4).details[-1]


@pytest.mark.parametrize("others", [True, False])
def test_other_partitions_flow_only_if_there_are_some(others: bool) -> None:
    rows = {"t-0": partition(state="offline"), **({"t-1": partition()} if others else {})}
    found = headline(look(offline={"t-0": OFFLINE["t-0"]}, partitions=rows), Outages(), 0.0)
    assert found.details == ("no leader", *(["Messages of other partitions flow."] if others else []))
