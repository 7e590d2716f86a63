"""Starts Kafka's own verifiable consumer as a member of a group, and translates its output to a journal.

The consumer reports no keys, no values and no generation, so its rows have the digest None, and no generation.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from integration.host import prerequisites
from integration.java.client import JVM, with_tools

__all__ = ["command", "translated"]

MAIN = "org.apache.kafka.tools.VerifiableConsumer"
WALL = time.time() - time.monotonic()  # seconds between the two clocks
NAMES = {
    "startup_complete": "started",
    "shutdown_complete": "ended",
    "partitions_assigned": "assigned",
    "partitions_revoked": "revoked",
    "records_consumed": "read",
    "offsets_committed": "committed",
}


def command(settings: dict[str, Any], folder: Path) -> list[str]:
    """Also writes a file with the consumer's properties to `folder`."""
    config = folder / f"{settings['name']}.properties"
    config.write_text(f"client.id={settings['name']}\nmetadata.max.age.ms=5000\n")
    arguments = ["--topic", settings["topic"], "--group-id", settings["group"], "--group-protocol", settings["protocol"]]
    arguments += ["--bootstrap-server", settings["client"]["bootstrap_servers"], "--reset-policy", "earliest"]
    arguments += ["--command-config", str(config)]
    if settings["instance"]:
        arguments += ["--group-instance-id", settings["instance"]]
    if settings["protocol"] == "classic":
        arguments += ["--session-timeout", str(settings["session_ms"])]
    return [prerequisites.java(), *JVM, *with_tools(), MAIN, *arguments]


def translated(line: bytes) -> dict[str, Any] | None:
    """None for a line without an event of a journal."""
    said = json.loads(line)
    what = NAMES.get(said.get("name"))
    if what is None:
        return None
    at = said["timestamp"] / 1000 - WALL
    partitions = said.get("partitions", ())
    if what == "read":
        rows = [(p["partition"], offset, None) for p in partitions for offset in range(p["minOffset"], p["maxOffset"] + 1)]
        return {"what": what, "at": at, "rows": rows, "generation": None}
    if what == "committed" and not said["success"]:
        return {"what": "error", "at": at, "error": said.get("error", "")}
    return {"what": what, "at": at, **({"partitions": [p["partition"] for p in partitions]} if what in ("assigned", "revoked") else {})}
