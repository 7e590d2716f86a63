"""`driver`: each test of a transport runs over every transport that was built here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from transport_driver import KINDS, Driver


@pytest.fixture(params=KINDS)
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    it = Driver(request.param)
    yield it
    it.transport.shut()
