"""Runs targets of the Makefile side by side. Invariant: the run fails only if a target fails in its lane, and then fails again alone.

    python -m tools.lanes unit simulated+secured      # two lanes; the second lane runs its two targets one after the other

While other lanes run, a test can fail because the processor is busy. So the failed tests of a target run again when all lanes have ended.
The report names such tests even if they pass then: a test that many reports name has a fault. If SIGTERM or Ctrl-C ends the lanes, the
report is printed, too.
"""

from __future__ import annotations

import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

ALONE = "-n 0 --last-failed --last-failed-no-failures none"
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$|^(\S+::.+): (?:setup|call|teardown) failed$")  # in the summary, or at once
WHOLE = ""  # the options of a second run with all tests: after a crash some tests have not run, and are not listed as failed
CRASHED = re.compile(r"crashed while running|crashed workers reached")
LIMIT_S = 4200  # seconds for the first run of a target, which may hang; on a slow machine `integration` takes twice the usual time
AGAIN_S = 900  # seconds for the second run of a target: CI ends the whole run after 5,400 s, and a run that CI ends may have no report
OUTPUT = threading.Lock()


@dataclass
class Run:
    target: str
    passed: bool = False
    crashed: bool = False
    seconds: float = 0.0
    failed: list[str] = field(default_factory=list)

    def __call__(self, prefix: str, limit_s: int = LIMIT_S, more: str = "") -> bool:
        began = time.monotonic()
        command = ["timeout", "--kill-after=30", str(limit_s), "make", "--no-print-directory", self.target, f"MORE={more}"]
        done = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        assert done.stdout is not None
        for line in done.stdout:
            if (found := FAILED.match(line)) and (test := (found[1] or found[2]).strip()) not in self.failed:
                self.failed.append(test)
            self.crashed = self.crashed or CRASHED.search(line) is not None
            with OUTPUT:
                print(f"{prefix} | {line}", end="", flush=True)
        self.passed = done.wait() == 0
        self.seconds = time.monotonic() - began
        return self.passed

    def line(self) -> str:
        return f"{'passed' if self.passed else 'FAILED'}  {self.target}, {self.seconds:.0f} s"


def lane(runs: Sequence[Run], width: int) -> None:
    for run in runs:
        run(run.target.ljust(width))


def side_by_side(lanes: Sequence[Sequence[Run]], width: int) -> None:
    threads = [threading.Thread(target=lane, args=(runs, width), daemon=True) for runs in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(1.0)


def report(first: Sequence[Run], second: Sequence[Run], seconds: float) -> None:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"\n== {seconds:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of CPU")
    for run in first:
        print(run.line())
        for test in run.failed:
            print(f"    {test}")
    for run in second:
        print(f"{run.line()}: alone, after the others")
        for test in run.failed:
            print(f"    {test}")


def main(arguments: Sequence[str]) -> int:
    began = time.monotonic()
    lanes = [[Run(target) for target in argument.split("+")] for argument in arguments]
    first = [run for runs in lanes for run in runs]
    width = max(len(run.target) for run in first)
    try:
        side_by_side(lanes, width)
    except KeyboardInterrupt:
        report(first, (), time.monotonic() - began)
        raise
    failed = [run for run in first if not run.passed]
    second = [Run(run.target) for run in failed]
    for before, run in zip(failed, second):
        print(f"\n== {run.target}: {'all' if before.crashed else 'its failed'} tests run again, alone", flush=True)
        run(run.target.ljust(width), AGAIN_S, WHOLE if before.crashed else ALONE)
    report(first, second, time.monotonic() - began)
    return 0 if all(run.passed for run in second) else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a time limit around the run sends it: print the report, as after Ctrl-C
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:  # the lanes need no signal: the terminal sends Ctrl-C to them, too
        sys.exit(130)
