"""Type checkers see the options by name and type, no method that is not there, and no Any where a value is read."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAD = """\
from __future__ import annotations
from pykafka4 import Client, ClientOptions, Consumer, Producer, TopicPartition
KAFKA: ClientOptions = {"bootstrap_servers": "localhost:9092"}
producer = Producer(**KAFKA)
consumer = Consumer(**KAFKA, group_id="g")
"""
GOOD = """
Producer(**KAFKA, linger_ms=5, acks="all", compression_type="zstd")
Producer(bootstrap_servers=["a:9092", ("b", 9092)])
with Client(**KAFKA) as client, Producer(client=client, linger_ms=0.5) as shared:
    shared.send("t", b"v", key="k", headers={"h": b"1"}).result(timeout=1).offset + 1
for record in consumer:
    value: bytes | None = record.value
    size = len(record.value or b"")
one = consumer.committed(("t", 0))
if one is not None:
    one.offset + 1
several = consumer.committed([TopicPartition("t", 0), ("t", 1)])
for place in several.values():
    print(place.offset if place else None)
records = consumer.poll(0.1, 5)
print(records[0].key)
"""
BAD = [
    ("producer.flsh()", "flsh"),
    ("consumer.pol()", "pol"),
    ("Producer(**KAFKA, linger=5)", "linger"),
    ("Producer(**KAFKA, linger_ms='5')", "linger_ms"),
    ("Producer(**KAFKA, group_id='g')", "group_id"),
    ("Consumer(**KAFKA, batch_size=5)", "batch_size"),
    ("Client(**KAFKA, acks='all')", "acks"),
    ("for record in consumer: record.value.decode()", "decode"),
    ("consumer.committed(('t', 0)).offset", "offset"),
    ("producer.send(5)", "send"),
]


def check(tmp_path: Path, text: str) -> str:
    """What `mypy --strict` says about `text`."""
    script = tmp_path / "snippet.py"
    script.write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--show-error-codes", f"--cache-dir={ROOT / '.mypy_cache'}"]
    done = subprocess.run([*command, str(script)], cwd=ROOT, capture_output=True, text=True, timeout=250)
    return done.stdout + done.stderr


@pytest.fixture(autouse=True)
def mypy() -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed: pip install pykafka4[dev]")


def test_good_code_passes_strict_checks(tmp_path: Path) -> None:
    assert check(tmp_path, HEAD + GOOD) == ""


def test_wrong_code_is_found(tmp_path: Path) -> None:
    said = check(tmp_path, HEAD + "\n".join(code for code, _ in BAD) + "\n").splitlines()
    first = HEAD.count("\n") + 1
    for line, (code, name) in enumerate(BAD, first):
        about = [text for text in said if f"snippet.py:{line}: error" in text]
        assert any(name in text for text in about), f"{code}: {about}"
