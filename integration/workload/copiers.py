"""Runs the transactional copier, starts another one when it has ended too early, and judges the copy against the brokers' logs.

Invariant: each output partition has exactly the records of its input partition as committed records, each once and in order.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from integration.cluster import Cluster
from integration.waiting import until
from integration.workload.copier import FAILED

__all__ = ["Copying", "differences"]

ROOT = Path(__file__).parents[2]
END_S = 60.0
MOST_FAILURES = 20  # processes that may end by themselves before all records are copied

Row = tuple[bytes | None, bytes | None]  # key, value


@attrs.define(eq=False)
class Copying:
    """One transactional id, and the processes that use it, one after the other. A context manager, which leaves no process behind."""

    settings: Mapping[str, Any]
    folder: Path
    processes: list[subprocess.Popen[bytes]] = attrs.Factory(list)
    killed: int = 0

    def __enter__(self) -> Copying:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait(END_S)

    def start(self) -> None:
        name = self.folder / f"copier-{len(self.processes)}"
        with name.with_suffix(".jsonl").open("wb") as out, name.with_suffix(".err").open("wb") as err:
            command = [sys.executable, "-m", "integration.workload.copier", json.dumps(self.settings)]
            self.processes.append(subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, cwd=ROOT))

    def kill(self) -> None:
        """The next process takes over."""
        self.processes[-1].kill()
        self.processes[-1].wait(END_S)
        self.killed += 1
        self.start()

    def tend(self) -> bool:
        """Whether all records are copied; starts another process if one has failed."""
        code = self.processes[-1].poll()
        if code is None or code == 0:
            return code == 0
        assert code == FAILED, f"the copier ended with {code}; see {self.folder}"
        assert self.failures() < MOST_FAILURES, f"{self.failures()} copiers failed; see {self.folder}"
        self.start()
        return False

    def failures(self) -> int:
        return sum(process.poll() == FAILED for process in self.processes)

    def lines(self) -> list[dict[str, Any]]:
        """The lines of all processes, without a line that is just being written."""
        texts = [path.read_bytes() for path in sorted(self.folder.glob("copier-*.jsonl"), key=lambda path: path.stat().st_mtime)]
        return [json.loads(line) for text in texts for line in text.splitlines(keepends=True) if line.endswith(b"\n")]

    def counts(self) -> Counter[str]:
        return Counter(line["what"] for line in self.lines())

    def errors(self) -> Counter[str]:
        return Counter(line["error"][:160] for line in self.lines() if "error" in line)

    def copied(self) -> int:
        return sum(line["count"] for line in self.lines() if line["what"] == "committed")

    def wait_copied(self, count: int, timeout: float) -> None:
        until(lambda: self.tend() or self.copied() >= count, timeout, lambda: f"{count} records to be copied, not {self.copied()}")

    def wait_finished(self, timeout: float) -> None:
        until(self.tend, timeout, lambda: f"the copy to be finished; {self.counts()} {self.errors()}")


def differences(cluster: Cluster, source: str, copies: Mapping[str, Mapping[int, Iterable[Row]]]) -> list[str]:
    """`copies`: name of the reader -> partition -> rows."""
    expected = {partition: [(r.key, r.value) for r in records] for partition, records in cluster.log(source).items()}
    told = []
    for reader, found in copies.items():
        for partition, rows in expected.items():
            told += [f"{reader}, partition {partition}: {text}" for text in different(rows, list(found.get(partition, ())))]
    return told


def different(expected: list[Row], found: list[Row]) -> list[str]:
    if expected == found:
        return []
    want, have = Counter(expected), Counter(found)
    missing, extra = want - have, have - want
    at = next((n for n, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b), min(len(expected), len(found)))
    return [
        f"{missing.total()} of {len(expected)} records are missing {list(missing)[:3]}, {extra.total()} too many {list(extra)[:3]}, "
        f"the first difference is at {at}"
    ]
