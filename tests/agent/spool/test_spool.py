"""The spool as the router and the end of the agent use it."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from pykafka4.agent.format import pack
from pykafka4.agent.message import Reason
from pykafka4.agent.settings.values import Sync
from pykafka4.agent.spool.folder import SpoolUnusable
from pykafka4.agent.spool.frames import FIRST, crc_of
from pykafka4.agent.spool.segment import BLOCK
from tests.agent.spool.world import World, message, undelivered

MIB = 1024 * 1024


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "spool", sync=Sync.NEVER)


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.seg"))


def test_messages_are_sent_in_order_and_leave_the_disk_when_acknowledged(world: World) -> None:
    world.add(*(message("a", n) for n in range(100)))
    world.run()
    assert world.sent("a") == list(range(100))
    assert world.spool.takes("a")
    assert world.spool.state().topics["a"].sent == 100
    world.sender.end()
    world.run()
    assert not world.spool.takes("a")
    assert files(world.settings.path) == []
    assert world.spool.state().bytes == 0


def test_nothing_is_sent_while_any_account_is_taken(world: World) -> None:
    world.add(message("a", 0))
    for held in (world.spool.hold, world.spool.hold, world.spool.release):
        held()
    world.run()
    assert world.sent("a") == []
    world.spool.release()
    world.run()
    assert world.sent("a") == [0]


def test_message_comes_back_as_it_was(world: World) -> None:
    given = ("a", b"value", None, 2**32 - 1, -5)
    world.add(given)
    world.run()
    assert world.sender.sent == [given]


def test_topic_stays_on_disk_until_all_of_it_is_acknowledged(world: World) -> None:
    world.add(message("a", 0), message("a", 1))
    world.run()
    world.sender.end(count=1)
    world.run()
    assert world.spool.takes("a")
    assert not world.spool.takes("b")
    world.add(message("a", 2))
    world.run()
    assert world.sent("a") == [0, 1, 2]


def test_spool_takes_every_topic_with_always(tmp_path: Path) -> None:
    world = World(tmp_path, always=True, sync=Sync.NEVER)
    assert world.spool.takes("a")
    world.add(message("a", 0))
    world.run()
    world.sender.end()
    world.run()
    assert world.spool.takes("a")
    world.spool.save()
    assert files(tmp_path) == []


def test_spool_takes_every_topic_while_the_cluster_is_away(world: World) -> None:
    assert not world.spool.takes("a")
    world.spool.cluster_away = True
    assert world.spool.takes("a")
    world.spool.cluster_away = False
    assert not world.spool.takes("a")


def test_restart_sends_everything_that_was_not_acknowledged(world: World) -> None:
    world.add(*(message("a", n) for n in range(10)))
    world.run()
    world.restart()
    assert world.spool.takes("a")
    world.run()
    assert world.sent("a") == list(range(10))
    assert world.spool.state().topics["a"].restored == 10


def test_restart_goes_on_at_the_saved_progress(world: World) -> None:
    world.add(*(message("a", n) for n in range(10)))
    world.run()
    world.sender.end(count=4)
    world.run()
    world.spool.save()
    world.restart()
    world.run()
    assert world.sent("a") == list(range(4, 10))
    assert world.spool.state().topics["a"].restored == 6


def test_torn_last_write_is_cut(world: World) -> None:
    world.add(*(message("a", n) for n in range(10)))
    [file] = files(world.settings.path)
    os.truncate(file, file.stat().st_size - 3)
    world.restart()
    world.run()
    assert world.sent("a") == list(range(9))
    world.sender.end()
    world.run()
    assert world.ledger.lost == {}
    assert not world.spool.takes("a")
    assert not (world.settings.path / "damaged").exists()


@pytest.mark.parametrize("cut", range(76, 120))
def test_torn_write_that_ends_in_zeros_is_no_damage(world: World, cut: int) -> None:
    """The second of two frames of 44 bytes is torn, while the topic goes on. Found by the model with cut 77."""
    world.add(message("a", 0), message("a", 1))
    [file] = files(world.settings.path)
    os.truncate(file, cut)
    os.truncate(file, cut + 1000)
    world.restart()
    world.run()
    world.sender.end()
    world.add(message("a", 2))
    world.run()
    assert world.sent("a") == [0, 2]
    assert world.ledger.lost == {}


def restart_with_damaged_last_frame(world: World) -> Path:
    """Returns the spool's only file."""
    [file] = files(world.settings.path)
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    world.restart()
    world.run()
    return file


