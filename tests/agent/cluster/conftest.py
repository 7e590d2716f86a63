"""Agents of a test's own, whose folders have short paths: a UNIX socket's path has at most 107 bytes."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from integration.agent.process import AgentProcess
from integration.cluster import Cluster

AgentOf: TypeAlias = Callable[..., AgentProcess]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Removed at the end."""
    made = Path(tempfile.mkdtemp(prefix="agent-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def agent(cluster: Cluster, folder: Path) -> Iterator[AgentOf]:
    """Starts an agent of the cluster: `agent(kafka={…}, inputs={…}, spool={…})`; `start=False` leaves that to the test.

    Agents of one test have names.
    """
    with contextlib.ExitStack() as stack:

        def make(kafka: dict[str, Any] | None = None, start: bool = True, name: str = "", **tables: Any) -> AgentProcess:
            made = AgentProcess(folder / name, {**cluster.client, **(kafka or {})}, **tables)
            stack.callback(made.kill)
            if start:
                made.start()
            return made

        yield make
