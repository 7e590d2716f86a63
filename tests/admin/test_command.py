"""`python -m pykafka4 groups …` on model brokers: output, exit codes, wrong usage. Run in this process, and once in its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from pykafka4 import AdminClient, GroupDescription, GroupLag, KafkaError, OffsetAndMetadata, TopicPartition
from pykafka4 import __main__ as entry
from pykafka4.admin.values import PartitionLag
from pykafka4.cli.groups import watch
from pykafka4.cli.main import run
from pykafka4.cli.show import as_json, cell_text
from pykafka4.testing import ModelServer
from tests.consumer.consuming import Maker, poll_until, topic

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
Ran = tuple[int, str, str]
Run = Callable[..., Ran]


@pytest.fixture
def groups(server: ModelServer, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command about groups: (exit code, standard output, standard error)."""

    def call(*arguments: str) -> Ran:
        code = run(["--bootstrap", ",".join(server.bootstrap_servers.split(",")), "--timeout", "10", "groups", *arguments])
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_groups_are_listed_as_a_table_and_as_json(server: ModelServer, admin: AdminClient, make: Maker, groups: Run) -> None:
    topic(server, 3)
    admin.set_offsets("a", {T0: 1})
    poll_until(make.member(), lambda: admin.list_groups(states=["Stable"]).groups)
    code, out, err = groups("list")
    assert (code, err) == (0, "")
    assert rows(out)[0] == ["GROUP", "STATE", "TYPE", "PROTOCOL", "COORDINATOR"]
    assert [row[:4] for row in rows(out)[1:]] == [["a", "Empty", "classic", "-"], ["g", "Stable", "classic", "consumer"]]
    code, out, _ = groups("list", "--state", "Empty", "--json")
    (only,) = objects(out)
    assert (code, only["group_id"], only["state"]) == (0, "a", "Empty")


def test_a_broker_that_fails_is_told_and_the_code_is_1(server: ModelServer, groups: Run) -> None:
    server.fail("ListGroups", "CLUSTER_AUTHORIZATION_FAILED")
    code, out, err = groups("list", "--json")
    assert code == 1
    (failed,) = [one for one in objects(out) if "error" in one]
    assert (failed["broker"] in (1, 2, 3), failed["error"]["code"]) == (True, "CLUSTER_AUTHORIZATION_FAILED")
    assert err.startswith("error: groups of broker ")


def test_a_group_is_described_with_members_and_partitions(server: ModelServer, admin: AdminClient, make: Maker, groups: Run) -> None:
    topic(server, 10, 5)
    admin.set_offsets("g", {T0: 4})
    consumer = make.member(client_id="me", enable_auto_commit=False)
    poll_until(consumer, lambda: consumer.assignment() and admin.describe_group("g").state == "Stable")
    (member,) = admin.describe_group("g").members
    code, out, err = groups("describe", "g")
    assert (code, err) == (0, "")
    assert "state        Stable" in out
    assert "assignor range" in out
    assert [member.member_id, "me", "127.0.0.1", "-", "2", "t:0,1"] in rows(out)
    assert ["g", "t", "0", "4", "10", "6", member.member_id, "127.0.0.1"] in rows(out)
    assert ["g", "t", "1", "-", "5", "-", member.member_id, "127.0.0.1"] in rows(out)
    code, out, _ = groups("describe", "g", "--json")
    (shown,) = objects(out)
    assert (shown["group_id"], shown["lag"], shown["members"][0]["client_id"]) == ("g", 6, "me")
    assert shown["partitions"][0] == {
        "topic": "t", "partition": 0, "committed": 4, "metadata": "", "end": 10, "lag": 6, "owner": member.member_id
    }  # fmt: skip


