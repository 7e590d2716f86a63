"""Prerequisites. Rule: a missing program is one line that says which, why, and the command that installs it.

`python -m integration.host.prerequisites` prints the lines and exits with 1 when there are any.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from integration.docker.no_registry import obstacles

__all__ = ["MissingPrerequisite", "check", "java", "javac", "missing_java", "optional", "require"]

JAVA = 17


class MissingPrerequisite(RuntimeError):
    """Something this machine lacks; the message is the line to show."""


def java() -> str:
    """The `java` to run: the one of `JAVA_HOME` when that is set, else the one on the path."""
    home = os.environ.get("JAVA_HOME")
    candidate = Path(home, "bin", "java") if home else None
    return str(candidate) if candidate is not None and candidate.exists() else "java"


def java_version(program: str) -> int | None:
    """The major version (8 for "1.8.0"), None where there is no Java."""
    try:
        told = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(match.group(1)) if match else None


def javac() -> str:
    """The compiler beside `java()`."""
    return str(Path(java()).with_name("javac")) if "/" in java() else "javac"


def missing_java() -> str | None:
    """The line about a JDK that is missing or too old; None when it is there."""
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


def missing_maven() -> str | None:
    return None if shutil.which("mvn") else "mvn is missing: it downloads the brokers' jars; apt-get install -y maven"


def missing_compiler() -> str | None:
    present = any(shutil.which(name) for name in ("cc", "gcc", "clang"))
    return None if present else "gcc is missing: the compiled core cannot be built (optional); apt-get install -y gcc python3-dev"


def missing_engine_programs() -> list[str]:
    """dockerd, and the programs its own namespaces and bridges are made with."""
    rows = {
        "dockerd": "it runs the containers; apt-get install -y --no-install-recommends docker.io",
        "ip": "it makes the engine's bridge; apt-get install -y iproute2",
        "unshare": "it gives the engine its own namespaces; apt-get install -y util-linux",
    }
    return [f"{name} is missing: {cure}" for name, cure in rows.items() if not shutil.which(name, path=everywhere())]


def everywhere() -> str:
    """The path with the folders of system programs: engines lie where only root looks."""
    return f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"


def engine() -> list[str]:
    """What is missing to start a Docker engine of our own, and what forbids it; empty when it can be started."""
    rights = (
        []
        if os.geteuid() == 0
        else ["not root: only root can start a Docker engine of its own; sudo, or DOCKER_HOST=unix:///…/docker.sock"]
    )
    missing = rights + [f"{line} (or name a running engine with DOCKER_HOST)" for line in missing_engine_programs()]
    return missing or [f"no Docker engine of our own can run here: {line}" for line in obstacles.found(everywhere())]


def vagrant() -> list[str]:
    """What is missing to make machines with Vagrant; empty when all is there."""
    rows = {
        "vagrant": "it makes the machines; apt-get install -y --no-install-recommends vagrant",
        "ssh-keygen": "it makes the key that opens the machines; apt-get install -y openssh-client",
    }
    return [f"{name} is missing: {cure}" for name, cure in rows.items() if not shutil.which(name)]


def containers() -> list[str]:
    """What is missing for Vagrant to make machines that are containers, apart from an engine."""
    cure = "docker is missing: Vagrant starts containers by it; apt-get install -y --no-install-recommends docker.io (or docker-cli)"
    return [] if shutil.which("docker") else [cure]


def machine() -> list[str]:
    """What is missing to make the image of the machines that are containers; empty when all is there."""
    rights = [] if os.geteuid() == 0 else ["not root: only root can bootstrap a system for the machines; sudo"]
    found = shutil.which("debootstrap", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    cure = "debootstrap is missing: it makes the system of the machines; apt-get install -y --no-install-recommends debootstrap"
    return rights + ([] if found else [cure])


def check() -> list[str]:
    """What is missing to run brokers, one line each; empty when all is there."""
    return [line for line in (missing_java(), missing_maven()) if line]


def optional() -> list[str]:
    """What is missing that the brokers can do without."""
    return [line for line in (missing_compiler(),) if line]


def require(*probes: str | None) -> None:
    """Raises `MissingPrerequisite` with every line that is not None."""
    lines = [line for line in probes if line]
    if lines:
        raise MissingPrerequisite("; ".join(lines))


def main() -> int:
    missing = check()
    for line in missing + optional():
        print(line, file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
