"""Members of a group on real brokers: which member owns which partitions, what is committed, and what each fault costs."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from integration.cluster import Cluster
from integration.faults.proxied import Proxied
from integration.waiting import Deadline, until
from pykafka4 import Client, Consumer, GroupError, KafkaError, Producer, Record, TopicPartition
from pykafka4.core.group.membership.classic import MemberState
from tests.integration.reading import (
    GROUP,
    LONG_S,
    MODERN,
    SECONDS,
    SURVIVES,
    Notes,
    assert_in_order,
    followers,
    poll_until,
    produce,
    read,
    read_beside_java,
    send,
    values,
    wait_leaders,
)

pytestmark = pytest.mark.cluster


def test_a_leader_that_dies_costs_no_record_and_no_rebalance(cluster: Cluster, topic: str) -> None:
    """Producer and consumer both: 200 records, a kill, 200 more that are delivered and read within seconds of the election."""
    cluster.create_topic(topic, 3)
    notes = Notes()
    with (
        Producer(**cluster.client) as producer,
        Consumer(**cluster.client, **SURVIVES, group_id=topic) as consumer,
    ):
        consumer.subscribe([topic], notes)
        send(producer, topic, range(200))
        records = read(consumer, 200)
        dead = cluster.leader(topic, 0)
        cluster.kill(dead)
        try:
            send(producer, topic, range(200, 400))
            wait_leaders(cluster, topic, other_than=dead)
            records += read(consumer, 200, SECONDS)
        finally:
            cluster.start(dead)
        consumer.commit()
        assert values(records) == list(range(400))
        assert_in_order(records)
        assert notes.kinds == ["assigned"]
    cluster.wait_full_isr([topic])


@pytest.mark.parametrize("options", [SURVIVES, MODERN], ids=["classic", "consumer"])
def test_the_coordinator_that_dies_or_freezes_is_replaced_without_a_rebalance(
    cluster: Cluster, topic: str, options: dict[str, Any]
) -> None:
    cluster.create_topic(topic, 3)
    produce(cluster, topic, 0, 30)
    notes = Notes()
    with Consumer(**cluster.client, **options, group_id=topic, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic], notes)
        records = read(consumer, 30)
        for fault, mend in ((cluster.kill, cluster.start), (cluster.freeze, cluster.thaw)):
            node = consumer.status()["consumer"]["coordinator"]
            fault(node)
            try:
                consumer.commit(timeout=LONG_S)
                assert consumer.status()["consumer"]["coordinator"] != node
            finally:
                mend(node)
            cluster.wait_full_isr()
        produce(cluster, topic, 30, 60)
        records += read(consumer, 30)
        assert values(records) == list(range(60))
        assert notes.kinds == ["assigned"]


def test_a_member_does_not_wait_minutes_for_a_coordinator_that_froze_while_it_held_back_the_join(cluster: Cluster, topic: str) -> None:
    """It holds back a join until the other members came, for up to max_poll_interval_ms; frozen then, it never answers."""
    cluster.create_topic(topic, 3)
    options = {**cluster.client, **GROUP, "session_timeout_ms": 30_000, "group_id": topic}
    with Consumer(**options) as first, Consumer(**options) as second:
        first.subscribe([topic])
        poll_until(first, first.assignment)
        second.subscribe([topic])
        poll_until(second, lambda: second.status()["consumer"]["state"] == MemberState.JOINING.value)
        node = second.status()["consumer"]["coordinator"]
        cluster.freeze(node)
        try:
            poll_until(second, lambda: first.poll(0.1) or second.assignment())
            assert second.status()["consumer"]["coordinator"] != node
        finally:
            cluster.thaw(node)
        until(lambda: first.poll(0.1) or len(first.assignment() | second.assignment()) == 3, LONG_S, "all partitions to be owned")
    cluster.wait_full_isr()


def test_committed_offsets_survive_the_coordinator_and_a_restart_of_all_brokers(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    cluster.create_topic(f"{topic}-other", 1)
    produce(cluster, topic, 0, 300)
    options = {**GROUP, "auto_offset_reset": "none", "group_id": topic, "enable_auto_commit": False}  # only what is committed counts
    tps = [TopicPartition(topic, p) for p in range(3)]
    saved = {tp: 30 * (tp.partition + 1) for tp in tps}
    with Consumer(**cluster.client, **{**options, "auto_offset_reset": "earliest"}) as first:
        first.assign(tps)
        everything = read(first, 300)
        first.commit(saved)  # of the rest nothing is finished: the next one reads it again
        coordinator = first.status()["consumer"]["coordinator"]
    records = [r for r in everything if r.offset < saved[TopicPartition(topic, r.partition)]]
    cluster.kill(coordinator)
    somebody_commits(cluster, topic)
    with Consumer(**cluster.client, **options) as second:
        assert offsets_of(second, tps) == saved
        assert second.status()["consumer"]["coordinator"] != coordinator
    for node in cluster.running():
        cluster.kill(node)
    cluster.start_all()
    cluster.wait_full_isr()
    somebody_commits(cluster, topic)
    with Consumer(**cluster.client, **options) as third:
        assert offsets_of(third, tps) == saved
        third.assign(tps)
        records += read(third, 300 - len(records))
    assert values(records) == list(range(300))
    assert_in_order(records)


def somebody_commits(cluster: Cluster, group: str) -> None:
    """To another topic, in this group's log, as in any cluster that is used.

    A coordinator of Kafka 4 that has just taken over may miss the news that its log is replicated (3 of 290 kills here): until something is
    written to the log, lookups of stable offsets run into its timeout, Java's as well.
    """
    other = TopicPartition(f"{group}-other", 0)
    with Consumer(**cluster.client, group_id=group, enable_auto_commit=False) as consumer:
        consumer.commit({other: 0}, timeout=LONG_S)


def offsets_of(consumer: Consumer, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
    return {tp: stored.offset for tp, stored in consumer.committed(tps, LONG_S).items()}


@pytest.mark.main_job
@pytest.mark.secured
def test_three_members_share_six_partitions_and_each_record_is_owned_once(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 6)
    produce(cluster, topic, 0, 3_000)
    members = [Consumer(**cluster.client, **GROUP, group_id=topic) for _ in range(3)]
    try:
        got: list[Record] = []
        for member in members:
            member.subscribe([topic])

        def shared_out() -> bool:
            for member in members:
                got.extend(member.poll(0.05))
            owned = [tp for member in members for tp in member.assignment()]
            return len(owned) == 6 == len(set(owned)) and all(len(m.assignment()) == 2 for m in members)

        until(shared_out, LONG_S, "every member to have two partitions")
        until(lambda: shared_out() and len({(r.partition, r.offset) for r in got}) == 3_000, LONG_S, "all records")
        last = members.pop()
        last.commit()  # what its last poll handed out is finished only when it says so
        last.close()
        until(lambda: [got.extend(m.poll(0.05)) for m in members] and all(len(m.assignment()) == 3 for m in members), LONG_S, "take-over")
        assert set(values(got)) == set(range(3_000))
        assert len(got) == 3_000  # what was finished was committed before it changed hands: nothing came twice
    finally:
        for member in members:
            member.close()


DOOMED = """
import json, sys
from pykafka4 import Consumer

