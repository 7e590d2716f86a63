"""Messages that the agent discards on a real cluster: report, account, log and topic agree to the message."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Any

import pytest

from integration.agent.process import AgentProcess
from integration.agent.reading import read_topic
from integration.agent.sender import START_MS, packed
from integration.agent.sending import Sender, senders
from integration.cluster import Cluster
from integration.waiting import until
from tests.agent.cluster.conftest import AgentOf

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

LONG_S = 90.0
GOOD, ILLEGAL, UNKNOWN, LONG_ONES, RATED, ALLOWED = 100, 3, 7, 5, 25, 10
MALFORMED, KEYS, VERSIONS = 4, 2, 3
HOUR_MS = 3_600_000


def to(running: AgentProcess, *messages: bytes) -> None:
    """Send datagrams."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.connect(str(running.datagram))
        for message in messages:
            sock.sendall(message)


def some(topic: str, count: int, size: int = 10) -> list[bytes]:
    """Messages of a topic."""
    return [packed(topic.encode(), b"k", b"%d " % n + b"." * size, None, START_MS + n) for n in range(count)]


def with_head(api_key: int, version: int) -> bytes:
    """Twenty bytes that say they are of another format."""
    return struct.pack(">ihh12x", 20, api_key, version)


def discards(report: dict[str, Any]) -> dict[str, int]:
    """Discarded messages by topic, of a report."""
    return {row["topic"]: row["count"] for row in report["discard_topic"]}


def reported(running: AgentProcess, expected: dict[str, int], bad_topics: int = 0) -> dict[str, Any]:
    """The report when it has these discards: those of the producer come a moment after the account has them.

    As in Dory's report, messages of bad topics are not among those of topics.
    """

    def report() -> dict[str, Any]:
        found: dict[str, Any] = running.get("/discards/json")["unfinished_report"]
        return found

    def complete() -> bool:
        return discards(report()) == expected and report()["bad_topic_msg_count"] == bad_topics

    until(complete, LONG_S, lambda: f"{expected}; the report is {report()}")
    return report()


def test_report_account_log_and_topic_agree_on_what_was_discarded(cluster: Cluster, topic: str, agent: AgentOf, folder: Path) -> None:
    cluster.create_topic(topic, 3)
    rated, unknown = f"{topic}-rated", f"{topic}-unknown"
    cluster.create_topic(rated, 3)
    running = agent(
        topics={
            "default": {"batching": "combined", "linger_ms": 5, "max_message_bytes": 5_000},
            rated: {"rate_limit": {"interval_ms": HOUR_MS, "max_count": ALLOWED}},
        },
        discard_log={"path": str(folder / "discarded")},
    )
    to(running, *some(topic, GOOD), *some("not legal", ILLEGAL), *some(unknown, UNKNOWN), *some(topic, LONG_ONES, 6_000))
    to(running, *some(rated, RATED))
    to(running, *[some(topic, 1)[0] + b"!"] * MALFORMED, *[with_head(300, 0)] * KEYS, *[with_head(256, 7)] * VERSIONS)
    accepted = GOOD + ILLEGAL + UNKNOWN + LONG_ONES + RATED
    lost = {"BAD_TOPIC": ILLEGAL + UNKNOWN, "LONG_MSG": LONG_ONES, "RATE_LIMIT": RATED - ALLOWED}
    account = running.settled(accepted)
    assert account.acknowledged == GOOD + ALLOWED
    assert account.discards == lost
    report = reported(running, {topic: LONG_ONES, rated: RATED - ALLOWED}, bad_topics=ILLEGAL + UNKNOWN)
    assert set(report["recent_bad_topic"]) == {"not legal", unknown}
    assert {row["topic"]: row["count"] for row in report["rate_limit_discard"]} == {rated: RATED - ALLOWED}
    assert report["malformed_msg_count"] == MALFORMED
    assert report["unsupported_api_key_msg_count"] == KEYS
    assert report["unsupported_version_msg_count"] == VERSIONS
    assert len(read_topic(cluster, topic)) + len(read_topic(cluster, rated)) == GOOD + ALLOWED
    assert running.end(LONG_S) == 0, running.said()
    lines = (folder / "discarded").read_text().splitlines()
    reasons = [line.split(" REASON: ")[-1] for line in lines]
    assert len(reasons) == sum(lost.values()) + MALFORMED + KEYS + VERSIONS
    for reason, number in {**lost, "MALFORMED": MALFORMED}.items():
        assert sum(f" {reason} " in f"{line} " for line in lines) == number, reason


def test_an_unknown_topic_is_created_if_the_settings_allow_it(cluster: Cluster, topic: str, agent: AgentOf) -> None:
    running = agent(topics={"autocreate": True, "default": {"linger_ms": 5}})
    to(running, *some(topic, GOOD))
    account = running.settled(GOOD)
    assert (account.acknowledged, account.discards) == (GOOD, {})
    assert len(read_topic(cluster, topic)) == GOOD


def test_messages_beyond_the_pool_are_discarded_and_all_others_arrive(cluster: Cluster, topic: str, agent: AgentOf) -> None:
    """All brokers are frozen; senders do not notice."""
    cluster.create_topic(topic, 3)
    running = agent(inputs={"max_buffer": "4MiB"}, topics={"default": {"linger_ms": 20}})
    to(running, *some(topic, GOOD))
    running.settled(GOOD)
    for node in cluster.nodes:
        cluster.freeze(node)
    each, processes = 10_000, 2
    with senders(Sender(running.datagram, [topic], each, name=f"s{n}", size=1_000) for n in range(processes)) as programs:
        assert [program.result()["sent"] for program in programs] == [each] * processes
    total = GOOD + each * processes
    account = running.read_all(total)
    lost = account.discards["NO_MEM"]
    assert 2_000 < account.queued < 4_300, "the pool holds 4 MiB of messages of a kilobyte"
    assert lost + account.queued + GOOD == total
    reported(running, {topic: lost})
    for node in cluster.nodes:
        cluster.thaw(node)
    account = running.settled(total)
    assert account.discards == {"NO_MEM": lost}
    assert account.acknowledged == total - lost
    found = [row.value for row in read_topic(cluster, topic)]
    assert len(found) == len(set(found)) == total - lost
    assert "NO_MEM" in running.said()
