"""The spool on a real cluster: what was written to it survives the agent's death, and arrives in order."""

from __future__ import annotations

import random
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from integration.agent.reading import Read, read_topic
from integration.agent.sending import Sender, send, senders
from integration.cluster import Cluster
from integration.waiting import until
from tests.agent.cluster.conftest import AgentOf

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

LONG_S = 120.0
PARTITIONS = 3
SMALL = {"max_buffer": "2MiB"}
AT_ONCE = {"default": {"batching": "combined", "linger_ms": 20}}
NUMBER = re.compile(rb"\S+ (\d+) ")


def freeze(cluster: Cluster) -> None:
    """No broker answers."""
    for node in cluster.nodes:
        cluster.freeze(node)


def thaw(cluster: Cluster) -> None:
    """All brokers answer again."""
    for node in cluster.nodes:
        cluster.thaw(node)


def numbers(rows: Sequence[Read], partition: int) -> list[int]:
    """The numbers of a partition's messages, in the order of the log."""
    found = [NUMBER.match(row.value or b"") for row in rows if row.partition == partition]
    return [int(match[1]) for match in found if match is not None]


def firsts(found: Sequence[int]) -> list[int]:
    """Without repetitions."""
    return list(dict.fromkeys(found))


def descents(found: Sequence[int]) -> int:
    """How often a number follows a larger one."""
    return sum(after <= before for before, after in pairwise(found))


@pytest.mark.lengthy
def test_what_the_spool_holds_survives_kills_in_order(cluster: Cluster, topic: str, agent: AgentOf, folder: Path) -> None:
    """Every message is written to the disk before it is sent. The agent is killed at random moments: while clients send, while brokers are
    frozen, while the spool is sent. Of each partition a prefix of the numbers was written when the agent was killed; that arrives."""
    chance = random.Random(34)
    topics = [f"{topic}-{n}" for n in range(2)]
    for name in topics:
        cluster.create_topic(name, PARTITIONS)
    running = agent(inputs=SMALL, topics=AT_ONCE, spool={"path": str(folder / "spool"), "always": True, "max_size": "64MiB"})
    first, kills, promised = 0, 0, []
    for turn in range(4):
        if turn in (1, 3):
            freeze(cluster)
        with senders([Sender(running.datagram, topics, 6_000, first=first, size=500, rate=4_000, partition_key=PARTITIONS, wait=True)]) as (
            s,
        ):
            time.sleep(chance.uniform(0.3, 1.2))
            accepted = running.total().accepted  # of this run, in which the spool's messages of the start count, too
            running.kill()
            kills += 1
            s.close()
        promised.append((first, accepted))
        first += 6_000
        if turn == 1:
            thaw(cluster)
        running.start()
        if turn == 2:  # killed while it sends what is on disk
            time.sleep(chance.uniform(0.0, 0.5))
            running.kill()
            kills += 1
            running.start()
    thaw(cluster)
    running.settled()
    assert "damage" not in running.said().lower()
    for name in topics:
        rows = read_topic(cluster, name)
        for partition in range(PARTITIONS):
            found = numbers(rows, partition)
            assert firsts(found) == sorted(set(found)), f"{name}-{partition}: in order"
            assert descents(found) <= kills, "a repetition begins at a kill"
            for begin, _ in promised:
                span = [n for n in sorted(set(found)) if begin <= n < begin + 6_000]
                assert span == expected(begin, len(span), topics.index(name), partition), f"{name}-{partition}: a prefix from {begin}"


def expected(begin: int, count: int, which: int, partition: int) -> list[int]:
    """The first numbers from `begin` of a topic's partition: see sender.py."""
    fits = [n for n in range(begin, begin + 6_000) if n % 2 == which and n % PARTITIONS == partition]
    return fits[:count]


@pytest.mark.parametrize("always", [True, pytest.param(False, marks=pytest.mark.lengthy)])
def test_everything_that_the_page_says_is_on_disk_arrives_after_a_kill(
    cluster: Cluster, topic: str, agent: AgentOf, folder: Path, always: bool
) -> None:
    """Without `always` the older messages are in memory only, and are lost with it."""
    cluster.create_topic(topic, PARTITIONS)
    running = agent(inputs=SMALL, topics=AT_ONCE, spool={"path": str(folder / "spool"), "always": always})
    freeze(cluster)
    assert send(running.datagram, [topic], 12_000, size=500, partition_key=PARTITIONS)["sent"] == 12_000
    account = running.read_all(12_000)
    assert account.spooled > 6_000, account
    assert account.discards == {}
    running.kill()
    thaw(cluster)
    running.start()
    whole = 12_000 if always else account.spooled
    assert running.settled(whole).acknowledged == whole
    rows = read_topic(cluster, topic)
    for partition in range(PARTITIONS):
        found = numbers(rows, partition)
        expected = [n for n in range(partition, 12_000, PARTITIONS) if n >= 12_000 - whole]
        assert firsts(found)[-len(expected) :] == expected
        assert firsts(found) == sorted(set(found))
        assert descents(found) <= 1