class Listener:
    def on_partitions_assigned(self, partitions):
        print("assigned", len(partitions), flush=True)

_, client, topic, timeout = sys.argv
with Consumer(**json.loads(client), group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False, max_poll_records=50,
              session_timeout_ms=int(timeout), heartbeat_interval_ms=500) as consumer:
    consumer.subscribe([topic], Listener())
    for finished in (True, False):
        handed = 0
        while handed < 200:
            records = consumer.poll(0.2)
            handed += len(records)
            for record in records:
                print("finished" if finished else "held", record.partition, record.offset)
            if finished:
                consumer.commit()
    print("holding", flush=True)
    sys.stdin.read()
"""


@attrs.define
class Doomed:
    """A member of the group in a process of its own: it commits its first 200 records, then holds 200 more until it is killed."""

    process: subprocess.Popen[str]
    assigned: int = 0
    finished: list[tuple[int, int]] = attrs.Factory(list)
    held: list[tuple[int, int]] = attrs.Factory(list)
    holding: bool = False

    def follow(self) -> None:
        """On a thread: note what it prints until it ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            what, *numbers = line.split()
            if what == "assigned":
                self.assigned = int(numbers[0])
            elif what == "holding":
                self.holding = True
            else:
                {"finished": self.finished, "held": self.held}[what].append((int(numbers[0]), int(numbers[1])))


