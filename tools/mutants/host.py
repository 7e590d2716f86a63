"""Runs tests against many mutations of functions in one process: pytest collects once, and each mutation is put into a forked child.

Invariant: a child runs the same code as a new process would. A mutation inside a function changes only the code of that function object, so
a replaced `__code__` has the same effect as an import of the changed module. Any other mutation is refused, and needs a new process.

`python -m tools.mutants.host JOBS OUT TEST…`: JOBS is a JSON list of [file, changed source, tests near it]; OUT gets one JSON line for
each job as it ends: [number, fate, test or reason, number of tests, seconds]. The first line has number -1: it is about all tests without a
mutation; their run records the functions that each unit test calls. A mutation is judged by the tests that call its function, near tests
first, and then by all tests marked `simulation`, until one fails.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest
from _pytest.main import pytest_runtestloop

__all__ = ["Host", "changed_functions"]

Key = tuple[str, str, int]  # file, qualified name, first line
KILLED, SURVIVED, REFUSED = "killed", "survived", "refused"
CHILDREN = 2  # children at a time
LONGEST_S = 600.0  # seconds for all tests of one mutation
SIMULATION_S = 300  # seconds for one test of the simulation
ONE_TEST_S = 30  # seconds for any other test: a test that hangs with a mutation fails
QUICK_S = 0.5  # seconds: tests that take longer run after quick ones
MEMORY = 6 << 30  # bytes of address space of a child: a mutation may allocate without end


def key_of(code: CodeType) -> Key:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def runs_at_import(code: CodeType) -> bool:
    """Whether the code is the body of a module or a class."""
    return not code.co_flags & CO_OPTIMIZED


def nested(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def own(code: CodeType) -> tuple[object, ...]:
    """The code of a body itself, without the functions and classes in it."""
    return code.co_code, code.co_names, [None if isinstance(c, CodeType) else (type(c), c) for c in code.co_consts]


def changed_functions(before: CodeType, after: CodeType) -> list[tuple[CodeType, CodeType]] | None:
    """The outermost functions that differ: (before, after). None if code that runs at import differs."""
    inside, others = nested(before), nested(after)
    if own(before) != own(after) or len(inside) != len(others):
        return None
    changed: list[tuple[CodeType, CodeType]] = []
    for old, new in zip(inside, others, strict=True):
        if runs_at_import(old):
            deeper = changed_functions(old, new)
            if deeper is None:
                return None
            changed += deeper
        elif old != new:
            changed.append((old, new))
    return changed


def outermost(code: CodeType, into: dict[Key, Key], top: Key | None = None) -> dict[Key, Key]:
    """The outermost function of each function in a module, lambdas and comprehensions included."""
    for inner in nested(code):
        owner = top or (None if runs_at_import(inner) else key_of(inner))
        if owner is not None:
            into[key_of(inner)] = owner
        outermost(inner, into, owner)
    return into


class Host:
    """Takes over pytest's loop, and runs the collected tests in children."""

    def __init__(self, jobs: Sequence[tuple[str, str, list[str]]], out: Path) -> None:
        self.jobs, self.out = jobs, out
        self.failed: str | None = None
        self.calls: dict[Key, set[str]] = defaultdict(set)
        self.seconds: dict[str, float] = {}
        self.running: Callable[[str], None] = lambda nodeid: None

    # -- pytest's hooks

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.running(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed and self.failed is None:
            self.failed = report.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for item in session.items:
            if item.get_closest_marker("simulation"):
                item.own_markers.insert(0, pytest.mark.timeout(SIMULATION_S).mark)
        self.always = [item for item in session.items if item.get_closest_marker("simulation")]
        self.items = [item for item in session.items if item not in self.always]
        files = {file for file, _, _ in self.jobs}
        self.sources = {str(Path(file).resolve()): Path(file).read_text() for file in files}
        self.owners: dict[Key, Key] = {}
        for file, source in self.sources.items():
            outermost(compile(source, file, "exec"), self.owners)
        if self.learn(session):
            self.serve(session)
        return True

    # -- without a mutation

    def learn(self, session: pytest.Session) -> bool:
        """Run all tests once, and record the functions that unit tests call. False if a test fails."""
        path = self.out.with_suffix(".calls")
        pid = os.fork()
        if pid == 0:
            self.in_child(lambda: self.record(session, path))
        _, status = os.waitpid(pid, 0)
        learnt: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"failed": "pytest ended", "calls": [], "seconds": {}}
        self.calls.update({tuple(key): set(tests) for key, tests in learnt["calls"]})
        self.seconds = learnt["seconds"]
        self.tell(-1, SURVIVED if not learnt["failed"] and status == 0 else KILLED, learnt["failed"], len(session.items), 0.0)
        return not learnt["failed"] and status == 0

    def record(self, session: pytest.Session, path: Path) -> None:
        seen: set[Key] = set()

        def look(frame: FrameType, event: str, argument: object) -> None:
            if frame.f_code.co_filename in self.sources:
                seen.add(key_of(frame.f_code))

        def started(nodeid: str) -> None:
            seen.clear()
            current.append(nodeid)

        def ended() -> None:
            for key in list(seen):
                self.calls[self.owners.get(key, key)].add(current[-1])

        current: list[str] = []
        session.config.option.maxfail = 1
        session.config.pluginmanager.register(After(ended))
        self.running = started
        threading.settrace(look)
        sys.settrace(look)
        self.run(session, self.items)
        sys.settrace(None)
        if self.failed is None:
            self.run(session, self.always)
        learnt = {"failed": self.failed, "calls": [(key, sorted(tests)) for key, tests in self.calls.items()], "seconds": self.seconds}
        path.write_text(json.dumps(learnt))

    def run(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        session.items = items
        if items:
            try:
                pytest_runtestloop(session)
            except session.Failed:
                pass

    # -- with a mutation

    def serve(self, session: pytest.Session) -> None:
        """At most CHILDREN run at a time."""
        functions: dict[Key, list[FunctionType]] = defaultdict(list)
        for thing in gc.get_objects():
            if type(thing) is FunctionType and thing.__code__.co_filename in self.sources:
                functions[key_of(thing.__code__)].append(thing)
        children: dict[int, tuple[int, float, int]] = {}
        waiting = list(enumerate(self.jobs))
        while waiting or children:
            while waiting and len(children) < CHILDREN:
                number, (file, changed, near) = waiting.pop(0)
                found = self.swaps(str(Path(file).resolve()), changed, functions)
                if not found:
                    self.tell(number, REFUSED, "not inside one function", 0, 0.0)
                    continue
                tests = self.tests_of(found, tuple(near))
                pid = os.fork()
                if pid == 0:
                    self.in_child(partial(self.judge, session, number, found, tests))
                children[pid] = (number, time.monotonic(), len(tests))
            self.reap(children)

    def swaps(self, file: str, changed: str, functions: dict[Key, list[FunctionType]]) -> list[tuple[FunctionType, CodeType]]:
        """Empty if other code changes as well, or if no function object has the changed code."""
        pairs = changed_functions(compile(self.sources[file], file, "exec"), compile(changed, file, "exec"))
        found: list[tuple[FunctionType, CodeType]] = []
        for old, new in pairs or ():
            mine = functions[key_of(old)]
            if not mine or len(old.co_freevars) != len(new.co_freevars):
                return []
            found += [(function, new) for function in mine]
        return found

    def tests_of(self, found: list[tuple[FunctionType, CodeType]], near: tuple[str, ...]) -> list[pytest.Item]:
        """Near and quick tests come first, the simulation last."""
        wanted = {nodeid for function, _ in found for nodeid in self.calls[key_of(function.__code__)]}
        mine = [item for item in self.items if item.nodeid in wanted]
        return sorted(mine, key=lambda item: (not item.nodeid.startswith(near), self.seconds[item.nodeid] > QUICK_S)) + self.always

    def judge(self, session: pytest.Session, number: int, found: list[tuple[FunctionType, CodeType]], tests: list[pytest.Item]) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        running = self.out.with_suffix(f".{number}")
        self.running = lambda nodeid: (running.write_text(nodeid), None)[1]
        for function, code in found:
            function.__code__ = code
        session.config.option.maxfail = 1
        self.run(session, tests)
        running.write_text(self.failed or "")

    def reap(self, children: dict[int, tuple[int, float, int]]) -> None:
        pid, status = os.waitpid(-1, os.WNOHANG)
        now = time.monotonic()
        if pid == 0:
            for late, (_, began, _) in children.items():
                if now - began > LONGEST_S:
                    os.kill(late, signal.SIGKILL)
            time.sleep(0.05)
        elif pid in children:
            number, began, ran = children.pop(pid)
            running = self.out.with_suffix(f".{number}")
            test = running.read_text() if running.exists() else "before the first test"
            if status:
                test += " (it hung, or the interpreter ended)"
            self.tell(number, KILLED if test else SURVIVED, test, ran, now - began)

    # -- both

    def in_child(self, work: Callable[[], None]) -> None:
        status = 1
        try:
            work()
            status = 0
        finally:
            sys.stderr.flush()
            os._exit(status)

    def tell(self, *line: Any) -> None:
        with self.out.open("a") as out:
            out.write(json.dumps(line) + "\n")


class After:
    """Calls a function at the end of each test, its fixtures included."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._ended()


def main(arguments: Sequence[str]) -> int:
    jobs, out, *tests = arguments
    options = ["-q", "-s", "-m", "not (cluster or spark)", "-p", "no:cacheprovider", "--no-header", "--tb=no", f"--timeout={ONE_TEST_S}"]
    return int(pytest.main([*options, *tests], plugins=[Host(json.loads(Path(jobs).read_text()), Path(out))]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
