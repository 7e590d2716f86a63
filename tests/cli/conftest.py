"""A command line without settings of the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.settings import forget


@pytest.fixture(autouse=True)
def profiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file of profiles, which does not exist yet."""
    return forget(monkeypatch, tmp_path)
