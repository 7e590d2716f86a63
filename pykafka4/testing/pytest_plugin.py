"""Fixtures. Rule: a test gets a cluster of its own and gives it back.

`pytest_plugins = ["pykafka4.testing.pytest_plugin"]` in a `conftest.py` turns them on.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka4.testing.server import ModelServer

__all__ = ["model_server"]


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    """Three model brokers on 127.0.0.1: `Producer(bootstrap_servers=model_server.bootstrap_servers)`."""
    with ModelServer(brokers=3) as server:
        yield server
