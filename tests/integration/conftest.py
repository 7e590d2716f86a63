"""Fixtures for tests on real brokers. Rule: a test that breaks a broker mends it, or fails; the next one finds the cluster whole."""

from __future__ import annotations

import re
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from integration.cluster import Cluster
from integration.local import LocalCluster
from integration.proxy import ProxiedCluster

LOGS = Path(__file__).parents[2] / "build" / "logs"
CLUSTERS = ("cluster", "proxied_cluster")
FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """Three brokers for the whole session."""
    with LocalCluster() as brokers:
        yield brokers


@pytest.fixture(scope="session")
def proxied_cluster() -> Iterator[ProxiedCluster]:
    """Three brokers, each behind a proxy; faults end with the test."""
    with ProxiedCluster() as brokers:
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
    used: list[Cluster] = [request.getfixturevalue(name) for name in CLUSTERS if name in request.fixturenames]
    yield
    broken = {cluster: cluster.broken() for cluster in used}
    if request.node.stash.get(FAILED, False) or any(broken.values()):
        for cluster in used:
            kept = cluster.keep_logs(folder_of(request.node.nodeid, cluster))
            request.node.add_report_section("teardown", "brokers' logs", str(kept))
    for cluster in used:
        if isinstance(cluster, ProxiedCluster):
            cluster.heal_proxies()
        if broken[cluster]:
            cluster.heal()
    left = [line for lines in broken.values() for line in lines]
    if left:
        pytest.fail(f"this test left {', '.join(left)}; the cluster was healed for the next one")


def folder_of(test: str, cluster: Cluster) -> Path:
    return LOGS / re.sub(r"[^A-Za-z0-9._-]+", "-", test)[-120:] / type(cluster).__name__
