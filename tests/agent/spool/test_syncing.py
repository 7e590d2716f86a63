"""When files are synced, and what is said if they cannot be."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from pykafka4.agent.settings.values import Sync
from pykafka4.agent.spool.syncing import Syncing
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


def test_a_file_whose_sync_failed_is_synced_again_with_the_next_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: list[str]
) -> None:
    """A sync of another file would otherwise report success."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.touch()
    second.touch()
    syncing = Syncing(Sync.ALWAYS, lambda: 0.0)
    opens, refusing = os.open, threading.Event()
    reported: list[str | None] = []

    def refuse(path: Path, flags: int) -> int:
        refusing.wait(10)
        raise OSError(errno.EMFILE, "Too many open files")

    def open_and_look(path: Path, flags: int) -> int:
        reported.append(syncing.failure)
        return opens(path, flags)

    monkeypatch.setattr(os, "open", refuse)
    syncing.written(first)
    syncing.written(second)  # during the sync of the first
    monkeypatch.setattr(os, "open", open_and_look)
    refusing.set()
    syncing.close()
    assert reported == [f"open {first} to sync it: Too many open files"] * 2
    assert {Path(path).name for path in synced} == {"first", "second"}
    assert syncing.failure is None


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
