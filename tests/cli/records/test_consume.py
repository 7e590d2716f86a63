"""`consume` on a model cluster: what is written, where it begins and ends, what a group commits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from pykafka4 import Producer, TopicPartition
from pykafka4.cli import consume as module
from pykafka4.cli.consume import Writing
from pykafka4.cli.records.filters import chosen_by
from pykafka4.cli.records.forms import form_of
from pykafka4.cli.records.progress import Meter
from pykafka4.cli.records.reading import Reading
from pykafka4.consumer.reading.forms import ListForm
from pykafka4.testing import ModelServer
from pykafka4.wire.records.hot import Record
from tests.cli.records.conftest import Run
from tests.consumer.consuming import LONG, fill, numbers, topic

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("options", "out"),
    [
        ([], "0 1 2 3 4 5 0 1 2"),
        (["-p", "1"], "0 1 2"),
        (["--from", "4"], "4 5"),
        (["--from", "-2"], "4 5 1 2"),
        (["--from", "1", "--until", "3"], "1 2 1 2"),
        (["--until", "1970-01-01T00:00:01.002"], "0 1 0 1"),
        (["--from", "1970-01-01T00:00:01.004"], "4 5"),
        (["--from", "-1h"], ""),
        (["-n", "4", "-p", "0"], "0 1 2 3"),
        (["-n", "0"], ""),
        (["--raw", "-p", "1"], "012"),
    ],
)
def test_records_are_written_from_one_place_to_another(server: ModelServer, command: Run, options: list[str], out: str) -> None:
    topic(server, 6, 3)
    ran = command("consume", "t", *options)
    assert (ran.code, ran.err) == (0, "")
    assert sorted(ran.out.split()) == sorted(out.encode().split())


def test_what_is_committed_is_read_by_default(server: ModelServer, command: Run) -> None:
    server.create_topic("t", 1)
    with Producer(bootstrap_servers=server.bootstrap_servers, transactional_id="x") as producer:
        producer.init_transactions()
        for value in ("kept", "aborted"):
            producer.begin_transaction()
            producer.send("t", value)
            producer.commit_transaction() if value == "kept" else producer.abort_transaction()
    assert command("consume", "t").out == b"kept\n"


def test_keys_and_headers_choose_records(server: ModelServer, command: Run) -> None:
    server.create_topic("t", 1)
    with Producer(bootstrap_servers=server.bootstrap_servers) as producer:
        producer.send("t", "1", key="a", headers={"h": "x"})
        producer.send("t", "2", key="b", headers={"h": "y"})
        producer.send("t", "3", headers={"h": "x", "i": ""})
        producer.send("t", None, key="a")
    assert command("consume", "t", "-k", "a").out == b"1\n\n"
    assert command("consume", "t", "-k", "a", "-k", "b", "-f", "%k%s ").out == b"a1 b2 a "
    assert command("consume", "t", "-H", "h").out == b"1\n2\n3\n"
    assert command("consume", "t", "-H", "h=x", "-H", "i").out == b"3\n"
    assert command("consume", "t", "-k", "a", "-n", "1").out == b"1\n"
    assert command("consume", "t", "-k", "a", "-Z").out == b"1\nNULL\n"


def test_a_group_goes_on_where_it_stands_and_commits_what_was_written(server: ModelServer, command: Run) -> None:
    topic(server, 6, 3)
    ran = command("consume", "t", "--group", "g")
    assert (ran.code, len(ran.out.split())) == (0, 9)
    assert server.committed("g") == {T0: 6, T1: 3}
    assert command("consume", "t", "--group", "g").out == b""
    fill(server, "t", 0, numbers(6, 8))
    assert command("consume", "t", "--group", "g").out == b"6\n7\n"
    assert server.committed("g") == {T0: 8, T1: 3}


def test_a_group_goes_on_where_it_stands_although_it_would_begin_at_the_end(server: ModelServer, command: Run) -> None:
    topic(server, 6)
    seen = command("consume", "t", "--group", "g", "-n", "2").out.split()
    seen += command("consume", "t", "--group", "g", "--from", "latest").out.split()
    assert sorted(seen) == [b"%d" % number for number in range(6)]
    ran = command("consume", "t", "--group", "new", "--from", "latest")
    assert (ran.code, ran.out) == (0, b"")


def test_a_group_does_not_commit_what_is_behind_the_limit(server: ModelServer, command: Run) -> None:
    topic(server, 6, 3)
    seen: list[bytes] = []
    for total in (2, 4, 6, 8, 9, 9):
        seen += command("consume", "t", "--group", "g", "-n", "2").out.split()
        assert len(seen) == total == sum(server.committed("g").values())
    assert sorted(seen) == sorted(numbers(0, 6) + numbers(0, 3))


def test_a_filter_with_a_limit_commits_what_it_left_out_before_the_last_record(server: ModelServer, command: Run) -> None:
    server.create_topic("t", 1)
    with Producer(bootstrap_servers=server.bootstrap_servers) as producer:
        producer.send_many("t", numbers(0, 10), keys=[b"a", b"b"] * 5)
    assert command("consume", "t", "--group", "g", "-k", "b", "-n", "2").out == b"1\n3\n"
    assert server.committed("g") == {T0: 4}
    assert command("consume", "t", "--group", "g", "-k", "b").out == b"5\n7\n9\n"
    assert server.committed("g") == {T0: 10}


def test_a_group_does_not_commit_what_could_not_be_written(server: ModelServer, command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    topic(server, 6)

    def full(data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "standard_output", lambda: full)
    ran = command("consume", "t", "--group", "g")
    assert (ran.code, "No space left" in ran.err) == (1, True)
    assert server.committed("g") == {}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--follow", "--until", "now"], "--follow has no end"),
        (["--from", "latest"], "reads nothing: add --follow"),
        (["--group", "g", "-p", "0"], "leave out --partition"),
        (["--group", "g", "--from", "5"], "leave out --partition"),
        (["--json", "--hex"], "--json and --hex are different forms"),
        (["-f", "%q"], "'%q' in '%q' is none of"),
        (["--from", "x"], "is none of: earliest"),
    ],
)
def test_wrong_usage_is_told(command: Run, options: list[str], text: str) -> None:
    ran = command("consume", "t", *options)
    assert (ran.code, ran.out, text in " ".join(ran.err.split())) == (2, b"", True)


def test_a_topic_that_does_not_exist_and_deleted_records_are_told(
    server: ModelServer, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(server, 6)
    ran = command("consume", "nothing")
    assert (ran.code, "UNKNOWN_TOPIC_OR_PARTITION" in ran.err) == (1, True)
    assert command("consume", "none", "-J").out == command("consume", "none", "--json").out != b""
    server.do(lambda cluster: cluster.delete_records("t", 0, 4))
    assert command("consume", "t", "--from", "2").out == b"4\n5\n"


class Lists(Reading):
    """A reading of these lists, which notes what is given back."""

    def __init__(self, *lists: list[Any]) -> None:
        self._lists, self.given_back = lists, list[Any]()

    def lists(self, form: Any, most: int | None) -> Any:
        return iter(self._lists)

    def give_back(self, rest: Any) -> None:
        self.given_back += rest


def running(server: ModelServer, *arguments: str, **streams: Any) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "pykafka4", "--bootstrap", server.bootstrap_servers, *arguments]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **streams)


@pytest.mark.parametrize("more", [[], ["--group", "g"]])
def test_ctrl_c_ends_a_follower_and_what_it_wrote_is_committed_but_perhaps_for_the_last_list(server: ModelServer, more: list[str]) -> None:
    topic(server, 3)
    with running(server, "consume", "t", "--follow", *more) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == [b"0\n", b"1\n", b"2\n"]
        fill(server, "t", 0, numbers(3, 4))
        assert process.stdout.readline() == b"3\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LONG)
    assert (process.returncode, out, err.strip()) == (130, b"", b"")
    assert server.committed("g") in ([{T0: 3}, {T0: 4}] if more else [{}])


@pytest.mark.parametrize(
    ("options", "out"), [(["--from", "-2", "-n", "3"], b"1\n2\n3\n"), (["--from", "1", "-p", "0", "-n", "3"], b"1\n2\n3\n")]
)
def test_a_follower_begins_at_any_place(server: ModelServer, options: list[str], out: bytes) -> None:
    topic(server, 3)
    with running(server, "consume", "t", "--follow", *options) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        fill(server, "t", 0, numbers(3, 5))
        assert process.stdout.read() == out[2:]
        assert process.wait(LONG) == 0


def test_a_follower_reads_partitions_that_are_added(server: ModelServer) -> None:
    topic(server, 1)
    with running(server, "consume", "t", "--follow", "-X", "metadata.max.age.ms=100") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"0\n"
        server.do(lambda cluster: cluster.add_partitions("t", 2))
        fill(server, "t", 1, numbers(7, 8))
        assert process.stdout.readline() == b"7\n"
        process.kill()


def test_an_idle_member_commits_what_it_wrote(server: ModelServer) -> None:
    topic(server, 3)
    with running(server, "-X", "auto.commit.interval.ms=100", "consume", "t", "--follow", "--group", "g") as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == [b"0\n", b"1\n", b"2\n"]
        deadline = time.monotonic() + LONG
        while server.committed("g") != {T0: 3}:
            assert time.monotonic() < deadline
        process.kill()


def test_a_closed_pipe_is_no_error_that_is_told(server: ModelServer) -> None:
    topic(server, 3)
    with running(server, "consume", "t", "--follow") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"0\n"
        process.stdout.close()
        fill(server, "t", 0, numbers(3, 4))
        assert process.stderr is not None
        assert process.stderr.read() == b""
        process.wait(LONG)


def test_lines_of_a_pipe_are_sent_as_they_come(server: ModelServer) -> None:
    server.create_topic("t", 1)
    with running(server, "produce", "t") as process, running(server, "consume", "t", "--follow") as reader:
        assert process.stdin is not None
        assert reader.stdout is not None
        for line in (b"a\n", b"b\n"):
            os.write(process.stdin.fileno(), line)
            assert reader.stdout.readline() == line
        process.stdin.close()
        assert process.wait(LONG) == 0
        reader.kill()


def test_a_limit_in_the_middle_of_a_list_gives_the_rest_back(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    records = [Record("t", 0, offset, 0, "CREATE_TIME", b"k" if offset % 2 else b"", b"%d" % offset, ()) for offset in range(8)]
    reading = Lists(records[:3], records[3:])
    with Meter("t", None, shows=False) as meter:
        Writing(chosen_by(["k"], []), form_of({}, None, None, False), 2).run(ListForm(1), reading, meter)
    assert capsysbinary.readouterr().out == b"1\n3\n"
    assert reading.given_back == records[4:]