@pytest.fixture
def doom() -> Iterator[Callable[..., Doomed]]:
    """Starts doomed members; none outlives the test."""
    with followers() as follow:

        def start(*arguments: str) -> Doomed:
            command = [sys.executable, "-c", DOOMED, *arguments]
            return follow(Doomed(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)))

        yield start


@pytest.mark.main_job
def test_a_killed_members_partitions_are_taken_over_and_only_what_it_had_not_committed_is_read_again(
    cluster: Cluster, topic: str, doom: Callable[..., Doomed]
) -> None:
    cluster.create_topic(topic, 6)
    session = 6.0
    members = [Consumer(**cluster.client, **GROUP, group_id=topic) for _ in range(2)]
    got: list[Record] = []

    def poll() -> bool:
        for member in members:
            got.extend(member.poll(0.05))
        return True

    try:
        for member in members:
            member.subscribe([topic])
        doomed = doom(json.dumps(cluster.client), topic, str(int(session * 1000)))
        until(lambda: poll() and doomed.assigned == 2 and all(len(m.assignment()) == 2 for m in members), LONG_S, "two partitions for each")
        produce(cluster, topic, 0, 3_000)
        until(lambda: poll() and doomed.holding, LONG_S, "the member to hold records")
        died = time.monotonic()
        doomed.process.kill()
        until(lambda: poll() and all(len(m.assignment()) == 3 for m in members), LONG_S, "the survivors to take over")
        took = time.monotonic() - died
        until(lambda: poll() and len({(r.partition, r.offset) for r in got}) + len(doomed.finished) >= 3_000, LONG_S, "all records")
    finally:
        for member in members:
            member.close()
    taken = [(r.partition, r.offset) for r in got]
    assert len(doomed.finished) >= 200 <= len(doomed.held)
    assert set(taken) | set(doomed.finished) == {(p, n) for p, (_, end) in cluster.offsets(topic).items() for n in range(end)}
    assert len(taken) == len(set(taken)), "what survivors had finished was read again"
    assert set(taken) >= set(doomed.held), "what was only held is lost"
    assert not set(taken) & set(doomed.finished), "what was committed was read again"
    assert session / 2 < took < session + SECONDS  # counted from its last heartbeat


@pytest.mark.secured
def test_a_java_member_and_ours_share_a_group(cluster: Cluster, topic: str) -> None:
    read_beside_java(cluster, topic, **GROUP)


def test_callbacks_and_handlers_that_sleep_longer_than_the_session_delay_no_heartbeat(cluster: Cluster, topic: str) -> None:
    """One loop for a producer and a member: the application's thread and its callbacks stand still, the membership does not."""
    cluster.create_topic(topic, 1)
    session, notes, ran = 4.0, Notes(), threading.Event()
    over = threading.Event()

    def sleeps_and_raises(*_: object) -> None:
        ran.set()
        over.wait(LONG_S)
        raise RuntimeError("the application's own bug")

    with (
        Client(**cluster.client) as client,
        Producer(client=client, linger_ms=0) as producer,
        Consumer(client=client, **{**GROUP, "session_timeout_ms": int(session * 1000)}, group_id=topic, enable_auto_commit=False) as member,
    ):
        member.subscribe([topic], notes)
        producer.send(topic, b"0", on_delivery=sleeps_and_raises).result(LONG_S)
        assert values(read(member, 1)) == [0]
        member.commit_async(on_done=sleeps_and_raises)
        assert ran.wait(LONG_S)
        over.wait(1.5 * session)  # no poll, and the callback does not return
        assert producer.send(topic, b"1").result(SECONDS).offset == 1
        over.set()
        called = threading.Event()
        producer.send(topic, b"2", on_delivery=lambda _: called.set()).result(SECONDS)
        assert called.wait(LONG_S), "no callback ran after one that raised"
        assert values(read(member, 2)) == [1, 2]
        member.commit()
        assert member.committed((topic, 0)).offset == 3
        assert notes.kinds == ["assigned"]


