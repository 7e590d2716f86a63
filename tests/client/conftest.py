"""A client of a model cluster, impatient about what does not exist."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka4.core.admin import broker_choices, question_run, requests
from pykafka4.testing import ModelServer
from tests.consumer.consuming import Maker


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (question_run, broker_choices, requests):
        monkeypatch.setattr(module, "MISSING_S", 0.2)


@pytest.fixture
def make(server: ModelServer) -> Iterator[Maker]:
    maker = Maker(server)
    yield maker
    maker.close()
