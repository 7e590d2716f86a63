"""Makes the settings of brokers from the files in `broker/`. Invariant: brokers are the same on every backend: small, quick to start, quick
to fail over, and with replicas of everything.

The Vagrantfile uses the same files.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from pathlib import Path

__all__ = ["BROKER", "JVM", "LOGGING", "OLD_LOGGING", "escaped", "expand", "random_id", "write_properties"]

BROKER = Path(__file__).resolve().with_name("broker")
JVM = tuple((BROKER / "jvm.options").read_text().split())
LOGGING = BROKER / "log4j2.yaml"
OLD_LOGGING = BROKER / "log4j.properties"  # for brokers before 4.0, their ZooKeeper and their clients


def expand(brokers: int) -> dict[str, str]:
    replicas = min(3, brokers)
    counts = {"replication.factor": replicas, "insync.replicas": max(1, replicas - 1), "min.isr": max(1, replicas - 1)}
    lines = (BROKER / "broker.properties").read_text().splitlines()
    found = dict(line.split("=", 1) for line in lines if line and line[0] != "#")
    return found | {key: str(count) for key in found for end, count in counts.items() if key.endswith(end)}


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    path.write_text("".join(f"{key}={escaped(value)}\n" for key, value in properties.items()))


def escaped(value: str) -> str:
    """Escape backslashes and characters that are not ASCII, so that Java reads the value unchanged."""
    units = value.replace("\\", "\\\\").encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2)]
    return "".join(chr(code) if 32 <= code < 127 else f"\\u{code:04x}" for code in codes)


def random_id() -> str:
    """22 characters in Kafka's form; never with a leading dash, which Kafka's tools take for an option."""
    return "a" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
