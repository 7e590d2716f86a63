"""`produce`, `consume` and `copy` on real brokers, compared with other programs; also with kcat, if it is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING
from confluent_kafka import Consumer as Foreign
from confluent_kafka import Producer as ForeignProducer
from confluent_kafka import TopicPartition as ForeignPartition

from integration.cluster import Cluster
from integration.java.client import run_tool
from integration.waiting import until
from pykafka4 import AdminClient, TopicPartition
from tests.integration.command_line import call_of, tools_bootstrap

pytest.importorskip("click")
pytest.importorskip("rich")

pytestmark = pytest.mark.cluster

KCAT = shutil.which("kcat")
LONG_S = 60.0
PARTITIONS = 3
Row = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
TOOLS = "org.apache.kafka.tools"


def command(cluster: Cluster, *arguments: str, stdin: bytes = b"") -> bytes:
    done = subprocess.run(call_of(cluster, *arguments), input=stdin, capture_output=True, timeout=LONG_S, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def kcat(cluster: Cluster, *arguments: str, stdin: bytes = b"") -> bytes:
    assert KCAT is not None
    words = [KCAT, "-b", cluster.bootstrap, "-q", *arguments]
    return subprocess.run(words, input=stdin, stdout=subprocess.PIPE, timeout=LONG_S, check=True).stdout


def foreign_rows(cluster: Cluster, topic: str, count: int) -> list[Row]:
    """What confluent-kafka reads."""
    reader: Any = Foreign({"bootstrap.servers": cluster.bootstrap, "group.id": "none", "enable.auto.commit": False})
    reader.assign([ForeignPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    found: list[Row] = []

    def all_there() -> bool:
        for message in reader.consume(count, 0.2):
            assert message.error() is None
            found.append((message.partition(), message.key(), message.value(), tuple(message.headers() or ())))
        return len(found) >= count

    until(all_there, LONG_S, f"{count} records of {topic}")
    reader.close()
    return sorted(found, key=repr)


def test_other_clients_read_what_produce_sends(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, PARTITIONS)
    lines = b"".join(b"key %d:value %d \xc3\xbc\n" % (number, number) for number in range(2_000))
    command(cluster, "produce", topic, "-K", ":", "-H", "h=1", "-z", "lz4", "--transactional", stdin=lines)
    command(cluster, "produce", topic, "-Z", "-k", "none", "-p", "2", stdin=b"\n5\n")
    rows = foreign_rows(cluster, topic, 2_002)
    assert [row for row in rows if row[1] == b"none"] == [(2, b"none", None, ()), (2, b"none", b"5", ())]
    assert sorted(row[1:] for row in rows if row[1] != b"none") == sorted(
        (*line.split(b":"), (("h", b"1"),)) for line in lines.splitlines()
    )
    ours = command(cluster, "consume", topic, "-K", ":")
    java = run_tool(
        f"{TOOLS}.consumer.ConsoleConsumer", "--bootstrap-server", tools_bootstrap(cluster), "--topic", topic, "--from-beginning",
        "--max-messages", "2002", "--formatter-property", "print.key=true", "--formatter-property", "key.separator=:",
    )  # fmt: skip
    as_text = ours.replace(b"none:\n", b"none:null\n").decode(errors="replace")
    assert sorted(line for line in java.splitlines() if ":" in line) == sorted(as_text.splitlines())
    if KCAT is not None:
        assert sorted(kcat(cluster, "-C", "-t", topic, "-e", "-K", ":").splitlines()) == sorted(ours.splitlines())


def test_consume_writes_what_other_clients_send(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, PARTITIONS)
    sender: Any = ForeignProducer({"bootstrap.servers": cluster.bootstrap, "compression.type": "zstd"})
    for number in range(1_000):
        headers = [("h", b"%d" % number), ("n", None)] if number % 2 else None
        sender.produce(topic, None if number % 7 == 0 else b"v%d\xff" % number, key=b"k%d" % number, headers=headers)
    sender.flush()
    run_tool(
        f"{TOOLS}.ConsoleProducer", "--bootstrap-server", tools_bootstrap(cluster), "--topic", topic,
        "--reader-property", "parse.key=true", "--reader-property", "key.separator=:", stdin="java:1\njava:2\n",
    )  # fmt: skip
    ours = command(cluster, "consume", topic, "-f", r"%p %o %k %K %s %S %h\n")
    rows = foreign_rows(cluster, topic, 1_002)
    assert sorted(b"%d %b %b" % (row[0], row[1] or b"", row[2] or b"") for row in rows) == sorted(
        b"%b %b %b" % (words[0], words[2], words[4]) for words in (line.split(b" ") for line in ours.splitlines())
    )
    assert ours.count(b" java 4 1 1 ") == ours.count(b" java 4 2 1 ") == 1
    assert command(cluster, "consume", topic, "-k", "k5", "--from", "-1000", "-f", "%s %h") == b"v5\xff h=5,n=NULL"
    if KCAT is not None:
        theirs = kcat(cluster, "-C", "-t", topic, "-e", "-f", r"%p %o %k %K %s %S %h\n")
        assert sorted(theirs.splitlines()) == sorted(ours.splitlines())


def test_a_copy_is_what_other_clients_read_of_the_original(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    for name in (topic, f"{topic}-copy"):
        cluster.create_topic(name, PARTITIONS)
    sender: Any = ForeignProducer({"bootstrap.servers": cluster.bootstrap, "compression.type": "gzip"})
    for number in range(1_000):
        sender.produce(topic, b"v%d" % number, key=b"k%d" % number, headers=[("h", b"x")])
    sender.flush()
    how = ("copy", topic, "--to-topic", f"{topic}-copy", "--group", topic)
    for _ in range(2):
        command(cluster, *how)
    assert foreign_rows(cluster, f"{topic}-copy", 1_000) == foreign_rows(cluster, topic, 1_000)
    with AdminClient(**cluster.client) as admin:
        committed = admin.group_offsets([topic])[topic]
    assert isinstance(committed, dict)
    assert sum(at.offset for at in committed.values()) == 1_000


def test_a_group_that_is_killed_reads_on_and_misses_nothing(cluster: Cluster, topic: str) -> None:
    """What was written before the kill may be written again, up to the last commit; a member that waits commits what it wrote."""
    cluster.create_topic(topic, PARTITIONS)
    command(cluster, "produce", topic, "-K", ":", stdin=b"".join(b"%d:%d\n" % (number, number) for number in range(300)))
    words = call_of(cluster, "consume", topic, "--group", topic)
    more = ["--follow", "-X", "session.timeout.ms=6000", "-X", "auto.commit.interval.ms=100"]
    with subprocess.Popen([*words, *more], stdout=subprocess.PIPE) as process, AdminClient(**cluster.client) as admin:
        assert process.stdout is not None
        seen = [process.stdout.readline() for _ in range(300)]

        def committed() -> int:
            found = admin.group_offsets([topic])[topic]
            return sum(at.offset for at in found.values()) if isinstance(found, dict) else 0

        until(lambda: committed() == 300, LONG_S, "the commit of what was written")
        process.kill()
    assert sorted(map(int, seen)) == list(range(300))
    command(cluster, "produce", topic, "-p", "0", stdin=b"300\n")
    assert command(cluster, "consume", topic, "--group", topic, "-X", "session.timeout.ms=6000") == b"300\n"
    with AdminClient(**cluster.client) as admin:
        assert TopicPartition(topic, 0) in admin.group_offsets([topic])[topic]  # type: ignore[operator]
