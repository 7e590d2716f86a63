"""Decides what runs where, and gives tests real brokers.

Invariant: a test that breaks a broker mends it, or fails; the next one finds the cluster whole. What is not run is reported with the reason
and with the command that runs it.
"""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import re
import uuid
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from integration.backends import BACKENDS, backend, chosen, proxied
from integration.cluster import Cluster
from integration.faults.proxied import Proxied
from integration.host import prerequisites
from integration.kafka import jars
from integration.security import kerberos
from integration.security.settings import Security
from pykafka4.client.client import Client
from pykafka4.client.runtime import ANSWERED
from pykafka4.testing import ModelServer
from tests.failures import Failures

HERE = Path(__file__).parent
if importlib.util.find_spec("hypothesis"):
    from hypothesis import Phase, settings

    settings.register_profile("patient", deadline=None)  # on a busy machine any example may take long
    settings.load_profile("patient")
    if os.environ.get("PYKAFKA4_NO_SHRINKING"):  # `make mutants` wants to know whether, not why
        settings.register_profile("whether", phases=[Phase.explicit, Phase.reuse, Phase.generate])
        settings.load_profile("whether")
LOGS = HERE.parent / "build" / "logs"
CLUSTERS = ("cluster", "proxied_cluster")
FAILED = pytest.StashKey[bool]()
LEFT_OUT = pytest.StashKey[Counter[str]]()

