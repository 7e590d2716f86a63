"""Standard streams that are closed, full, or a pipe without a reader: exit codes, what is told, what a group commits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pykafka4 import TopicPartition
from pykafka4.testing import ModelServer
from tests.consumer.consuming import topic

PROGRAM = f"{sys.executable} -m pykafka4"
CLOSED_OUTPUT = "error: standard output: closed by the program that started this one; give a file, a pipe or /dev/null\n"
CLOSED_INPUT = CLOSED_OUTPUT.replace("output", "input")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a shell that closes streams")


def shell(line: str, bootstrap: str = "127.0.0.1:1") -> tuple[int, str, str]:
    """The exit code, the output and the errors of a shell's line, in which `pykafka4` is this program."""
    done = subprocess.run(
        ["/bin/sh", "-c", line.replace("pykafka4", PROGRAM)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYKAFKA4_BOOTSTRAP": bootstrap},
    )
    return done.returncode, done.stdout, done.stderr


def test_consume_with_closed_output_fails_and_commits_nothing(server: ModelServer) -> None:
    topic(server, 6)
    assert shell("pykafka4 consume t --group g >&-", server.bootstrap_servers) == (1, "", CLOSED_OUTPUT)
    assert not any(server.committed("g").values())
    assert shell("pykafka4 consume t --group g > /dev/null", server.bootstrap_servers) == (0, "", "")
    assert server.committed("g") == {TopicPartition("t", 0): 6}


@pytest.mark.parametrize("line", ["groups list", "cluster describe --json", "--help", "topics create u"])
def test_a_result_that_closed_output_cannot_take_is_code_1(server: ModelServer, line: str) -> None:
    assert shell(f"pykafka4 {line} >&-", server.bootstrap_servers) == (1, "", CLOSED_OUTPUT)


def test_a_command_that_writes_no_result_needs_no_output(server: ModelServer) -> None:
    topic(server, 0)
    assert shell("echo a | pykafka4 produce t >&-", server.bootstrap_servers) == (0, "", "")


@pytest.mark.parametrize("line", ["produce t", "produce t --transactional", "users set alice --password-file -"])
def test_closed_input_is_not_taken_for_an_empty_one(server: ModelServer, line: str) -> None:
    topic(server, 0)
    assert shell(f"pykafka4 {line} <&-", server.bootstrap_servers) == (1, "", CLOSED_INPUT)


def test_closed_errors_are_lost_and_the_exit_code_stays(server: ModelServer) -> None:
    assert shell("pykafka4 groups list 2>&-", server.bootstrap_servers)[0] == 0
    assert shell("pykafka4 nonsense 2>&-") == (2, "", "")
    assert shell("pykafka4 groups lag none 2>&- <&- >&-", server.bootstrap_servers) == (1, "", "")


@pytest.mark.parametrize("line", ["--help", "groups list", "groups list --json", "demo --help"])
def test_a_reader_that_closes_the_pipe_is_code_0(server: ModelServer, line: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [*PROGRAM.split(), *line.split()]
    place = {**os.environ, "PYKAFKA4_BOOTSTRAP": server.bootstrap_servers}
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False, env=place)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(("line", "code"), [("groups list --json --timeout 0.5", 1), ("nonsense", 2), ("groups lag --json", 2)])
@pytest.mark.parametrize("streams", ["stdout", "stderr"])
def test_a_reader_that_closes_the_pipe_does_not_hide_a_failure(line: str, code: int, streams: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    pipes = {"stdout": writer, "stderr": writer} if streams == "stderr" else {"stdout": writer, "stderr": subprocess.PIPE}
    place = {**os.environ, "PYKAFKA4_BOOTSTRAP": "127.0.0.1:1"}
    done = subprocess.run([*PROGRAM.split(), *line.split()], **pipes, timeout=60, check=False, env=place)
    os.close(writer)
    assert done.returncode == code
    assert b"Traceback" not in (done.stderr or b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("line", ["groups list", "--help"])
def test_a_full_disk_is_told_with_what_could_not_be_written(server: ModelServer, line: str) -> None:
    expected = "error: standard output: No space left on device\n"
    assert shell(f"pykafka4 {line} > /dev/full", server.bootstrap_servers) == (1, "", expected)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_an_error_that_a_full_disk_cannot_take_is_told_beside_the_disk() -> None:
    code, _, err = shell("pykafka4 groups list --json --timeout 0.5 > /dev/full")
    assert code == 1
    assert [line.split(":")[:2] for line in err.splitlines() if line.startswith("error")] == [
        ["error", " refreshing metadata"],
        ["error", " standard output"],
    ]
