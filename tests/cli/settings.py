"""The user's settings of the command line, which a test must not see."""

from __future__ import annotations

from pathlib import Path

import pytest

VARIABLES = ("PYKAFKA4_BOOTSTRAP", "PYKAFKA4_CONFIG", "PYKAFKA4_PROFILE", "PYKAFKA4_TIMEOUT")


def forget(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Clear the variables; profiles are in the file that is returned, which does not exist."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    return folder / "config" / "pykafka4" / "profiles.toml"
