"""The producer on real brokers: what it promises, each with its real fault."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path

import pytest

from integration.cluster import Cluster, LogRecord
from integration.faults.proxied import Proxied
from integration.waiting import until
from integration.workload.load import Load, judge
from pykafka4 import (
    Client,
    ConnectionLost,
    Delivery,
    DeliveryFailed,
    ForkedClientError,
    KafkaError,
    KafkaTimeoutError,
    Producer,
    RecordTooLarge,
)
from tests.integration.reading import SECONDS, wait_leaders

pytestmark = pytest.mark.cluster

NOWHERE = "127.0.0.1:1"  # nothing listens there


def numbers(records: list[LogRecord]) -> list[int]:
    return [int(record.value or b"-1") for record in records]


def everything(cluster: Cluster, topic: str) -> list[int]:
    return sorted(n for records in cluster.log(topic).values() for n in numbers(records))


def test_first_send_creates_the_topic(cluster: Cluster, topic: str) -> None:
    with Producer(**cluster.client) as producer:
        meta = producer.send(topic, b"0", key=b"k", headers=[("h", b"1"), ("h", None)], timestamp_ms=1_700_000_000_000).result(30)
    (record,) = cluster.log(topic)[meta.partition]
    assert (record.offset, record.key, record.value, record.timestamp) == (meta.offset, b"k", b"0", 1_700_000_000_000)
    assert tuple(record.headers) == (("h", b"1"), ("h", None))


def test_nulls_and_empty_values_stay_what_they_are(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    with Producer(**cluster.client) as producer:
        producer.send(topic, None, key=b"deleted")
        producer.send(topic, b"", key=b"")
        producer.send(topic, "grüße", key=None)
    assert [(r.key, r.value) for r in cluster.log(topic)[0]] == [(b"deleted", None), (b"", b""), (None, "grüße".encode())]


@pytest.mark.main_job
@pytest.mark.secured
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_carries_900_kb_and_small_records(cluster: Cluster, topic: str, codec: str) -> None:
    cluster.create_topic(topic, 1)
    big = os.urandom(450_000) + bytes(450_000)
    with Producer(**cluster.client, compression_type=codec) as producer:
        for n in range(500):
            producer.send(topic, b"%d" % n)
        producer.send(topic, big)
    values = [record.value for record in cluster.log(topic)[0]]
    assert values == [b"%d" % n for n in range(500)] + [big]


def test_many_threads_keep_their_order(cluster: Cluster, topic: str) -> None:
    """15 threads, each to its own topic and to topics shared with others; one producer."""
    shared = {f"{topic}-shared-{index}": size for index, size in enumerate((15, 7, 3, 3, 2, 2, 2, 2))}
    for name in shared:
        cluster.create_topic(name, 1)
    rounds = 300

    def work(producer: Producer, thread: int) -> None:
        for n in range(rounds):
            producer.send(f"{topic}-own-{thread}", b"%d" % n, partition=0)
            for name, size in shared.items():
                if thread < size:
                    producer.send(name, b"%d %d" % (thread, n))

    with Producer(**cluster.client) as producer:
        threads = [threading.Thread(target=work, args=(producer, t)) for t in range(15)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    for t in range(15):
        assert numbers(cluster.log(f"{topic}-own-{t}")[0]) == list(range(rounds))
    for name, size in shared.items():
        per_thread = defaultdict(list)
        for record in cluster.log(name)[0]:
            thread, n = map(int, (record.value or b"").split())
            per_thread[thread].append(n)
        assert per_thread == {t: list(range(rounds)) for t in range(size)}


@pytest.mark.main_job
@pytest.mark.secured
def test_sending_goes_on_while_a_leader_is_down(cluster: Cluster, topic: str) -> None:
    """200 records; a broker is killed at record 30 with records in flight to it: acknowledged = sent = length of the topic, in order."""
    cluster.create_topic(topic, 3)
    victim = cluster.leader(topic, 0)
    follower = next(node for node in cluster.nodes if node != victim)
    handles: list[Delivery] = []
    slow: list[float] = []
    with Producer(**cluster.client) as producer:

        def send_up_to(last: int) -> None:
            for n in range(len(handles), last):
                before = time.monotonic()
                handles.append(producer.send(topic, b"%d" % n, partition=n % 3))
                took = time.monotonic() - before
                slow.extend([took] if took > 1 else [])
            assert len(slow) <= 1, f"send waited for a broker: {slow}"  # one may have met a busy machine

        send_up_to(27)
        producer.flush(30)
        cluster.freeze(follower)  # a leader writes what comes now, and cannot acknowledge it
        try:
            send_up_to(30)
            until(lambda: producer.stats().in_flight == 3, 30, "three records in flight")
            cluster.kill(victim)
        finally:
            cluster.thaw(follower)
        send_up_to(200)
        elected = wait_leaders(cluster, topic, other_than=victim)
        offsets = [handle.result(max(0.0, elected + SECONDS - time.monotonic())).offset for handle in handles]
        assert producer.stats().retries > 0
    cluster.start(victim)
    cluster.wait_full_isr([topic])
    logs = cluster.log(topic)
    assert [numbers(logs[p]) for p in range(3)] == [list(range(p, 200, 3)) for p in range(3)]
    assert offsets == [n // 3 for n in range(200)]


def test_works_when_started_with_a_broker_down_and_after_it_is_back(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    victim = cluster.leader(topic, 1)
    cluster.kill(victim)
    with Producer(**cluster.client) as producer:
        first = [producer.send(topic, b"%d" % n, partition=n) for n in range(3)]
        assert [h.result(60).offset for h in first] == [0, 0, 0]
        cluster.start(victim)
        cluster.wait_full_isr([topic])
        second = [producer.send(topic, b"%d" % n, partition=n) for n in range(3)]
        assert [h.result(60).offset for h in second] == [1, 1, 1]


@pytest.mark.secured
def test_a_clean_restart_costs_the_application_nothing(cluster: Cluster, topic: str) -> None:
    """The controller's, and another's: both lead partitions that are written to, and lead them no more when they are back."""
    cluster.create_topic(topic, 6)
    stop = threading.Event()
    controller = cluster.controller()
    with Producer(**cluster.client) as producer:
        load = Load(producer, topic, 1_000, lambda sent: stop.is_set())
        load.start()
        for others in ([controller], [node for node in cluster.nodes if node != controller]):
            leaders = {partition.leader for partition in cluster.partitions(topic).values()}  # brokers short of time may have lost theirs
            restarted = [node for node in others if node in leaders][:1]
            assert restarted
            cluster.restart(*restarted)
            cluster.wait_full_isr([topic])
        stop.set()
        load.join(30)
    verdict = judge(cluster, topic, load)
    assert not verdict.complaints()
    assert verdict.acked == verdict.sent


@pytest.mark.main_job
@pytest.mark.secured
def test_a_frozen_leader_neither_loses_nor_repeats(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 6)
    stop = threading.Event()
    with Producer(**cluster.client, request_timeout_ms=5_000) as producer:
        load = Load(producer, topic, 1_000, lambda sent: stop.is_set())
        load.start()
        until(lambda: load.last_ack[0], 30, "the first acknowledgement")
        victim = cluster.leader(topic, 0)
        cluster.freeze(victim)
        until(lambda: cluster.leader(topic, 0) not in (victim, -1), 30, "another leader", forgive=(OSError, KafkaError))
        elected = time.monotonic()
        until(lambda: load.last_ack[0] > elected, 30, "an acknowledgement from the new leader")
        cluster.thaw(victim)
        cluster.wait_full_isr([topic])
        stop.set()
        load.join(30)
    verdict = judge(cluster, topic, load)
    assert not verdict.complaints()
    assert verdict.acked == verdict.sent


def test_order_per_key_survives_moved_leaders(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    keys = [b"key-%d" % k for k in range(20)]
    stop, sent = threading.Event(), itertools.count()

    def write(producer: Producer) -> None:
        while not stop.wait(0.001):
            n = next(sent)
            producer.send(topic, b"%d" % n, key=keys[n % 20])

    with Producer(**cluster.client, linger_ms=0) as producer:
        writer = threading.Thread(target=write, args=(producer,))
        writer.start()
        try:
            until(lambda: all(end > 0 for _, end in cluster.offsets(topic).values()), 30, "records in every partition")
            for partition in range(3):
                cluster.move_leader(topic, partition, next(b for b in cluster.nodes if b != cluster.leader(topic, partition)))
            moved = next(sent)
            until(lambda: producer.stats().acked > moved, 30, "records behind the last move")
        finally:
            stop.set()
            writer.join(30)
        producer.flush(30)
        assert producer.stats().retries > 0, "no leader moved under a batch: nothing is tested"
    per_key = defaultdict(list)
    for records in cluster.log(topic).values():
        for record in records:
            per_key[record.key].append(int(record.value or b"-1"))
    total = next(sent)
    assert per_key == {key: [n for n in range(k, total, 20) if n != moved] for k, key in enumerate(keys)}


def test_swallowed_answers_are_asked_for_again(proxied_cluster: Proxied, topic: str) -> None:
    """One-way loss: requests arrive, answers do not, until the request times out."""
    cluster = proxied_cluster
    cluster.create_topic(topic, 1)
    with Producer(**cluster.client, request_timeout_ms=2_000) as producer:
        producer.send(topic, b"0").result(30)
        proxy = cluster.proxies[cluster.leader(topic)]
        proxy.swallow_responses()
        handle = producer.send(topic, b"1")
        until(lambda: len(cluster.log(topic)[0]) == 2, 30, "the broker to write the record")
        proxy.heal()
        assert handle.result(60).offset == 1
    assert everything(cluster, topic) == [0, 1]


def test_close_delivers_what_lingers(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    producer = Producer(**cluster.client, linger_ms=20_000)
    for n in range(100):
        producer.send(topic, b"%d" % n)
    begin = time.monotonic()
    assert producer.close(timeout=30) == []
    assert time.monotonic() - begin < 10
    assert everything(cluster, topic) == list(range(100))


KILLED = """
import json, sys
from pykafka4 import Producer
producer = Producer(**json.loads(sys.argv[1]))
def acked(delivery):
    if delivery.exception(0) is None:
        print(delivery.result(0).offset, flush=True)