def test_the_rest_at_the_end_goes_to_the_spool_and_the_next_start_delivers_it(
    cluster: Cluster, topic: str, agent: AgentOf, folder: Path
) -> None:
    cluster.create_topic(topic, PARTITIONS)
    running = agent(topics=AT_ONCE, spool={"path": str(folder / "spool")}, service={"shutdown_ms": 1_000})
    assert send(running.datagram, [topic], 300, partition_key=PARTITIONS)["sent"] == 300
    until(lambda: running.total().acknowledged == 300, LONG_S, "the first messages")
    freeze(cluster)
    assert send(running.datagram, [topic], 3_000, first=300, partition_key=PARTITIONS)["sent"] == 3_000
    code = running.end(LONG_S)
    assert code == 0, running.said()
    thaw(cluster)
    running.start()
    assert running.settled(3_000).acknowledged == 3_000
    rows = read_topic(cluster, topic)
    for partition in range(PARTITIONS):
        assert firsts(numbers(rows, partition)) == list(range(partition, 3_300, PARTITIONS))


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[None]:
    """A file system of that size, in memory. Skips the test where it cannot be mounted."""
    path.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"needs the right to mount a tmpfs (sudo): {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.mark.lengthy
def test_a_full_disk_and_a_full_spool_are_named_and_all_else_arrives(cluster: Cluster, topic: str, agent: AgentOf, folder: Path) -> None:
    """The disk is smaller than the spool may become; the other agent's spool is smaller than its disk."""
    cluster.create_topic(topic, PARTITIONS)
    with small_disk(folder / "disk", "3m"):
        limits = {"disk": ("64MiB", "SPOOL_FAILED"), "bound": ("3MiB", "SPOOL_FULL")}
        folders = {"disk": folder / "disk" / "spool", "bound": folder / "spool"}
        both = {
            name: agent(name=name, inputs=SMALL, topics=AT_ONCE, spool={"path": str(folders[name]), "max_size": limits[name][0]})
            for name in limits
        }
        freeze(cluster)
        for name, running in both.items():
            assert send(running.datagram, [topic], 20_000, name=name, size=500, partition_key=PARTITIONS)["sent"] == 20_000
            account = running.read_all(20_000)
            assert set(account.discards) == {limits[name][1]}, account
            assert account.spooled > 2_000, account
        assert "No space left" in both["disk"].said()
        thaw(cluster)
        lost = {name: running.settled().discarded for name, running in both.items()}
        rows = read_topic(cluster, topic)
        for name in both:
            found = [row.value for row in rows if row.key == f"{name}-0".encode()]
            assert len(set(found)) == 20_000 - lost[name]
        assert send(both["disk"].datagram, [topic], 100, name="after", partition_key=PARTITIONS)["sent"] == 100
        until(lambda: both["disk"].total().acknowledged == 20_100 - lost["disk"], LONG_S, "messages after the disk was full")


def flip(path: Path, at: int) -> None:
    """Damage a byte."""
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def test_damage_on_disk_is_named_and_everything_whole_arrives(cluster: Cluster, topic: str, agent: AgentOf, folder: Path) -> None:
    """Of three topics one has a flipped byte, one is cut in the middle of a message, one is whole."""
    topics = [f"{topic}-{n}" for n in ("flipped", "cut", "whole")]
    for name in topics:
        cluster.create_topic(name, 1)
    running = agent(topics=AT_ONCE, inputs=SMALL, spool={"path": str(folder / "spool"), "always": True})
    freeze(cluster)
    assert send(running.datagram, topics, 3_000, size=500)["sent"] == 3_000
    running.read_all(3_000)
    running.kill()
    files = [path for path in (folder / "spool").rglob("*") if path.is_file() and path.stat().st_size > 100_000]
    of = {name: [path for path in files if name.encode() in path.read_bytes()[:4_096]] for name in topics}
    assert all(of.values()), files
    flip(of[topics[0]][0], of[topics[0]][0].stat().st_size // 2)
    cut = of[topics[1]][-1]
    cut.write_bytes(cut.read_bytes()[:-250])
    thaw(cluster)
    running.start()
    running.settled()
    # A leader that was elected during the freeze can show an empty log until it knows its high watermark again.
    until(lambda: all(len(read_topic(cluster, name)) >= 990 for name in topics), LONG_S, "the messages of all topics")
    found = {name: firsts(numbers(read_topic(cluster, name), 0)) for name in topics}
    whole = [list(range(n, 3_000, 3)) for n in range(3)]
    assert found[topics[2]] == whole[2]
    assert found[topics[1]] == whole[1][:-1]
    assert found[topics[0]] == sorted(found[topics[0]])
    assert 990 <= len(found[topics[0]]) < 1_000
    assert str(of[topics[0]][0].name) in running.said()
    assert sum(row["count"] for row in running.get("/discards/json")["unfinished_report"]["discard_topic"]) >= 1
    assert send(running.datagram, topics, 30, name="after")["sent"] == 30
    until(
        lambda: running.total().queued == 0 and len(read_topic(cluster, topics[0])) >= len(found[topics[0]]) + 10, LONG_S, "later messages"
    )


def test_a_spool_that_cannot_be_used_is_named(cluster: Cluster, agent: AgentOf, folder: Path) -> None:
    (folder / "spool").write_text("no folder")
    running = agent(start=False, spool={"path": str(folder / "spool")})
    running.start(wait=False)
    assert running.ended(LONG_S) != 0
    assert str(folder / "spool") in running.said()
