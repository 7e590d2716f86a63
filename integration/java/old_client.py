"""Writes old record formats with the Java producer of that time, on the jars of its own release.

`client.py` runs the newest producer, which cannot write the formats before record batches, nor speak to brokers before 2.1.
"""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from integration.host import prerequisites
from integration.java.client import JVM, TIMEOUT_S, JavaAck, JavaRecord, classes
from integration.kafka.jars import classpath, kafka_jars
from integration.kafka.settings import OLD_LOGGING

__all__ = ["old_java_produce"]

PROGRAM = Path(__file__).with_name("Writer.java")


def old_java_produce(
    version: str,
    bootstrap: str,
    topic: str,
    records: Iterable[JavaRecord],
    codec: str = "none",
    properties: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT_S,
) -> list[JavaAck]:
    """Send the records, which have no headers, with the Java producer of release `version`."""
    settings = {"bootstrap.servers": bootstrap, "compression.type": codec, "acks": "all", **(properties or {})}
    path = f"{classes(PROGRAM, version)}:{classpath(kafka_jars(version))}"
    command = [prerequisites.java(), *JVM, f"-Dlog4j.configuration={OLD_LOGGING.as_uri()}", "-cp", path, "Writer", topic]
    command += [f"{key}={value}" for key, value in settings.items()]
    lines = "".join(line(record) for record in records)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the Java producer of {version} ended with {done.returncode}: {done.stderr[-3000:]}")
    return [JavaAck(*map(int, told.split())) for told in done.stdout.splitlines()]


def line(record: JavaRecord) -> str:
    words = ["-" if number is None else str(number) for number in (record.partition, record.timestamp)]
    words += ["-" if data is None else base64.b64encode(data).decode() for data in (record.key, record.value)]
    return " ".join(words) + "\n"
