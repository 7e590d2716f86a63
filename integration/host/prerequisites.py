"""Finds programs that this machine lacks. A missing program is one line, with its name, its use, and the command that installs it.

`python -m integration.host.prerequisites` prints the lines, and exits with 1 if there are any.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["MissingPrerequisite", "check", "java", "javac", "missing", "missing_java", "optional", "require"]

JAVA = 17


class MissingPrerequisite(RuntimeError):
    """Raised if this machine lacks a program or a right; the message is the line to show."""


def java() -> str:
    """In `JAVA_HOME` if that is set, otherwise on the path."""
    home = os.environ.get("JAVA_HOME")
    candidate = Path(home, "bin", "java") if home else None
    return str(candidate) if candidate is not None and candidate.exists() else "java"


def java_version(program: str) -> int | None:
    """The major version (8 for "1.8.0"); None without Java."""
    try:
        told = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(match.group(1)) if match else None


def javac() -> str:
    return str(Path(java()).with_name("javac")) if "/" in java() else "javac"


def missing_java() -> str | None:
    """The line about a JDK that is missing or too old; None if there is one."""
    found, home = java_version(java()), os.environ.get("JAVA_HOME")
    if home and not Path(home, "bin", "java").exists():
        have = f"JAVA_HOME={home} has no bin/java"
    elif found is None:
        have = "java is missing"
    elif found < JAVA:
        have = f"java {found} is too old"
    elif not shutil.which(javac()):
        have = "javac is missing (this Java only runs programs)"
    else:
        return None
    return f"{have}: the brokers need a JDK of version {JAVA} or newer; apt-get install -y openjdk-17-jdk-headless (or set JAVA_HOME)"


def missing(rows: Mapping[str, str], path: str | None = None) -> list[str]:
    return [f"{name} is missing: {cure}" for name, cure in rows.items() if not shutil.which(name, path=path)]


def check() -> list[str]:
    """A line for each missing program that brokers need."""
    return [*filter(None, [missing_java()]), *missing({"mvn": "it downloads the brokers' jars; apt-get install -y maven"})]


def optional() -> list[str]:
    """A line for each missing program that brokers do not need."""
    present = any(shutil.which(name) for name in ("cc", "gcc", "clang"))
    return [] if present else ["gcc is missing: the compiled core cannot be built (optional); apt-get install -y gcc python3-dev"]


def require(*lines: str) -> None:
    if lines:
        raise MissingPrerequisite("; ".join(lines))


def main() -> int:
    lines = check()
    for line in lines + optional():
        print(line, file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
