"""The judge's reader of log bytes: damage is an error, and it reads what Kafka's own dump tool reads."""

from __future__ import annotations

import random
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from integration.cluster import Cluster
from integration.java.client import JavaRecord, java_produce, run_tool
from integration.judge.log_format import CRC_AT, Batch, Wrong, batches_in, crc32c
from integration.local.cluster import LocalCluster
from integration.waiting import until
from pykafka4.wire.records.batch import WireRecord, build_batch
from pykafka4.wire.records.compression import CODECS

pytest.importorskip("crcmod")

RECORDS = [
    WireRecord(
        timestamp_ms=1000 + n,
        key=None if n % 3 == 0 else b"k" * (n % 5),
        value=None if n % 4 == 0 else bytes([n % 256]) * (n * 7),
        headers=(("a", None), ("é", b"x" * n)) if n % 2 else (),
    )
    for n in range(150)
]


def only_batch(data: bytes) -> Batch:
    (batch,) = batches_in(data)
    return batch


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_a_batch_is_read_as_it_was_written(codec: int) -> None:
    data = build_batch(RECORDS, base_offset=5, codec=codec, producer_id=9, producer_epoch=2, base_sequence=2**31 - 3, leader_epoch=4)
    batch = only_batch(data)
    assert (batch.base_offset, batch.next_offset, batch.codec, batch.leader_epoch) == (5, 155, codec, 4)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 2, 2**31 - 3)
    assert [(r.key, r.value, r.headers, r.timestamp) for r in batch.records] == [
        (r.key, r.value, r.headers, r.timestamp_ms) for r in RECORDS
    ]
    assert [r.offset for r in batch.records] == list(range(5, 155))
    assert [r.sequence for r in batch.records[:4]] == [2**31 - 3, 2**31 - 2, 2**31 - 1, 0]


def test_an_incomplete_last_batch_is_left_out() -> None:
    data = build_batch(RECORDS[:3])
    for cut in range(len(data), 2 * len(data)):
        assert [b.base_offset for b in batches_in((data + data)[:cut])] == [0]


def test_every_flipped_bit_behind_the_checksum_is_an_error() -> None:
    data = build_batch(RECORDS[:3])
    for at in range(17, len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1 << (at % 8)
        with pytest.raises(Wrong, match="does not fit its checksum"):
            only_batch(bytes(damaged))


@pytest.mark.parametrize(("at", "form", "value"), [(57, ">i", 2), (57, ">i", 4), (23, ">i", 1)])
def test_a_count_that_does_not_fit_is_an_error(at: int, form: str, value: int) -> None:
    data = bytearray(build_batch(RECORDS[:3]))
    struct.pack_into(form, data, at, value)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[CRC_AT[2] :])))
    with pytest.raises(Wrong):
        only_batch(bytes(data))


def test_the_checksum_is_crc_32c() -> None:
    assert crc32c(b"123456789") == 0xE3069283


# ---- against Kafka's own tool

BATCH_LINE = re.compile(
    r"^baseOffset: (-?\d+) lastOffset: (-?\d+) count: (\d+) baseSequence: (-?\d+) lastSequence: -?\d+ producerId: (-?\d+) "
    r"producerEpoch: (-?\d+) partitionLeaderEpoch: (-?\d+) isTransactional: (\w+) isControl: (\w+) .*?magic: (\d) compresscodec: (\w+)"
)
RECORD_LINE = re.compile(
    r"^\| offset: (\d+) (CreateTime|LogAppendTime): (-?\d+) keySize: (-?\d+) valueSize: (-?\d+) sequence: (-?\d+) headerKeys: \[(.*?)\]"
    r"(?: key: (.*?))?(?: payload: (.*))?$"
)
NAMES = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}