def test_one_denied_group_is_told_beside_the_others(server: ModelServer, admin: AdminClient, groups: Run) -> None:
    topic(server, 10)
    for name in ("a", "b"):
        admin.set_offsets(name, {T0: 4})
    server.do(lambda cluster: cluster.controls.deny("group", "a", ["DESCRIBE"]))
    code, out, err = groups("lag", "a", "b", "none")
    assert code == 1
    assert rows(out)[1:] == [["b", "t", "0", "4", "10", "6", "-", "-"]]
    assert [line[:31] for line in err.splitlines()] == ["error: coordinator of group a: ", "error: group none: GROUP_ID_NOT"]
    code, out, _ = groups("lag", "--all", "--json")
    assert (code, [group["group_id"] for group in objects(out)]) == (0, ["b"])


def test_offsets_are_written_and_read_back(server: ModelServer, admin: AdminClient, groups: Run, tmp_path: Path) -> None:
    topic(server, 10, 5)
    admin.set_offsets("a", {T0: 4, T1: 2})
    admin.set_offsets("b", {T0: 6})
    assert groups("export", "a") == (0, "t,0,4\nt,1,2\n", "")
    code, out, _ = groups("export", "a", "b")
    assert (code, out) == (0, "a,t,0,4\na,t,1,2\nb,t,0,6\n")
    for file, form in ((tmp_path / "o.csv", "csv"), (tmp_path / "o.json", "json")):
        assert groups("export", "a", "b", "--format", form, "--output", str(file))[0] == 0
        admin.set_offsets("a", {T0: 9, T1: 5})
        assert groups("rewind", "a", "--from-file", str(file), "--execute")[0] == 0
        assert server.committed("a") == {T0: 4, T1: 2}
    code, _, err = groups("rewind", "none", "--from-file", str(tmp_path / "o.csv"))
    assert (code, "has no offsets of group 'none', only of 'a', 'b'" in err) == (2, True)


@pytest.mark.parametrize(
    ("goal", "new"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 10),
        (["--to-current"], 7),
        (["--to-offset", "3"], 3),
        (["--to-time", "1970-01-01T00:00:01.005"], 5),
        (["--to-time", "1970-01-01T01:00:01.005+01:00"], 5),
        (["--to-time", "1769860800000"], 10),
        (["--ago", "2h"], 10),
        (["--ago", "PT1H30M"], 10),
        (["--shift", "-2"], 5),
        (["--shift=2"], 9),
    ],
)
def test_a_rewind_is_shown_first_and_done_with_execute(
    server: ModelServer, admin: AdminClient, groups: Run, goal: list[str], new: int
) -> None:
    topic(server, 10)
    admin.set_offsets("g", {T0: 7})
    code, out, err = groups("rewind", "g", "--topic", "t", *goal)
    assert (code, rows(out)[1][:4]) == (0, ["t", "0", "7", str(new)])
    assert err == "nothing has been changed; --execute commits these offsets\n"
    assert server.committed("g") == {T0: 7}
    code, out, _ = groups("rewind", "g", "--all-topics", *goal, "--execute", "--json")
    (row,) = objects(out)
    assert (code, row["new"], row["executed"], server.committed("g")) == (0, new, True, {T0: new})


@pytest.mark.parametrize("execute", [[], ["--execute"]])
def test_the_rewind_of_an_active_group_is_refused_and_lists_the_members(
    server: ModelServer, admin: AdminClient, make: Maker, groups: Run, execute: list[str]
) -> None:
    topic(server, 10)
    admin.set_offsets("g", {T0: 7})
    consumer = make.member(client_id="me", enable_auto_commit=False)
    poll_until(consumer, lambda: consumer.assignment() and admin.describe_group("g").state == "Stable")
    code, out, err = groups("rewind", "g", "--all-topics", "--to-earliest", *execute)
    assert (code, rows(out)[1][:4]) == (1, ["t", "0", "7", "0"])
    assert "1 active: " in err
    assert "(client me, host 127.0.0.1) with t-0; stop them first" in err
    assert server.committed("g") == {T0: 7}
    code, out, _ = groups("rewind", "g", "--all-topics", "--to-earliest", "--json", *execute)
    assert [(row["partition"], row["executed"], row["error"]["code"]) for row in objects(out)] == [(0, False, "NON_EMPTY_GROUP")]


