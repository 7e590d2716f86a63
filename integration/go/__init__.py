"""Starts members of consumer groups that use Go's client libraries: `member.go` reads and commits, and tests judge the group.

This needs Go and, for the first build, the proxy of Go modules; `missing()` returns the reason for a skip.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from integration.host import prerequisites
from integration.host.cache import cache, install

__all__ = ["GoMember", "missing"]

HERE = Path(__file__).parent
SOURCES = ("go.mod", "go.sum", "member.go")
BUILD_S = 900.0  # seconds: the modules are downloaded and compiled, on a busy machine
LEAVE_S = 30.0


def missing() -> str:
    """The reason why these members cannot run on this machine; empty if they can."""
    if lines := prerequisites.missing({"go": "it builds members of other client libraries; install Go"}):
        return lines[0]
    told = subprocess.run(["go", "version"], capture_output=True, text=True, timeout=60, check=False).stdout
    found, needed = re.search(r"go(\d+)\.(\d+)", told), re.search(r"^go (\d+)\.(\d+)", (HERE / "go.mod").read_text(), re.MULTILINE)
    assert needed is not None
    if found is None or tuple(map(int, found.groups())) < tuple(map(int, needed.groups())):
        return f"go is too old ({told.strip()}): integration/go needs {needed[0]}"
    return ""


def program() -> Path:
    """The program is built once for each text of its sources."""
    stamp = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in SOURCES)).hexdigest()[:16]
    return install(cache() / "go" / stamp, build) / "member"


def build(folder: Path) -> None:
    done = subprocess.run(
        ["go", "build", "-o", str(folder / "member"), "."], cwd=HERE, capture_output=True, text=True, timeout=BUILD_S, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"go could not build {HERE}: {done.stderr[-2000:]}")


class GoMember:
    """`seen` has (partition, offset) of its records since `seen.clear()`, `errors` the errors that the library reported."""

    def __init__(self, library: str, bootstrap: str, group: str, topic: str, strategy: str) -> None:
        """`library`: "sarama" or "kafka-go", which is also its client id. `strategy`: "range" or "roundrobin"."""
        command: Sequence[str] = [str(program()), library, bootstrap, group, topic, strategy]
        self.seen: list[tuple[int, int]] = []
        self.errors: list[str] = []
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := re.fullmatch(r"(\d+) (\d+)\n", line):
                self.seen.append((int(found[1]), int(found[2])))
            else:
                self.errors.append(line.strip())

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        finally:
            self._process.wait()
            self._thread.join(LEAVE_S)
            if self._process.stdout is not None:
                self._process.stdout.close()
        if code:
            raise RuntimeError(f"the member ended with {code}: {self.errors[-3:]}")
