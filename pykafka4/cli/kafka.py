"""Finds Java and the jars of a broker for `pykafka4 cluster up`. Each error about a missing part names the way out.

The jars are in a folder that the user names, or Maven fetches them once. Invariant: a fetched folder gets its name only when it is
complete.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import click

__all__ = ["VERSION", "cache", "fetch", "fetched", "java", "jars_of"]

VERSION: Final = "4.4.0"
JAVA: Final = 17  # the lowest version for brokers of Kafka 4
JAVA_VERSION_S: Final = 60.0
FETCH_S: Final = 900.0  # enough for an empty Maven repository and a slow network
LINES: Final = 10  # lines from the end of Maven's output that an error shows, because they have the reason
DOWNLOADED: Final = re.compile(r"Downloaded from \S+ \S*/(\S+\.jar) ")
POM: Final = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>pykafka4</groupId>
  <artifactId>local</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{version}</version>
      <exclusions>
        <!-- Some releases of it are not on Maven Central, and a broker starts without it. -->
        <exclusion><groupId>org.apache.kafka</groupId><artifactId>kafka-tools-api</artifactId></exclusion>
      </exclusions>
    </dependency>
    <!-- Without an SLF4J binding a broker logs nothing at all. -->
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.1</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-core</artifactId><version>2.25.1</version></dependency>
  </dependencies>
</project>
"""
WAYS_OUT: Final = (
    "Ways out: install Maven (Debian, Ubuntu: apt install maven; macOS: brew install maven), which then fetches Kafka; "
    "or unpack Kafka from "
    "https://kafka.apache.org/downloads and name the folder: --kafka DIR or KAFKA_HOME; or use Docker: docker run -p 9092:9092 apache/kafka"
)


def cache() -> Path:
    """The folder for fetched jars, and for data of local clusters: `$PYKAFKA4_CACHE`, otherwise `~/.cache/pykafka4`."""
    chosen = os.environ.get("PYKAFKA4_CACHE")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "pykafka4"


def java() -> str:
    """Find the program `java` in `$JAVA_HOME` or `$PATH`. Raises click.ClickException if there is none, or it hangs or is too old."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    install = f"Kafka needs Java {JAVA} or newer (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk)"
    try:
        done = subprocess.run([program or "java", "-version"], capture_output=True, text=True, timeout=JAVA_VERSION_S, check=False)
    except OSError:
        raise click.ClickException(f"{program or 'java'} cannot be run; {install}") from None
    except subprocess.TimeoutExpired:
        raise click.ClickException(f"{program} -version did not end within {JAVA_VERSION_S:g} s; {install}, or set JAVA_HOME") from None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    if found is None or int(found[1]) < JAVA:
        said = (done.stderr + done.stdout).strip().splitlines()
        raise click.ClickException(f"{program}: {said[0] if said else 'no version'}; {install}, or set JAVA_HOME")
    return program or "java"


def jars_of(folder: Path) -> Path:
    for place in (folder / "libs", folder):
        if any(place.glob("kafka-server*.jar")) and any(place.glob("kafka_2.*.jar")):
            return place
    raise click.BadParameter(
        f"{folder}: has no jars of a Kafka 4 broker in libs/; name the folder of a Kafka unpacked from https://kafka.apache.org/downloads"
    )


def fetched(version: str) -> Path | None:
    """The folder with the jars of `version`; None if they were not fetched."""
    folder = _folder(version)
    return folder if folder.is_dir() else None


def _folder(version: str) -> Path:
    return cache() / f"kafka_2.13-{version}" / "jars"


def fetch(version: str, tell: Callable[[str], object] = lambda _: None) -> Path:
    """Let Maven fetch the jars: about 100 MB, once. `tell` gets the name of each downloaded jar. Raises click.ClickException."""
    if shutil.which("mvn") is None:
        raise click.ClickException(f"Kafka {version} is not on this machine yet. {WAYS_OUT}")
    folder = _folder(version)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # The temporary directory is next to `folder`, because a rename needs the same file system.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder.parent) as name:
        pom, jars = Path(name, "pom.xml"), Path(name, "jars")
        pom.write_text(POM.format(version=version))
        _maven(version, ["mvn", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={jars}"], tell)
        try:
            jars.rename(folder)
        except OSError:  # another process was faster
            if not folder.is_dir():
                raise
    return folder


def _maven(version: str, command: Sequence[str], tell: Callable[[str], object]) -> None:
    """Run Maven, and report each downloaded jar. Raises click.ClickException if Maven fails, or is not done after FETCH_S."""
    said, limit = deque[str](maxlen=LINES), time.monotonic() + FETCH_S
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        end = threading.Timer(FETCH_S, process.kill)  # the loop below waits for lines without a limit
        end.start()
        try:
            for line in process.stdout or ():
                if found := DOWNLOADED.search(line):
                    tell(found[1])
                elif line.strip():
                    said.append(line.rstrip())
        except BaseException:  # also Ctrl-C: the end of the `with` block waits for Maven
            process.kill()
            raise
        finally:
            end.cancel()
    if time.monotonic() > limit:
        raise click.ClickException(
            f"Maven did not fetch Kafka {version} within {FETCH_S:g} s: try again, and Maven continues where it stopped.\n{WAYS_OUT}"
        )
    if process.returncode != 0:
        lines = "\n".join(said)
        raise click.ClickException(
            f"Maven could not fetch Kafka {version}: does this version exist, and is there a network?\n{lines}\n{WAYS_OUT}"
        )
