"""Fixtures for tests on old brokers. Rule: one cluster at a time, the tests of a release together; start-up times are printed last."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from integration.local.cluster import LocalCluster
from tests.compat.old_releases import REPLICATED

STARTED = pytest.StashKey[dict[str, float]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STARTED] = {}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = config.stash[STARTED]
    if rows:
        terminalreporter.section("start-up of old brokers")
        for name, seconds in rows.items():
            terminalreporter.write_line(f"{name}: {seconds:.1f} s")


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """A broker of the release that the test's module names: three of them where it says so."""
    version: str = request.param
    brokers = 3 if version.endswith(REPLICATED) else 1
    began = time.monotonic()
    with LocalCluster(brokers, version.removesuffix(REPLICATED)) as old:
        took = time.monotonic() - began
        name = f"{brokers} broker{'s' * (brokers > 1)} of {old.version} and a ZooKeeper"
        request.config.stash[STARTED][name] = took
        yield old
