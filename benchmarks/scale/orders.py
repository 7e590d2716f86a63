"""Orders. Rule: whatever runs in a process of its own does one thing at a time, as it is told, and ends with who told it.

An order is a line of JSON, its name and its arguments; the answer is another. A process that fails ends with its traceback.
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
LONGEST = 600.0  # seconds


class Failed(RuntimeError):
    """A process ended, or did not answer."""


def obey(orders: object) -> None:
    """Carry out the methods of `orders` until standard input ends."""
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(getattr(orders, name)(*arguments)), flush=True)


class Memory:
    """The orders about memory, which every process obeys."""

    def trace(self) -> None:
        """From now on `memory` knows what Python has allocated."""
        tracemalloc.start()

    def memory(self) -> dict[str, int]:
        """Bytes: resident in memory, once what is free is given back; and allocated by Python code (0 without `trace`)."""
        gc.collect()
        return {"resident": resident(), "allocated": tracemalloc.get_traced_memory()[0]}


class Process:
    """`python -m module …`, which obeys."""

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
            with contextlib.suppress(BrokenPipeError):  # what an order had left unwritten
                stream.close()

    def begin(self, name: str, *arguments: Any) -> None:
        """Give an order and do not wait; `answer` is next."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps([name, *arguments]) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise Failed(f"{self.name} ended before {name!r}; its output is above") from error

    def answer(self, longest: float = LONGEST) -> Any:
        """The answer to the order that was begun."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], longest)
        if not ready:
            raise Failed(f"{self.name} did not answer within {longest:g} s")
        line = self._process.stdout.readline()
        if not line:
            raise Failed(f"{self.name} ended; its output is above")
        return json.loads(line)

    def ask(self, name: str, *arguments: Any) -> Any:
        """Give an order and wait for the answer."""
        self.begin(name, *arguments)
        return self.answer()
