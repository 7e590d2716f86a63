"""Judges drawn mutations: mutations inside functions in the children of one process (`tools.mutants.host`), other mutations one by one.

Invariant: a mutation in the host gets a verdict only if all tests pass without it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tools.mutants.mutant import ROOT, Mutant
from tools.mutants.run import Fate, Tree, Verdict, survey

__all__ = ["judge_all"]

LOOK_S = 0.5  # seconds between two reads of the host's output


def judge_all(mutants: Sequence[Mutant], tell: Callable[[Verdict], None]) -> list[Verdict]:
    """Call `tell` with each verdict at once. SystemExit if a test fails without a mutation."""
    if not mutants:
        return []
    verdicts: list[Verdict] = []

    def settle(verdict: Verdict) -> None:
        verdicts.append(verdict)
        tell(verdict)

    with TemporaryDirectory(prefix="drawn-") as folder:
        tree = Tree.of(ROOT, Path(folder, "tree"))
        refused = []
        for number, fate, detail, ran, seconds in hosted(tree, mutants, Path(folder)):
            if number < 0:
                if fate != Fate.KILLED.value:
                    continue
                raise SystemExit(f"a test fails without any mutation, so it shows nothing: {detail}")
            if fate == "refused":
                refused.append(mutants[number])
            elif fate == Fate.KILLED.value:
                settle(Verdict(mutants[number], Fate.KILLED, detail, seconds))
            else:
                settle(Verdict(mutants[number], Fate.SURVIVED, f"{ran} tests passed with it", seconds))
    return verdicts + (survey(refused, tell) if refused else [])


def hosted(tree: Tree, mutants: Sequence[Mutant], folder: Path) -> Iterator[list[Any]]:
    jobs, out, log = folder / "jobs", folder / "out", folder / "log"
    jobs.write_text(json.dumps([(mutant.file, mutant.new, mutant.tests) for mutant in mutants]))
    out.touch()
    tests = dict.fromkeys(test for mutant in mutants for test in mutant.otherwise)
    command = [sys.executable, "-m", "tools.mutants.host", str(jobs), str(out), *tests]
    with log.open("w") as output, subprocess.Popen(command, cwd=tree.folder, env=tree.environment(), stdout=output, stderr=output) as host:
        told, ended = 0, False
        while not ended:
            ended = host.poll() is not None
            lines = out.read_text().splitlines()
            yield from (json.loads(line) for line in lines[told:])
            told = len(lines)
            if not ended:
                time.sleep(LOOK_S)
    if told < 1 + len(mutants):
        raise SystemExit(f"the host of the tests ended with {host.returncode} after {told - 1} mutations:\n{log.read_text()[-3000:]}")
