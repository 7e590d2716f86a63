"""Runs mutants in copies of the tree, two at a time.

Invariant: a mutant that makes a test fail counts as killed only if that test passes without the mutant. Tests that hang, crash or, with a
drawn mutant, cannot be imported are not repeated.
"""

from __future__ import annotations

import enum
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs

from tools.mutants.mutant import ROOT, Mutant

WORKERS = 2
LONGEST_S = 900.0  # seconds for the tests of one mutant
ONE_TEST_S = 120  # seconds; a test that hangs with a mutant fails
PATIENCE = "8"  # seconds that a test waits for an event that should come at once; with a bug the event often never comes
SCHEDULES = "100"  # schedules of the simulation, for a drawn mutation that no unit test noticed; a tenth of that for consumers
MEMORY = 6 << 30  # bytes of address space for the tests of one mutant: a bug may allocate without end
BUILD_S = 900.0  # seconds for the build of the extensions
SWITCH = "PYKAFKA4_MUTANT"  # the environment variable with the number of the compiled mutant that is on
HEADERS = re.compile(r"^cdef extern from ", re.MULTILINE)  # NUMBER comes before the headers, which may have mutants, too
NUMBER = f'''cdef extern from *:
    """
    #include <stdlib.h>
    static int mutant_on;
    __attribute__((constructor)) static void read_mutant_on(void) {{
        const char *number = getenv("{SWITCH}");
        mutant_on = number ? atoi(number) : 0;
    }}
    """
    int mutant_on

'''
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


class Fate(enum.Enum):
    KILLED = "killed"
    SURVIVED = "SURVIVED"
    BROKEN = "BROKEN"  # no verdict: pytest ran no test or took too long, or the test fails without the mutant, too


@attrs.frozen
class Verdict:
    mutant: Mutant
    fate: Fate
    detail: str
    seconds: float


