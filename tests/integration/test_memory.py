"""Memory: under steady traffic it is flat, in Python's heap and in C's; the meter itself is shown to see a leak of a few bytes a record.

With every broker down and threads that send as fast as they can, it stays below base + 1.5 x buffer_memory + 48 MiB: ten minutes for each
policy of a full buffer with `make chaos LONG=1`, else half a minute.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from statistics import median

import pytest

from integration.cluster import Cluster
from integration.workload.flood import bound, flooded

pytestmark = pytest.mark.cluster

LONG = bool(os.environ.get("CHAOS_LONG"))
DOWN = 600 if LONG else 30  # seconds without brokers
BUFFER = 64 << 20
WARM, MEASURED, EACH = 10, 40, 10_000  # rounds, rounds, records in a round
SAMPLE = 8  # rounds at each end that are compared
RSS_BOUND, BLOCKS_BOUND = 1.5 * 1024 * 1024, 1_000  # 4 bytes a record, and 3 objects for every thousand records

ROUNDS = """
import gc, json, sys
import psutil
from pykafka4 import Consumer, Producer

client, topic, rounds, each, leak = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
me, kept = psutil.Process(), []
with Producer(**client) as producer, Consumer(**client, auto_offset_reset="earliest") as consumer:
    consumer.assign([(topic, p) for p in range(3)])
    for _ in range(rounds):
        failed = []
        for n in range(each):
            producer.send(topic, bytes(100), key=b"%d" % (n % 1000), on_delivery=lambda d: d.exception() and failed.append(d))
        producer.flush(60)
        read = 0
        while read < each:
            records = consumer.poll(30)
            assert records, "nothing to read for 30 seconds"
            read += len(records)
            if leak == "records":
                kept.extend(record.offset + 1_000_000 for record in records)
        assert not failed, failed[0].exception()
        del records
        gc.collect()
        print(json.dumps([me.memory_info().rss, sys.getallocatedblocks()]), flush=True)
"""


def growth(cluster: Cluster, topic: str, leak: str) -> tuple[float, float]:
    """How much more resident memory (bytes) and how many more objects at the end than after the warm-up."""
    cluster.create_topic(topic, 3)
    command = [sys.executable, "-c", ROUNDS, json.dumps(cluster.client), topic, str(WARM + MEASURED), str(EACH), leak]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()][WARM:]
    assert len(rows) == MEASURED
    rss, blocks = zip(*rows, strict=True)
    return median(rss[-SAMPLE:]) - median(rss[:SAMPLE]), median(blocks[-SAMPLE:]) - median(blocks[:SAMPLE])


def test_memory_is_flat_under_steady_traffic(cluster: Cluster, topic: str) -> None:
    rss, blocks = growth(cluster, topic, leak="nothing")
    assert rss <= RSS_BOUND
    assert blocks <= BLOCKS_BOUND


def test_a_leak_of_one_integer_per_record_is_detected(cluster: Cluster, topic: str) -> None:
    rss, blocks = growth(cluster, topic, leak="records")
    assert rss > RSS_BOUND
    assert blocks > BLOCKS_BOUND


@pytest.mark.chaos
@pytest.mark.timeout(DOWN + 200)
@pytest.mark.parametrize(("codec", "on_full"), [("lz4", "block"), ("none", "raise"), ("zstd", "drop")])
def test_a_flood_with_every_broker_down_stays_in_its_memory(cluster: Cluster, topic: str, codec: str, on_full: str) -> None:
    cluster.create_topic(topic, 3)
    options = {**cluster.client, "buffer_memory": BUFFER, "compression_type": codec, "on_full": on_full, "max_block_ms": 1_000}
    expiry = {} if LONG else {"delivery_timeout_ms": 10_000, "request_timeout_ms": 3_000}

    def kill_all() -> None:
        for node in cluster.nodes:
            cluster.kill(node)

    try:
        found = flooded({"topic": topic, "unknown": f"{topic}-unknown", "seconds": DOWN, "options": options | expiry}, kill_all)
    finally:
        cluster.heal()
    allowed = bound(found["base"], BUFFER)
    print(
        f"\nmemory, {codec}, {on_full}, {DOWN} s without brokers: {found['peak'] / 2**20:.0f} MiB of {allowed / 2**20:.0f} allowed; {found}"
    )
    assert found["peak"] <= allowed
    assert found["lost"] > 10_000
