"""Contents, keys, timestamps and partitions of messages on a real cluster, as Java's consumer reads them."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterable
from pathlib import Path

import pytest

from integration.agent.process import AgentProcess, free_port
from integration.agent.reading import read_topic
from integration.agent.sender import START_MS, packed
from integration.cluster import Cluster
from integration.java.client import JavaRecord, java_consume
from integration.waiting import until
from tests.agent.cluster.conftest import AgentOf

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

LONG_S = 60.0
PARTITIONS = 3
AT_ONCE = {"default": {"batching": "combined", "linger_ms": 5}}
INPUTS = ("datagram", "stream", "tcp")
KEYS = (None, 0, 1, 2, 3, 2**31, 2**32 - 1)  # partition keys; None: AnyPartition
CONTENTS = ((b"", b""), (b"key", b""), (b"", b"value"), (b"\x00\xff\r\n", bytes(range(256)) * 20), ("schlüssel".encode(), "wört".encode()))


def all_inputs(folder: Path) -> dict[str, object]:
    """The table [inputs] beside the datagram socket."""
    return {"unix_stream": {"path": str(folder / "agent.stream")}, "tcp": {"port": free_port()}}


def hand_over(running: AgentProcess, kind: str, messages: Iterable[bytes]) -> None:
    """Send messages to an input, and close the socket."""
    if kind == "tcp":
        sock = socket.create_connection(("127.0.0.1", running.tables["inputs"]["tcp"]["port"]))
    else:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM if kind == "datagram" else socket.SOCK_STREAM)
        sock.connect(str(running.datagram if kind == "datagram" else running.stream))
    with sock:
        for message in messages:
            sock.sendall(message)


def update_metadata(running: AgentProcess) -> None:
    """Have the agent ask the brokers for their leaders."""
    before = running.get("/metadata_fetch_time/json")["last_updated"]
    running.page("/metadata_update", "POST")
    until(lambda: running.get("/metadata_fetch_time/json")["last_updated"] > before, LONG_S, "newer metadata")


def count(cluster: Cluster, topic: str) -> int:
    """Records in the topic."""
    return sum(end for _, end in cluster.offsets(topic).values())


@pytest.mark.parametrize("empty", ["null", pytest.param("empty", marks=pytest.mark.lengthy)])
def test_java_reads_what_three_inputs_took(cluster: Cluster, topic: str, agent: AgentOf, folder: Path, empty: str) -> None:
    cluster.create_topic(topic, PARTITIONS)
    running = agent(inputs={**all_inputs(folder), "empty": empty}, topics=AT_ONCE)
    rows = list(itertools.product(INPUTS, KEYS, CONTENTS))
    for kind in INPUTS:
        mine = [(n, row) for n, row in enumerate(rows) if row[0] == kind]
        hand_over(running, kind, [packed(topic.encode(), key, value, number, START_MS + n) for n, (_, number, (key, value)) in mine])
    until(lambda: count(cluster, topic) == len(rows), LONG_S, lambda: f"{len(rows)} records; the agent says: {running.said()[-2000:]}")
    found: dict[int, JavaRecord] = {
        (row.timestamp or 0) - START_MS: row for row in java_consume(cluster.bootstrap, topic, properties=cluster.java)
    }
    assert sorted(found) == list(range(len(rows)))
    nothing = None if empty == "null" else b""
    for n, (kind, number, (key, value)) in enumerate(rows):
        record = found[n]
        assert (record.key, record.value) == (key or nothing, value or nothing), (kind, number)
        assert record.timestamp_type == "CreateTime"
        if number is not None:
            assert record.partition == number % PARTITIONS, (kind, number)


@pytest.mark.lengthy
def test_messages_avoid_a_lost_partition_unless_their_key_waits_for_it(cluster: Cluster, topic: str, agent: AgentOf, folder: Path) -> None:
    """Three agents: one for AnyPartition, one whose partition keys wait, one whose go to the next partition."""
    topics = {name: f"{topic}-{name}" for name in ("any", "wait", "next")}
    for name in topics.values():
        cluster.create_topic(name, PARTITIONS, 1)
        assert len({cluster.leader(name, p) for p in range(PARTITIONS)}) == PARTITIONS, "each broker leads a partition"
    wait, following = agent(name="wait", topics=AT_ONCE), agent(name="next", topics={**AT_ONCE, "offline": "next"})
    for running, name in ((wait, topics["wait"]), (following, topics["next"]), (wait, topics["any"])):  # so that each knows the topic
        hand_over(running, "datagram", [packed(name.encode(), b"", b"first", p, START_MS) for p in range(PARTITIONS)])
        until(lambda name=name: count(cluster, name) == PARTITIONS, LONG_S, f"the first records of {name}")  # type: ignore[misc]
    victim = cluster.leader(topics["any"], 0)
    cluster.kill(victim)
    lost = {name: next(p for p in range(PARTITIONS) if cluster.partitions(name)[p].replicas == (victim,)) for name in topics.values()}
    cluster.wait_fenced(victim)
    for running in (wait, following):  # what was accepted for a partition before its loss was known waits for it, whatever `offline` says
        update_metadata(running)
    hand_over(wait, "datagram", [packed(topics["wait"].encode(), b"", b"%d" % n, n, START_MS) for n in range(300)])
    hand_over(following, "datagram", [packed(topics["next"].encode(), b"", b"%d" % n, n, START_MS) for n in range(300)])
    alive = {name: [p for p in range(PARTITIONS) if p != lost[name]] for name in topics.values()}

    def arrived(name: str) -> dict[int, int]:
        """The records that leaders have, by partition, without the first."""
        from integration.judge import reader
        from integration.waiting import Deadline

        return {p: reader.find_offset(cluster, name, p, reader.LATEST, Deadline(LONG_S)) - 1 for p in alive[name]}

    for first in range(0, 600, 50):  # in portions: a partition is chosen for a batch, and a busy machine makes one batch of all messages
        hand_over(wait, "datagram", [packed(topics["any"].encode(), b"", b"%d" % n, None, START_MS) for n in range(first, first + 50)])
        what = "messages for any partition to go to those with a leader"
        until(lambda wanted=first + 50: sum(arrived(topics["any"]).values()) == wanted, LONG_S, what)  # type: ignore[misc]
    until(lambda: sum(arrived(topics["next"]).values()) == 300, LONG_S, "messages of a lost partition to go to the next")
    until(lambda: sum(arrived(topics["wait"]).values()) == 200, LONG_S, "messages whose partitions have a leader")
    assert all(arrived(topics["any"]).values()), "both partitions have some"
    cluster.start(victim)
    until(lambda: count(cluster, topics["wait"]) == 303, LONG_S, "the messages that waited")
    rows = [row for row in read_topic(cluster, topics["wait"]) if row.value != b"first"]
    for partition in range(PARTITIONS):
        assert [int(row.value or b"-1") for row in rows if row.partition == partition] == list(range(partition, 300, PARTITIONS))
    moved = [row for row in read_topic(cluster, topics["next"]) if row.value != b"first"]
    assert {row.partition for row in moved} == set(alive[topics["next"]])
    expected = {
        int(n): int(n) % PARTITIONS if int(n) % PARTITIONS != lost[topics["next"]] else (int(n) + 1) % PARTITIONS for n in range(300)
    }
    assert {int(row.value or b"-1"): row.partition for row in moved} == expected
