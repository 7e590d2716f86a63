"""Log lines about discards: how many, and that they add up."""

from __future__ import annotations

import re

import pytest

from pykafka4.agent.account.ledger import Ledger
from pykafka4.agent.message import Reason, Refused, Source
from tests.agent.account.accounting import Clock, message


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "pykafka4.agent"]


def counted(line: str) -> int:
    return int(re.findall(r"messages: (\d+)", line)[0])


def test_each_reason_has_at_most_one_line_in_30_s_with_the_number_since(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    ledger = Ledger(clock=clock, wall_clock=Clock())
    for _ in range(100):
        ledger.discarded(message("clicks"), Reason.NO_MEM)
    ledger.refused(b"?", Refused(Reason.MALFORMED), Source.TCP)
    clock.now = 29.9
    ledger.discarded(message("views"), Reason.NO_MEM)
    assert lines(caplog) == [
        "agent: discarded (NO_MEM): messages: 1, the last of topic 'clicks'",
        "agent: discarded (MALFORMED): datagrams or frames that are not messages: 1, from tcp",
    ]
    clock.now = 30.0
    ledger.discarded(message("views"), Reason.NO_MEM)
    assert lines(caplog)[2:] == ["agent: discarded (NO_MEM): in the last 30 s: messages: 101, the last of topic 'views'"]


def test_the_rest_of_a_burst_is_logged_although_nothing_follows(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    ledger = Ledger(clock=clock, wall_clock=Clock())
    for _ in range(10):
        ledger.discarded(message(), Reason.RATE_LIMIT)
    clock.now = 29
    ledger.tick()
    assert len(lines(caplog)) == 1
    clock.now = 31
    ledger.tick()
    ledger.tick()
    assert [counted(line) for line in lines(caplog)] == [1, 9]


def test_the_end_logs_what_no_line_has_counted(caplog: pytest.LogCaptureFixture) -> None:
    ledger = Ledger(clock=Clock(), wall_clock=Clock())
    ledger.failed([message()] * 5, Reason.TIMED_OUT)
    ledger.close()
    assert sum(counted(line) for line in lines(caplog)) == 5


def test_a_topic_cannot_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    Ledger(clock=Clock(), wall_clock=Clock()).discarded(message("a\nagent: all is well\x1b[31m" + "x" * 1000), Reason.BAD_TOPIC)
    (line,) = lines(caplog)
    assert line.isprintable()
    assert len(line) < 400


def test_the_longest_legal_topic_is_whole_in_its_line(caplog: pytest.LogCaptureFixture) -> None:
    Ledger(clock=Clock(), wall_clock=Clock()).discarded(message("x" * 249), Reason.NO_MEM)
    assert lines(caplog) == [f"agent: discarded (NO_MEM): messages: 1, the last of topic '{'x' * 249}'"]
