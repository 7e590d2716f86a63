"""Downloads Kafka's jars once, through Maven, into the cache.

`python -m integration.kafka.jars` downloads the jars of the newest broker and of the tools; older releases are downloaded at their first
use.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from integration.host import prerequisites
from integration.host.cache import cache, install
from integration.host.guardian import die_with_parent
from integration.kafka.releases import release

__all__ = ["KAFKA", "TOOLS", "absent", "classpath", "kafka_clients_jar", "kafka_jars", "tools_jars"]

KAFKA, TOOLS = "4.4.0", "4.3.1"
POM = Path(__file__).with_name("pom.xml")
DOWNLOAD_S = 900.0  # seconds: a cold Maven repository over a slow connection


def kafka_jars(version: str = KAFKA) -> Path:
    """The broker's jars, and ZooKeeper's jars if the release needs one."""
    row = release(version)
    properties = {"kafka.version": version, "scala.version": row.scala}
    return install(cache() / f"kafka_{row.scala}-{version}" / "jars", lambda folder: copy(row.profiles, properties, folder))


def tools_jars(version: str = TOOLS) -> Path:
    """Kafka's command line tools. The broker's folder has other versions of the same jars."""
    return install(cache() / f"kafka-tools-{version}" / "jars", lambda folder: copy("tools", {"tools.version": version}, folder))


def kafka_clients_jar(version: str = KAFKA) -> Path:
    """The jar with the message definitions, under `common/message/`."""
    return kafka_jars(version) / f"kafka-clients-{version}.jar"


def absent(version: str = KAFKA) -> str:
    """Why the jars of that release need a download; empty if they are in the cache."""
    folder = cache() / f"kafka_{release(version).scala}-{version}" / "jars"
    return "" if folder.is_dir() else f"no jars of Kafka {version} in {folder}; `make kafka` downloads them (needs a JDK and Maven)"


def classpath(folder: Path) -> str:
    """All jars of a folder, in a fixed order."""
    return os.pathsep.join(str(jar) for jar in sorted(folder.glob("*.jar")))


def copy(profiles: str, properties: dict[str, str], folder: Path) -> None:
    prerequisites.require(*prerequisites.check())
    command = ["mvn", "-B", "-q", "-f", str(POM), "-P", profiles, "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    command += [f"-D{name}={value}" for name, value in properties.items()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_S, check=False, preexec_fn=die_with_parent)
    if done.returncode != 0 or not any(folder.glob("*.jar")):
        told = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise RuntimeError(f"Maven could not fetch the {profiles} jars {properties}; by hand: {' '.join(command)}\n{told}")


def main() -> int:
    for folder in (kafka_jars(), tools_jars()):
        print(f"{folder}: {len(list(folder.glob('*.jar')))} jars")
    return 0


if __name__ == "__main__":
    sys.exit(main())
