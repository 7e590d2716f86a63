"""Runs Kafka's own Java client, as the other side of interop tests, and Kafka's tools. Invariant: every byte of a record crosses unchanged:
null is not empty.

`Interop.java` runs on the broker's jars and speaks JSON lines with base64, because the console tools cannot tell null from empty or print
arbitrary bytes. `run_tool` runs Kafka's command line tools from their own folder.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from integration.host import prerequisites
from integration.host.cache import cache, install
from integration.kafka.class_archive import mapped_classes
from integration.kafka.jars import KAFKA, classpath, kafka_jars, tools_jars

__all__ = [
    "JVM",
    "TIMEOUT_S",
    "JavaAck",
    "JavaRecord",
    "classes",
    "java",
    "java_consume",
    "java_produce",
    "java_rights",
    "run_tool",
    "with_program",
    "with_tools",
]

PROGRAM = Path(__file__).with_name("Interop.java")
RIGHTS = Path(__file__).with_name("Rights.java")
LOGGING = Path(__file__).with_name("log4j2-tools.yaml")
JVM = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto")
TIMEOUT_S = 120.0

Headers = tuple[tuple[str, bytes | None], ...]


class JavaRecord(NamedTuple):
    """Fields that are unknown before the send are None; broker or partitioner set them."""

    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None
    timestamp_type: str | None = None
    leader_epoch: int | None = None


class JavaAck(NamedTuple):
    """The data of a record in the acknowledgement to the Java producer."""

    partition: int
    offset: int
    timestamp: int


def java_produce(
    bootstrap: str,
    topic: str,
    records: Iterable[JavaRecord],
    codec: str = "none",
    properties: Mapping[str, str] | None = None,
    transaction: str | None = None,
    timeout: float = TIMEOUT_S,
) -> list[JavaAck]:
    """With `transaction`, "commit" or "abort", all records are in one transaction, which ends in this way; `properties` must have the
    `transactional.id`.
    """
    settings = {"bootstrap.servers": bootstrap, "compression.type": codec, **(properties or {})}
    order = {"mode": "produce", "topic": topic, "properties": settings, "transaction": transaction}
    return [JavaAck(**row) for row in interop(order, [packed(record) for record in records], timeout)]


def java_consume(
    bootstrap: str,
    topic: str,
    count: int | None = None,
    properties: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT_S,
) -> list[JavaRecord]:
    """Read the topic from the beginning to the current end, or up to `count` records.

    With a `group.id` in `properties` the consumer subscribes, reads until it has `count` records or the timeout has passed, and commits.
    """
    settings = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", **(properties or {})}
    order = {"mode": "consume", "topic": topic, "properties": settings, "count": count, "timeout": timeout}
    return [unpacked(row) for row in interop(order, [], timeout)]


def java_rights(properties: Mapping[str, str], timeout: float = TIMEOUT_S) -> dict[str, Any]:
    """The ACLs, users, quotas and delegation tokens that Java's Admin finds."""
    found: dict[str, Any] = json.loads(java([*JVM, *with_program(RIGHTS), "Rights"], json.dumps(dict(properties)), timeout))
    return found


def run_tool(main: str, *arguments: str, jvm: Iterable[str] = JVM, stdin: str | None = None, timeout: float = TIMEOUT_S) -> str:
    """Run a tool such as `org.apache.kafka.tools.ProducerPerformance`, and return its output. Raises if it fails."""
    return java([*jvm, *with_tools(), main, *arguments], stdin, timeout)


def with_tools() -> list[str]:
    """The class path of Kafka's tools, as options of a JVM."""
    return [*mapped_classes(tools_jars()), "-cp", classpath(tools_jars())]


def with_program(program: Path) -> list[str]:
    """The class path of `program` and the client of the brokers' release, as options of a JVM; jars first, as in the archive."""
    return [*mapped_classes(kafka_jars()), "-cp", f"{classpath(kafka_jars())}:{classes(program)}"]


def classes(program: Path, version: str = KAFKA) -> Path:
    """The program is compiled once for each of its texts and each release."""
    stamp = f"{hashlib.sha256(program.read_bytes()).hexdigest()[:16]}-{version}"
    return install(cache() / program.stem.lower() / stamp, lambda folder: compile_into(folder, program, version))


def compile_into(folder: Path, program: Path, version: str) -> None:
    command = [prerequisites.javac(), "-d", str(folder), "-cp", classpath(kafka_jars(version)), str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"javac could not compile {program}: {done.stderr[-2000:]}")


def interop(order: Mapping[str, Any], rows: list[dict[str, Any]], timeout: float) -> list[dict[str, Any]]:
    lines = "".join(json.dumps(row) + "\n" for row in [dict(order), *rows])
    told = java([*JVM, *with_program(PROGRAM), "Interop"], lines, timeout + 30)
    return [json.loads(line) for line in told.splitlines()]


def java(arguments: list[str], stdin: str | None, timeout: float) -> str:
    command = [prerequisites.java(), f"-Dlog4j2.configurationFile={LOGGING}", *arguments]
    done = subprocess.run(command, input=stdin or "", capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"java {arguments[-1]} ended with {done.returncode}: {done.stderr[-3000:]}")
    return done.stdout


def packed(record: JavaRecord) -> dict[str, Any]:
    headers = [[key, encoded(value)] for key, value in record.headers]
    return {
        "key": encoded(record.key), "value": encoded(record.value), "headers": headers,
        "partition": record.partition, "timestamp": record.timestamp,
    }  # fmt: skip


def unpacked(row: dict[str, Any]) -> JavaRecord:
    headers = tuple((key, decoded(value)) for key, value in row.pop("headers"))
    return JavaRecord(key=decoded(row.pop("key")), value=decoded(row.pop("value")), headers=headers, **row)


def encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
