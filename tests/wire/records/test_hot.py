"""Which of the two implementations runs. What both promise is in `test_hot_*`, one module for each subject."""

from __future__ import annotations

import importlib
import logging
import sys
from types import ModuleType

import pytest

from pykafka4 import Producer
from pykafka4.errors import ConfigError
from pykafka4.wire.records import compression, hot
from tests.inspection import forget_codecs
from tests.wire.records.hot_world import each_core

pytestmark = each_core


def test_the_choice_of_implementation_is_one_variable(
    core: ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert hot.IMPLEMENTATION in ("compiled", "python")
    assert hot.choose("python")[1].__name__ == "pykafka4.wire.records.reference"
    with pytest.raises(ImportError, match="PYKAFKA4_IMPL='fast' must be one of compiled, python"):
        hot.choose("fast")

    def missing(name: str) -> ModuleType:
        if name == "pykafka4.wire.records.compiled._hot":
            raise ImportError("not built")
        return core

    monkeypatch.setattr(importlib, "import_module", missing)
    with caplog.at_level(logging.WARNING, "pykafka4"):
        assert hot.choose(None) == ("python", core)
    assert caplog.text.count("not built") == 1
    with pytest.raises(ImportError):
        hot.choose("compiled")


def test_without_the_gil_the_plain_implementation_runs(
    core: ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    imported: list[str] = []
    monkeypatch.setattr(importlib, "import_module", lambda name: imported.append(name) or core)
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    with caplog.at_level(logging.WARNING, "pykafka4"):
        assert hot.choose(None) == ("python", core)
    assert imported == ["pykafka4.wire.records.reference"]  # importing the other one would turn the GIL on
    assert "relies on the GIL" in caplog.text
    assert "PYTHON_GIL=1" in caplog.text
    with pytest.raises(ImportError, match="relies on the GIL"):
        hot.choose("compiled")
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    assert hot.choose(None) == ("compiled", core)


def test_a_missing_core_says_how_to_build_it(core: ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def missing(name: str) -> ModuleType:
        if name == "pykafka4.wire.records.compiled._hot":
            raise ImportError("not built")
        return core

    monkeypatch.setattr(importlib, "import_module", missing)
    with caplog.at_level(logging.WARNING, "pykafka4"):
        hot.choose(None)
    assert "--no-cache-dir" in caplog.text


@pytest.mark.parametrize(
    ("name", "module", "package"), [("snappy", "snappy", "python-snappy"), ("lz4", "lz4.frame", "lz4"), ("zstd", "zstandard", "zstandard")]
)
def test_a_codec_whose_library_is_missing_is_named_and_leaves_the_others(
    core: ModuleType, name: str, module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = {codec: compression.compress(codec, b"x" * 100) for codec in compression.CODECS.values()}
    forget_codecs()
    monkeypatch.setattr(compression, "_ZSTD_WRITERS", {})  # contexts made before
    monkeypatch.setitem(sys.modules, module, None)
    missing, wanted = compression.CODECS[name], f"compression_type='{name}' needs the package {package}, which cannot be imported"
    for use in (
        lambda: compression.require_codec(name),
        lambda: compression.compress(missing, b"x"),
        lambda: compression.decompress(missing, packed[missing], 1000),
        lambda: Producer(bootstrap_servers="127.0.0.1:1", compression_type=name),
    ):
        with pytest.raises(ConfigError, match=wanted):
            use()
    for other in packed.keys() - {missing}:
        assert compression.decompress(other, packed[other], 1000) == b"x" * 100
        compression.require_codec(compression.CODEC_NAMES[other])
    forget_codecs()
