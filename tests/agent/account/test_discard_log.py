"""The discard log: Dory's lines, rotation, and disks that fail."""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka4.agent.account.discard_log import DiscardLog
from pykafka4.agent.account.log_entries import DiscardLine, format_entry
from pykafka4.agent.account.log_file import LogFile
from pykafka4.agent.message import Reason, Refused
from pykafka4.agent.settings.values import DiscardLogSettings
from tests.agent.account.accounting import Clock, message

SECONDS = 30.0
LINE = re.compile(
    rb"now: (\d+) ts: (-?\d+) event: DISC info: ([A-Z_]+(?:\(-?\d+\))?) "
    rb"topic: (\d+)\[([^\[\]]*)\] key: (\d+)\[([A-Za-z0-9+/=]*)\] msg: (\d+)\[([A-Za-z0-9+/=]*)\]\n"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "discards.log"


Open = Callable[..., DiscardLog]


@pytest.fixture
def started(path: Path) -> Iterator[Open]:
    logs: list[DiscardLog] = []

    def start(**settings: object) -> DiscardLog:
        logs.append(DiscardLog(DiscardLogSettings(path, **settings), Clock(1_700_000_000.25)))  # type: ignore[arg-type]
        logs[-1].start()
        return logs[-1]

    yield start
    for log in logs:
        log.close(SECONDS)


def parse(line: bytes) -> tuple[int, int, str, str, bytes, bytes]:
    """As a reader of Dory's lines would, by the lengths."""
    found = LINE.fullmatch(line)
    assert found is not None, line
    now, timestamp, info, size, topic, key_size, key, message_size, data = found.groups()
    assert [len(topic), len(key), len(data)] == [int(size), int(key_size), int(message_size)]
    return int(now), int(timestamp), info.decode(), topic.decode("unicode_escape"), b64decode(key), b64decode(data)


def test_a_line_is_dorys_to_the_byte(started: Open, path: Path) -> None:
    log = started()
    log.discarded(message("clicks", b"hello", b"k", 77), Reason.NO_MEM)
    log.discarded(message("clicks", None, None, -5), Reason.TIMED_OUT)
    log.refused(b"\x00\x01", Refused(Reason.API_KEY, 999))
    log.refused(b"\x00", Refused(Reason.VERSION, 3))
    log.refused(b"", Refused(Reason.MALFORMED))
    log.refused(b"abc", Refused(Reason.UNCLEAN_TCP))
    log.close(SECONDS)
    now = 1_700_000_000_250
    assert path.read_text().splitlines() == [
        f"now: {now} ts: 77 event: DISC info: NO_MEM topic: 6[clicks] key: 4[aw==] msg: 8[aGVsbG8=]",
        f"now: {now} ts: -5 event: DISC info: TIMED_OUT topic: 6[clicks] key: 0[] msg: 0[]",
        f"now: {now} ts: {now} event: DISC info: API_KEY(999) topic: 0[] key: 0[] msg: 4[AAE=]",
        f"now: {now} ts: {now} event: DISC info: VERSION(3) topic: 0[] key: 0[] msg: 4[AA==]",
        f"now: {now} ts: {now} event: DISC info: MALFORMED topic: 0[] key: 0[] msg: 0[]",
        f"now: {now} ts: {now} event: DISC info: UNCLEAN_T topic: 0[] key: 0[] msg: 4[YWJj]",
    ]
    assert log.counters() == {"DiscardLogWritten": 6, "DiscardLogLeftOut": 0}


@given(st.text(st.characters(), max_size=50), st.binary(max_size=20), st.binary(max_size=20))
def test_no_topic_can_forge_a_field_or_a_line(topic: str, key: bytes, value: bytes) -> None:
    line = format_entry(DiscardLine(1, 2, "NO_MEM", topic, key, value))
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert parse(line) == (1, 2, "NO_MEM", topic, key, value)


def test_a_topic_that_tries_is_one_line() -> None:
    topic = "x] key: 0[] msg: 0[]\nnow: 1 ts: 2 event: DISC info: BUG topic: 1[y"
    assert parse(format_entry(DiscardLine(1, 2, "NO_MEM", topic, b"", b"")))[3] == topic


def test_keys_and_values_are_cut(started: Open, path: Path) -> None:
    log = started(max_prefix_size=4)
    log.discarded(message("t", b"123456789", b"abcdef"), Reason.NO_MEM)
    log.refused(b"987654321", Refused(Reason.MALFORMED))
    log.close(SECONDS)
    first, second = map(parse, path.read_bytes().splitlines(keepends=True))
    assert (first[4], first[5], second[5]) == (b"abcd", b"1234", b"9876")


def test_only_the_owner_may_read_it(started: Open, path: Path) -> None:
    started().close(SECONDS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


# ---- rotation


def file(path: Path, max_size: int = 100, max_archive_size: int = 10_000, now: float = 5.0) -> LogFile:
    return LogFile(path, max_size, max_archive_size, Clock(now))


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.parent.iterdir())


def test_a_file_is_renamed_when_the_next_line_would_exceed_its_size(path: Path) -> None:
    log = file(path)
    line = b"x" * 49 + b"\n"
    assert log.append([line, line]) == (2, None)
    assert names(path) == ["discards.log"]
    assert log.append([b"y\n"]) == (1, None)
    assert names(path) == ["discards.log", "discards.log.5000"]
    assert (path.read_bytes(), path.with_name("discards.log.5000").read_bytes()) == (b"y\n", 2 * line)


def test_lines_of_one_call_are_split_over_files_that_get_names_of_their_own(path: Path) -> None:
    lines = [b"%049d\n" % number for number in range(7)]
    assert file(path).append(lines) == (7, None)
    assert names(path) == ["discards.log", "discards.log.5000", "discards.log.5001", "discards.log.5002"]
    archives = [path.with_name(f"discards.log.{number}").read_bytes() for number in (5000, 5001, 5002)]
    assert b"".join([*archives, path.read_bytes()]) == b"".join(lines)


def test_a_line_that_is_longer_than_a_file_is_alone_in_one(path: Path) -> None:
    log = file(path)
    long = b"x" * 500 + b"\n"
    assert log.append([b"a\n", long, b"b\n"]) == (3, None)
    assert [path.with_name(f"discards.log.{n}").read_bytes() for n in (5000, 5001)] == [b"a\n", long]
    assert path.read_bytes() == b"b\n"


def test_a_file_of_an_earlier_process_is_continued(path: Path) -> None:
    path.write_bytes(b"z" * 99 + b"\n")
    file(path).append([b"a\n"])
    assert path.with_name("discards.log.5000").read_bytes() == b"z" * 99 + b"\n"


def test_the_oldest_archives_are_removed_and_no_other_file(path: Path) -> None:
    others = ["discards.log.old", "discards.log.12x", "other.log.1", "discards.log.", "discards.log.\uff17"]
    for name in others:
        path.with_name(name).write_bytes(b"keep" * 100)
    for number in (3, 20, 1000):
        path.with_name(f"discards.log.{number}").write_bytes(b"x" * 100)
    file(path, max_archive_size=250).append([b"a\n"])
    assert names(path) == sorted(["discards.log", "discards.log.20", "discards.log.1000", *others])


def test_archives_never_take_more_than_their_size(path: Path) -> None:
    log = file(path, max_size=1000, max_archive_size=3500)
    for number in range(200):
        assert log.append([b"%099d\n" % number]) == (1, None)
    archives = sorted(entry for entry in path.parent.iterdir() if entry != path)
    assert sum(entry.stat().st_size for entry in archives) == 3000
    assert archives[-1].read_bytes().endswith(b"%099d\n" % 189)


def test_a_clock_that_is_set_back_makes_no_archive_older(path: Path) -> None:
    file(path, now=9.0).append([b"x" * 90 + b"\n"] * 2)
    file(path, now=2.0).append([b"y" * 90 + b"\n"])
    assert names(path) == ["discards.log", "discards.log.9000", "discards.log.9001"]


def test_a_file_that_logrotate_moved_away_is_opened_anew(path: Path) -> None:
    log = file(path)
    log.append([b"a\n"])
    path.rename(path.with_name("moved"))
    log.append([b"b\n"])
    path.unlink()
    log.append([b"c\n"])
    assert (path.with_name("moved").read_bytes(), path.read_bytes()) == (b"a\n", b"c\n")


# ---- disks that fail


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)


