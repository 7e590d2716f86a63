"""Which of the two implementations runs. What both promise is in `test_hot_*`, one module for each subject."""

from __future__ import annotations

import importlib
import logging
from types import ModuleType

import pytest
from hot_world import each_core

from pykafka4.wire import hot

pytestmark = each_core


def test_the_choice_of_implementation_is_one_variable(
    core: ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert hot.IMPLEMENTATION in ("compiled", "python")
    assert hot._choose("python")[1].__name__ == "pykafka4.wire.reference"
    with pytest.raises(ImportError, match="PYKAFKA4_IMPL='fast' must be one of compiled, python"):
        hot._choose("fast")

    def missing(name: str) -> ModuleType:
        if name == "pykafka4.wire._hot":
            raise ImportError("not built")
        return core

    monkeypatch.setattr(importlib, "import_module", missing)
    with caplog.at_level(logging.WARNING, "pykafka4"):
        assert hot._choose(None) == ("python", core)
    assert caplog.text.count("not built") == 1
    with pytest.raises(ImportError):
        hot._choose("compiled")
