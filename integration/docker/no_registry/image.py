"""Makes the image of a broker from the files of this machine: its Java, its tools, Maven's jars. Invariant: the image is never pulled, and
its tag changes with its programs, its Java and its jars.

The image runs one broker, configured by its environment like the image apache/kafka (`kafka.sh`), from a data folder that was formatted
when the image was made.
"""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from docker import DockerClient
from docker.errors import APIError, ImageNotFound

from integration.docker.place import LABEL
from integration.host import prerequisites
from integration.host.cache import cache, locked
from integration.kafka.jars import KAFKA, kafka_jars
from integration.kafka.seed import seed
from integration.kafka.settings import LOGGING

__all__ = ["ENTRY", "HOME", "build", "load", "rootfs"]

REPOSITORY = "pykafka4/kafka"
ENTRY = Path(__file__).with_name("kafka.sh")
HOME = "opt/kafka"
BUILD_S = 300.0
CHANGES = [f'ENTRYPOINT ["/{HOME}/kafka.sh"]', "ENV PATH=/opt/java/bin:/usr/bin JAVA_HOME=/opt/java"]
# Programs of the entry script, and programs for a person who looks into a container; missing programs of the second kind are left out.
NEEDED = ("bash", "env", "cat", "cp", "mkdir", "sed", "tr", "head")
HANDY = (
    "sh", "ls", "rm", "mv", "ln", "chmod", "sleep", "kill", "ps", "grep", "awk", "tail", "cut", "date", "id", "df", "find", "ss", "ip",
)  # fmt: skip
# Files of the JDK that a running broker never reads.
SKIPPED = ("jmods", "man", "include", "docs", "legal", "src.zip", "lib/src.zip", "lib/ct.sym", "lib/server/classes_nocoops.jsa")
# Libraries that are loaded by name, or that the codecs zstd and snappy need, which jars unpack when they are used.
UNSEEN = (
    "libnss_files.so.2", "libnss_dns.so.2", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1",
)  # fmt: skip
DISPLAYS = re.compile(r"lib(awt_xawt|splashscreen|jawt|fontmanager|freetype)\.so$")  # linked with libraries a broker never loads


def build(client: DockerClient, version: str = KAFKA) -> str:
    """The tag of the image for Kafka `version`, 4.0 or newer. If the engine lacks the image, make it, and remove its predecessors."""
    prerequisites.require(*prerequisites.check())
    jars, template = kafka_jars(version), seed(version)
    tag = f"{REPOSITORY}:{version}-{digest(jars)}"
    with locked(cache() / "image.lock", BUILD_S):
        if not present(client, tag):
            load(client, tag, broker(jars, template), CHANGES)
            prune(client, tag, f"{REPOSITORY}:{version}-")
    return tag


def present(client: DockerClient, tag: str) -> bool:
    try:
        client.images.get(tag)
    except ImageNotFound:
        return False
    return True


def load(client: DockerClient, tag: str, content: Iterable[tuple[str, Path | bytes]], changes: list[str]) -> None:
    """Make an image with one layer of (path, file or bytes), and our label."""
    with tempfile.TemporaryFile(dir=cache()) as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for target in ("bin", "lib", "lib64", "sbin"):
                link = tarfile.TarInfo(target)
                link.type, link.linkname = tarfile.SYMTYPE, f"usr/{target}"
                archive.addfile(link)
            for path, source in content:
                add(archive, path, source)
        file.seek(0)
        repository, _, name = tag.rpartition(":")
        client.api.import_image(src=file, repository=repository, tag=name, changes=[f"LABEL {LABEL}=image", *changes])


def add(archive: tarfile.TarFile, path: str, source: Path | bytes) -> None:
    if isinstance(source, bytes):
        entry = tarfile.TarInfo(path)
        entry.size, entry.mode = len(source), 0o755
        archive.addfile(entry, io.BytesIO(source))
        return
    entry = archive.gettarinfo(str(source.resolve()), path)
    entry.uid = entry.gid = 0
    if entry.isdir():
        entry.mode = 0o1777 if path == "tmp" else 0o755
        archive.addfile(entry)
    else:
        with source.open("rb") as file:
            archive.addfile(entry, file)


