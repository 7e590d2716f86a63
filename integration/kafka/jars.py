"""Jars. Rule: downloaded once through Maven into a folder outside the source tree, seen by others only when complete.

A folder is filled under a temporary name and renamed, under a lock, so that processes which ask at once wait for one download.
`python -m integration.kafka.jars` fetches everything that tests and benchmarks use.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from integration.host import prerequisites
from integration.host.guardian import die_with_parent
from integration.kafka.releases import release
from integration.waiting import until

__all__ = ["KAFKA", "TOOLS", "absent", "cache", "classpath", "install", "kafka_clients_jar", "kafka_jars", "tools_jars"]

KAFKA, TOOLS = "4.4.0", "4.3.1"
POM = Path(__file__).with_name("pom.xml")
DOWNLOAD = 900.0  # seconds: a cold Maven repository behind a slow line


def cache() -> Path:
    """The folder for all that is downloaded or made once: `$PYKAFKA4_CACHE`, else `~/.cache/pykafka4`."""
    chosen = os.environ.get("PYKAFKA4_CACHE")
    folder = Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "pykafka4"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def kafka_jars(version: str = KAFKA) -> Path:
    """The folder with the broker's jars, those of its ZooKeeper among them where the release needs one."""
    row = release(version)
    properties = {"kafka.version": version, "scala.version": row.scala}
    return install(cache() / f"kafka_{row.scala}-{version}" / "jars", lambda folder: copy(row.profiles, properties, folder))


def tools_jars(version: str = TOOLS) -> Path:
    """The folder with Kafka's command line tools; apart from the broker's, whose versions of the same jars differ."""
    return install(cache() / f"kafka-tools-{version}" / "jars", lambda folder: copy("tools", {"tools.version": version}, folder))


def kafka_clients_jar(version: str = KAFKA) -> Path:
    """The jar that holds the message definitions, under `common/message/`."""
    return kafka_jars(version) / f"kafka-clients-{version}.jar"


def absent(version: str = KAFKA) -> str:
    """Why the broker's jars of that release are not at hand without a download; empty when they are."""
    folder = cache() / f"kafka_{release(version).scala}-{version}" / "jars"
    return "" if folder.is_dir() else f"no jars of Kafka {version} in {folder}; `make kafka` downloads them (needs a JDK and Maven)"


def classpath(folder: Path) -> str:
    """All jars of a folder, in a fixed order."""
    return os.pathsep.join(str(jar) for jar in sorted(folder.glob("*.jar")))


def install(folder: Path, fill: Callable[[Path], None]) -> Path:
    """`folder`, made by `fill(temporary folder)` when it is not there yet; safe for several processes at once."""
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.parent / f".{folder.name}.lock", DOWNLOAD):
        if not folder.is_dir():
            sweep(folder)
            make(folder, fill)
    return folder


def sweep(folder: Path) -> None:
    """Remove what processes left that were killed while they filled it; eight characters follow the name, so no other folder's is meant."""
    for left in folder.parent.glob(f".{folder.name}-????????"):
        shutil.rmtree(left)


def make(folder: Path, fill: Callable[[Path], None]) -> None:
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        fill(temporary)
        temporary.chmod(0o755)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def locked(path: Path, timeout: float) -> Iterator[None]:
    """The lock file `path`, held; a process that dies gives it back."""
    with path.open("w") as file:
        until(lambda: taken(file.fileno()), timeout, f"the lock {path}: another process holds it")
        yield


def taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def copy(profiles: str, properties: dict[str, str], folder: Path) -> None:
    """Let Maven copy the jars of some profiles of the pom into `folder`."""
    prerequisites.require(*prerequisites.check())
    command = ["mvn", "-B", "-q", "-f", str(POM), "-P", profiles, "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    command += [f"-D{name}={value}" for name, value in properties.items()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD, check=False, preexec_fn=die_with_parent)
    if done.returncode != 0 or not any(folder.glob("*.jar")):
        told = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise RuntimeError(f"Maven could not fetch the {profiles} jars {properties}; by hand: {' '.join(command)}\n{told}")


def main() -> int:
    for folder in (kafka_jars(), tools_jars()):
        print(f"{folder}: {len(list(folder.glob('*.jar')))} jars")
    return 0


if __name__ == "__main__":
    sys.exit(main())
