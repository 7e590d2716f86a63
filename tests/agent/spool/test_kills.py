"""Processes with a spool that are killed at any moment, and spools on a disk that is full."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka4.agent.message import Reason
from pykafka4.agent.settings.values import Sync
from tests.agent.spool.appender import TOPICS
from tests.agent.spool.world import World, message

ROUNDS = int(os.environ.get("SPOOL_KILLS", "8"))
MIB = 2**20
ROOT = Path(__file__).parents[3]


def test_kill_at_any_moment_loses_nothing_that_was_written_and_keeps_the_order(tmp_path: Path) -> None:
    chance = random.Random(4)
    first, written, done = 0, -1, dict.fromkeys(TOPICS, -1)
    for turn in range(ROUNDS):
        command = [sys.executable, "-m", "tests.agent.spool.appender", str(tmp_path / "spool"), str(first), str(turn)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(chance.randrange(1, 4000))]
            process.kill()
            lines += process.stdout.readlines()
            assert process.wait(60) == -9
        for line in lines:
            word, *values = line.decode().split()
            if word == "written":
                written = max(written, int(values[0]))
            else:
                done[values[0]] = max(done[values[0]], int(values[1]))
        first = _check(tmp_path, written, done) + 1
    assert first > 1000


def _check(tmp_path: Path, written: int, done: dict[str, int]) -> int:
    """The last number that is on disk; each topic ends with it or with an earlier one of the same write, so the rest is appended."""
    world = World(tmp_path / "spool", sync=Sync.NEVER, max_size=16 * MIB, window=2**40)
    world.run()
    last = {}
    for topic in TOPICS:
        numbers = world.sent(topic)
        begin = numbers[0] if numbers else done[topic] + 1
        assert numbers == list(range(begin, begin + len(numbers))), topic
        assert begin <= done[topic] + 1, topic
        last[topic] = begin + len(numbers) - 1
        assert last[topic] >= written, topic
    assert world.ledger.lost == {}
    end = max(last.values())
    for topic in TOPICS:
        world.add(*(message(topic, n) for n in range(last[topic] + 1, end + 1)))
    world.crash()
    return end


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system: sudo make unit")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(tmp_path)], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"this machine mounts no tmpfs: {mounted.stderr.decode().strip()}")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_full_disk_is_named_and_the_spool_goes_on(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = World(small_disk / "spool", sync=Sync.ALWAYS, max_size=16 * MIB)
    for n in range(100):
        world.add(message("a", n, 50_000))
    failed = world.ledger.lost["a", Reason.SPOOL_FAILED]
    assert 58 <= failed <= 75
    assert caplog.text.count("No space left on device") == 1
    assert "make room on the file system" in caplog.text
    kept = 100 - failed
    assert world.spool.state().topics["a"].messages == kept
    for _ in range(100):
        world.run()
        world.sender.end()
    assert world.sent("a") == list(range(kept))
    world.now += 60
    world.add(message("a", 500))
    assert world.spool.state().failure is None
    assert world.spool.state().topics["a"].messages == 1
    world.crash()


def test_disk_that_becomes_read_only_does_not_keep_messages_from_being_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path / "spool", sync=Sync.NEVER)
    world.add(*(message("a", n) for n in range(10)))
    real = os.open

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    def only_for_reading(path: Path, flags: int, *mode: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            refuse()
        return real(path, flags, *mode)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", only_for_reading)
        patch.setattr(os, "unlink", refuse)
        world.add(message("a", 10))
        assert world.ledger.lost == {("a", Reason.SPOOL_FAILED): 1}
        world.run()
        assert world.sent("a") == list(range(10))
        world.sender.end()
        world.run()
        assert not world.spool.takes("a")
        assert "Read-only" in str(world.spool.state().failure)
    world.crash()
