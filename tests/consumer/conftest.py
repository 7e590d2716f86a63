"""A model cluster, and consumers of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka4.testing import ModelServer
from tests.consumer.consuming import Maker


@pytest.fixture
def make(server: ModelServer) -> Iterator[Maker]:
    maker = Maker(server)
    yield maker
    maker.close()
