"""The examples of consumers do what they promise when they are killed and started again, on real brokers."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.cluster import Cluster
from integration.kafka.settings import write_properties
from integration.waiting import until
from pykafka4 import Consumer, Producer
from tests.integration.sharing import configure

pytestmark = [pytest.mark.cluster]
ROOT = Path(__file__).resolve().parents[1]
COUNT, KEYS, PARTITIONS = 20_000, 20, 4
SECONDS = 90.0
KILLS = 2
QUICK = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "500"}  # how long a group waits for a member that was killed


def value(number: int) -> bytes:
    return b"value %05d" % number


class Topic:
    """A topic that gets COUNT records in portions, so that each run of an example has some that no run before it can have finished."""

    def __init__(self, cluster: Cluster, name: str, partitions: int = PARTITIONS) -> None:
        self._cluster, self._name, self._sent = cluster, name, 0
        self.held: dict[int, list[bytes]] = {}  # what each partition has
        cluster.create_topic(name, partitions)

    def send(self, count: int) -> None:
        numbers = range(self._sent, self._sent + count)
        self._sent += count
        with Producer(**self._cluster.client) as producer:
            sent = [(producer.send(self._name, value(n), key=b"key %d" % (n % KEYS)), n) for n in numbers]
            producer.flush()
        for delivery, n in sent:
            self.held.setdefault(delivery.result(0).partition, []).append(value(n))

    def send_the_rest(self) -> None:
        self.send(COUNT - self._sent)


def places(held: dict[int, list[bytes]]) -> set[tuple[int, int]]:
    """(Partition, offset) of each record."""
    return {(partition, offset) for partition, values in held.items() for offset in range(len(values))}


class Runs:
    """An example that is killed and started again."""

    def __init__(self, cluster: Cluster, folder: Path, name: str, *arguments: str, quick: bool = False) -> None:
        """`quick`: an example with nothing but a consumer; others refuse these options."""
        write_properties(folder / "client.properties", {**cluster.java, **(QUICK if quick else {})})
        self._kills = KILLS if quick else 1  # each takes a session of 45 s otherwise
        where = ["--bootstrap-servers", cluster.bootstrap, "--config", str(folder / "client.properties")]
        self._command = [sys.executable, str(ROOT / "examples" / name), *where, *arguments]
        self._folder = folder
        self.outputs: list[Path] = []

    def until(self, enough: Callable[[], bool], end: signal.Signals) -> None:
        """Let it run until that holds, and send it this signal."""
        out = self._folder / f"out-{len(self.outputs)}"
        self.outputs.append(out)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background ignores it, and so would the child
        with out.open("w") as file, subprocess.Popen(self._command, env=environment, stdout=file, stderr=subprocess.STDOUT) as child:
            signal.signal(signal.SIGINT, before)
            try:
                until(lambda: enough() or child.poll() is not None, SECONDS, lambda: f"the example; it said: {out.read_text()[-2000:]}")
                assert child.poll() is None, out.read_text()
                child.send_signal(end)
                code = child.wait(timeout=60.0)
            finally:
                child.kill()
        assert code == (0 if end is signal.SIGINT else -end), out.read_text()

    def kill_in_the_middle(self, topic: Topic, done: Callable[[], int]) -> None:
        """Let it do some records, which `done` counts, and kill it; again if that is quick. The next run has the rest of the topic."""
        for _ in range(self._kills):
            topic.send(COUNT // (self._kills + 1))
            before = done()
            self.until(lambda before=before: done() >= before + COUNT // 40, signal.SIGKILL)
        topic.send_the_rest()

    def lines(self) -> list[str]:
        return [line for out in self.outputs for line in out.read_text().splitlines()]


def printed(runs: Runs) -> list[tuple[int, int]]:
    """(Partition, offset) of each line of the form `… partition offset b'value'`; a line that a kill cut off is no line."""
    found = []
    for line in runs.lines():
        words = line.split(" b'value ")[0].split() if line.endswith("'") and " b'value " in line else []
        if len(words) >= 2 and words[-1].isdigit() and words[-2].isdigit():
            found.append((int(words[-2]), int(words[-1])))
    return found


@pytest.mark.timeout(400)
def test_parallel_by_key_handles_every_record_in_order_per_key(cluster: Cluster, tmp_path: Path) -> None:
    topic = Topic(cluster, "parallel")
    cluster.create_topic("parallel.dead", 1)
    runs = Runs(cluster, tmp_path, "parallel_by_key.py", "--topic", "parallel", "--dead-letter", "parallel.dead")
    runs.kill_in_the_middle(topic, lambda: len(printed(runs)))
    with Producer(**cluster.client) as producer:
        producer.send("parallel", b"", key=b"bad").result(SECONDS)
    runs.until(lambda: len(set(printed(runs))) == COUNT and bool(committed_all(cluster, "parallel", "parallel", COUNT + 1)), signal.SIGINT)
    assert "as dead letters" in runs.lines()[-1]
    assert set(printed(runs)) == places(topic.held)
    first: dict[bytes, list[tuple[int, int]]] = {}
    for line in runs.lines():
        if line.startswith("b'key") and " b'value " in line and line.endswith("'"):
            key, partition, offset = line.split("' ")[0].encode(), *line.split("' ")[1].split()[:2]
            seen = first.setdefault(key, [])
            if (int(partition), int(offset)) not in seen:
                seen.append((int(partition), int(offset)))
    assert len(first) == KEYS
    assert all(places == sorted(places) for places in first.values())
    reader = Consumer(**cluster.client, auto_offset_reset="earliest")
    with reader:
        reader.assign([("parallel.dead", 0)])
        letters = reader.poll(SECONDS)
    assert {letter.key for letter in letters} == {b"bad"}
    assert dict(letters[0].headers)["dead_letter.message"] == b"a record without content"


def committed_all(cluster: Cluster, topic: str, group: str, count: int) -> bool:
    with Consumer(**cluster.client, group_id=group) as consumer:
        found = consumer.committed([(topic, p) for p in range(PARTITIONS)], SECONDS)
    return sum(at.offset for at in found.values() if at is not None) == count


@pytest.mark.timeout(400)
def test_exactly_once_copies_every_record_once(cluster: Cluster, tmp_path: Path) -> None:
    topic = Topic(cluster, "plain")
    cluster.create_topic("shouts", PARTITIONS)
    runs = Runs(cluster, tmp_path, "exactly_once.py", "--topic", "plain", "--to", "shouts")
    runs.kill_in_the_middle(topic, lambda: copied(runs))
    runs.until(lambda: committed_all(cluster, "plain", "shouters", COUNT), signal.SIGINT)
    found = read_committed(cluster, "shouts", COUNT)
    assert sorted(v for _, v in found) == sorted(v.upper() for values in topic.held.values() for v in values)
    for partition in range(PARTITIONS):
        mine = [v for p, v in found if p == partition]
        assert mine == [v.upper() for v in topic.held.get(partition, [])], "the same partitioner, and the order is kept"


def copied(runs: Runs) -> int:
    return sum(int(line.split()[1]) for line in runs.lines() if line.startswith("committed "))


def read_committed(cluster: Cluster, topic: str, count: int) -> list[tuple[int, bytes]]:
    """Everything that is committed, until nothing more comes."""
    found: list[tuple[int, bytes]] = []
    with Consumer(**cluster.client, auto_offset_reset="earliest", isolation_level="read_committed") as reader:
        reader.assign([(topic, p) for p in range(PARTITIONS)])
        give_up = time.monotonic() + SECONDS
        while time.monotonic() < give_up:
            records = reader.poll(1.0)
            found += [(record.partition, record.value or b"") for record in records]
            if len(found) >= count and not records:
                break
    return found


@pytest.mark.timeout(400)
def test_exactly_once_sqlite_stores_every_record_once(cluster: Cluster, tmp_path: Path) -> None:
    topic = Topic(cluster, "archived")
    path = tmp_path / "greetings.db"
    runs = Runs(cluster, tmp_path, "exactly_once_sqlite.py", "--topic", "archived", "--database", str(path), quick=True)

    def rows() -> list[tuple[int, int, bytes]]:
        if not path.exists():
            return []
        with sqlite3.connect(path, timeout=30) as database:
            try:
                return database.execute("SELECT partition, offset, value FROM greetings ORDER BY partition, offset").fetchall()
            except sqlite3.OperationalError:
                return []  # the tables are not there yet

    runs.kill_in_the_middle(topic, lambda: len(rows()))
    runs.until(lambda: len(rows()) >= COUNT, signal.SIGINT)
    assert rows() == [(p, n, v) for p in sorted(topic.held) for n, v in enumerate(topic.held[p])]


@pytest.mark.timeout(400)
def test_at_most_once_prints_no_record_twice(cluster: Cluster, tmp_path: Path) -> None:
    topic = Topic(cluster, "notices")
    runs = Runs(cluster, tmp_path, "at_most_once.py", "--topic", "notices", quick=True)
    runs.kill_in_the_middle(topic, lambda: len(printed(runs)))
    runs.until(lambda: committed_all(cluster, "notices", "notifier", COUNT), signal.SIGINT)
    found = printed(runs)
    assert len(found) == len(set(found))
    assert len(found) >= COUNT - (KILLS + 1) * 50, "at most one list of 50 is lost with each kill, and one with Ctrl-C"
    assert set(found) <= places(topic.held)


@pytest.mark.timeout(400)
def test_a_share_group_prints_every_record_and_nobody_waits_for_a_killed_one(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("jobs", 1)
    configure(cluster, "workers")
    with Producer(**cluster.client) as producer:
        for n in range(2_000):
            producer.send("jobs", value(n))
    runs = Runs(cluster, tmp_path, "share_group.py", "--topic", "jobs")
    for _ in range(KILLS):
        before = len(printed(runs))
        runs.until(lambda before=before: len(printed(runs)) > before + 100 or len(set(printed(runs))) == 2_000, signal.SIGKILL)
    with Producer(**cluster.client) as producer:
        producer.send("jobs", None)
    runs.until(lambda: len(set(printed(runs))) == 2_000 and "delivery 5" in " ".join(runs.lines()[-50:]), signal.SIGINT)
    assert set(printed(runs)) == {(0, offset) for offset in range(2_000)}
    assert any(line == "0 2000 delivery 5: nothing to do" for line in runs.lines())


@pytest.mark.timeout(400)
def test_streams_read_every_record_in_order(cluster: Cluster, tmp_path: Path) -> None:
    topic = Topic(cluster, "streamed")
    runs = Runs(cluster, tmp_path, "streams.py", "--topic", "streamed", "--streams", "3", quick=True)
    runs.kill_in_the_middle(topic, lambda: len(printed(runs)))
    runs.until(lambda: len(set(printed(runs))) == COUNT, signal.SIGINT)
    assert set(printed(runs)) == places(topic.held)
    for out in runs.outputs:
        streams: dict[int, set[str]] = {}
        lines = [line.split() for line in out.read_text().splitlines() if line.endswith("'") and " b'value " in line]
        for partition in range(PARTITIONS):
            offsets = [int(words[3]) for words in lines if int(words[2]) == partition]
            assert offsets == list(range(offsets[0], offsets[0] + len(offsets))) if offsets else True
            streams[partition] = {words[1] for words in lines if int(words[2]) == partition}
        assert all(len(found) <= 1 for found in streams.values()), "nobody joined, so no partition moved"
    assert committed_all(cluster, "streamed", "streamed", COUNT), "Ctrl-C commits everything"
