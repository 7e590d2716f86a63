"""Java's own codecs as the other side. Rule: what we write Kafka reads and writes again byte for byte, what it writes we read."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from integration.host.prerequisites import java
from integration.kafka.jars import classpath, kafka_jars
from pykafka4.wire.protocol.schema import Data, Request, encode
from pykafka4.wire.records.batch import WireRecord, batches, build_batch, build_message_set, records_of
from pykafka4.wire.records.compression import CODECS
from pykafka4.wire.records.hot import murmur2
from tests.wire.wire_samples import every_version, sample

pytestmark = pytest.mark.java
PEER = Path(__file__).with_name("Peer.java")
DROPPED = {"OffsetForLeaderEpoch": 2, "Fetch": 4, "CreateTopics": 2, "DeleteTopics": 1}  # the lowest version of the present release
SAMPLES = 4


def ask(lines: Sequence[str]) -> list[str]:
    """Kafka's answer to each line."""
    command = [java(), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", classpath(kafka_jars()), str(PEER)]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=120, check=False)
    answers = done.stdout.splitlines()
    assert len(answers) == len(lines), done.stderr
    return answers


def test_kafka_reads_every_message_of_every_version_and_writes_the_same_bytes() -> None:
    lines, expected = [], []
    for cls, version in every_version():
        if version < DROPPED.get(re.sub("(Request|Response)$", "", cls.__name__), 0):
            continue
        kind = "data" if issubclass(cls, Data) else "request" if issubclass(cls, Request) else "response"
        name = cls.__name__ if issubclass(cls, Data) else cls.api_key  # type: ignore[attr-defined]
        for message in [cls(), *(sample(cls, version, random.Random(seed)) for seed in range(SAMPLES))]:
            packed = b"".join(map(bytes, encode(message, version))).hex()
            lines.append(f"{kind} {name} {version} {packed}".strip())
            expected.append((cls.__name__, version, f"={packed}"))
    for answer, (cls_name, version, wanted) in zip(ask(lines), expected, strict=True):
        assert answer == wanted, (cls_name, version)


RECORDS = [
    WireRecord(timestamp_ms=1000, key=b"k", value=b"v", headers=(("a", b"1"), ("a", None), ("ä", b""))),
    WireRecord(timestamp_ms=990, key=None, value=b""),
    WireRecord(timestamp_ms=1001, key=b"", value=None),
    WireRecord(timestamp_ms=2000, key=b"long" * 100, value=random.Random(1).randbytes(100_000) + bytes(100_000)),
]


def as_text(record: WireRecord) -> str:
    fields: list[Any] = [record.offset, record.timestamp_ms, record.timestamp_type, record.producer_id, record.sequence]
    texts = [*map(str, fields), *("null" if data is None else data.hex() for data in (record.key, record.value))]
    return "/".join(texts + [f"{key.encode().hex()}:{'null' if value is None else value.hex()}" for key, value in record.headers])


def test_kafka_reads_our_batches_with_every_codec() -> None:
    plain = [WireRecord(timestamp_ms=r.timestamp_ms, key=r.key, value=r.value) for r in RECORDS]
    built = [
        build_batch(RECORDS, base_offset=40, codec=codec, producer_id=7, producer_epoch=1, base_sequence=3) for codec in CODECS.values()
    ]
    built += [build_message_set(plain, magic, codec, base_offset=40) for magic in (0, 1) for codec in range(4)]
    for data, answer in zip(built, ask([f"records {data.hex()}" for data in built]), strict=True):
        records = [record for batch in batches(data) for record in records_of(batch)]
        assert [(r.key, r.value) for r in records] == [(r.key, r.value) for r in RECORDS]
        assert answer.removeprefix("=").split(" ") == [as_text(record) for record in records]


def test_we_read_kafkas_batches_with_every_codec_and_format() -> None:
    forms = [(magic, codec) for magic in (0, 1, 2) for codec in CODECS if magic == 2 or codec != "zstd"]
    for (magic, codec), answer in zip(forms, ask([f"build {magic} {codec}" for magic, codec in forms]), strict=True):
        assert answer.startswith("="), answer
        records = [record for batch in batches(bytes.fromhex(answer[1:])) for record in records_of(batch)]
        assert [record.offset for record in records] == list(range(40, 90)), (magic, codec)
        for n, record in enumerate(records):
            assert record.key == (None if n % 4 == 0 else f"k{n}".encode())
            assert record.value == (None if n % 5 == 0 else bytes(n * 100))
            assert record.timestamp_ms == (1000 + n if magic else -1)
            assert record.headers == (((f"h{n}", None if n % 2 == 0 else b"\x01"),) if magic == 2 and n % 3 == 0 else ())


def test_kafka_refuses_what_is_not_the_message() -> None:
    """The comparison above must be able to fail."""
    cut, longer, other = ask(["request 18 3 0261", "request 18 0 00", "request 12 0 0001610000000100016299"])
    assert cut.startswith("!")
    assert longer == "!java.lang.IllegalArgumentException: 1 bytes left" == other


def test_keys_of_every_length_and_byte_get_javas_partitions() -> None:
    dice = random.Random(2)
    keys = [dice.randbytes(n % 70) for n in range(3000)]
    counts = [dice.randrange(1, 5000) for _ in keys]
    expected = [f"={(murmur2(key) & 0x7FFFFFFF) % count}" for key, count in zip(keys, counts, strict=True)]
    assert ask([f"partition {count} {key.hex()}".strip() for key, count in zip(keys, counts, strict=True)]) == expected