def left_out(log: DiscardLog) -> int:
    return log.counters()["DiscardLogLeftOut"]


def test_a_missing_folder_is_named_at_the_start_and_entries_are_counted_until_it_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "missing" / "discards.log"
    log = DiscardLog(DiscardLogSettings(path))
    log.start()
    wait_for(lambda: "No such file or directory" in caplog.text)
    for number in range(3):
        log.discarded(message("t"), Reason.NO_MEM)
        wait_for(lambda number=number: left_out(log) == number + 1)  # type: ignore[misc]
    path.parent.mkdir()
    log.discarded(message("t"), Reason.NO_MEM)
    wait_for(path.exists)
    log.close(SECONDS)
    assert len(path.read_bytes().splitlines()) == 1
    assert log.counters() == {"DiscardLogWritten": 1, "DiscardLogLeftOut": 3}
    lines = [record.getMessage() for record in caplog.records if record.name == "pykafka4.agent"]
    assert len(lines) == 3
    assert str(path) in lines[0]
    assert "written again; entries left out: 3" in lines[1]
    assert "entries left out since the start: 3" in lines[2]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
def test_a_full_disk_is_named_once_and_the_log_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    log = DiscardLog(DiscardLogSettings(Path("/dev/full")))
    log.start()
    for number in range(5):
        log.discarded(message("t"), Reason.NO_MEM)
        wait_for(lambda number=number: left_out(log) == number + 1)  # type: ignore[misc]
    assert sum("No space left" in record.getMessage() for record in caplog.records) == 1
    log.close(SECONDS)


