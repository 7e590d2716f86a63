"""Starts processes that carry out orders. Invariant: a process carries out one order at a time, and ends with the process that gives them.

An order is a line of JSON with its name and its arguments; the answer is a line of JSON. A process that fails ends with its traceback.
"""

from __future__ import annotations

import contextlib
import gc
import json
import select
import subprocess
import sys
import tracemalloc
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.meter import resident

__all__ = ["Failed", "Memory", "Process", "obey"]

ROOT = Path(__file__).resolve().parent.parent.parent
LONGEST_S = 600.0


class Failed(RuntimeError):
    """Raised if a process has ended, or does not answer."""


def obey(orders: object) -> None:
    """Carry out the methods of `orders` until standard input ends."""
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(getattr(orders, name)(*arguments)), flush=True)


class Memory:
    def trace(self) -> None:
        """Let `memory` count Python's allocations from now on."""
        tracemalloc.start()

    def memory(self) -> dict[str, int]:
        """Return bytes: resident, after free memory was given back, and allocated by Python code (0 without `trace`)."""
        gc.collect()
        return {"resident": resident(), "allocated": tracemalloc.get_traced_memory()[0]}


class Process:
    def __init__(self, module: str, *words: object) -> None:
        self.name = " ".join([module, *map(str, words[:1])])
        command = [sys.executable, "-m", module, *map(str, words)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait(10)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):  # `close` writes the remaining bytes of an order that was interrupted
                stream.close()

    def begin(self, name: str, *arguments: Any) -> None:
        """Do not wait; the next call must be `answer`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps([name, *arguments]) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise Failed(f"{self.name} ended before {name!r}; its output is above") from error

    def answer(self, longest: float = LONGEST_S) -> Any:
        """Failed if the process ends first, or takes more than `longest` seconds."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], longest)
        if not ready:
            raise Failed(f"{self.name} did not answer within {longest:g} s")
        line = self._process.stdout.readline()
        if not line:
            raise Failed(f"{self.name} ended; its output is above")
        return json.loads(line)

    def ask(self, name: str, *arguments: Any) -> Any:
        self.begin(name, *arguments)
        return self.answer()
