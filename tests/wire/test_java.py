"""Java's own codecs as the other side. Rule: what we write Kafka reads and writes again byte for byte, what it writes we read."""

from __future__ import annotations

import random
import re
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lz4.frame
import pytest
import snappy
import zstandard

from integration.host.prerequisites import java
from integration.kafka.jars import classpath, kafka_jars
from pykafka4.errors import DecodeError
from pykafka4.wire.protocol.schema import Data, Request, encode
from pykafka4.wire.records.batch import WireRecord, batches, build_batch, records_of
from pykafka4.wire.records.compression import CODECS, compress, decompress
from pykafka4.wire.records.hot import murmur2
from tests.wire.records.message_sets import build_message_set
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


TEXT, MORE = b"some text " * 20, random.Random(3).randbytes(100_000)
SKIPPABLE = struct.pack("<II", 0x184D2A50, 5) + b"12345"
XERIAL = compress(2, b"")


def zstd(data: bytes, **options: Any) -> bytes:
    return zstandard.ZstdCompressor(**options).compress(data)


def lz4f(data: bytes, **options: Any) -> bytes:
    return lz4.frame.compress(data, block_linked=False, **{"store_size": False, **options})


def gzip_with(flags: int, extra: bytes) -> bytes:
    packed = compress(1, TEXT)
    return packed[:3] + bytes([flags]) + packed[4:10] + extra + packed[10:]


PACKED = {
    "gzip members": (1, compress(1, TEXT) + compress(1, MORE) + compress(1, b"")),
    "gzip padding": (1, compress(1, TEXT) + bytes(20)),
    "gzip and other bytes": (1, compress(1, TEXT) + b"other"),
    "gzip second member damaged": (1, compress(1, TEXT) + compress(1, MORE)[:-9] + bytes(9)),
    "gzip extra field": (1, gzip_with(4, b"\x03\0abc")),
    "gzip name and comment": (1, gzip_with(24, b"name\0comment\0")),
    "gzip cut": (1, compress(1, TEXT)[:-3]),
    "gzip empty": (1, b""),
    "snappy raw": (2, snappy.compress(MORE)),
    "snappy framed": (2, compress(2, MORE)),
    "snappy one large block": (2, XERIAL + len(snappy.compress(MORE)).to_bytes(4, "big") + snappy.compress(MORE)),
    "snappy empty block": (2, compress(2, TEXT) + b"\0\0\0\1\0"),
    "snappy block of no bytes": (2, compress(2, TEXT) + bytes(4)),
    "snappy streams": (2, compress(2, TEXT) + compress(2, MORE)),
    "snappy header only": (2, XERIAL),
    "snappy other version": (2, XERIAL[:8] + struct.pack(">ii", 9, 9) + compress(2, TEXT)[16:]),
    "snappy bytes at the end": (2, compress(2, TEXT) + b"abc"),
    "snappy cut": (2, compress(2, TEXT)[:-2]),
    "snappy empty": (2, b""),
    "lz4 content size": (3, lz4f(TEXT, store_size=True)),
    "lz4 block checksums": (3, lz4f(MORE, block_checksum=True)),
    "lz4 content checksum": (3, lz4f(MORE, content_checksum=True)),
    "lz4 large blocks": (3, lz4f(MORE, block_size=lz4.frame.BLOCKSIZE_MAX4MB)),
    "lz4 frames": (3, lz4f(TEXT) + lz4f(MORE)),
    "lz4 and other bytes": (3, lz4f(TEXT) + b"other"),
    "lz4 skippable first": (3, SKIPPABLE + lz4f(TEXT)),
    "lz4 block checksum wrong": (3, lz4f(TEXT, block_checksum=True)[:-5] + bytes(5)),
    "lz4 cut": (3, lz4f(TEXT)[:-5]),
    "zstd frames": (4, zstd(TEXT) + zstd(MORE) + zstd(b"") + zstd(TEXT)),
    "zstd without content size": (4, zstd(TEXT, write_content_size=False) + zstd(MORE, write_content_size=False)),
    "zstd checksums": (4, zstd(TEXT, write_checksum=True) + zstd(MORE, write_checksum=True)),
    "zstd checksum wrong": (4, zstd(TEXT, write_checksum=True)[:-1] + b"x"),
    "zstd skippable first": (4, SKIPPABLE + zstd(TEXT)),
    "zstd skippable between and last": (4, zstd(TEXT) + SKIPPABLE + zstd(MORE) + SKIPPABLE),
    "zstd skippable only": (4, SKIPPABLE),
    "zstd dictionary": (4, zstd(TEXT, dict_data=zstandard.ZstdCompressionDict(MORE[:1000], dict_type=zstandard.DICT_TYPE_RAWCONTENT))),
    "zstd other bytes": (4, zstd(TEXT) + b"other"),
    "zstd cut": (4, zstd(TEXT)[:-2]),
    "zstd empty": (4, b""),
}


def test_every_codecs_reader_gives_what_javas_gives() -> None:
    lines = [f"unpack {codec} {packed.hex()}".strip() for codec, packed in PACKED.values()]
    for (name, (codec, packed)), answer in zip(PACKED.items(), ask(lines), strict=True):
        try:
            found = f"={decompress(codec, packed, 2**20).hex()}"
        except DecodeError as error:
            found = f"!{error}"
        assert found == answer or found[0] == answer[0] == "!", (name, answer[:100], found[:100])


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
