"""The examples do what they say, on real brokers; and the judge of the main job sees every kind of damage."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import duckdb
import pytest

from integration.cluster import Cluster
from integration.kafka.settings import write_properties
from integration.waiting import until
from pykafka4 import Consumer
from pykafka4.assignors import GroupMember, PartitionInfo

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"


# ---------------------------------------------------------------- produce.py and consume.py


def command(name: str, *arguments: str) -> list[str]:
    return [sys.executable, str(EXAMPLES / name), *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


def run(name: str, *arguments: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(name, *arguments), env=environment(), capture_output=True, text=True, timeout=timeout, check=False)


def at(cluster: Cluster, folder: Path) -> list[str]:
    """The arguments that say where the brokers are and what they demand."""
    write_properties(folder / "client.properties", cluster.java)
    return ["--bootstrap-servers", cluster.bootstrap, "--config", str(folder / "client.properties")]


@pytest.mark.cluster
def test_what_produce_sends_consume_prints(cluster: Cluster, tmp_path: Path) -> None:
    where = [*at(cluster, tmp_path), "--topic", "hello"]
    produced = run("produce.py", *where, "--count", "50")
    assert produced.returncode == 0, produced.stderr
    assert "delivered 51 records" in produced.stdout
    consumed = run("consume.py", *where, "--count", "51")
    assert consumed.returncode == 0, consumed.stderr
    assert len(consumed.stdout.splitlines()) == 51
    assert "b'greeting 49'" in consumed.stdout
    assert "(('lang', b'en'),)" in consumed.stdout


@pytest.mark.cluster
def test_topic_to_duckdb_appends_each_record_once(cluster: Cluster, tmp_path: Path) -> None:
    where = [*at(cluster, tmp_path), "--topic", "table"]
    for number in range(2):
        produced = run("produce.py", *where, "--count", "20")
        assert produced.returncode == 0, produced.stderr
        appended = run("topic_to_duckdb.py", *where, "--database", str(tmp_path / "records.duckdb"))
        assert (appended.returncode, appended.stdout) == (0, "21 records appended\n"), (number, appended.stderr)
    with duckdb.connect(str(tmp_path / "records.duckdb")) as database:
        assert database.execute('select count(distinct (partition, "offset")), count(*) from records').fetchall() == [(42, 42)]


@pytest.mark.cluster
def test_table_prints_its_rows_and_each_change(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("rows", 2, configs={"cleanup.policy": "compact"})
    where = [*at(cluster, tmp_path), "--topic", "rows"]
    for lines, shown in (
        ("a=1\nb=2\na=3\n", ["a: None -> 1", "b: None -> 2", "a: 1 -> 3", "2 keys"]),
        ("a\n", ["a = 3", "b = 2", "a: 3 -> None", "1 keys"]),
    ):
        done = subprocess.run(
            command("table.py", *where), env=environment(), input=lines, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == shown


@pytest.mark.cluster
def test_consume_goes_on_where_ctrl_c_stopped_it(cluster: Cluster, tmp_path: Path) -> None:
    where = [*at(cluster, tmp_path), "--topic", "again"]
    assert run("produce.py", *where, "--count", "20").returncode == 0
    first = interrupted(tmp_path / "first", 21, *where)
    assert run("produce.py", *where, "--count", "5").returncode == 0
    second = interrupted(tmp_path / "second", 6, *where)
    assert len(first) == 21
    assert 6 <= len(second) <= 7, "six new ones, and at most the one in hand when it was stopped"


def interrupted(out: Path, lines: int, *where: str) -> list[str]:
    """Let it print so many lines, then press Ctrl-C."""
    return interrupted_when(lambda: len(out.read_text().splitlines()) >= lines, out, "consume.py", *where)


def interrupted_when(enough: Callable[[], bool], out: Path, name: str, *where: str) -> list[str]:
    """Let it run until that holds, then press Ctrl-C; returns the lines that it printed."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background ignores it, and so would the child
    with out.open("w") as file, subprocess.Popen(command(name, *where), env=environment(), stdout=file) as child:
        signal.signal(signal.SIGINT, before)
        try:
            until(enough, 60.0, lambda: f"that of {name}; it said: {out.read_text()[-2000:]}")
            child.send_signal(signal.SIGINT)
            assert child.wait(timeout=30.0) == 0
        finally:
            child.kill()
    return out.read_text().splitlines()