def dumped(segment: Path) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """(batches, records) that Kafka's dump tool shows; a control batch's records are left out."""
    told = run_tool("org.apache.kafka.tools.DumpLogSegments", "--print-data-log", "--deep-iteration", "--files", str(segment))
    batches: list[tuple[Any, ...]] = []
    records: list[tuple[Any, ...]] = []
    control = False
    for line in told.splitlines():
        if found := BATCH_LINE.match(line):
            base, last, count, sequence, pid, epoch, leader, transactional, is_control, magic, codec = found.groups()
            control = is_control == "true"
            numbers = (int(base), int(last) + 1, int(sequence), int(pid), int(epoch), int(leader), int(magic))
            batches.append((*numbers, codec.lower(), transactional == "true", control, 0 if control else int(count)))
        elif (found := RECORD_LINE.match(line)) and not control:
            offset, kind, time, key_size, value_size, sequence, names, key, payload = found.groups()
            sizes = (int(key_size), int(value_size), int(sequence))
            records.append((int(offset), kind, int(time), *sizes, names, key or "", payload or ""))
    return batches, records


def read(segment: Path) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The same, as the judge's reader sees it."""
    batches: list[tuple[Any, ...]] = []
    records: list[tuple[Any, ...]] = []
    for b in batches_in(segment.read_bytes(), segment.name):
        numbers = (b.base_offset, b.next_offset, b.base_sequence, b.producer_id, b.producer_epoch, b.leader_epoch, b.magic)
        batches.append((*numbers, NAMES[b.codec], b.transactional, b.control, len(b.records)))
        for r in b.records:
            sizes = (-1 if r.key is None else len(r.key), -1 if r.value is None else len(r.value), r.sequence)
            texts = (",".join(name for name, _ in r.headers), (r.key or b"").decode(), (r.value or b"").decode())
            records.append((r.offset, "LogAppendTime" if b.append_time else "CreateTime", r.timestamp, *sizes, *texts))
    return batches, records


def written(segment: Path, end: int) -> bool:
    found = list(batches_in(segment.read_bytes(), segment.name))
    return bool(found) and found[-1].next_offset == end


@pytest.mark.cluster
@pytest.mark.lengthy
def test_segments_are_read_as_kafkas_dump_tool_reads_them(cluster: Cluster, topic: str) -> None:
    if not isinstance(cluster, LocalCluster):
        pytest.skip("only a local cluster's data folders can be read from here")
    rng = random.Random(8)
    sent = [
        JavaRecord(
            key=None if n % 5 == 0 else b"key-%d" % n,
            value=None if n % 7 == 0 else b"v" * rng.randrange(200),
            headers=((f"h{n}", b"1"), ("again", None)) if n % 3 else (),
            partition=0,
            timestamp=1_700_000_000_000 + rng.randrange(1000),
        )
        for n in range(200)
    ]  # fmt: skip
    end = 0
    cluster.create_topic(topic, partitions=1, configs={"retention.ms": "-1", "segment.ms": "100000000000000"})
    cluster.create_topic(f"{topic}-stamped", partitions=1, configs={"message.timestamp.type": "LogAppendTime"})
    for codec in sorted(CODECS):
        java_produce(cluster.bootstrap, topic, sent, codec=codec, properties={**cluster.java, "batch.size": "2000"})
        end += len(sent)
    for outcome in ("commit", "abort"):
        java_produce(cluster.bootstrap, topic, sent[:20], properties={**cluster.java, "transactional.id": topic}, transaction=outcome)
        end += 21
    java_produce(cluster.bootstrap, f"{topic}-stamped", sent[:50], codec="gzip", properties=cluster.java)
    for name, size in ((topic, end), (f"{topic}-stamped", 50)):
        for node in cluster.nodes:
            segment = cluster.folder(node) / "data" / f"{name}-0" / "00000000000000000000.log"
            until(lambda segment=segment, size=size: written(segment, size), 30, f"{segment} to have all {size} records")  # type: ignore[misc]
        batches, records = read(segment)
        assert (batches, records) == dumped(segment)
        assert len(records) == (len(sent) * len(CODECS) + 40 if name == topic else 50)
    assert {row[7] for row in read(cluster.folder(1) / "data" / f"{topic}-0" / "00000000000000000000.log")[0]} == set(CODECS)
