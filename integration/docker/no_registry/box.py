"""Makes the image of a machine for Vagrant's docker provider: a bare Debian with sshd and this machine's Java, without Kafka, which
provisioning adds.

The bare system takes most of a minute, so the cache keeps it; the other parts are added within seconds.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from docker import DockerClient

from integration.docker.no_registry.image import add, java_home, present, prune, skipped
from integration.docker.no_registry.obstacles import everywhere
from integration.docker.place import LABEL
from integration.host import prerequisites
from integration.host.cache import cache, install, locked
from integration.host.guardian import die_with_parent

__all__ = ["build", "key", "missing"]

REPOSITORY = "pykafka4/machine"
BOOT = Path(__file__).with_name("boot.sh")
PROGRAMS = {"debootstrap": "it makes the system of the machines; apt-get install -y --no-install-recommends debootstrap"}
PACKAGES = ("openssh-server", "sudo", "iproute2", "procps", "init-system-helpers")
# Only our own key opens the machine, and sshd asks no name server for the name of the client.
SSHD = "UseDNS no\nPasswordAuthentication no\nAuthorizedKeysFile /etc/ssh/authorized_keys\n"
SYSTEM_S, IMPORT_S = 900.0, 600.0
NOT_NEEDED = ("var/cache/apt/archives/*.deb", "var/lib/apt/lists/*", "usr/share/doc/*", "usr/share/man/*", "usr/share/locale/*")


def build(client: DockerClient) -> str:
    """The tag of the machine's image. If the engine lacks the image, make it, and remove its predecessors."""
    release = suite()
    public = key().with_suffix(".pub")
    tag = f"{REPOSITORY}:{release}-{digest(public)}"
    with locked(cache() / "machine.lock", IMPORT_S + SYSTEM_S):
        if not present(client, tag):
            load(client, tag, system(release), public)
            prune(client, tag, f"{REPOSITORY}:")
    return tag


def key() -> Path:
    """The private key that opens the machines, made once; the public key is in the same folder."""
    return install(cache() / "vagrant" / "ssh", make_key) / "key"


def make_key(folder: Path) -> None:
    command = ["ssh-keygen", "-q", "-m", "PEM", "-t", "ecdsa", "-N", "", "-C", "pykafka4 machines", "-f", str(folder / "key")]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def suite() -> str:
    """The Debian release of this machine: its Java is linked with the libraries of this release."""
    told = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return told.get("VERSION_CODENAME", "bookworm").strip('"')


def digest(public: Path) -> str:
    """The release file of Java represents all files of Java."""
    java = java_home()
    parts = [Path(__file__).read_bytes(), BOOT.read_bytes(), public.read_bytes(), str(java).encode(), (java / "release").read_bytes()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


# -- the bare system -----------------------------------------------------------------------------------------------------------


def system(release: str) -> Path:
    return install(place(release), lambda folder: bootstrap(release, folder)) / "system.tar"


def place(release: str) -> Path:
    recipe = hashlib.sha256(f"{release} {PACKAGES} {SSHD}".encode()).hexdigest()[:8]
    return cache() / f"machine-{release}-{recipe}"


def missing() -> list[str]:
    """Empty if the system is in the cache, or can be made."""
    if place(suite()).is_dir():
        return []
    rights = [] if os.geteuid() == 0 else ["not root: only root can bootstrap a system for the machines; sudo"]
    return rights + prerequisites.missing(PROGRAMS, everywhere())


def bootstrap(release: str, folder: Path) -> None:
    prerequisites.require(*missing())
    root = folder / "root"
    run(["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", release, str(root)])
    run(["chroot", str(root), "useradd", "--create-home", "--shell", "/bin/bash", "vagrant"])
    (root / "etc/sudoers.d/vagrant").write_text("vagrant ALL=(ALL) NOPASSWD:ALL\n")
    (root / "etc/ssh/sshd_config.d/machine.conf").write_text(SSHD)
    for pattern in NOT_NEEDED:
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    run(["tar", "--create", f"--file={folder / 'system.tar'}", f"--directory={root}", "--one-file-system", "."])
    shutil.rmtree(root)


def run(command: list[str]) -> None:
    """Run a command in namespaces of its own, which end with this process, together with their mounts and processes."""
    inside = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *command]
    done = subprocess.run(inside, capture_output=True, text=True, timeout=SYSTEM_S, check=False, preexec_fn=die_with_parent)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed: {(done.stdout + done.stderr)[-2000:]}")


# -- the image -----------------------------------------------------------------------------------------------------------------


def load(client: DockerClient, tag: str, base: Path, public: Path) -> None:
    with tempfile.TemporaryFile(dir=cache()) as file:  # without a name, so that no end of this process leaves it behind
        with base.open("rb") as plain:
            shutil.copyfileobj(plain, file)
        file.seek(0)
        with tarfile.open(fileobj=file, mode="a", format=tarfile.GNU_FORMAT) as archive:
            furnish(archive, public)
        file.seek(0)
        changes = [f"LABEL {LABEL}=image", 'CMD ["/sbin/boot"]', "EXPOSE 22", "ENV container=docker"]
        repository, _, name = tag.rpartition(":")
        client.api.import_image(src=file, repository=repository, tag=name, changes=changes)


def furnish(archive: tarfile.TarFile, public: Path) -> None:
    java = java_home()
    for path in sorted(java.rglob("*")):
        if path.is_file() and not skipped(path.relative_to(java)):
            add(archive, f"./opt/java/{path.relative_to(java)}", path)
    link = tarfile.TarInfo("./usr/bin/java")
    link.type, link.linkname = tarfile.SYMTYPE, "/opt/java/bin/java"
    archive.addfile(link)
    add(archive, "./usr/sbin/boot", BOOT.read_bytes())
    add(archive, "./etc/ssh/authorized_keys", public.read_bytes())