@pytest.mark.cluster
def test_consume_asyncio_goes_on_where_ctrl_c_stopped_it(cluster: Cluster, tmp_path: Path) -> None:
    where = [*at(cluster, tmp_path), "--topic", "soft"]

    def committed() -> int:
        with Consumer(**cluster.client, group_id="loud") as consumer:
            found = consumer.committed([("soft", partition) for partition in range(3)], 30.0)
        return sum(at.offset for at in found.values() if at is not None)

    assert run("produce.py", *where, "--count", "20").returncode == 0
    # Ctrl-C before a commit repeats results. The test wants none, so that it can count them.
    first = interrupted_when(lambda: committed() == 21, tmp_path / "first", "consume_asyncio.py", *where, "--to", "loud")
    assert first[0].startswith("reads soft-0")
    assert run("produce.py", *where, "--count", "5").returncode == 0
    rest = run("consume_asyncio.py", *where, "--to", "loud", "--count", "6")
    assert rest.returncode == 0, rest.stderr
    read = run("consume.py", *at(cluster, tmp_path), "--topic", "loud", "--count", "27")
    assert read.stdout.count("GREETING 4'") == 2
    assert "GREETING 19'" in read.stdout


# ---------------------------------------------------------------- the main job


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_flights_pipeline(request: pytest.FixtureRequest) -> None:
    """On a cluster of its own, where this run has its others: it loses a broker on the way."""
    done = run("flights_pipeline.py", "--rows", "60000", "--cluster", request.config.getoption("--cluster"), timeout=580.0)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "Nothing lost, nothing twice, nothing reordered." in done.stdout


