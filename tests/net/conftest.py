"""`driver`: each test of a transport runs over every transport that was built here. `opened`: makes those for TLS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.net.transport_driver import KINDS, TLS, Driver


@pytest.fixture(params=KINDS)
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    it = Driver(request.param)
    yield it
    it.transport.shut()


@pytest.fixture
def opened() -> Iterator[Callable[..., Driver]]:
    """Makes drivers with options of their own."""
    drivers: list[Driver] = []

    def make(**options: Any) -> Driver:
        drivers.append(Driver(TLS, **options))
        return drivers[-1]

    yield make
    for driver in drivers:
        driver.transport.shut()