n = 0
while True:
    producer.send(sys.argv[2], b"%d" % n, partition=0, on_delivery=acked)
    n += 1
"""


def test_the_records_acknowledged_to_a_killed_process_are_in_the_log(cluster: Cluster, topic: str) -> None:
    """SIGKILL with a full buffer: every acknowledged record is in the log, and no batch is there in part."""
    cluster.create_topic(topic, 1)
    with subprocess.Popen([sys.executable, "-c", KILLED, json.dumps(cluster.client), topic], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        acked = [int(child.stdout.readline()) for _ in range(5_000)]
        child.send_signal(signal.SIGKILL)
        acked += [int(line) for line in child.stdout if line.endswith("\n")]
    log = cluster.log(topic)[0]
    assert numbers(log) == list(range(len(log)))
    assert max(acked) < len(log)


def test_far_more_than_the_buffer_takes_stays_in_bounds(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    bound = 4 * 1024 * 1024
    highest = 0
    with Producer(**cluster.client, buffer_memory=bound) as producer:
        for n in range(40_000):
            producer.send(topic, b"%d " % n + bytes(1_000))
            if n % 1_000 == 0:
                highest = max(highest, producer.stats().buffered_bytes)
    assert highest <= bound
    assert sum(len(records) for records in cluster.log(topic).values()) == 40_000


def test_callbacks_that_sleep_or_raise_delay_no_acknowledgement(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    stuck, raised, called = threading.Event(), threading.Event(), threading.Event()

    def callback(_: object) -> None:
        stuck.wait(30)
        raised.set()
        raise RuntimeError("the application's own bug")

    with Producer(**cluster.client, linger_ms=0) as producer:
        producer.send(topic, b"0", on_delivery=callback).result(30)
        assert [producer.send(topic, b"%d" % n).result(10).offset for n in range(1, 20)] == list(range(1, 20))
        assert not raised.is_set()
        stuck.set()
        assert raised.wait(30)
        assert producer.send(topic, b"20", on_delivery=lambda _: called.set()).result(10).offset == 20
        assert called.wait(30), "no callback ran after one that raised"


def test_many_producers_share_one_client(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    with Client(**cluster.client) as client:
        producers = [Producer(client=client) for _ in range(5)]
        for n in range(500):
            producers[n % 5].send(topic, b"%d" % n)
        assert [p.close(30) for p in producers] == [[]] * 5
    assert everything(cluster, topic) == list(range(500))


def test_bootstrap_goes_on_to_the_next_address(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    servers = f"no-such-host.invalid:9092,{NOWHERE},{cluster.bootstrap}"
    with Producer(**{**cluster.client, "bootstrap_servers": servers}) as producer:
        assert producer.send(topic, b"0").result(30).offset == 0


@pytest.mark.parametrize(("servers", "why"), [("no-such-host.invalid:9092", "name"), (NOWHERE, "refused")], ids=["names", "ports"])
def test_no_broker_reachable_names_the_address_and_why_within_the_time_that_was_given(servers: str, why: str) -> None:
    with Producer(bootstrap_servers=servers, delivery_timeout_ms=3_000) as producer:
        began = time.monotonic()
        error = producer.send("t", b"x").exception(20)
        assert 2.9 < time.monotonic() - began < 15  # and not request_timeout_ms or max_block_ms, 30 and 60 s
        assert isinstance(error, DeliveryFailed)
        assert re.search(f"{re.escape(servers)} .*{why}", str(error))
        began = time.monotonic()
        with pytest.raises((ConnectionLost, KafkaTimeoutError), match=servers):
            producer.partitions_for("t", timeout=1)
        assert time.monotonic() - began < 15


def test_a_record_over_the_limit_is_refused_at_once(cluster: Cluster, topic: str) -> None:
    with Producer(**cluster.client) as producer, pytest.raises(RecordTooLarge, match="max_request_size"):
        producer.send(topic, bytes(2_000_000))


def test_a_batch_over_the_topics_limit_is_split(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1, configs={"max.message.bytes": "20000"})
    with Producer(**cluster.client, linger_ms=200) as producer:
        handles = [producer.send(topic, b"%d " % n + bytes(500)) for n in range(200)]
        assert [h.result(60).offset for h in handles] == list(range(200))

        def is_refused() -> bool:
            """Whether `send` knows the limit by now; before that the broker refuses the record."""
            try:
                too_large = producer.send(topic, bytes(30_000)).exception(60)
            except RecordTooLarge as error:
                return "exceeds max.message.bytes of the topic=20000" in str(error)
            assert isinstance(too_large, DeliveryFailed)
            assert too_large.code == "MESSAGE_TOO_LARGE"
            return False

        until(is_refused, 60, "the limit of the topic")
        after = producer.send(topic, b"after")
        assert after.result(60).offset == 200


def test_close_returns_what_it_could_not_deliver(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1, replication_factor=1)
    victim = cluster.leader(topic)
    producer = Producer(**cluster.client)
    producer.send(topic, b"there").result(30)
    cluster.kill(victim)
    for n in range(10):
        producer.send(topic, b"%d" % n, key=b"k")
    begin = time.monotonic()
    undelivered = producer.close(timeout=2)
    assert time.monotonic() - begin < 30  # and not delivery_timeout_ms, 120 s
    assert [(r.topic, r.value, r.key) for r in undelivered] == [(topic, b"%d" % n, b"k") for n in range(10)]
    cluster.start(victim)
    cluster.wait_full_isr()


def test_a_forked_child_gets_an_error_and_the_parent_goes_on(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    with Producer(**cluster.client) as producer:
        producer.send(topic, b"0").result(30)
        pid = os.fork()
        if pid == 0:  # nothing of pytest may run here
            code = 1
            try:
                producer.send(topic, b"child")
            except ForkedClientError:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert [producer.send(topic, b"%d" % n).result(30).offset for n in range(1, 50)] == list(range(1, 50))
    assert everything(cluster, topic) == list(range(50))


FORGETFUL = """
import json, sys
from pykafka4 import Producer
producer = Producer(**json.loads(sys.argv[1]), linger_ms=60_000)
for n in range(1000):
    producer.send(sys.argv[2], b"%d" % n)