# What a plain `pytest` leaves out; a test counts for the first marker that it has.
TARGETS = {
    "chaos": "make chaos",
    "storm": "make storm",
    "compat": "make compat",
    "docker": "make test-docker",
    "vagrant": "make test-vagrant",
    "kerberos": "make test-kerberos",
    "harness": "make test-harness",
    "lengthy": "make test-long test-spark",
    "spark": "make integration",
    "cluster": "make integration",
    "controls": "make mutants",
    "simulation": "make simulated",
}
# Where tests with these markers may be: the Makefile's targets collect only these files.
PLACES = {
    "simulation": ("tests/simulation/", "tests/agent/test_an_hour_without_brokers.py"),
    "cluster": (
        *(
            "tests/integration/",
            "tests/spark/",
            "tests/agent/cluster/",
            "tests/conformance/",
            "tests/docs/test_pages.py",
            "tests/packaging/test_packaging.py",
        ),
        *("tests/test_examples.py", "tests/test_examples_of_groups.py"),
    ),
}
# Folders whose modules cannot even be imported without these packages.
NEEDED = {
    "tests/harness": ("docker", "psutil", "trustme"),
    "tests/integration": ("psutil",),
    "tests/compat": ("psutil",),
    "tests/spark": ("pyspark", "pyarrow", "psutil"),
    "tests/simulation": ("greenlet",),
    "tests/docs": ("sybil",),
}


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    if not pluginmanager.hasplugin("timeout"):  # without pytest-timeout its settings in pyproject.toml have no effect, but are no error
        parser.addini("timeout", "no effect without pytest-timeout")
        parser.addini("timeout_method", "no effect without pytest-timeout")
    parser.addoption("--cluster", choices=list(BACKENDS), default=chosen(), help="where brokers run (default: $CLUSTER or local)")
    parser.addoption("--security", choices=["SSL", "SASL_SSL", "SASL_PLAINTEXT"], help="what brokers demand of clients (default: nothing)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "model(topics, **options): topics and options of the fixture `server`")
    config.addinivalue_line("markers", "timeout(seconds): longest time of one test (pytest-timeout)")
    config.stash[LEFT_OUT] = Counter()
    config.pluginmanager.register(Failures(config))


def defaults(config: pytest.Config) -> bool:
    """Whether the marker expression is the one of pyproject.toml, that is, no `-m` was given."""
    return config.option.markexpr in config.getini("addopts")


def pytest_report_header(config: pytest.Config) -> list[str]:
    if not defaults(config):
        return []
    return [f"left out without -m: tests marked {', '.join(TARGETS)} (-m cluster runs those of a marker, -m '' runs everything)"]


@functools.cache
def lacking(place: str) -> str:
    """The packages that a folder's tests need and that are not installed."""
    return ", ".join(name for name in NEEDED[place] if importlib.util.find_spec(name) is None)


def place_of(path: Path) -> str | None:
    return next((place for place in NEEDED if path.is_relative_to(HERE.parent / place)), None)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    place = place_of(collection_path)
    return True if place and collection_path.suffix == ".py" and lacking(place) else None


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        kind = next((name for name in TARGETS if item.get_closest_marker(name)), None)
        if kind:
            item.config.stash[LEFT_OUT][kind] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if defaults(config):
        for name, count in config.stash[LEFT_OUT].items():
            terminalreporter.write_line(f"left out: {count} {name} tests; run them with `{TARGETS[name]}`, or with -m {name}")
    for place in NEEDED:
        if lacking(place):
            terminalreporter.write_line(f"left out: {place}, which needs {lacking(place)}; pip install -e '.[test,dev]'")


@functools.cache
def obstacle(kind: str) -> str:
    """Why tests that need brokers (or only their jars) cannot run on this machine; empty when they can."""
    java = "" if kind == "jars" else prerequisites.missing_java()
    return java or jars.absent()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Real brokers need a JDK and the jars: without them a test is skipped, and says why, before any fixture starts something."""
    if item.get_closest_marker("kerberos") and (lines := kerberos.missing()):
        pytest.skip("; ".join(lines))
    kinds = {"cluster": "java", "kerberos": "java", "compat": "java", "java": "java", "jars": "jars"}
    for marker, kind in kinds.items():
        if item.get_closest_marker(marker) and (reason := obstacle(kind)):
            pytest.skip(reason)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that need an operation which the backend lacks, or that are about another backend, say so and are skipped."""
    name: str = config.getoption("--cluster")
    for item in items:
        require_place(item)
        for reason in reasons(item, name):
            item.add_marker(pytest.mark.skip(reason=reason))


def require_place(item: pytest.Item) -> None:
    for marker, places in PLACES.items():
        if not item.nodeid.startswith(places) and item.get_closest_marker(marker) and not item.get_closest_marker("harness"):
            raise pytest.UsageError(f"{item.nodeid}: no target of the Makefile runs it; {marker} tests are in {', '.join(places)}")


def reasons(item: pytest.Item, name: str) -> Iterator[str]:
    for mark in item.iter_markers("needs"):
        for operation in mark.args:
            if operation in backend(name).lacks:
                yield f"the {name} backend has no {operation}: {backend(name).lacks[operation]}"
    for mark in item.iter_markers("backend"):
        if name not in mark.args:
            yield f"about the {mark.args[0]} backend itself; this run is on {name}"


def demands(config: pytest.Config) -> dict[str, Security]:
    """Arguments for a cluster that demands what --security names."""
    protocol = config.getoption("--security")
    return {} if protocol is None else {"security": Security(protocol)}


@pytest.fixture(scope="session")
def demanded(request: pytest.FixtureRequest) -> dict[str, Security]:
    """The same for a test that makes a cluster of its own."""
    return demands(request.config)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three brokers for the whole session, on the backend that --cluster names."""
    with backend(request.config.getoption("--cluster"))(**demands(request.config)) as brokers:
        yield brokers


@pytest.fixture(scope="session")
def proxied_cluster(request: pytest.FixtureRequest) -> Iterator[Proxied]:
    """Three brokers, each behind a proxy; faults end with the test."""
    with proxied(request.config.getoption("--cluster"))(**demands(request.config)) as brokers:
        yield brokers


@pytest.fixture(autouse=True)
def unanswered() -> None:
    """No address has answered before this test: a port may have been a broker's in another one."""
    ANSWERED.clear()


@pytest.fixture(scope="module", autouse=True)
def frozen() -> None:
    """What was imported and collected, and what the modules before left, stays: tests that run the garbage collector have it look at their
    own objects only. Otherwise it takes most of the time of the whole run."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[ModelServer]:
    """A model cluster of this test's own. `pytest.mark.model(brokers=1, topics={"t": 2})` sets its options and creates topics."""
    mark = request.node.get_closest_marker("model")
    options = dict(mark.kwargs) if mark else {}
    topics = options.pop("topics", {})
    with ModelServer(**options) as model:
        for name, partitions in topics.items():
            model.create_topic(name, partitions)
        yield model


@pytest.fixture
def client(server: ModelServer) -> Iterator[Client]:
    """A client of the model cluster."""
    with Client(bootstrap_servers=server.bootstrap_servers) as it:
        yield it


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