def prune(client: DockerClient, keep: str, family: str) -> None:
    """Remove our own images that `keep` replaces, except an image that a container still uses."""
    for found in client.images.list(filters={"label": f"{LABEL}=image"}):
        for tag in found.tags:
            if tag.startswith(family) and tag != keep:
                try:
                    client.images.remove(tag)
                except APIError as error:
                    if error.status_code not in (404, 409):
                        raise


# -- content -------------------------------------------------------------------------------------------------------------------


def broker(jars: Path, template: Path) -> Iterator[tuple[str, Path | bytes]]:
    java = java_home()
    runtime = [path for path in sorted(java.rglob("*")) if path.is_file() and not skipped(path.relative_to(java))]
    linked = [path for path in runtime if path.suffix == ".so" and not DISPLAYS.search(path.name)] + [java / "bin" / "java"]
    yield from rootfs(tools(), linked, inside=java)
    yield from ((f"opt/java/{path.relative_to(java)}", path) for path in runtime)
    yield from ((f"{HOME}/libs/{jar.name}", jar) for jar in sorted(jars.glob("*.jar")))
    yield from ((f"{HOME}/seed/{path.relative_to(template)}", path) for path in sorted(template.rglob("*")) if path.is_file())
    yield f"{HOME}/kafka.sh", ENTRY.read_bytes()
    yield f"{HOME}/log4j2.yaml", LOGGING.read_bytes()


def rootfs(programs: Iterable[Path], linked: Iterable[Path] = (), inside: Path | None = None) -> Iterator[tuple[str, Path | bytes]]:
    """Yield programs, and the libraries that they and `linked` need, except libraries in the folder `inside`."""
    programs = list(programs)
    yield from ((f"usr/bin/{program.name}", program) for program in programs)
    for library in libraries([*programs, *linked]):
        if inside is None or not library.is_relative_to(inside):
            yield merged(library), library
    yield "tmp", Path("/tmp")
    yield "etc/passwd", b"root:x:0:0:root:/root:/bin/bash\n"
    yield "etc/group", b"root:x:0:\n"
    yield "etc/nsswitch.conf", b"hosts: files dns\n"


def merged(library: Path) -> str:
    """In the image, /lib is always a link to /usr/lib."""
    path = str(library).removeprefix("/")
    return f"usr/{path}" if path.startswith("lib") else path


def tools() -> list[Path]:
    for name in NEEDED:
        if not shutil.which(name):
            prerequisites.require(f"{name} is missing: the image's entry script needs it; apt-get install -y bash coreutils sed")
    return [Path(place) for place in map(shutil.which, (*NEEDED, *HANDY)) if place]


def libraries(binaries: Iterable[Path]) -> list[Path]:
    """The libraries that the binaries are linked with, and the libraries of UNSEEN, which `ldd` does not show."""
    told = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True, timeout=60, check=False).stdout
    found = {Path(place) for place in re.findall(r"(?:=>|^)\s+(/\S+) \(0x", told, re.MULTILINE)}
    return sorted(found | {path.parent / name for path in found for name in UNSEEN if (path.parent / name).exists()})


def java_home() -> Path:
    program = shutil.which(prerequisites.java())
    assert program is not None, "prerequisites are checked first"
    return Path(program).resolve().parents[1]


def skipped(path: Path) -> bool:
    return str(path) in SKIPPED or path.parts[0] in SKIPPED


def digest(jars: Path) -> str:
    """A digest of the recipe: the texts of this module, entry script and logging; size and time of the machine's files."""
    java = java_home()
    parts = [Path(__file__).read_bytes(), ENTRY.read_bytes(), LOGGING.read_bytes(), str(java).encode()]
    for path in (*tools(), java / "release", java / "lib" / "modules", *sorted(jars.glob("*.jar"))):
        if path.exists():
            told = path.stat()
            moment = 0 if path.suffix == ".jar" else int(told.st_mtime)  # a jar that was fetched again is the same jar
            parts.append(f"{path.name} {told.st_size} {moment}".encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]