"""


def test_leaving_the_interpreter_drains(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    cluster.create_topic(topic, 1)
    done = subprocess.run([sys.executable, "-c", FORGETFUL, json.dumps(cluster.client), topic], timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert everything(cluster, topic) == list(range(1000))


def test_replicas_moved_while_producing(cluster: Cluster, topic: str) -> None:
    """Of two replicas one goes to a broker that had none; the partition's records are copied to it, and it leads them."""
    cluster.create_topic(topic, 6, replication_factor=2)
    stop = threading.Event()
    with Producer(**cluster.client) as producer:
        load = Load(producer, topic, 2_000, lambda sent: stop.is_set())
        load.start()
        until(lambda: all(load.last_ack), 30, "an acknowledgement from every partition")
        for partition in range(3):
            before = cluster.partitions(topic)[partition].replicas
            (stranger,) = set(cluster.nodes) - set(before)
            cluster.move_leader(topic, partition, stranger)
            moved = time.monotonic()
            after = cluster.partitions(topic)[partition]
            assert (after.leader, len(after.replicas)) == (stranger, 2)
            until(lambda p=partition, at=moved: load.last_ack[p] > at, 30, "an acknowledgement from the new leader")
        stop.set()
        load.join(30)
    verdict = judge(cluster, topic, load)
    assert not verdict.complaints()
    assert verdict.acked == verdict.sent