class Logged(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None


@pytest.fixture(scope="module")
def judge():
    """The module, and the two that it imports, without leaving the examples on the path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        import flights_judge

        yield flights_judge


FLIGHTS = [
    {"number": 0, "tailnum": "N1", "day": 1},
    {"number": 1, "tailnum": "N2", "day": 1},
    {"number": 2, "day": 2},
    {"number": 3, "tailnum": "N1", "day": 3},
]


def as_log(*partitions: list[dict]) -> dict[int, list[Logged]]:
    """A log that holds these flights."""
    return {
        partition: [
            Logged(offset, flight["tailnum"].encode() if "tailnum" in flight else None, json.dumps(flight).encode())
            for offset, flight in enumerate(flights)
        ]
        for partition, flights in enumerate(partitions)
    }


def broken(checks) -> list[str]:
    return [check.promise for check in checks if not check.kept]


A, B, C, D = FLIGHTS
RIGHT = ([A, D], [C, B])


def test_a_correct_log_passes(judge) -> None:
    assert broken(judge.check_log(as_log(*RIGHT), FLIGHTS)) == []


@pytest.mark.parametrize(
    ("partitions", "promise"),
    [
        (([A], [C, B]), "lost"),
        (([A, D, D], [C, B]), "twice"),
        (([D, A], [C, B]), "order"),
        (([A, {**D, "day": 4}], [C, B]), "unchanged"),
        (([A, {**D, "more": 1}], [C, B]), "unchanged"),
        (([A, {**D, "tailnum": "N2"}], [C, B]), "unchanged"),
        (([A, D], [C, B, {"number": 4, "tailnum": "N9"}]), "unchanged"),
        (([A], [C, B, D]), "one partition"),
        (([A, D], [B]), "null key"),
    ],
)
def test_damage_in_the_log_is_seen(judge, partitions, promise) -> None:
    found = broken(judge.check_log(as_log(*partitions), FLIGHTS))
    assert any(promise in line for line in found), found


def test_a_record_that_is_no_flight_is_seen(judge) -> None:
    log = as_log(*RIGHT)
    log[0].append(Logged(2, b"N1", None))
    assert broken(judge.check_log(log, FLIGHTS)) == ["every flight is unchanged, under its own key"]


@pytest.mark.parametrize(
    ("found", "nulls", "rows", "kept"),
    [
        (4, 1, 4, True),
        (3, 1, 4, False),
        (0, 0, 4, False),
        (5, 1, 4, False),
        (336_776, 2_512, 336_776, True),
        (336_776, 2_511, 336_776, False),
        (336_775, 2_512, 336_776, False),
    ],
)
def test_a_data_set_that_is_not_what_was_asked_for_fails_the_script(judge, found, nulls, rows, kept) -> None:
    flights = [{"number": 0}] * nulls + [{"number": 0, "tailnum": "N1"}] * (found - nulls)
    assert judge.check_data(flights, rows).kept is kept


def read_all(judge, log):
    """What three perfect readers saw, one of them with no partition."""
    Read = judge.Read  # noqa: N806
    seen = [[Read(partition, r.offset, judge.checksum(r.key, r.value)) for r in records] for partition, records in log.items()]
    return [seen[0][:1], seen[0][1:], seen[1]]


def test_a_group_that_read_everything_passes_and_what_it_read_again_is_counted(judge) -> None:
    log = as_log(*RIGHT)
    seen = read_all(judge, log)
    assert broken(judge.check_group(seen, log)) == []
    assert judge.rereads(seen) == 0
    again = [seen[0], seen[0] + seen[1], seen[2] + seen[2][:1]]
    assert broken(judge.check_group(again, log)) == []
    assert judge.rereads(again) == 2


@pytest.mark.parametrize(
    ("damage", "promise"),
    [
        (lambda a, b, c: [a, b, c[:-1]], "read every record"),
        (lambda a, b, c: [a, b, [c[0]._replace(checksum=1), *c[1:]]], "the records of the log"),
        (lambda a, b, c: [a, b, [*c, c[0]._replace(offset=99)]], "the records of the log"),
        (lambda a, b, c: [a, b, c[::-1]], "in the order of the log"),
        (lambda a, b, c: [a + b, [], c], "all three members"),
    ],
)
def test_damage_in_the_reading_is_seen(judge, damage, promise) -> None:
    log = as_log(*RIGHT)
    found = broken(judge.check_group(damage(*read_all(judge, log)), log))
    assert any(promise in line for line in found), found


def test_a_null_an_empty_and_a_missing_part_have_different_checksums(judge) -> None:
    pairs = [(None, None), (b"", None), (None, b""), (b"", b""), (b"a", b""), (b"", b"a")]
    assert len({judge.checksum(*pair) for pair in pairs}) == len(pairs)


@pytest.fixture(scope="module")
def pipeline(judge):
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("flights_pipeline", EXAMPLES / "flights_pipeline.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    path = list(sys.path)
    sys.modules["flights_pipeline"] = module
    spec.loader.exec_module(module)
    sys.path[:] = path
    yield module
    del sys.modules["flights_pipeline"]


GOOD = {
    "killed": 20.0,
    "victim": 1,
    "led": 2,
    "at_kill": 40,
    "in_flight": 5,
    "resent": 1,
    "recovered": 2.0,
    "at_return": 60,
    "returned": 9.0,
    "read_at_kill": (10, 11, 12),
    "read_at_return": (20, 21, 22),
}
READ = (30, 31, 32)


@pytest.mark.parametrize(
    ("change", "promise"),
    [
        ({}, None),
        ({"in_flight": 0}, "in flight"),
        ({"resent": 0}, "in flight"),
        ({"at_kill": 30}, "after a third"),
        ({"at_kill": 80, "at_return": 90}, "after a third"),
        ({"at_return": 80}, "before two thirds"),
        ({"read_at_kill": (10, 0, 12)}, "every reader"),
        ({"read_at_return": (20, 21, 12)}, "every reader"),
        ({"read_at_return": (30, 21, 22)}, "every reader"),
    ],
)
def test_a_kill_that_met_nothing_or_came_at_the_wrong_time_fails_the_script(pipeline, change, promise) -> None:
    found = broken(pipeline.check_outage(100, pipeline.Outage(**{**GOOD, **change}), READ))
    assert any(promise in line for line in found) if promise else found == []


class Watched(NamedTuple):
    """A run as `held` and `caught_up` see it."""

    board: object
    rows: int
    paces: list[float]
    files: list[Path]

    def pace(self, rows_per_second: float) -> None:
        self.paces.append(rows_per_second)

    def read(self) -> tuple[int, ...]:
        return tuple(path.read_text().count("\n") for path in self.files)


class Sent:
    """A board on which so many rows are sent and none acknowledged."""

    def __init__(self, accepted: int) -> None:
        self.totals = {"accepted": accepted, "acked": 0}

    def total(self, name: str) -> int:
        return self.totals[name]


def test_once_enough_is_sent_only_a_trickle_goes_on_whatever_the_script_does_meanwhile(pipeline) -> None:
    run = Watched(Sent(600), 1000, [], [])
    with pipeline.held(run, 0.6):
        assert not run.paces
        run.board.totals["accepted"] = 601
        until(lambda: run.paces, 30.0, "the pace to be taken back")
        assert 0 < run.paces[0] < run.rows / 1000
    held = len(run.paces)
    assert not any(thread.name == "hold" for thread in threading.enumerate())
    assert len(run.paces) == held


def test_records_that_were_handed_out_again_are_not_taken_for_others(pipeline, tmp_path: Path) -> None:
    line = pipeline.reader.LINE.format
    run = Watched(None, 4, [], [tmp_path / "a", tmp_path / "b"])
    run.files[0].write_text(line(0, 0, 7) + line(0, 1, 7))
    run.files[1].write_text(line(0, 1, 7) + line(1, 0, 7))
    assert pipeline.caught_up(run, 3)
    assert not pipeline.caught_up(run, 4)
    run.files[1].write_text(line(0, 1, 7) + line(1, 0, 7) + line(1, 1, 7))
    assert pipeline.caught_up(run, 4)


# ---------------------------------------------------------------- leader_range.py


def leader_range() -> ModuleType:
    spec = importlib.util.spec_from_file_location("leader_range", EXAMPLES / "leader_range.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def led_by(topic: str, *leaders: int | None) -> list[PartitionInfo]:
    return [PartitionInfo(topic, number, leader) for number, leader in enumerate(leaders)]


def test_leader_range_gives_each_member_the_partitions_of_few_brokers() -> None:
    members = [GroupMember(name, frozenset({"t", "u"})) for name in "cab"]
    topics = {"t": led_by("t", 1, 2, 3, 1, 2, 3), "u": led_by("u", 3, 2, 1)}
    result = leader_range().LeaderRangeAssignor().assign(members, topics)
    leaders = {partition.tp: partition.leader for partitions in topics.values() for partition in partitions}
    assert {name: {leaders[tp] for tp in tps} for name, tps in result.items()} == {"a": {1}, "b": {2}, "c": {3}}
    assert [len(tps) for tps in result.values()] == [3, 3, 3]


def test_leader_range_assigns_everything_once_to_members_that_want_it() -> None:
    members = [GroupMember("a", frozenset({"t"})), GroupMember("b", frozenset({"t", "u"})), GroupMember("c", frozenset(), "static")]
    topics = {"t": led_by("t", None, 2, 1), "u": led_by("u", 2)}
    result = leader_range().LeaderRangeAssignor().assign(members, topics)
    assert sorted(tp for tps in result.values() for tp in tps) == [("t", 0), ("t", 1), ("t", 2), ("u", 0)]
    assert result["c"] == []
    assert ("u", 0) in result["b"]
    assert (
        Consumer(bootstrap_servers="localhost:1", group_id="g", partition_assignment_strategy=leader_range().LeaderRangeAssignor()).close()
        is None
    )


@pytest.mark.cluster
def test_two_consumers_with_leader_range_share_the_topic_and_read_from_few_brokers(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("clustered", 6)
    where = [*at(cluster, tmp_path), "--topic", "clustered", "--group", "clustered"]
    assert run("produce.py", *where[:-2], "--count", "20").returncode == 0
    outs = [tmp_path / "one", tmp_path / "two"]
    with contextlib.ExitStack() as ends:
        for out in outs:
            child = subprocess.Popen(command("leader_range.py", *where), env=environment(), stdout=ends.enter_context(out.open("w")))
            ends.callback(child.wait, 30.0)
            ends.callback(child.kill)

        def shares() -> list[set[int]]:
            told = [[line for line in out.read_text().splitlines() if line.startswith("assigned ")] for out in outs]
            return [{int(number) for number in re.findall(r"clustered-(\d+)", lines[-1])} for lines in told if lines]

        until(lambda: sorted(map(len, shares())) == [3, 3] and set.union(*shares()) == set(range(6)), 60.0, "three partitions for each")
    brokers = [{cluster.leader("clustered", number) for number in share} for share in shares()]
    assert len(brokers[0] & brokers[1]) <= 1, "only the broker at the border of both ranges is read by both"
