"""A model cluster with a topic `t`, and reads of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka4 import read
from pykafka4.bounded.read import Read
from pykafka4.testing import ModelServer

Reads = Callable[..., Read]


@pytest.fixture
def reads(server: ModelServer) -> Iterator[Reads]:
    opened: list[Read] = []

    def make(topics: Any = "t", **options: Any) -> Read:
        opened.append(read(topics, bootstrap_servers=server.bootstrap_servers, **{"timeout": 20, **options}))
        return opened[-1]

    yield make
    for one in opened:
        one.close()