def test_a_file_without_an_offset_for_a_topic_that_was_named_is_wrong_usage(server: ModelServer, groups: Run, tmp_path: Path) -> None:
    topic(server, 10)
    server.create_topic("u", 2)
    file = tmp_path / "o.csv"
    file.write_text("u,0,0\n")
    for command in ("create", "rewind"):
        for more in ([], ["--execute"]):
            code, out, err = groups(command, "g", "--topic", "t", "--topic", "u:0", "--topic", "u:1", "--from-file", str(file), *more)
            assert (code, out) == (2, "")
            assert "no offset is given for t, u-1: the offsets are for partitions of u" in err
    assert server.committed("g") == {}


def test_ids_that_look_alike_are_exported_and_read_back(server: ModelServer, admin: AdminClient, groups: Run, tmp_path: Path) -> None:
    topic(server, 10)
    ids = ["\ufeffg", "g", "g ", "a\nb", "a\rb", "[x"]
    for number, name in enumerate(ids):
        admin.set_offsets(name, {T0: number})
    for form in ("csv", "json"):
        file = tmp_path / form
        assert groups("export", *ids, "--format", form, "--output", str(file))[0] == 0
        for number, name in enumerate(ids):
            code, out, _ = groups("rewind", name, "--from-file", str(file), "--json")
            assert (code, objects(out)[0]["new"]) == (0, number)


def test_an_export_of_which_a_part_failed_has_the_ids_of_groups(server: ModelServer, admin: AdminClient, groups: Run) -> None:
    topic(server, 10)
    admin.set_offsets("a", {T0: 4})
    admin.set_offsets("b", {T0: 6})
    server.do(lambda cluster: cluster.controls.deny("group", "a", ["DESCRIBE"]))
    code, out, _ = groups("export", "a", "b")
    assert (code, out) == (1, "b,t,0,6\n")


@pytest.mark.parametrize("form", ["csv", "json"])
def test_an_export_without_offsets_leaves_the_file_of_an_earlier_one(
    server: ModelServer, admin: AdminClient, groups: Run, tmp_path: Path, form: str
) -> None:
    topic(server, 10)
    admin.set_offsets("a", {T0: 4})
    server.do(lambda cluster: cluster.controls.deny("group", "a", ["DESCRIBE"]))
    file = tmp_path / "o"
    file.write_text("t,0,5\n")
    for name in ("a", "none"):
        code, _, err = groups("export", name, "--format", form, "--output", str(file))
        assert (code, f"so {file} is left as it is" in err) == (1, True)
    assert file.read_text() == "t,0,5\n"
    assert groups("export", "none", "--format", form)[0] == 0


class Terminal(io.BytesIO):
    """A terminal that keeps what is shown."""

    def isatty(self) -> bool:
        return True


def test_an_export_to_a_full_disk_names_its_file(server: ModelServer, admin: AdminClient, groups: Run) -> None:
    topic(server, 10)
    admin.set_offsets("a", {T0: 4})
    code, _, err = groups("export", "a", "--output", "/dev/full")
    assert (code, err) == (1, "error: /dev/full: No space left on device\n")


def test_an_export_changes_no_terminal_and_no_file(
    server: ModelServer, admin: AdminClient, groups: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(server, 10)
    name = "a\x1b[31m\x9b"
    admin.set_offsets(name, {T0: 4})
    admin.set_offsets("b", {T0: 6})
    line = f"{name},t,0,4\nb,t,0,6\n"
    assert groups("export", name, "b")[:2] == (0, line)
    assert groups("export", name, "b", "--output", str(tmp_path / "f"))[0] == 0
    assert (tmp_path / "f").read_text(encoding="utf-8") == line
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(terminal, encoding="utf-8", write_through=True))
    assert run(["-b", server.bootstrap_servers, "groups", "export", name, "b"]) == 0
    assert terminal.getvalue() == b"a\\x1b[31m\\x9b,t,0,4\nb,t,0,6\n"