def append_with_half_a_write(log: LogFile, line: bytes) -> None:
    """The disk takes three bytes of `line`, and then no more."""
    results, write = iter([3, None]), os.write

    def full(fd: int, data: bytes) -> int:
        size = next(results)
        if size is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data[:size])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", full)
        done, error = log.append([line])
    assert (done, error is not None and error.errno) == (0, errno.ENOSPC)


def test_a_disk_that_takes_half_a_line_leaves_whole_lines(path: Path) -> None:
    log = file(path)
    assert log.append([b"first\n"]) == (1, None)
    append_with_half_a_write(log, b"second\n")
    assert log.append([b"third\n"]) == (1, None)
    assert path.read_bytes() == b"first\nthird\n"


def test_a_line_after_a_failed_cut_is_not_cut_later(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    log = file(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", refuse)
        append_with_half_a_write(log, b"first\n")
    assert log.append([b"second\n"]) == (1, None)
    append_with_half_a_write(log, b"third\n")
    assert path.read_bytes() == b"firsecond\n"


Hangs = tuple[threading.Event, threading.Event]


@pytest.fixture
def hangs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hangs]:
    """Events for a disk that hangs: the first write has begun; the disk works again."""
    hanging, go_on = threading.Event(), threading.Event()
    append = LogFile.append

    def hang(self: LogFile, lines: list[bytes]) -> tuple[int, OSError | None]:
        hanging.set()
        assert go_on.wait(SECONDS)
        return append(self, lines)

    monkeypatch.setattr(LogFile, "append", hang)
    yield hanging, go_on
    go_on.set()


def test_entries_that_a_hanging_disk_has_not_written_at_the_close_are_counted(
    path: Path, hangs: Hangs, caplog: pytest.LogCaptureFixture
) -> None:
    hanging, go_on = hangs
    log = DiscardLog(DiscardLogSettings(path))
    log.start()
    log.discarded(message("t", b"first"), Reason.NO_MEM)
    assert hanging.wait(SECONDS)
    for _ in range(2):
        log.discarded(message("t"), Reason.NO_MEM)
    log.close(0)
    assert "entries left out since the start: 3" in caplog.text
    go_on.set()
    wait_for(lambda: not any(thread.name == "pykafka4-discard-log" for thread in threading.enumerate()))
    assert log.counters() == {"DiscardLogWritten": 0, "DiscardLogLeftOut": 3}


def test_a_disk_that_hangs_delays_nobody_and_entries_without_room_are_counted(path: Path, hangs: Hangs) -> None:
    hanging, go_on = hangs
    log = DiscardLog(DiscardLogSettings(path, max_prefix_size=None, max_file_size=100_000_000))
    log.start()
    log.discarded(message("t", b"first"), Reason.NO_MEM)
    assert hanging.wait(SECONDS)
    big, count = b"x" * 100_000, 100
    for _ in range(count):
        log.discarded(message("t", big), Reason.NO_MEM)
    missing = left_out(log)
    assert 0 < missing < count
    go_on.set()
    log.close(SECONDS)
    assert log.counters() == {"DiscardLogWritten": count + 1 - missing, "DiscardLogLeftOut": missing}
    assert len(path.read_bytes().splitlines()) == count + 1 - missing


def test_what_was_written_makes_room(started: Open, path: Path) -> None:
    log = started(max_prefix_size=None, max_file_size=100_000_000)
    big = b"x" * 1_000_000
    for count in range(3, 15, 3):  # together more than there is room at a time
        for _ in range(3):
            log.discarded(message("t", big), Reason.NO_MEM)
        wait_for(lambda count=count: sum(log.counters().values()) == count)  # type: ignore[misc]
    assert left_out(log) == 0


def test_after_close_entries_are_left_out(started: Open, path: Path) -> None:
    log = started()
    log.close(SECONDS)
    log.discarded(message("t"), Reason.NO_MEM)
    assert log.counters() == {"DiscardLogWritten": 0, "DiscardLogLeftOut": 1}


def test_threads_write_whole_lines(started: Open, path: Path) -> None:
    log = started(max_file_size=100_000_000)

    def write(number: int) -> None:
        for index in range(500):
            log.discarded(message(f"t{number}", b"%d" % index), Reason.NO_MEM)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close(SECONDS)
    found = [parse(line) for line in path.read_bytes().splitlines(keepends=True)]
    assert sorted((topic, value) for _, _, _, topic, _, value in found) == sorted(
        (f"t{number}", b"%d" % index) for number in range(4) for index in range(500)
    )
