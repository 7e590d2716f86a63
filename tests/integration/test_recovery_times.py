"""What a lost broker costs a group, in time: the next record of a partition whose leader was killed, and the next commit when the
coordinator moves.

Both have three seconds: from the moment when the metadata has the new leader, and when the new coordinator answers for the group. That
moment is taken as the last one at which it was not so on any running broker. So what is measured is never shorter than what the client
took. The producer of the records loses its leader, too, and its time counts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from integration.cluster import Cluster
from integration.waiting import until
from integration.workload.load import Load
from pykafka4 import Consumer, KafkaError, Producer, Record
from pykafka4.wire.protocol.messages_cluster import FindCoordinatorRequest
from pykafka4.wire.protocol.messages_group import OffsetFetchRequest
from tests.integration.reading import GROUP, LONG_S, Notes, assert_in_order

pytestmark = [pytest.mark.cluster, pytest.mark.chaos, pytest.mark.timeout(600)]

PARTITIONS = 6
RATE = 600.0  # records a second
BAR_S = 3.0
KILLS = 3
OFFSETS = "__consumer_offsets"
OPTIONS = {"classic": GROUP, "consumer": {"group_protocol": "consumer", "auto_offset_reset": "earliest"}}


class Reader(threading.Thread):
    """Polls a consumer and commits what it read, all the time. Notes when the last record of each partition came, and the last commit."""

    def __init__(self, consumer: Consumer) -> None:
        super().__init__(name="reader", daemon=True)
        self.consumer, self.ends = consumer, threading.Event()
        self.records: list[Record] = []
        self.came: dict[int, float] = {}
        self.committed = 0.0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.ends.is_set():
                records = self.consumer.poll(0.05)
                now = time.monotonic()
                self.records += records
                self.came.update((record.partition, now) for record in records)
                self.consumer.commit_async(on_done=self.done)
        except BaseException as error:  # the test reads it
            self.error = error

    def done(self, offsets: Any, error: KafkaError | None) -> None:
        if error is None and offsets:
            self.committed = time.monotonic()

    def finish(self) -> None:
        self.ends.set()
        self.join(LONG_S)


def last_without(condition: Callable[[], Any], what: str) -> float:
    """Waits for `condition`; the last moment at which it was not true."""
    last = time.monotonic()

    def look() -> bool:
        nonlocal last
        asked = time.monotonic()
        if condition():
            return True
        last = asked
        return False

    deadline = last + LONG_S
    while not look():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)  # closer than `until` looks
    return last


def coordinator(cluster: Cluster, group: str, other_than: int | None = None) -> int | None:
    """The coordinator by the first running broker that knows one, other than that."""
    for node in cluster.running():
        try:
            answer = cluster.admin.ask(node, FindCoordinatorRequest(key=group, key_type=0), highest=3)
        except (OSError, KafkaError):
            continue
        if answer.error_code == 0 and answer.node_id != other_than and answer.node_id in cluster.running():
            return int(answer.node_id)
    return None


def ready(cluster: Cluster, group: str, other_than: int | None) -> bool:
    """Whether a coordinator other than that answers for the group, without any code of the client."""
    node = coordinator(cluster, group, other_than)
    try:
        return node is not None and cluster.admin.ask(node, OffsetFetchRequest(group_id=group, topics=None), highest=7).error_code == 0
    except (OSError, KafkaError):
        return False


def led_anew(cluster: Cluster, topic: str, partition: int, dead: int) -> bool:
    for node in cluster.running():
        try:
            if cluster.admin.partitions(topic, node)[partition].leader not in (dead, -1):
                return True
        except (OSError, KafkaError):
            continue
    return False


def wait_past(reader: Reader, when: Callable[[], float], moment: float, what: str) -> float:
    """Seconds from `moment` until what `when` tells was later than that."""
    return until(lambda: (reader.error is None or pytest.fail(repr(reader.error))) and when() > moment and when(), LONG_S, what) - moment


def kill_the_coordinator(cluster: Cluster, topic: str, reader: Reader) -> tuple[float, float]:
    """Kill the coordinator of the group, which leads partitions, too. Seconds until the next record, the longest of all partitions, and
    until the next commit."""
    node = coordinator(cluster, topic)
    assert node is not None
    led = [partition for partition, row in cluster.partitions(topic).items() if row.leader == node]
    assert led, "the coordinator leads no partition: nothing is tested"
    moments: dict[int, float] = {}

    def note(key: int, condition: Callable[[], Any], what: str) -> None:
        moments[key] = last_without(condition, what)

    watchers = [
        threading.Thread(target=note, args=(partition, lambda p=partition: led_anew(cluster, topic, p, node), f"a leader of {partition}"))
        for partition in led
    ]
    watchers.append(threading.Thread(target=note, args=(-1, lambda: ready(cluster, topic, node), "another coordinator")))
    cluster.kill(node)
    try:
        for each in watchers:
            each.start()
        for each in watchers:
            each.join(LONG_S)
        record = max(wait_past(reader, lambda p=p: reader.came.get(p, 0.0), moments[p], f"a record of {p}") for p in led)
        commit = wait_past(reader, lambda: reader.committed, moments[-1], "a commit")
    finally:
        cluster.start(node)
        cluster.wait_full_isr()
    return record, commit


def move_the_coordinator(cluster: Cluster, topic: str, reader: Reader) -> float:
    """Another broker becomes the leader of what the coordinator leads of the topic of offsets, and nothing fails. Seconds until the next
    commit."""
    node = coordinator(cluster, topic)
    moment: list[float] = []
    watcher = threading.Thread(target=lambda: moment.append(last_without(lambda: ready(cluster, topic, node), "another coordinator")))
    watcher.start()
    other = next(each for each in cluster.nodes if each != node)
    for partition, row in cluster.partitions(OFFSETS).items():
        if row.leader == node:
            cluster.move_leader(OFFSETS, partition, other)
    watcher.join(LONG_S)
    return wait_past(reader, lambda: reader.committed, moment[0], "a commit")


@pytest.fixture
def load(cluster: Cluster, topic: str) -> Iterator[Load]:
    """Numbered records into all partitions, all the time."""
    cluster.create_topic(topic, PARTITIONS)
    ends = threading.Event()
    with Producer(**cluster.client, linger_ms=0) as producer:
        load = Load(producer, topic, RATE, lambda sent: ends.is_set(), PARTITIONS)
        load.start()
        try:
            yield load
        finally:
            ends.set()
            load.join(LONG_S)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_next_record_and_the_next_commit_come_within_three_seconds(cluster: Cluster, topic: str, load: Load, protocol: str) -> None:
    notes = Notes()
    with Consumer(**cluster.client, **OPTIONS[protocol], group_id=topic, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic], notes)
        reader = Reader(consumer)
        reader.start()
        try:
            wait_past(reader, lambda: min(reader.came.values(), default=0.0) if len(reader.came) == PARTITIONS else 0.0, 0.0, "records")
            wait_past(reader, lambda: reader.committed, 0.0, "a commit")
            killed = [kill_the_coordinator(cluster, topic, reader) for _ in range(KILLS)]
            moved = [move_the_coordinator(cluster, topic, reader) for _ in range(KILLS)]
        finally:
            reader.finish()
        kinds = list(notes.kinds)
    records, commits = zip(*killed, strict=True)
    for what, seconds in (("record after a kill", records), ("commit after a kill", commits), ("commit after a move", moved)):
        print(f"\n{protocol}: next {what}: {', '.join(f'{each:.2f}' for each in sorted(seconds))} s", end="")
    assert reader.error is None
    assert kinds == ["assigned"]
    assert_in_order(reader.records)
    assert max(records) <= BAR_S
    assert max(commits) <= BAR_S
    assert max(moved) <= BAR_S
