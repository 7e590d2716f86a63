"""What Dory's Nagios scripts read of /discards/json and /counters/json: each field and its type, ported from Python 2.

Source: dspeterson/dory, status_monitoring/check_dory_discards.py and check_dory_counters.py, which compare `type(x) is int` and the like.
Of the counters that the second one looks up, most count events inside Dory, and are not here.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from pykafka4.agent.account.balance import balance
from pykafka4.agent.account.books import counters_of
from pykafka4.agent.account.ledger import Ledger
from pykafka4.agent.account.reasons import Reasons
from pykafka4.agent.http import dory
from pykafka4.agent.message import Reason, Refused, Source
from pykafka4.agent.settings.values import ReportSettings
from pykafka4.core.producer.outcomes.ledger import Ledger as ProducerLedger
from tests.agent.account.accounting import Clock, message

PROCESS = dory.PageHead("1.0", 1_700_000_000.0, 1_700_000_700.0)
INTS = (
    "id",
    "start_time",
    "malformed_msg_count",
    "unix_stream_unclean_disconnect_count",
    "tcp_unclean_disconnect_count",
    "unsupported_api_key_msg_count",
    "unsupported_version_msg_count",
    "bad_topic_msg_count",
)
STRINGS = ("recent_malformed", "unix_stream_unclean_disconnect", "tcp_unclean_disconnect", "recent_bad_topic", "recent_too_long_msg")
ROWS: dict[str, dict[str, type]] = {
    "unsupported_msg_version": {"version": int, "count": int},
    "rate_limit_discard": {"topic": str, "count": int},
    "discard_topic": {"topic": str, "min_timestamp": int, "max_timestamp": int, "count": int},
    "possible_duplicate_topic": {"topic": str, "min_timestamp": int, "max_timestamp": int, "count": int},
}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(clock: Clock) -> Ledger:
    """With something in each field of the report, and hostile names."""
    ledger = Ledger(ReportSettings(interval_s=600), clock=clock, wall_clock=Clock(1_700_000_000))
    for reason in Reason:
        ledger.discarded(message('a "quoted"\n\xed\xb2\x80 topic', b"\xff\x00", timestamp_ms=5), reason)
        ledger.discarded(message("clicks", timestamp_ms=-7), reason)
        ledger.failed([message("clicks", timestamp_ms=9)], reason)
        ledger.refused(b"\xff\n", Refused(reason, 7), Source.TCP)
    ledger.damaged("on disk", 4)
    ledger.repeated("clicks", 2, 1, 3)
    return ledger


def check_report(report: dict[str, Any]) -> None:
    for name in INTS:
        assert type(report[name]) is int, name
    for name in STRINGS:
        assert type(report[name]) is list, name
        assert report[name], name
        assert all(type(item) is str for item in report[name]), name
    for name, types in ROWS.items():
        assert report[name], name
        for row in report[name]:
            assert {field: type(row[field]) for field in types} == types, name


def test_each_field_of_the_discard_report_has_its_type(ledger: Ledger, clock: Clock) -> None:
    def read() -> dict[str, Any]:
        found = json.loads(dory.dump(dory.discards(PROCESS, 600.0, ledger.unfinished_report(), ledger.finished_report())))
        for name, kind in {"now": int, "since": int, "pid": int, "version": str, "interval": int, "unfinished_report": dict}.items():
            assert type(found[name]) is kind, name
        return dict(found)

    first = read()
    check_report(first["unfinished_report"])
    assert "finished_report" not in first
    clock.now = 601.0
    second = read()
    check_report(second["finished_report"])
    assert second["finished_report"] == first["unfinished_report"]
    assert second["unfinished_report"]["id"] == first["unfinished_report"]["id"] + 1
    assert second["unfinished_report"]["start_time"] - first["unfinished_report"]["start_time"] == second["interval"]


def test_the_monitor_adds_up_the_discards_of_topics(ledger: Ledger) -> None:
    """It sums the counts of `discard_topic`, to which bad topics do not belong: those have a count of their own."""
    report = json.loads(dory.dump(dory.discards(PROCESS, 600.0, ledger.unfinished_report(), None)))["unfinished_report"]
    by_reason = ledger.unfinished_report().by_reason
    assert sum(row["count"] for row in report["discard_topic"]) == sum(by_reason.values()) - by_reason[Reason.BAD_TOPIC]
    assert report["bad_topic_msg_count"] == by_reason[Reason.BAD_TOPIC]


def test_each_counter_has_its_type_and_no_name_is_there_twice(ledger: Ledger) -> None:
    stats = ProducerLedger().snapshot((0, [], []), 0).stats()
    account = balance(stats, ledger.before_producer(), {}, Reasons(autocreate=False))
    counts = {**ledger.counters(), **counters_of(account)}
    found = json.loads(dory.dump(dory.counters(PROCESS, counts)))
    assert (type(found["now"]), type(found["since"]), type(found["pid"]), type(found["version"])) == (int, int, int, str)
    for row in found["counters"]:
        assert (type(row["name"]), type(row["value"]), type(row["location"])) == (str, int, str)
    names = [row["name"] for row in found["counters"]]
    assert len(names) == len(set(names))
    looked_up = {"MsgCreate", "MsgDestroy", "NoDiscardQuery", "UnixStreamInputUncleanDisconnect", "TcpInputUncleanDisconnect"}
    assert looked_up <= set(names)
    values = {row["name"]: row["value"] for row in found["counters"]}
    assert values["MsgDestroy"] <= values["MsgCreate"]