def test_damaged_last_frame_is_counted_although_no_message_follows(world: World) -> None:
    world.add(message("a", 0), message("a", 1))
    restart_with_damaged_last_frame(world)
    world.sender.end()
    world.run()
    assert world.sent("a") == [0]
    assert world.ledger.lost == {("a", Reason.SPOOL_DAMAGED): 1}
    assert len(files(world.settings.path / "damaged")) == 1
    assert not world.spool.takes("a")


def test_damaged_frame_is_named_counted_and_kept_aside(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.add(*(message("a", n) for n in range(10)))
    [file] = files(world.settings.path)
    data = bytearray(file.read_bytes())
    data[data.index(b"..4") + 2] ^= 1
    file.write_bytes(data)
    world.restart()
    world.run()
    assert world.sent("a") == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    world.sender.end()
    world.run()
    assert world.ledger.lost == {("a", Reason.SPOOL_DAMAGED): 1}
    assert "bytes 208 to 252 of" in caplog.text
    assert world.spool.state().damaged_bytes == 44
    assert len(files(world.settings.path / "damaged")) == 1
    assert not world.spool.takes("a")


def test_damaged_file_that_another_program_has_removed_is_forgotten(world: World) -> None:
    empty = world.spool.state().bytes
    world.add(message("a", 0), message("a", 1))
    restart_with_damaged_last_frame(world).unlink()
    world.sender.end()
    world.run()
    state = world.spool.state()
    assert (state.failure, state.bytes) == (None, empty)


@pytest.mark.parametrize("sealed", ["sealed", "not sealed"])
def test_damaged_length_loses_one_message(world: World, sealed: str) -> None:
    world.add(*(message("a", n) for n in range(10)))
    if sealed == "sealed":
        world.run()
        world.spool.close([])
    else:
        world.crash()
    [file] = files(world.settings.path)
    data = bytearray(file.read_bytes())
    at = data.index(b"..4") - 37
    data[at : at + 4] = b"\x00\x7f\xff\xff"
    file.write_bytes(data)
    world.begin()
    world.run()
    assert world.sent("a") == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    world.sender.end()
    world.run()
    assert world.ledger.lost == {("a", Reason.SPOOL_DAMAGED): 1}
    assert world.spool.state().topics["a"].messages == 0


def test_file_that_is_no_segment_is_kept_aside(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.add(message("a", 0))
    [file] = files(world.settings.path)
    file.write_bytes(b"something else, with more than a header's bytes")
    world.restart()
    world.run()
    assert world.ledger.lost == {("a", Reason.SPOOL_DAMAGED): 1}
    assert "its messages of topic a are lost" in caplog.text
    assert not world.spool.takes("a")


def test_file_is_kept_aside_although_the_files_before_it_cannot_be_removed(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.add(message("a", 0))
    [file] = files(world.settings.path)
    file.write_bytes(b"something else, with more than a header's bytes")
    kept = world.settings.path / "damaged"
    kept.mkdir()
    (kept / "older").symlink_to("nowhere")  # its size is unknown, as if another program removed it at this moment
    world.restart()
    world.run()
    assert (kept / f"t-a-{file.name}").exists()
    assert world.spool.state().failure is None
    assert "cannot remove older files" in caplog.text
    world.add(message("a", 1))
    assert world.ledger.lost == {("a", Reason.SPOOL_DAMAGED): 1}


def test_full_spool_discards_and_says_so(tmp_path: Path) -> None:
    world = World(tmp_path, max_size=1 * MIB, sync=Sync.NEVER)
    for n in range(20):
        world.add(message("a", n, size=100_000))
    kept = world.spool.state().topics["a"].messages
    assert 8 <= kept <= 10
    assert world.ledger.lost == {("a", Reason.SPOOL_FULL): 20 - kept}
    assert world.spool.state().bytes <= 1 * MIB
    world.run()
    world.sender.end()
    world.run()
    world.add(message("a", 100))
    assert world.spool.state().topics["a"].messages == 1


def test_bytes_are_those_of_the_file_system(tmp_path: Path) -> None:
    world = World(tmp_path, max_size=1 * MIB, sync=Sync.NEVER)
    for n in range(300):
        world.add(message(f"topic-{n}", n))
    used = sum(file.stat().st_blocks * 512 if file.is_file() else 4096 for file in (tmp_path / "topics").rglob("*"))
    assert world.spool.state().bytes == pytest.approx(used, rel=0.1)
    assert world.ledger.lost.total() > 100


def test_no_room_in_the_producer_waits_and_keeps_the_order(tmp_path: Path) -> None:
    world = World(tmp_path, room=3, sync=Sync.NEVER)
    world.add(*(message("a", n) for n in range(10)))
    for _ in range(10):
        world.run()
        world.sender.end()
        world.now += 1.0
    world.run()
    assert world.sent("a") == list(range(10))
    assert not world.spool.takes("a")


def test_topic_without_room_does_not_hold_up_another(tmp_path: Path) -> None:
    world = World(tmp_path, window=64 * 1024, sync=Sync.NEVER)
    world.add(*(message("stuck", n, 1000) for n in range(200)))
    world.add(*(message("good", n, 1000) for n in range(200)))
    for _ in range(100):
        world.run()
        for delivery in list(world.sender.waiting):
            if delivery.message[0] == "good":
                world.sender.waiting.remove(delivery)
                delivery.end("ACKED")
    assert world.sent("good") == list(range(200))
    assert len(world.sent("stuck")) < 70  # the whole window, once the other topic has left


def test_window_bounds_what_is_unacknowledged(tmp_path: Path) -> None:
    world = World(tmp_path, window=100_000, sync=Sync.NEVER)
    world.add(*(message("a", n, 1000) for n in range(1000)))
    world.run()
    assert 50 < len(world.sent("a")) < 200


def test_definite_failure_leaves_the_disk(world: World) -> None:
    world.add(message("a", 0), message("a", 1))
    world.run()
    world.sender.end("MESSAGE_TOO_LARGE", 1)
    world.sender.end()
    world.run()
    assert not world.spool.takes("a")


def test_undelivered_messages_go_in_front_and_those_from_the_disk_not_twice(world: World) -> None:
    world.add(*(message("a", n) for n in range(10, 20)))
    world.run()
    world.sender.end(count=2)
    left = world.sender.waiting[:]
    world.sender.end("CLOSED")
    records = [undelivered(message("a", n), 3) for n in range(5)] + [undelivered(delivery.message) for delivery in left]
    assert world.spool.close(records) == []
    assert world.ledger.were_kept == {"a": 13}
    assert world.spool.state().topics["a"].messages == 13
    world.begin()
    world.add(message("a", 99))
    world.run()
    assert world.sent("a") == [*range(5), *range(12, 20), 99]
    assert [given[3] for given in world.sender.sent[:6]] == [3, 3, 3, 3, 3, None]


def test_undelivered_message_that_repeats_one_on_disk_is_put_back(world: World) -> None:
    world.add(message("a", 0))
    world.run()
    world.sender.end("CLOSED")
    assert world.spool.close([undelivered(message("a", 0)), undelivered(message("a", 0))]) == []
    world.begin()
    world.run()
    assert world.sent("a") == [0, 0]


def test_undelivered_messages_without_room_are_returned(tmp_path: Path) -> None:
    world = World(tmp_path, max_size=1 * MIB, sync=Sync.NEVER)
    records = [undelivered(message("a", n, 100_000)) for n in range(20)]
    left = world.spool.close(records)
    assert left == records[-len(left) :]
    assert 10 <= len(left) <= 12
    assert world.ledger.were_kept == {"a": 20 - len(left)}


def test_second_agent_is_refused_with_the_process_of_the_first(world: World) -> None:
    with pytest.raises(SpoolUnusable, match=rf"process id {os.getpid()}"):
        World(world.settings.path)


def test_folder_of_a_later_format_is_refused(world: World) -> None:
    world.crash()
    (world.settings.path / "lock").write_text("pykafka4 spool, format 2\n")
    with pytest.raises(SpoolUnusable, match="format 2; this agent reads 1"):
        world.begin()


def test_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolUnusable, match=r"cannot be used: .*(Not a directory|File exists)"):
        World(tmp_path / "file")


def test_only_the_owner_may_read(world: World) -> None:
    world.add(message("a", 0))
    for path in (world.settings.path, *world.settings.path.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_refused_write_discards_is_named_once_and_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.add(message("a", 0))
    real = os.pwrite

    def full(fd: int, data: bytes, offset: int) -> int:
        if len(data) > 10:
            return real(fd, bytes(data[:10]), offset)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        world.add(message("a", 1), message("a", 2))
        world.add(message("a", 3))
        state = world.spool.state()
        assert state.failure is not None
        assert "No space left" in state.failure
        world.now += 2
        world.add(message("a", 4))
    assert world.ledger.lost == {("a", Reason.SPOOL_FAILED): 4}
    assert len([record for record in caplog.records if "No space" in record.message]) == 1
    world.now += 2
    world.add(message("a", 5))
    assert world.spool.state().failure is None
    world.run()
    assert world.sent("a") == [0, 5]


def test_disk_that_works_again_is_noticed_without_messages(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        patch.setattr(Path, "write_bytes", refuse)
        world.add(message("a", 0))
        world.now += 2
        world.spool.save()
        assert world.spool.state().failure is not None
    world.spool.save()
    assert world.spool.state().failure is not None, "its pause is not over"
    world.now += 2
    world.spool.save()
    assert world.spool.state().failure is None
    assert not (world.settings.path / "probe").exists()


def test_refused_first_write_lets_the_topic_go_directly(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "pwrite", refuse)
    world.add(message("a", 0))
    assert not world.spool.takes("a")
    assert world.spool.state().bytes == 0


def test_file_that_cannot_be_removed_uses_its_bytes_until_it_is_removed_before_the_next_file(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    world.add(message("a", 0))
    used = world.spool.state().bytes
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        world.run()
        world.sender.end()
        world.run()
    assert world.spool.state().bytes == used - BLOCK, "the folder is not counted"
    world.now += 2
    world.add(message("a", 1))  # to a file with the same number
    assert world.spool.state().bytes == used
    world.run()
    assert world.sent("a") == [0, 1]


def test_files_that_could_not_be_removed_for_a_while_do_not_fill_the_spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    world = World(tmp_path, max_size=1 * MIB)
    world.add(message("unacknowledged", 0))
    world.add(*(message("a", n, 10_000) for n in range(100)))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        world.run()
        assert world.sender.waiting.pop(0).message[0] == "unacknowledged"
        while world.sender.waiting:
            world.sender.end()
            world.run()
    world.now += 60
    world.spool.save()
    world.add(*(message("b", n, 10_000) for n in range(50)))
    assert world.ledger.lost == {}
    world.run()
    assert world.sent("b") == [*range(50)]


def test_file_that_is_never_removed_is_named_once_and_discards_no_message(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk takes writes all the same: for example, another program has made the file immutable."""
    world.add(message("a", 0))
    [stuck] = files(world.settings.path)
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path == stuck:
            raise OSError(errno.EPERM, "Operation not permitted")
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    for number in range(1, 11):
        world.run()
        world.sender.end()
        world.run()
        world.now += 1.5
        world.spool.save()
        world.add(message("b", number), message("a", number))
        assert world.spool.state().failure is None
    world.run()
    assert world.ledger.lost == {}
    assert (world.sent("a"), world.sent("b")) == ([*range(11)], [*range(1, 11)])
    assert len([record for record in caplog.records if "cannot remove" in record.message]) == 1


def test_undelivered_messages_are_kept_in_front_although_a_file_there_cannot_be_removed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add(message("a", 0))
    [stuck] = files(world.settings.path)
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path == stuck:
            raise OSError(errno.EPERM, "Operation not permitted")
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    world.run()
    world.sender.end()
    world.run()
    world.now += 1.5
    world.add(message("a", 2))
    assert world.spool.close([undelivered(message("a", 1))]) == []
    world.begin()
    world.run()
    assert world.sent("a") == [1, 2]


def test_segments_are_deleted_as_they_are_acknowledged(tmp_path: Path) -> None:
    world = World(tmp_path, max_size=1 * MIB, window=64 * 1024, sync=Sync.NEVER)
    for n in range(50):
        world.add(message("a", n, 10_000))
    before = len(files(tmp_path))
    world.run()
    world.sender.end()
    world.run()
    world.sender.end()
    world.run()
    assert before >= 8
    assert len(files(tmp_path)) < before
    assert world.spool.state().bytes < 500_000
    for _ in range(50):
        world.sender.end()
        world.run()
    assert world.sent("a") == list(range(50))


def test_message_larger_than_a_segment_and_than_a_read(tmp_path: Path) -> None:
    world = World(tmp_path, max_size=4 * MIB, sync=Sync.NEVER)
    world.add(message("a", 0), message("a", 1, 1_000_000), message("a", 2))
    world.run()
    assert world.sent("a") == [0, 1, 2]


def test_unreadable_segment_is_passed_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.add(message("a", 0))

    def broken(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", broken)
        world.run()
    world.add(message("a", 1))
    world.run()
    assert world.sent("a") == [1]
    world.sender.end()
    world.run()
    assert world.ledger.lost == {("a", Reason.SPOOL_DAMAGED): 1}
    assert not world.spool.takes("a")


def test_linger_is_cut_short_once_after_each_acknowledgement_while_more_waits(tmp_path: Path) -> None:
    world = World(tmp_path, window=20_000, sync=Sync.NEVER)
    world.add(*(message("a", n, 1000) for n in range(100)))
    world.run()
    assert world.replay.should_hurry()
    assert not world.replay.should_hurry()  # nothing was acknowledged: the cluster may be away
    world.sender.end(count=1)
    world.run()
    assert world.replay.should_hurry()
    assert not world.replay.should_hurry()


def test_end_counts_a_message_that_was_acknowledged_out_of_order_once(world: World) -> None:
    world.add(*(message("a", n) for n in range(3)))
    world.run()
    last = world.sender.waiting.pop()
    last.end("ACKED")
    left = [undelivered(delivery.message) for delivery in world.sender.waiting]
    world.sender.end("CLOSED")
    assert world.spool.close(left) == []
    assert world.ledger.were_kept == {"a": 2}
    assert world.spool.state().topics["a"].messages == 2
    world.begin()
    world.run()
    assert world.sent("a") == [0, 1, 2]


@pytest.mark.parametrize("code", ["CLOSED", "CLIENT_ERROR"])
def test_messages_of_a_producer_that_has_failed_stay(world: World, code: str) -> None:
    world.add(message("a", 0))
    world.run()
    world.sender.end(code)
    world.run()
    assert world.spool.takes("a")
    world.restart()
    world.run()
    assert world.sent("a") == [0]


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "../a", "ä", "a" * 250, "a\n"])
def test_name_that_kafka_does_not_allow_never_reaches_the_disk(tmp_path: Path, topic: str) -> None:
    world = World(tmp_path, always=True, sync=Sync.NEVER)
    world.add(message(topic, 0), message("a" * 249, 1))
    assert world.ledger.lost == {(topic, Reason.BAD_TOPIC): 1}
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize("size", [0, 20])
def test_file_whose_header_was_not_written_is_empty(world: World, size: int) -> None:
    world.add(message("a", 0))
    [file] = files(world.settings.path)
    os.truncate(file, size)
    world.restart()
    world.run()
    assert world.ledger.lost == {}
    assert not world.spool.takes("a")


def test_topic_of_which_nothing_is_left_is_forgotten(world: World) -> None:
    for n in range(100):
        world.add(message(f"topic-{n}", n))
        world.run()
        world.sender.end()
        world.run()
    assert world.spool._restored == {}  # it would grow with each name


def test_file_that_is_cut_off_while_it_is_in_use_is_passed_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.add(*(message("a", n) for n in range(10)))
    [file] = files(world.settings.path)
    os.truncate(file, 100)
    real, reads = os.pread, iter(range(100))

    def read(fd: int, length: int, offset: int) -> bytes:
        assert next(reads, None) is not None, "it is read again and again"
        return real(fd, length, offset)

    monkeypatch.setattr(os, "pread", read)
    world.run()
    world.sender.end()
    world.add(message("a", 10))
    world.run()
    assert world.sent("a") == [0, 10]
    assert world.ledger.lost == {("a", Reason.SPOOL_DAMAGED): 9}


def test_frame_of_an_unknown_kind_is_passed_over(world: World) -> None:
    world.add(message("a", 0), message("a", 1))
    [file] = files(world.settings.path)
    data = file.read_bytes()
    strange = pack(b"a", b"of a later version").replace(b"\x01\x00", b"\x01\x02", 1)
    file.write_bytes(data[:FIRST] + crc_of(strange) + strange + data[FIRST:])
    world.restart()
    world.run()
    assert world.sent("a") == [0, 1]
    world.sender.end()
    world.run()
    assert world.ledger.lost == {("a", Reason.SPOOL_DAMAGED): 1}
    assert not world.spool.takes("a")


def test_number_of_topics_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykafka4.agent.spool.spool.MOST_TOPICS", 3)
    world.add(message("a", 0), message("b", 1), message("c", 2), message("d", 3))
    world.add(message("a", 4), message("e", 5))
    assert world.ledger.lost == {("d", Reason.SPOOL_FULL): 1, ("e", Reason.SPOOL_FULL): 1}
    world.run()
    assert world.sent("a") == [0, 4]


def test_window_bounds_what_many_topics_send_together(tmp_path: Path) -> None:
    world = World(tmp_path, window=100_000, sync=Sync.NEVER)
    for n in range(50):
        world.add(*(message(f"topic-{n}", number) for number in range(100)))
    world.run()
    assert 50 * 7 < len(world.sender.sent) < 50 * 10  # of some 260 bytes, with their cost


def test_many_topics_without_room_do_not_use_up_the_loop(tmp_path: Path) -> None:
    world = World(tmp_path, room=0, max_size=16 * MIB, sync=Sync.NEVER)
    world.add(*(message(f"topic-{n}", n) for n in range(1_000)))
    for world.now in range(30):
        world.run()
    before = world.sender.attempts
    for world.now in range(30, 60):
        world.run()
    assert 1_000 < world.sender.attempts - before < 30 * 600


def test_record_that_differs_from_one_on_disk_only_in_its_partition_is_put_back(world: World) -> None:
    world.add(message("a", 0, partition_key=10))
    world.run()
    [delivery] = world.sender.waiting
    delivery.partition = 1  # of three
    world.sender.end("CLOSED")
    assert world.spool.close([undelivered(message("a", 0), 1), undelivered(message("a", 0), 2)]) == []
    world.begin()
    world.run()
    assert [given[3] for given in world.sender.sent] == [2, 10]


@pytest.mark.parametrize(("code", "reason"), [("CLOSED", Reason.SERVER_SHUTDOWN), ("CLIENT_ERROR", Reason.BUG)])
def test_kept_messages_are_counted_for_the_reason_for_which_the_producer_failed_them(world: World, code: str, reason: Reason) -> None:
    world.add(message("a", 0))
    world.run()
    world.sender.end(code)
    world.spool.close([])
    assert world.ledger.reasons_of_kept == {reason}


def test_folder_keeps_what_is_not_the_agents(world: World) -> None:
    world.add(message("a", 0))
    [file] = files(world.settings.path)
    (file.parent / "notes").write_text("of the administrator")
    world.run()
    world.sender.end()
    world.run()
    assert (file.parent / "notes").exists()
    world.add(message("a", 1))
    assert files(world.settings.path) == [file]


def test_file_that_cannot_be_opened_for_want_of_descriptors_is_read_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.add(message("a", 0))
    real, opened = os.open, iter([errno.EMFILE] * 2)

    def lacking(path: str, flags: int, mode: int = 0o777) -> int:
        if (error := next(opened, None)) is not None:
            raise OSError(error, "Too many open files")
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", lacking)
    world.run()
    assert world.sent("a") == []
    world.now += 1.0
    world.run()
    world.now += 1.0
    world.run()
    assert world.sent("a") == [0]
    assert world.ledger.lost == {}


def test_old_file_that_cannot_be_opened_for_want_of_descriptors_is_counted_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(2):
        world.add(message("a", n))
        world.restart()
    [fifo] = world.spool.uncounted()
    real, opened = os.open, iter([None, None, None, errno.EMFILE])  # three reads of the first file

    def lacking(path: str, flags: int, mode: int = 0o777) -> int:
        if (error := next(opened, None)) is not None:
            raise OSError(error, "Too many open files")
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", lacking)
    assert not fifo.inspect()
    world.run()
    assert world.sent("a") == [0, 1]
    assert world.ledger.lost == {}


def test_file_is_removed_without_a_descriptor(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.add(message("a", 0))
    world.run()
    world.sender.end()

    def lacking(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", lacking)
        world.run()
    assert files(world.settings.path) == []
    assert world.spool.state().failure is None


@pytest.mark.parametrize(("topics", "each", "looks"), [(1, 10, 4), (6, 2, 6)])
def test_many_acknowledgements_at_once_are_counted_in_several_turns(
    world: World, monkeypatch: pytest.MonkeyPatch, topics: int, each: int, looks: int
) -> None:
    monkeypatch.setattr("pykafka4.agent.spool.replay.MOST_AT_ONCE", 3)
    monkeypatch.setattr("pykafka4.agent.spool.replay.LEAVING_COST", 3)
    world.add(*(message(f"topic-{n % topics}", n) for n in range(topics * each)))
    world.run()
    world.sender.end()
    woken: list[object] = []
    for _ in range(looks):
        world.spool.remove_done(woken.append)
    assert len(woken) >= looks - 1  # without another acknowledgement
    assert not any(world.spool.takes(f"topic-{n}") for n in range(topics))


def test_topics_that_have_left_are_removed_in_several_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykafka4.agent.spool.spool.MOST_LEAVING", 3)
    world = World(tmp_path, always=True, sync=Sync.NEVER)
    world.add(*(message(f"topic-{n}", n) for n in range(5)))
    world.run()
    world.sender.end()
    world.run()
    world.spool.save()
    assert len(files(tmp_path)) == 2
    world.spool.save()
    assert files(tmp_path) == []


def test_topics_that_pause_are_tried_when_something_was_acknowledged(tmp_path: Path) -> None:
    world = World(tmp_path, room=10, max_size=16 * MIB, sync=Sync.NEVER)
    world.add(*(message(f"topic-{n}", n) for n in range(1_000)))
    for _ in range(100):  # at one time: no pause is over
        world.run()
        world.sender.end()
    assert len(world.sender.sent) == 1_000
