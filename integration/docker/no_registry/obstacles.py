"""Finds the obstacles to an engine of our own on this machine, before the engine starts: missing programs and rights, firewalls. Invariant:
the search takes a moment, and changes nothing.

Programs and root are not enough: in a container root may lack rights, and another engine's firewall may stop the packets on our bridges.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from integration.host import prerequisites

__all__ = ["everywhere", "filtered", "grouped", "missing", "rights"]

# dockerd, and the programs that make its namespaces and bridges.
PROGRAMS = {
    "dockerd": "it runs the containers; apt-get install -y --no-install-recommends docker.io",
    "ip": "it makes the engine's bridge; apt-get install -y iproute2",
    "unshare": "it gives the engine its own namespaces; apt-get install -y util-linux",
}

PROBE_S = 10.0  # seconds for a program that takes a hundredth of a second
BRIDGED = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")  # absent if no bridge is filtered
ELSEWHERE = "name a running engine, DOCKER_HOST=unix:///var/run/docker.sock"
# The first acts of an engine, in namespaces that end with the probe: a bridge, the empty /run of its cell, a container's file system.
ACTS = """
ip link add pk4probe type bridge
mount -t tmpfs tmpfs /run
mkdir /run/1 /run/2 /run/3
mount -t overlay overlay -o lowerdir=/run/1:/run/2 /run/3
"""
PASSED = re.compile(r"-A FORWARD(?: -[io] pk4\+)* -j ACCEPT")
STOPPED = re.compile(r"-P FORWARD DROP|-A FORWARD -j (?:DROP|REJECT\b.*)")


def missing() -> list[str]:
    """A line for each obstacle; empty if an engine of our own can be started."""
    path = everywhere()
    lines = [f"{line} (or name a running engine with DOCKER_HOST)" for line in prerequisites.missing(PROGRAMS, path)]
    if os.geteuid() != 0:
        lines.insert(0, "not root: only root can start a Docker engine of its own; sudo, or DOCKER_HOST=unix:///…/docker.sock")
    if lines:
        return lines
    found = (rights(path), grouped(Path("/proc/mounts").read_text()), firewall(path))
    return [f"no Docker engine of our own can run here: {line}" for line in found if line]


def everywhere() -> str:
    """The path with the folders of system programs, which only root's path has."""
    return f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"


def rights(path: str) -> str | None:
    """The obstacle if root may not make bridges, namespaces and mounts here; otherwise None."""
    command = ["unshare", "--pid", "--net", "--mount-proc", "--fork", "--kill-child", "sh", "-ec", ACTS]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_S, check=False, env={"PATH": path, "LC_ALL": "C"})
    except subprocess.TimeoutExpired:
        return f"a bridge and two mounts took more than {PROBE_S:g} s: try again when this machine is less busy, or {ELSEWHERE}"
    if done.returncode == 0:
        return None
    told = " ".join(done.stderr.split()) or f"exit status {done.returncode}"
    return f"root lacks rights or the kernel lacks overlay ({told}): run the container that this is with --privileged, or {ELSEWHERE}"


def grouped(mounts: str) -> str | None:
    """The obstacle if no control groups can be written, by the content of /proc/mounts; otherwise None."""
    rows = [line.split() for line in mounts.splitlines()]
    if any("rw" in row[3].split(",") for row in rows if row[2] in ("cgroup", "cgroup2")):
        return None
    return f"no control groups can be written: run the container that this is with --privileged, or {ELSEWHERE}"


def firewall(path: str) -> str | None:
    program = shutil.which("iptables", path=path)
    if program is None or not BRIDGED.exists():
        return None
    told = subprocess.run([program, "-w", "5", "-S", "FORWARD"], capture_output=True, text=True, check=False)  # waits 5 s at most
    return filtered(BRIDGED.read_text(), told.stdout)


def filtered(bridged: str, rules: str) -> str | None:
    """The obstacle if containers of one bridge would not reach each other, by bridge-nf-call-iptables and the rules of FORWARD.

    Only rules about all forwarded packets, or about all our bridges, count.
    """
    lines = sorted(rules.splitlines(), key=lambda line: line.startswith("-P"))  # the policy is last: it applies if no rule decides
    decisive = next((line for line in lines if PASSED.fullmatch(line) or STOPPED.fullmatch(line)), "")
    if bridged.strip() != "1" or not STOPPED.fullmatch(decisive):
        return None
    return (
        f"bridge-nf-call-iptables=1 and the firewall ({decisive}, most often another Docker engine's) keep containers of one bridge apart: "
        f"{ELSEWHERE}, or let our bridges through: iptables -I FORWARD -i pk4+ -o pk4+ -j ACCEPT"
    )
