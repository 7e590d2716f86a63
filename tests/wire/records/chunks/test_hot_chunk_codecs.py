"""Batches whose codec's library is not installed: an error of their partition, which lasts until it is."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from pykafka4.errors import ConfigError
from pykafka4.wire.records.batch import build_batch
from pykafka4.wire.records.compression import CODECS
from tests.inspection import forget_codecs
from tests.wire.records.chunk_bytes import offsets, records
from tests.wire.records.hot_world import decoded, each_core
from tests.wire.records.message_sets import build_message_set

pytestmark = each_core


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Neither snappy nor zstd can be imported, until `undo`."""
    forget_codecs()
    monkeypatch.setitem(sys.modules, "snappy", None)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    return monkeypatch


def zstd_batch() -> bytes:
    return build_batch(records(5, start=5), base_offset=5, codec=CODECS["zstd"])


def snappy_message_set() -> bytes:
    return build_message_set(records(5, start=5), magic=1, codec=CODECS["snappy"])


@pytest.mark.parametrize(
    ("build", "codec", "package"), [(zstd_batch, "zstd", "zstandard"), (snappy_message_set, "snappy", "python-snappy")]
)
def test_a_missing_codec_is_an_error_of_the_partition_that_names_it(
    core: ModuleType, build: Any, codec: str, package: str, request: pytest.FixtureRequest
) -> None:
    data = build_batch(records(5)) + build() + build_batch(records(2, start=10), base_offset=10)
    library = request.getfixturevalue("no_library")
    out, error, chunk = decoded(core, data)
    assert offsets(out) == [0, 1, 2, 3, 4]
    assert isinstance(error, ConfigError)
    assert str(error).startswith(f"t-3 at offset 5: compression_type='{codec}' needs the package {package}, which cannot be imported (")
    for _ in range(2):  # it lasts
        with pytest.raises(ConfigError, match="t-3 at offset 5"):
            chunk.decode(out, 100)
    assert (offsets(out), chunk.position) == ([0, 1, 2, 3, 4], 5)
    library.undo()
    assert chunk.decode(out, 100) == 7
    assert offsets(out) == list(range(12))


def test_a_batch_whose_codec_is_missing_can_be_passed(core: ModuleType, request: pytest.FixtureRequest) -> None:
    data = zstd_batch() + build_batch(records(2, start=10), base_offset=10)
    request.getfixturevalue("no_library")
    out, error, chunk = decoded(core, data)
    assert isinstance(error, ConfigError)
    assert chunk.skip() == 10
    assert chunk.decode(out, 100) == 2
    assert offsets(out) == [10, 11]
