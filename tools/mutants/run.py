"""Runs mutants in copies of the tree, two at a time.

Invariant: a mutant of the catalogue counts as killed only if one of its own tests failed, not if pytest could not run.
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
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs

from tools.mutants.mutant import Mutant, Stale

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 2
LONGEST = 900.0  # seconds for the tests of one mutant
ONE_TEST = 120  # seconds; a test that hangs with a mutant fails
PATIENCE = "8"  # seconds that a test waits for what should come at once; a bug often shows by nothing coming
SCHEDULES = "100"  # of the simulation, for a drawn mutation that no unit test noticed; a tenth as many of consumers
MEMORY = 6 << 30  # bytes of address space for the tests of one mutant: a bug may allocate without end
BUILD = 900.0
SWITCH = "PYKAFKA4_MUTANT"  # which compiled mutant is on, by number
# Compiled modules, each with the line before which the number is declared: its own headers come later, and may have mutants, too.
EXTENSIONS = {
    "pykafka4/gil/_gil.pyx": 'cdef extern from "_gil.h" nogil:',
    "pykafka4/net/pump/_pump.pyx": 'cdef extern from "_pump.h" nogil:',
    "pykafka4/wire/records/compiled/_hot.pyx": 'cdef extern from "_plat.h" nogil:',
}
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
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class Fate(enum.Enum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "SURVIVED"
    STALE = "STALE"
    BROKEN = "BROKEN"  # pytest ran no test, or could not import: nothing was shown


@attrs.frozen
class Verdict:
    """A mutant's fate, and what there is to say about it."""

    mutant: Mutant
    fate: Fate
    detail: str
    seconds: float


class Tree:
    """A copy of the tree, in which one mutant is at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of(cls, source: Path, folder: Path) -> Tree:
        """A new copy of the files of a working tree, its built extensions among them."""
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=source, capture_output=True, text=True, check=True).stdout.splitlines()
        built = [str(path.relative_to(source)) for path in (source / "pykafka4").rglob("*.so")]
        for name in [*listed, *built]:
            if (source / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source / name, folder / name)
        return cls(folder)

    def copy(self, folder: Path) -> Tree:
        """The same once more."""
        shutil.copytree(self.folder, folder)
        return Tree(folder)

    def write(self, name: str, text: str) -> None:
        """Change a source; its compiled form may have the same size and second, so it goes."""
        path = self.folder / name
        path.write_text(text)
        for cached in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            cached.unlink()

    def test(self, tests: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
        """pytest in this tree."""
        options = [
            "-x",
            "-q",
            "-m",
            "not (cluster or spark)",
            "-p",
            "no:cacheprovider",
            "--no-header",
            "--tb=line",
            f"--timeout={ONE_TEST}",
        ]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        return self.run(command, **environment)

    def environment(self) -> dict[str, str]:
        """Variables for commands in this tree. Its own package comes before the installed one."""
        ours = {"PYTHONPATH": str(self.folder), "PYKAFKA4_SIM_SCHEDULES": SCHEDULES, "PYKAFKA4_NO_SHRINKING": "yes"}
        return {"PYKAFKA4_TEST_SECONDS": PATIENCE, **os.environ, **ours}

    def imports(self) -> bool:
        """Whether the package can be imported."""
        return self.run([sys.executable, "-c", "import pykafka4.spark, pykafka4.testing"]).returncode == 0

    def run(self, command: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
        """A command in this tree, with the processes that it starts. Raises TimeoutExpired when it does not end."""
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
                out, err = process.communicate(timeout=LONGEST)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return subprocess.CompletedProcess(command, process.returncode, out, err)


def judged(mutant: Mutant, done: subprocess.CompletedProcess[str], seconds: float) -> Verdict:
    """What pytest's exit code means."""
    if done.returncode in (1, -11, -6) or (
        done.returncode == 2 and mutant.drawn and FAILED.search(done.stdout)
    ):  # a test failed, hung (pytest-timeout ends the process so), or the interpreter died of it
        failed = FAILED.findall(done.stdout)
        if done.returncode == 1 and not failed and "Timeout" not in done.stdout + done.stderr:
            return Verdict(mutant, Fate.BROKEN, tail(done), seconds)
        return Verdict(mutant, Fate.KILLED, failed[0] if failed else "a test that hung or crashed", seconds)
    if done.returncode == 0:
        return Verdict(mutant, Fate.SURVIVED, f"{len(mutant.tests)} tests or modules passed with it", seconds)
    return Verdict(mutant, Fate.BROKEN, tail(done), seconds)


def tail(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stdout + done.stderr).strip().splitlines()[-6:]
    return f"pytest ended with {done.returncode}: " + " | ".join(lines)


