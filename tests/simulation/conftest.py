"""Simulations are quiet, and say at the end of the run what they reached."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

TOLD = pytest.StashKey[list[str]]()


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def tell(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """A line for the summary, which is shown whatever is captured."""
    return pytestconfig.stash.setdefault(TOLD, []).append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(TOLD, []):
        terminalreporter.write_line(line)
