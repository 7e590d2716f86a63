"""The rule of `net/handoff`: the locks of the loop are there, so whoever looks for a deadlock has one folder to read."""

from __future__ import annotations

import ast
from pathlib import Path

import pykafka4

PACKAGE = Path(pykafka4.__file__).parent
KINDS = {"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore"}
THREADS = "net/threads.py"  # the kind of lock that `net/handoff` makes, and the end of a thread
LOGS = "net/logs.py"  # the thread of logging handlers, which is no part of the client's logic
PROCESSING = (
    "consumer/processing/"  # on top of the client: threads of the application wait for each other, and the loop never takes these locks
)
AGENT = "agent/"  # a program on top of the client, and its own client: the loop never takes these locks, either
METRICS = "metrics/"  # of clients, read by threads of the application
PAGES = "pages/"  # servers of the status page, with threads of their own
TESTING = "testing/"  # a broker for tests, with threads of its own


def makes_locks(path: Path) -> bool:
    calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return any(getattr(called, "attr", getattr(called, "id", None)) in KINDS for called in calls)


def test_no_lock_is_made_outside_of_handoff() -> None:
    found = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if makes_locks(path)}
    assert "net/handoff/waiting.py" in found
    assert {file for file in found if not file.startswith(("net/handoff/", PROCESSING, AGENT, METRICS, PAGES, TESTING))} == {LOGS, THREADS}