def run_one(tree: Tree, mutant: Mutant, tests: Sequence[str], on: int) -> Verdict:
    """Put the mutant in, run its tests, take it out. A compiled one is in already, and only switched on."""
    began = time.monotonic()
    if mutant.compiled:
        return judged(mutant, tree.test(tests, **{SWITCH: str(on)}), time.monotonic() - began)
    source = (tree.folder / mutant.file).read_text()
    try:
        changed = mutant.apply(source)
    except Stale as error:
        return Verdict(mutant, Fate.STALE, str(error), 0.0)
    compile(changed, mutant.file, "exec")
    tree.write(mutant.file, changed)
    try:
        verdict = judged(mutant, tree.test(tests), time.monotonic() - began)
        if verdict.fate is Fate.SURVIVED and mutant.otherwise:
            verdict = judged(mutant, tree.test(mutant.otherwise), time.monotonic() - began)
        if verdict.fate is Fate.BROKEN and mutant.drawn and not tree.imports():
            return attrs.evolve(verdict, fate=Fate.KILLED, detail="every test: the package cannot be imported")
        return verdict
    except subprocess.TimeoutExpired:
        fate = Fate.KILLED if mutant.drawn else Fate.BROKEN
        return Verdict(mutant, fate, f"its tests took more than {LONGEST:g} s", LONGEST)
    finally:
        tree.write(mutant.file, source)


def build(tree: Tree, compiled: Sequence[tuple[int, Mutant]]) -> list[Verdict]:
    """Build the extensions once with all compiled mutants in them; those that do not apply are left out and returned."""
    stale = []
    for number, mutant in compiled:
        try:
            tree.write(mutant.file, mutant.apply((tree.folder / mutant.file).read_text(), on=f"(mutant_on == {number})"))
        except Stale as error:
            stale.append(Verdict(mutant, Fate.STALE, str(error), 0.0))
    for name, anchor in EXTENSIONS.items():
        tree.write(name, switched(name, (tree.folder / name).read_text(), anchor))
    for old in (tree.folder / "pykafka4").rglob("*.so"):
        old.unlink()
    environment = {**os.environ, "PYKAFKA4_BUILD_EXTENSION": "yes"}
    done = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=tree.folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=BUILD,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"the extensions with the compiled mutants do not build:\n{(done.stdout + done.stderr)[-3000:]}")
    return stale


def switched(name: str, source: str, anchor: str) -> str:
    """The source of a compiled module, with the number of the mutant that is on. Its C code reads it, too."""
    if source.count(anchor) != 1:
        raise SystemExit(f"{name} lacks the line {anchor!r}, before which the number of the mutant is declared")
    return source.replace(anchor, NUMBER + anchor)


def control(tree: Tree, mutants: Iterable[Mutant]) -> str:
    """What fails without any mutant; empty when all the tests that mutants name pass."""
    tests = sorted({test for mutant in mutants for test in (*mutant.tests, *mutant.otherwise)})
    if not tests:
        return ""
    done = tree.test(tests)
    return "" if done.returncode == 0 else done.stdout[-2000:] + done.stderr[-1000:]


def survey(
    mutants: Sequence[Mutant], tell: Callable[[Verdict], None], find: Sequence[str] = (), *, controlled: bool = True
) -> list[Verdict]:
    """The verdict on every mutant. `find`: run these tests instead of each mutant's own."""
    numbers = {id(mutant): number for number, mutant in enumerate(mutants, 1)}
    compiled = [(numbers[id(mutant)], mutant) for mutant in mutants if mutant.compiled]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        first = Tree.of(ROOT, Path(folder, "0"))
        stale = build(first, compiled) if compiled else []
        trees = [first, *(first.copy(Path(folder, str(n))) for n in range(1, WORKERS))]
        if controlled and (failing := control(first, mutants)):
            raise SystemExit(f"tests fail without any mutant, so they show nothing (PYKAFKA4_TEST_SECONDS={PATIENCE}):\n{failing}")
        free, lock = list(trees), threading.Lock()
        skip = {id(verdict.mutant) for verdict in stale}

        def work(mutant: Mutant) -> Verdict:
            with lock:
                tree = free.pop()
            try:
                verdict = run_one(tree, mutant, find or mutant.tests, numbers[id(mutant)])
            finally:
                with lock:
                    free.append(tree)
            tell(verdict)
            return verdict

        for verdict in stale:
            tell(verdict)
        with ThreadPoolExecutor(WORKERS) as pool:
            return stale + list(pool.map(work, [mutant for mutant in mutants if id(mutant) not in skip]))
