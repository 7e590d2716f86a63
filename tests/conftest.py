"""Fixtures for tests on real brokers. Rule: a test that breaks a broker mends it, or fails; the next one finds the cluster whole."""

from __future__ import annotations

import re
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from integration.backends import BACKENDS, backend, chosen, proxied
from integration.cluster import Cluster
from integration.proxied import Proxied

LOGS = Path(__file__).parents[1] / "build" / "logs"
CLUSTERS = ("cluster", "proxied_cluster")
FAILED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cluster", choices=list(BACKENDS), default=chosen(), help="where brokers run (default: $CLUSTER or local)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that need an operation which the backend lacks, or that are about another backend, say so and are skipped."""
    name: str = config.getoption("--cluster")
    for item in items:
        for reason in reasons(item, name):
            item.add_marker(pytest.mark.skip(reason=reason))


def reasons(item: pytest.Item, name: str) -> Iterator[str]:
    for mark in item.iter_markers("needs"):
        for operation in mark.args:
            if operation in backend(name).lacks:
                yield f"the {name} backend has no {operation}: {backend(name).lacks[operation]}"
    for mark in item.iter_markers("backend"):
        if name not in mark.args:
            yield f"about the {mark.args[0]} backend itself; this run is on {name}"


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three brokers for the whole session, on the backend that --cluster names."""
    with backend(request.config.getoption("--cluster"))() as brokers:
        yield brokers


@pytest.fixture(scope="session")
def proxied_cluster(request: pytest.FixtureRequest) -> Iterator[Proxied]:
    """Three brokers, each behind a proxy; faults end with the test."""
    with proxied(request.config.getoption("--cluster"))() as brokers:
        yield brokers


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of this test's own; nothing has created it."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", request.node.name)[:80]
    return f"{name}-{uuid.uuid4().hex[:8]}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember that a test failed, so that its fixtures know when they end."""
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture(autouse=True)
def whole(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test: logs kept when it failed, faults ended, and every broker up, healed and reported when one was not."""
    named = [request.getfixturevalue(name) for name in CLUSTERS if name in request.fixturenames]
    used = [it for it in named if isinstance(it, Cluster)]  # a test may have a fixture of its own by that name
    yield
    broken = {cluster: cluster.broken() for cluster in used}
    if request.node.stash.get(FAILED, False) or any(broken.values()):
        for cluster in used:
            kept = cluster.keep_logs(folder_of(request.node.nodeid, cluster))
            request.node.add_report_section("teardown", "brokers' logs", str(kept))
    for cluster in used:
        if isinstance(cluster, Proxied):
            cluster.heal_proxies()
        if broken[cluster]:
            cluster.heal()
    left = [line for lines in broken.values() for line in lines]
    if left:
        pytest.fail(f"this test left {', '.join(left)}; the cluster was healed for the next one")


def folder_of(test: str, cluster: Cluster) -> Path:
    return LOGS / re.sub(r"[^A-Za-z0-9._-]+", "-", test)[-120:] / type(cluster).__name__
