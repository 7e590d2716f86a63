"""Starts client processes in C and adds up their reports."""

from __future__ import annotations

import subprocess
from pathlib import Path

import attrs

from benchmarks.compiled import compiled

__all__ = ["Load", "Sent", "Senders"]

SOURCE = Path(__file__).with_name("sender.c")
LATE_S = 60.0


@attrs.frozen
class Load:
    """`processes` clients send together for `seconds`; with `per_second` 0, as fast as they can."""

    processes: int = 4
    seconds: float = 5.0
    value_size: int = 100
    per_second: float = 0.0
    blocking: bool = True
    topics: int = 4
    batch: int = 1


@attrs.frozen
class Sent:
    """Sums over the clients; `longest_us` is the longest call of any client."""

    sent: int
    dropped: int
    errors: int
    slow: int
    longest_us: int
    cpu_us: int

    @property
    def calls(self) -> int:
        """The calls of `send`, if a batch has one message."""
        return self.sent + self.dropped + self.errors

    @property
    def fast(self) -> float:
        return 1 - self.slow / max(1, self.calls)


class Senders:
    def __init__(self, path: Path, load: Load) -> None:
        more = (load.value_size, load.per_second / load.processes, int(load.blocking), load.topics, load.batch)
        argv = [str(compiled(SOURCE)), str(path), str(load.seconds), *map(str, more)]
        self._load = load
        self._processes = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(load.processes)]

    def results(self) -> Sent:
        rows = []
        for process in self._processes:
            out, _ = process.communicate(timeout=self._load.seconds + LATE_S)
            rows.append([int(number) for number in out.split()])
        columns = list(zip(*rows, strict=True))
        sent, dropped, errors, slow, longest, cpu = columns
        return Sent(sum(sent), sum(dropped), sum(errors), sum(slow), max(longest), sum(cpu))
