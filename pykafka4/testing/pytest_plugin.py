"""Provides the pytest fixture `kafka_server`, a model server for a test. Invariant: a passing test ends in an error if
`ModelServer.unmet` lists a fault, unless the test's marker has unmet="ignore".

pytest loads this plugin automatically (entry point `pytest11`). The marker `kafka_server(brokers=1, release="2.8", unmet="ignore")` of a
test, class or module sets the fixture's options.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from pykafka4.testing.server.model_server import ModelServer

__all__ = ["kafka_server"]

MARKER = (
    "kafka_server(brokers=3, release='4.4', unmet='error', **options): options of the fixture `kafka_server`; "
    "unmet='ignore': ordered faults that never happened are not an error"
)


PASSED = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Store for the fixture whether the test itself passed."""
    report = yield
    if call.when == "call":
        item.stash[PASSED] = report.passed
    return report


@pytest.fixture
def kafka_server(request: pytest.FixtureRequest) -> Iterator[ModelServer]:
    """Kafka brokers on 127.0.0.1 for one test: `Producer(bootstrap_servers=kafka_server.bootstrap_servers)`; see `ModelServer`.

    A test that passed still ends in an error if a fault of `fail`, `delay` or `disconnect` did not happen as often as ordered, unless
    unmet="ignore". Any test ends in an error if the server crashed.
    """
    options: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers("kafka_server"))):  # the marker closest to the test wins
        if mark.args:
            raise pytest.UsageError(f"{request.node.nodeid}: kafka_server takes keyword arguments only, as in kafka_server(brokers=1)")
        options.update(mark.kwargs)
    unmet = options.pop("unmet", "error")
    if unmet not in ("error", "ignore"):
        raise pytest.UsageError(f"{request.node.nodeid}: kafka_server(unmet={unmet!r}) is neither 'error' nor 'ignore'")
    with ModelServer(**options) as server:
        yield server
        if unmet == "error" and request.node.stash.get(PASSED, False):
            server.assert_all_met()
