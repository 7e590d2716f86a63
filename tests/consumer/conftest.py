"""A model cluster, and consumers of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from consuming import Maker

from pykafka4.testing import ModelServer


@pytest.fixture
def make(server: ModelServer) -> Iterator[Maker]:
    maker = Maker(server)
    yield maker
    maker.close()