class Tree:
    """A copy of the working tree, which has at most one mutant at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of(cls, source: Path, folder: Path) -> Tree:
        """Copy the files of a working tree, its built extensions among them."""
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=source, capture_output=True, text=True, check=True).stdout.splitlines()
        built = [str(path.relative_to(source)) for path in (source / "pykafka4").rglob("*.so")]
        for name in [*listed, *built]:
            if (source / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source / name, folder / name)
        return cls(folder)

    def copy(self, folder: Path) -> Tree:
        shutil.copytree(self.folder, folder)
        return Tree(folder)

    def write(self, name: str, text: str) -> None:
        """Delete the source's bytecode, too, which Python would use if size and time (in seconds) are unchanged."""
        path = self.folder / name
        path.write_text(text)
        for cached in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            cached.unlink()

    def test(self, tests: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
        options = [
            "-x",
            "-q",
            "-m",
            "not (cluster or spark)",
            "-p",
            "no:cacheprovider",
            "--no-header",
            "--tb=line",
            f"--timeout={ONE_TEST_S}",
        ]
        return self.run([sys.executable, "-m", "pytest", *options, *tests], **environment)

    def environment(self) -> dict[str, str]:
        """The package of the tree comes before the installed one."""
        ours = {"PYTHONPATH": str(self.folder), "PYKAFKA4_SIM_SCHEDULES": SCHEDULES, "PYKAFKA4_NO_SHRINKING": "yes"}
        return {"PYKAFKA4_TEST_SECONDS": PATIENCE, **os.environ, **ours}

    def imports(self) -> bool:
        return self.run([sys.executable, "-c", "import pykafka4.spark, pykafka4.testing"]).returncode == 0

    def run(self, command: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
        """After LONGEST_S, kills the command with the processes that it has started, and raises TimeoutExpired."""
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env={**self.environment(), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with process:
            if hasattr(resource, "prlimit"):
                resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
            try:
                out, err = process.communicate(timeout=LONGEST_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return subprocess.CompletedProcess(command, process.returncode, out, err)


def judged(mutant: Mutant, done: subprocess.CompletedProcess[str], seconds: float) -> Verdict:
    failed = FAILED.findall(done.stdout)
    if done.returncode == 0:
        return Verdict(mutant, Fate.SURVIVED, f"{len(mutant.tests)} tests or modules passed with it", seconds)
    died = done.returncode in (-11, -6) or (done.returncode == 1 and "Timeout" in done.stdout + done.stderr)
    if failed and (done.returncode == 1 or (done.returncode == 2 and mutant.drawn)):
        return Verdict(mutant, Fate.KILLED, failed[0], seconds)
    if died:  # pytest-timeout ends the process, or the interpreter died of the bug
        return Verdict(mutant, Fate.KILLED, "a test that hung or crashed", seconds)
    last = (done.stdout + done.stderr).strip().splitlines()[-6:]
    return Verdict(mutant, Fate.BROKEN, f"pytest ended with {done.returncode}: " + " | ".join(last), seconds)


def run_one(tree: Tree, mutant: Mutant) -> Verdict:
    """Put the mutant in, run its tests, and take it out. A compiled mutant is in the build already, and is only switched on."""
    began = time.monotonic()
    source = (tree.folder / mutant.file).read_text()
    switch = {SWITCH: str(mutant.number)} if mutant.number else {}
    if not mutant.number:
        tree.write(mutant.file, mutant.new)
    try:
        verdict = judged(mutant, tree.test(mutant.tests, **switch), time.monotonic() - began)
        if verdict.fate is Fate.SURVIVED and mutant.otherwise:
            verdict = judged(mutant, tree.test(mutant.otherwise, **switch), time.monotonic() - began)
        if verdict.fate is Fate.BROKEN and mutant.drawn and not tree.imports():
            return attrs.evolve(verdict, fate=Fate.KILLED, detail="every test: the package cannot be imported")
    except subprocess.TimeoutExpired:
        fate = Fate.KILLED if mutant.drawn else Fate.BROKEN
        return Verdict(mutant, fate, f"its tests took more than {LONGEST_S:g} s", LONGEST_S)
    finally:
        if not mutant.number:
            tree.write(mutant.file, source)
    if verdict.fate is Fate.KILLED and "::" in verdict.detail and tree.test([verdict.detail]).returncode:
        return attrs.evolve(verdict, fate=Fate.BROKEN, detail=f"{verdict.detail} fails without it, too")
    return verdict


def build(tree: Tree, compiled: Sequence[Mutant]) -> None:
    """All compiled mutants are in one build."""
    for mutant in compiled:  # the last one of a file has all of them
        tree.write(mutant.file, mutant.new)
    for path in (tree.folder / "pykafka4").rglob("*.pyx"):
        path.write_text(HEADERS.sub(lambda head: NUMBER + head[0], path.read_text(), count=1))
    for old in (tree.folder / "pykafka4").rglob("*.so"):
        old.unlink()
    done = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=tree.folder,
        env={**os.environ, "PYKAFKA4_BUILD_EXTENSION": "yes"},
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"the extensions with the compiled mutants do not build:\n{(done.stdout + done.stderr)[-3000:]}")


def survey(mutants: Sequence[Mutant], tell: Callable[[Verdict], None]) -> list[Verdict]:
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        first = Tree.of(ROOT, Path(folder, "0"))
        if compiled := [mutant for mutant in mutants if mutant.number]:
            build(first, compiled)
        free, lock = [first, *(first.copy(Path(folder, str(n))) for n in range(1, WORKERS))], threading.Lock()

        def work(mutant: Mutant) -> Verdict:
            with lock:
                tree = free.pop()
            try:
                verdict = run_one(tree, mutant)
            finally:
                with lock:
                    free.append(tree)
            tell(verdict)
            return verdict

        with ThreadPoolExecutor(WORKERS) as pool:
            return list(pool.map(work, mutants))
