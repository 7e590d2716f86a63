"""A model cluster, and an admin client of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka4 import AdminClient
from pykafka4.core.admin import broker_choices, question_run
from pykafka4.testing import ModelServer
from tests.cli.settings import forget
from tests.consumer.consuming import Maker


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not exist is believed sooner."""
    for module in (question_run, broker_choices):
        monkeypatch.setattr(module, "MISSING_S", 0.2)


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A command line without settings of the user."""
    forget(monkeypatch, tmp_path)


@pytest.fixture
def admin(server: ModelServer) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=server.bootstrap_servers) as it:
        yield it


@pytest.fixture
def make(server: ModelServer) -> Iterator[Maker]:
    maker = Maker(server)
    yield maker
    maker.close()
