"""Names the class archive of Kafka's jars: the file from which a JVM maps Kafka's classes instead of parsing and verifying them.

A broker starts with 3.3 s of CPU instead of 5.8, a tool runs with 1.2 s instead of 2.6. `integration.local.class_archives` writes archives.
Invariant: a JVM without an archive, or with one of another JVM or class path, starts as usual.
"""

from __future__ import annotations

import functools
from pathlib import Path

from integration.host import prerequisites

__all__ = ["class_archive", "mapped_classes"]

QUIET = "-Xlog:disable"  # a JVM that refuses an archive says so on standard output, where tests read the answers of tools


def class_archive(jars: Path) -> Path:
    """Each release of Java has its own archive."""
    return jars.parent / f"classes-{java_release()}" / "classes.jsa"


def mapped_classes(jars: Path) -> list[str]:
    """Options of a JVM whose class path begins with `jars`; empty without an archive."""
    archive = class_archive(jars)
    return [f"-XX:SharedArchiveFile={archive}", QUIET] if archive.exists() else []


@functools.cache
def java_release() -> int | None:
    return prerequisites.java_version(prerequisites.java())
