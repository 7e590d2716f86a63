"""When files are synced, and what is said if they cannot be."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pykafka4.agent.settings.values import Sync
from tests.agent.spool.world import World, message


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were synced."""
    paths: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: paths.append(str(Path(f"/proc/self/fd/{fd}").readlink())))
    return paths


def test_each_write_is_synced_with_its_folders_by_always(tmp_path: Path, synced: list[str]) -> None:
    (tmp_path / "parent").mkdir()
    world = World(tmp_path / "parent" / "spool", sync=Sync.ALWAYS)
    world.add(message("a", 0))
    world.crash()
    assert {Path(path).name for path in synced} == {"parent", "spool", "topics", "t-a", "00000001000000000000.seg"}


def test_nothing_is_synced_by_never(tmp_path: Path, synced: list[str]) -> None:
    world = World(tmp_path, sync=Sync.NEVER)
    world.add(message("a", 0))
    world.spool.close([])
    assert synced == []


def test_end_syncs_what_the_interval_has_left(tmp_path: Path, synced: list[str]) -> None:
    world = World(tmp_path, sync=Sync.INTERVAL)
    world.add(message("a", 0))
    assert synced == []
    world.spool.close([])
    assert any(path.endswith(".seg") for path in synced)


def test_refused_sync_is_named_once_and_discards_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuse)
    world = World(tmp_path, sync=Sync.ALWAYS)
    for n in range(20):
        world.add(message("a", n))
    world.crash()
    assert "Input/output error" in str(world.spool.state().failure)
    assert world.ledger.lost == {}
    assert len([record for record in caplog.records if "cannot sync" in record.message]) == 1