def test_a_member_cut_off_from_its_coordinator_loses_its_partitions_and_returns(proxied_cluster: Proxied, topic: str) -> None:
    proxied_cluster.create_topic(topic, 2)
    produce(proxied_cluster, topic, 0, 10)
    notes = Notes()
    with Consumer(
        **proxied_cluster.client,
        **{**GROUP, "session_timeout_ms": 3_000},
        group_id=topic,
        enable_auto_commit=False,
    ) as consumer:
        consumer.subscribe([topic], notes)
        read(consumer, 10)
        before = len(notes.kinds)
        for node in proxied_cluster.nodes:
            proxied_cluster.proxies[node].silence()
            proxied_cluster.proxies[node].drop_connections()
        poll_until(consumer, lambda: "lost" in notes.kinds[before:])
        with pytest.raises(GroupError):
            consumer.commit()
        proxied_cluster.heal_proxies()
        poll_until(consumer, lambda: notes.kinds[-2:] == ["lost", "assigned"])
        assert "revoked" not in notes.kinds


@pytest.mark.secured
def test_chaotic_connections_cost_the_group_no_record(proxied_cluster: Proxied, topic: str) -> None:
    """Every connection dies after 0.5 to 1.5 s, for as long as it takes until thirty have died."""
    proxied_cluster.create_topic(topic, 3)
    proxies = proxied_cluster.proxies.values()
    before, sent, seen = sum(proxy.counters.resets for proxy in proxies), 0, set[int]()
    for proxy in proxies:
        proxy.chaos()
    with (
        Producer(**proxied_cluster.client) as producer,
        Consumer(**proxied_cluster.client, **GROUP, group_id=topic, auto_commit_interval_ms=200) as consumer,
    ):
        consumer.subscribe([topic])
        deadline = Deadline(2 * LONG_S)
        while len(seen) < sent or sum(proxy.counters.resets for proxy in proxies) < before + 30:
            assert not deadline.passed(), (len(seen), consumer.status())
            if sum(proxy.counters.resets for proxy in proxies) < before + 30:
                send(producer, topic, range(sent, sent + 100))
                sent += 100
            try:
                seen.update(int(r.value) for r in consumer.poll(0.1))
            except KafkaError as error:
                pytest.fail(f"chaos came out of poll: {error!r}")
        proxied_cluster.heal_proxies()
    assert seen == set(range(sent))


def test_partitions_added_while_a_static_leader_was_away_are_assigned(cluster: Cluster, topic: str) -> None:
    """From Kafka 3.2 on a returning leader must leave the assignment as it is, and does not get that assignment."""
    cluster.create_topic(topic, 1)
    options = {**GROUP, "session_timeout_ms": 45_000, "group_id": topic, "group_instance_id": "a", "metadata_max_age_ms": 300_000}
    with Consumer(**cluster.client, **options) as consumer:
        consumer.subscribe([topic])
        poll_until(consumer, lambda: len(consumer.assignment()) == 1)
    cluster.add_partitions(topic, 3)
    notes = Notes()
    with Consumer(**cluster.client, **options) as consumer:
        consumer.subscribe([topic], notes)
        poll_until(consumer, lambda: len(consumer.assignment()) == 3)
    assert notes.kinds[:2] == ["assigned", "revoked"]  # first what its predecessor had
