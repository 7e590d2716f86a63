"""The judge of group members, on journals that are given: no broker and no client takes part."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.judge.reader import LogRecord
from integration.waiting import WaitTimeout
from integration.workload.journal import digest
from integration.workload.members import Member, Members

LOG = {0: [LogRecord(n, b"k", b"%d" % n, (), n, -1, -1, -1) for n in range(3)]}
ROWS = [(0, r.offset, digest(r.key, r.value, r.headers, r.timestamp)) for r in LOG[0]]
ASSIGNED = {"what": "assigned", "partitions": [0]}


@pytest.fixture
def members(tmp_path: Path) -> Iterator[Members]:
    with Members({"bootstrap_servers": "nowhere:1"}, "g", "t", tmp_path) as group:
        yield group


def took_part(members: Members, *lines: dict[str, Any], kind: str = "ours", error: str = "", code: int | None = None) -> Member:
    """A member with that journal; its process runs, or ended with that exit code."""
    script = f"raise SystemExit({code})" if code is not None else "import signal; signal.pause()"
    process = subprocess.Popen([sys.executable, "-c", script])
    if code is not None:
        process.wait(30)
    path = members.folder / f"{kind}-{len(members.all)}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    path.with_suffix(".err").write_text(error)
    members.all.append(Member(path.stem, kind, None, process, path))
    return members.all[-1]


def read(*rows: tuple[int, int, int]) -> dict[str, Any]:
    return {"what": "read", "rows": rows}


def test_members_that_read_the_log_between_them_pass(members: Members) -> None:
    took_part(members, ASSIGNED, read(*ROWS[:2]), {"what": "error", "error": "KafkaTimeoutError: no answer"})
    took_part(members, ASSIGNED, read(*ROWS[1:]), ASSIGNED, read(*ROWS), error="a warning\n")
    assert members.complaints(LOG) == []
    assert members.repeated() == 4


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([ROWS[0], ROWS[2]], "where 1 came next"),
        ([ROWS[0], ROWS[1], ROWS[1], ROWS[2]], "where 2 came next"),
        ([ROWS[0], ROWS[1]], "1 records were read by nobody"),
        ([*ROWS, (0, 3, 1)], "which the log does not hold"),
        ([(0, 0, ROWS[0][2] ^ 1), *ROWS[1:]], "something else at 0@0"),
    ],
)
def test_a_record_read_differently_from_the_log_is_reported(members: Members, rows: list[tuple[int, int, int]], complaint: str) -> None:
    took_part(members, ASSIGNED, read(*rows))
    assert any(complaint in line for line in members.complaints(LOG))


@pytest.mark.parametrize("code", [0, 1])
def test_a_member_that_ends_by_itself_is_reported(members: Members, code: int) -> None:
    took_part(members, ASSIGNED, read(*ROWS), {"what": "ended"}, code=code)
    assert members.complaints(LOG) == [f"ours-0 ended by itself, exit code {code}: without an error"]


@pytest.mark.parametrize("instance", [None, "s1"])
@pytest.mark.parametrize("code", ["FENCED_INSTANCE_ID", "GROUP_AUTHORIZATION_FAILED"])
def test_only_a_static_member_may_be_fenced(members: Members, instance: str | None, code: str) -> None:
    """By a JoinGroup that was executed late."""
    error = {"what": "error", "error": f"GroupError: joining group g: {code}"}
    took_part(members, ASSIGNED, read(*ROWS), error, {"what": "ended"}, code=0).instance = instance
    told = [] if instance and code == "FENCED_INSTANCE_ID" else [f"ours-0 ended by itself, exit code 0: {error['error']}"]
    assert members.complaints(LOG) == told


def test_members_that_are_killed_or_asked_to_end_pass(members: Members) -> None:
    took_part(members, ASSIGNED, read(*ROWS)).kill()
    asked = took_part(members)
    asked.ask()
    asked.process.wait(30)
    took_part(members, code=1, kind="confluent")
    assert members.complaints(LOG) == []


def test_a_member_that_died_before_the_request_is_reported(members: Members) -> None:
    member = took_part(members, ASSIGNED, read(*ROWS), code=1)
    member.ask()
    member.kill()
    assert members.complaints(LOG) == ["ours-0 ended by itself, exit code 1: without an error"]


@pytest.mark.parametrize(
    ("lines", "stored"),
    [
        ([ASSIGNED, read(*ROWS)], 0),
        ([ASSIGNED, read(*ROWS), {"what": "revoked", "partitions": [0]}, ASSIGNED], 3),
    ],
    ids=["read to the end", "assigned after the last record"],
)
def test_members_have_finished_when_a_living_one_stands_at_the_end(members: Members, lines: list[dict[str, Any]], stored: int) -> None:
    took_part(members, *lines)
    members.wait_finished({0: 3}, 0.0, lambda: {0: stored})


@pytest.mark.parametrize("lines", [[], [ASSIGNED], [ASSIGNED, read(ROWS[1])]], ids=["no member yet", "assigned", "reads again"])
def test_members_have_not_finished_while_records_would_be_read_again(members: Members, lines: list[dict[str, Any]]) -> None:
    """The one that read the last records ended, and its commit failed."""
    took_part(members, ASSIGNED, read(*ROWS), kind="aiokafka", code=0)
    took_part(members, *lines)
    with pytest.raises(WaitTimeout, match="to be at the ends"):
        members.wait_finished({0: 3}, 0.0, lambda: {0: 2})


@pytest.mark.parametrize("error", ["TypeError: 'NoneType'", "AssertionError: ", "KeyError: 3"])
def test_an_undocumented_error_is_reported(members: Members, error: str) -> None:
    took_part(members, ASSIGNED, read(*ROWS), {"what": "error", "error": error})
    assert members.complaints(LOG) == [f"ours-0 raised {error}"]


def test_a_traceback_is_reported(members: Members) -> None:
    took_part(members, ASSIGNED, read(*ROWS), error="pykafka4: \nTraceback (most recent call last):\nKeyError: 3\n")
    (line,) = members.complaints(LOG)
    assert "KeyError: 3" in line