def test_a_group_is_created(server: ModelServer, groups: Run) -> None:
    topic(server, 10, 4)
    assert groups("create", "g", "--topic", "t")[0] == 0
    assert server.committed("g") == {}
    assert groups("create", "g", "--topic", "t", "--to-latest", "--execute")[0] == 0
    assert server.committed("g") == {T0: 10, T1: 4}
    for more in ([], ["--execute"]):
        code, _, err = groups("create", "g", "--topic", "t", *more)
        assert (code, "error: group g already exists" in err) == (1, True)
    assert server.committed("g") == {T0: 10, T1: 4}


def test_a_group_of_another_type_is_neither_created_nor_deleted(server: ModelServer, admin: AdminClient, groups: Run) -> None:
    topic(server, 10)
    admin.set_offsets("streams", {T0: 7})
    server.fail("DescribeGroups", "GROUP_ID_NOT_FOUND", times=1000)
    for more in ([], ["--execute"]):
        code, _, err = groups("create", "streams", "--topic", "t", *more)
        assert (code, "error: group streams already exists" in err) == (1, True)
        code, _, err = groups("delete", "streams", *more)
        assert (code, "Group streams is not a consumer group." in err) == (1, True)
    assert server.committed("streams") == {T0: 7}


def test_groups_and_offsets_are_deleted(server: ModelServer, admin: AdminClient, groups: Run) -> None:
    topic(server, 10, 4)
    admin.set_offsets("a", {T0: 1, T1: 2})
    admin.set_offsets("b", {T0: 1})
    assert groups("delete-offsets", "a", "--topic", "t:1")[0] == 0
    assert server.committed("a") == {T0: 1, T1: 2}
    assert groups("delete-offsets", "a", "--topic", "t:1", "--execute")[0] == 0
    assert server.committed("a") == {T0: 1}
    code, _, err = groups("delete-offsets", "a", "--topic", "t:1", "--execute")
    assert (code, err) == (1, "error: group a has committed no offset of t-1\n")
    code, out, _ = groups("delete", "a", "none")
    assert (code, rows(out)[1]) == (1, ["a", "would", "be", "deleted"])
    code, out, err = groups("delete", "a", "b", "none", "--execute", "--json")
    assert (code, [row["deleted"] for row in objects(out)]) == (1, [True, True, False])
    assert "GROUP_ID_NOT_FOUND" in err
    assert len(admin.list_groups()) == 0


@pytest.mark.parametrize("execute", [[], ["--execute"]])
def test_the_deletion_of_offsets_that_members_have_is_refused_and_what_is_not_committed_is_named(
    server: ModelServer, admin: AdminClient, make: Maker, groups: Run, execute: list[str]
) -> None:
    topic(server, 10)
    old = TopicPartition("old", 0)
    server.create_topic("old", 1)
    admin.set_offsets("g", {T0: 7, old: 0})
    consumer = make.member(client_id="me", enable_auto_commit=False)
    poll_until(consumer, lambda: consumer.assignment() and admin.describe_group("g").state == "Stable")
    names = ["--topic", "t", "--topic", "old", "--topic", "typo", "--topic", "t:9"]
    code, out, err = groups("delete-offsets", "g", *names, *execute)
    done = ["deleted"] if execute else ["would", "be", "deleted"]
    assert (code, rows(out)[1:]) == (1, [["old", "0", "0", *done], ["t", "0", "7", "NON_EMPTY_GROUP"]])
    assert "offsets of group g for t cannot be deleted: NON_EMPTY_GROUP (1 active: " in err
    for absent in ("typo", "t-9"):
        assert f"error: group g has committed no offset of {absent}\n" in err
    assert server.committed("g") == {T0: 7, **({} if execute else {old: 0})}
    code, out, _ = groups("delete-offsets", "g", *names, "--json", *execute)
    shown = {(row["topic"], row["partition"]): row.get("error", {}).get("code") for row in objects(out)}
    more = {("old", None if execute else 0): "CLIENT_ERROR" if execute else None}  # it is deleted by now
    assert shown == {**more, ("t", 0): "NON_EMPTY_GROUP", ("typo", None): "CLIENT_ERROR", ("t", 9): "CLIENT_ERROR"}


