"""The headline of a status page: the worst is said first, with its reason."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.pages.client_headline import View, client_headline
from pykafka4.pages.headline import Level
from pykafka4.pages.outages import Outages
from pykafka4.pages.partition_rows import Query, partitions
from pykafka4.pages.watched import Figures, Kind, Look
from tests.agent.http.fake_agent import broker, partition, status

STATS = {"accepted": 9, "acked": 9, "queued": 0, "in_flight": 0, "failed": {}, "dropped": {}}
DOWN = partition(5, state="offline", reason="t-0: no leader", since=3.0)
OFFLINE = {"t-0": {"since": 3.0, "reason": "t-0: no leader"}}
READ = {"state": "fetching", "waits_for": None, "reason": None, "buffered": 10, "leader": 1, "fetched_from": 1, "position": 5, "lag": 2}
CALM = {"fetched_bytes": 0.0, "read_bytes": 0.0, "lost": 0.0}


def view(kind: Kind, found: dict[str, Any], stats: dict[str, Any], rates: dict[str, float] = CALM, *, settled: bool = True) -> View:
    look = Look(1000.0, Figures(found, stats))
    return View(kind, look, partitions(kind, look), rates, settled, Outages())


def member(state: str = "stable", reason: str | None = None, **more: Any) -> dict[str, Any]:
    return status(consumer={"state": state, "reason": reason, "partitions": {"t-0": READ}, "unknown_topics": [], **more})


@pytest.mark.parametrize(
    ("found", "stats", "level", "text"),
    [
        (status(), STATS, Level.OK, "All records are delivered"),
        (status(), {**STATS, "queued": 2}, Level.OK, "Records flow"),
        (status(), {**STATS, "failed": {"TIMED_OUT, not written": 3}}, Level.OK, "No record waits"),
        (status(), {}, Level.OK, "Waiting for the first record"),
        (status(brokers=[broker(1), broker(2, "refused")]), STATS, Level.WARNING, "Broker 2 is away"),
        (status(partitions={"t-0": DOWN, "t-1": partition()}, offline=OFFLINE), STATS, Level.WARNING, "t-0 is offline"),
        (status(partitions={"t-0": DOWN}, offline=OFFLINE), STATS, Level.TROUBLE, "t-0 is offline"),
        (status(topics={"x": "UNKNOWN_TOPIC_OR_PARTITION"}), STATS, Level.WARNING, "Topic x cannot be used"),
        (
            status(state="unreachable", reason="no broker reachable: b1 refused", offline=OFFLINE),
            STATS,
            Level.TROUBLE,
            "No broker can be reached",
        ),
        (status(state="unresponsive", reason="stuck"), {}, Level.TROUBLE, "The client's thread does not respond"),
        (status(reason="authentication is repeated"), STATS, Level.WARNING, "Something waits"),
    ],
)
def test_of_a_producer(found: dict[str, Any], stats: dict[str, Any], level: Level, text: str) -> None:
    words = client_headline(view(Kind.PRODUCER, found, stats))
    assert (words.level, words.text) == (level, text)


@pytest.mark.parametrize(
    ("found", "rates", "level", "text"),
    [
        (member(), {**CALM, "read_bytes": 5.0}, Level.OK, "Reads, with a lag of 2"),
        (member(), CALM, Level.WARNING, "The application takes no records"),
        (member(partitions={"t-0": {**READ, "state": "paused"}}), CALM, Level.OK, "All partitions are paused"),
        (member("joining", "waiting for the coordinator"), CALM, Level.WARNING, "The group: joining"),
        (member("fatal", "FENCED_INSTANCE_ID"), CALM, Level.TROUBLE, "The group rejects this consumer"),
        (member(partitions={"t-0": {**READ, "state": "stopped"}}), CALM, Level.TROUBLE, "t-0 is stopped"),
        (member("unjoined", "not a member", partitions={}), CALM, Level.OK, "No partition is assigned"),
    ],
)
def test_of_a_consumer(found: dict[str, Any], rates: dict[str, float], level: Level, text: str) -> None:
    buffered = 10 if found["consumer"]["partitions"] else 0
    words = client_headline(view(Kind.CONSUMER, found, {"fetched_bytes": 20, "buffered_bytes": buffered}, rates))
    assert (words.level, words.text) == (level, text)


def test_the_worst_rows_are_chosen_of_ten_thousand() -> None:
    rows = {f"t-{number}": partition(number) for number in range(10_000)} | {"down-0": DOWN}
    found = partitions(Kind.PRODUCER, Look(1000.0, Figures(status(partitions=rows, offline={"down-0": OFFLINE["t-0"]}), STATS)))
    answer = found.answer(Query(most=2))
    assert [row[0] for row in answer["rows"]] == ["down-0", "t-9999"]
    assert (answer["count"], answer["offline"]) == (10_001, 1)
