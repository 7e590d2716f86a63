"""Formats a data folder once for each release. A broker gets a copy with ids of its own, which saves a start of a JVM."""

from __future__ import annotations

import subprocess
from pathlib import Path

from integration.host import prerequisites
from integration.host.cache import install
from integration.host.ports import HOST
from integration.kafka.jars import classpath, kafka_jars
from integration.kafka.settings import JVM, expand, random_id, write_properties

__all__ = ["seed"]

FORMAT_S = 120.0


def seed(version: str) -> Path:
    """`version`: 4.0 or newer."""
    jars = kafka_jars(version)
    return install(jars.parent / "seed", lambda folder: format_folder(jars, folder))


def format_folder(jars: Path, folder: Path) -> None:
    config = folder / "server.properties"
    listeners = {"listeners": f"CLIENT://{HOST}:9092,ADMIN://{HOST}:9094,CONTROLLER://{HOST}:9093", "log.dirs": str(folder / "data")}
    write_properties(config, {**expand(1), "node.id": "1", "controller.quorum.voters": f"1@{HOST}:9093", **listeners})
    tool = ["kafka.tools.StorageTool", "format", "-t", random_id(), "-c", str(config)]
    command = [prerequisites.java(), *JVM, "-cp", classpath(jars), *tool]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FORMAT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"formatting a folder failed: {(done.stdout + done.stderr)[-2000:]}")
    for entry in (folder / "data").iterdir():
        entry.rename(folder / entry.name)
    (folder / "data").rmdir()
    config.unlink()