@pytest.mark.parametrize("command", ["rewind", "create"])
def test_after_a_part_failed_it_is_shown_what_was_changed(server: ModelServer, groups: Run, command: str) -> None:
    topic(server, 10)
    server.create_topic("p", 1)
    server.do(lambda cluster: cluster.controls.deny("topic", "t", ["READ"]))
    arguments = ["--topic", "t", "--topic", "p", "--to-latest", "--execute"]
    code, out, err = groups(command, "g", *arguments)
    assert (code, [row[-1] for row in rows(out)[1:]]) == (1, ["-", "TOPIC_AUTHORIZATION_FAILED"])
    assert "1 offset committed\nerror: offsets of group g cannot be set for 1 of 2 partitions" in err
    assert server.committed("g") == {("p", 0): 0}
    code, out, _ = groups(command, "h", *arguments, "--json")
    shown = [(row["executed"], row.get("error", {}).get("code")) for row in objects(out)]
    assert (code, shown) == (1, [(True, None), (False, "TOPIC_AUTHORIZATION_FAILED")])


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("rewind none --all-topics --to-latest --execute", "CLIENT_ERROR"),
        ("rewind g --topic none --to-latest --execute", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("rewind g --topic t --to-latest --execute", "GROUP_AUTHORIZATION_FAILED"),
        ("create h --topic none --execute", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("create g --topic t --execute", "CLIENT_ERROR"),
        ("delete-offsets g --topic u", "CLIENT_ERROR"),
        ("delete-offsets denied --topic t", "GROUP_AUTHORIZATION_FAILED"),
    ],
)
def test_a_command_that_fails_writes_an_object(server: ModelServer, admin: AdminClient, groups: Run, command: str, error: str) -> None:
    topic(server, 10)
    admin.set_offsets("g", {T0: 4})
    server.do(lambda cluster: cluster.controls.deny("group", "denied", ["DESCRIBE"]))
    server.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED")
    code, out, err = groups(*command.split(), "--json")
    shown = json.loads(out)["error"]
    way_out = "; `pykafka4 topics list` shows the topics that exist and that you may describe"
    assert (code, shown["code"]) == (1, error)
    assert err == f"error: {shown['message']}{way_out if error == 'UNKNOWN_TOPIC_OR_PARTITION' else ''}\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["groups", "list"], "no cluster is named"),
        (["groups", "list"], "pykafka4 groups list --bootstrap localhost:9092"),
        (["-b", "localhost:1", "groups", "lag"], "give the ids of groups, or --all"),
        (["-b", "localhost:1", "groups", "lag", "g", "--all"], "give the ids of groups, or --all"),
        (["-b", "localhost:1", "groups", "rewind", "g", "--all-topics"], "give one of --to-earliest"),
        (["-b", "localhost:1", "groups", "rewind", "g", "--all-topics", "--to-latest", "--shift", "0"], "not --to-latest and --shift"),
        (["-b", "localhost:1", "groups", "rewind", "g", "--to-latest"], "name the partitions with either --topic or --all-topics"),
        (["-b", "localhost:1", "groups", "rewind", "g", "--topic", "t:x", "--to-latest"], "t:0,1"),
        (["-b", "localhost:1", "groups", "rewind", "g", "--topic", "a b", "--to-latest"], "a name has 1 to 249"),
        (["-b", "localhost:1", "groups", "rewind", "g", "--topic", "t", "--ago", "soon"], "must be a duration such as 90s"),
        (["-b", "localhost:1", "groups", "rewind", "g", "--topic", "t", "--ago", "9999999d"], "'9999999d': is before 1970"),
        (["-b", "localhost:1", "groups", "rewind", "g", "--topic", "t", "--ago", "999999999w"], "is before 1970"),
        (["-b", "localhost:1", "groups", "rewind", "g", "--topic", "t", "--ago", "P999999999DT9H"], "is before 1970"),
        (["-b", "localhost:1", "groups", "lag", "g", "--watch", "nan"], "is not a number of seconds"),
        (["-b", "localhost:1", "groups", "lag", "g", "--watch", "inf"], "--watch"),
        (["-b", "localhost:1", "--timeout", "nan", "groups", "list"], "is not a number of seconds"),
        (["-b", "localhost:1", "groups", "lag", "x\udcff"], "cannot be encoded as UTF-8"),
        (["-b", "localhost:1", "groups", "rewind", "g", "--topic", "t", "--to-time", "noon"], "must be a time such as 2026"),
        (["-b", "localhost:1", "groups", "rewind", "g", "--topic", "t", "--to-time", "20260131"], "is it a date, or seconds?"),
        (["-b", "localhost:1", "groups", "rewind", "g", "--topic", "t", "--to-time", "1769860800"], "is it a date, or seconds?"),
        (["-b", "localhost:1", "groups", "rewind", "g", "--topic", "t", "--to-time", "99999999999"], "not later than 3 March 1973"),
        (["-b", "localhost:1", "groups", "lag", "x" * 32_768, "--watch", "1"], "the longest that a request can carry"),
        (["-b", "localhost:1", "groups", "rewind", "g", "--from-file", "/nowhere"], "cannot be read"),
        (["-b", "localhost:1", "groups", "create", "g", "--topic", "t", "--shift", "1"], "a new group has no offsets"),
        (["-b", "localhost:1", "groups", "create", "g"], "no topics are named"),
        (["-b", ":1", "groups", "list"], "bootstrap.servers=':1': must be host:port"),
        (["-b", "localhost:1", "-X", "nonsense=1", "groups", "list"], "nonsense"),
        (["-b", "localhost:1", "-X", "hunter2", "groups", "list"], "must be NAME=VALUE"),
        (["-c", "/nowhere", "groups", "list"], "/nowhere"),
        (["nonsense"], "No such command"),
    ],
)
def test_wrong_usage_is_code_2(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    err = capsys.readouterr().err
    assert says in " ".join(err.split())
    assert "hunter2" not in err


def test_an_unreachable_cluster_is_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-b", "127.0.0.1:1", "--timeout", "0.3", "groups", "list"]) == 1
    assert "127.0.0.1:1" in capsys.readouterr().err


def test_options_come_from_a_file_and_the_command_line_wins(
    server: ModelServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=127.0.0.1:1\nclient.id=mine\n")
    assert run(["-c", str(file), "-b", server.bootstrap_servers, "-X", "request.timeout.ms=5000", "groups", "list"]) == 0
    assert capsys.readouterr().err == ""


def test_what_users_chose_cannot_change_a_terminal() -> None:
    assert cell_text("a\x1b[31mb\n[bold]") == "a\\x1b[31mb\\n[bold]"
    assert cell_text(None) == cell_text("") == "-"
    name = "a\x1b\x9b\x85\u2028\U000e0001\udc9b größe"
    shown = as_json({"name": name})
    assert shown == '{"name": "a\\u001b\\u009b\\u0085\\u2028\\udb40\\udc01\\udc9b größe"}'
    assert json.loads(shown) == {"name": name}


class Waits:
    """In place of sleeping: Ctrl-C after some rounds."""

    def __init__(self, rounds: int) -> None:
        self.seconds: list[float] = []
        self._rounds = rounds

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if len(self.seconds) == self._rounds:
            raise KeyboardInterrupt


def test_a_lag_table_refreshes_until_it_is_interrupted(server: ModelServer, admin: AdminClient, capsys: pytest.CaptureFixture[str]) -> None:
    topic(server, 10)
    admin.set_offsets("g", {T0: 4})
    looks: list[Any] = []

    def look() -> Any:
        looks.append(None)
        if len(looks) == 2:
            raise KafkaError("nobody is there")
        return admin.group_lag(["g"]), 0

    waits = Waits(3)
    terminal = Console(force_terminal=True, width=120, markup=False, highlight=False)
    assert watch(look, 2.5, terminal, json_=False, wait=waits) == 0
    assert waits.seconds == [2.5, 2.5, 2.5]
    out = capsys.readouterr().out
    assert "\x1b[" in out
    assert "nobody is there" in out
    assert out.count("COMMITTED") >= 3
    assert watch(look, 1, terminal, json_=True, wait=Waits(2)) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["lag"] for line in lines] == [6, 6]


def test_a_table_that_refreshes_has_no_more_rows_than_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    partitions = tuple(PartitionLag(TopicPartition("t", n), None, n, None) for n in range(1000))
    group = GroupLag(GroupDescription("g", "Empty", "classic", "", "", 1), partitions)
    terminal = Console(force_terminal=True, width=120, height=20, markup=False, highlight=False)
    assert watch(lambda: ({"g": group}, 0), 1, terminal, json_=False, wait=Waits(2)) == 0
    assert capsys.readouterr().out.count("\n") < 100


def test_the_module_runs_as_a_program(server: ModelServer, admin: AdminClient) -> None:
    topic(server, 10)
    admin.set_offsets("g", {T0: OffsetAndMetadata(4)})
    command = [sys.executable, "-m", "pykafka4", "-b", server.bootstrap_servers, "groups", "lag", "g"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, rows(done.stdout)[1]) == (0, ["g", "t", "0", "4", "10", "6", "-", "-"])


@pytest.mark.parametrize("command", ["list", "list --json", "export g", "rewind g --topic t --to-latest --execute", "lag none"])
@pytest.mark.parametrize("closed", [(1,), (1, 2)])
def test_a_closed_output_ends_no_command_with_a_traceback(
    server: ModelServer, admin: AdminClient, command: str, closed: tuple[int, ...]
) -> None:
    topic(server, 10)
    admin.set_offsets("g", {T0: 4})
    line = [sys.executable, "-m", "pykafka4", "-b", server.bootstrap_servers, "groups", *command.split()]
    shell = ["sh", "-c", 'exec "$@" ' + " ".join(f"{number}>&-" for number in closed), "sh", *line]
    done = subprocess.run(shell, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert server.committed("g") == {T0: 10 if "rewind" in command else 4}


def test_ctrl_c_while_the_command_line_is_imported_is_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "pykafka4.cli.main", Slow("pykafka4.cli.main"))
    assert entry.main() == 130


@pytest.mark.parametrize("command", ["list", "describe --all", "lag --all", "list --json", "lag --all --json", "export --all"])
def test_names_that_standard_output_cannot_write_end_no_command(server: ModelServer, admin: AdminClient, command: str) -> None:
    topic(server, 10)
    admin.set_offsets("größe", {T0: 4})
    line = [sys.executable, "-m", "pykafka4", "-b", server.bootstrap_servers, "groups", *command.split()]
    done = subprocess.run(line, capture_output=True, timeout=60, check=False, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, b"")
    if "--json" in command:
        assert json.loads(done.stdout)["group_id"] == "größe"
    elif "export" in command:
        assert done.stdout == b"t,0,4\n"
    else:
        assert b"gr\\xf6\\xdfe" in done.stdout


def test_without_click_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(entry, "NEEDED", ("click", "no_such_package"))
    assert entry.main() == 1
    told = capsys.readouterr().err
    assert told.startswith("the command line needs no_such_package: pip install 'pykafka4[cli]'\n")
    assert "pykafka4 agent, demo, send" in told  # what the [agent] extra is for works without them
