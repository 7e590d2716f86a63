"""`produce` on a model cluster: what is written, which lines fail, exit codes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pykafka4 import Consumer, TopicPartition, read
from pykafka4.cli import produce as module
from pykafka4.cli.produce import paced
from pykafka4.cli.records.inputs import Block
from pykafka4.testing import ModelServer
from tests.cli.records.conftest import Run

pytestmark = pytest.mark.model(topics={"t": 2})


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    return tmp_path / "lines"


def written(server: ModelServer) -> list[Any]:
    with read("t", bootstrap_servers=server.bootstrap_servers) as records:
        return sorted(records, key=lambda record: (record.partition, record.offset))


def pairs(server: ModelServer) -> Sequence[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in written(server)]


def test_each_line_is_a_record(server: ModelServer, command: Run, lines: Path) -> None:
    lines.write_bytes(b"a\n\n\xff\r\nlast")
    ran = command("produce", "t", str(lines), "-p", "1")
    assert (ran.code, ran.out, ran.err) == (0, b"", "")
    assert pairs(server) == [(None, b"a"), (None, b""), (None, b"\xff\r"), (None, b"last")]
    assert {record.partition for record in written(server)} == {1}


def test_keys_headers_and_nulls(server: ModelServer, command: Run, lines: Path) -> None:
    lines.write_bytes(b"a->1;b->;c;->4->5;")
    options = ["-K", "->", "-D", ";", "-k", "own", "-H", "h=1=2", "-H", "n", "-p", "0", "-z", "gzip"]
    assert command("produce", "t", str(lines), *options).code == 0
    assert pairs(server) == [(b"a", b"1"), (b"b", b""), (b"own", b"c"), (b"", b"4->5")]
    assert {record.headers for record in written(server)} == {(("h", b"1=2"), ("n", None))}
    assert command("produce", "t", str(lines), *options, "-Z").code == 0
    assert pairs(server)[4:] == [(b"a", b"1"), (b"b", None), (b"own", b"c"), (None, b"4->5")]


@pytest.mark.parametrize("separator", [[], ["-K", ":"]])
def test_an_empty_key_for_all_records_is_a_null_too(server: ModelServer, command: Run, lines: Path, separator: list[str]) -> None:
    lines.write_bytes(b"a\n")
    for null in ([], ["-Z"]):
        assert command("produce", "t", str(lines), "-p", "0", "-k", "", *separator, *null).code == 0
    assert pairs(server) == [(b"", b"a"), (None, b"a")]


def test_files_are_sent_one_after_the_other_or_whole(server: ModelServer, command: Run, tmp_path: Path) -> None:
    files = [tmp_path / name for name in "ab"]
    for file in files:
        file.write_text(f"{file.name}1\n{file.name}2\n")
    assert command("produce", "t", *map(str, files), "-p", "0").code == 0
    assert command("produce", "t", *map(str, files), "-p", "0", "--format", "whole").code == 0
    assert [value for _, value in pairs(server)] == [b"a1", b"a2", b"b1", b"b2", b"a1\na2\n", b"b1\nb2\n"]


def test_what_consume_writes_is_sent_again_as_it_was(server: ModelServer, command: Run, lines: Path) -> None:
    server.create_topic("u", 2)
    lines.write_bytes(
        b'{"key":"k","value_base64":"/w==","headers":[{"name":"h","value":null}],"partition":1,"timestamp":5}\n{"value":null,"partition":1}\n'
    )
    assert command("produce", "u", "--format", "json", str(lines)).code == 0
    out = command("consume", "u", "--json").out
    lines.write_bytes(out)
    assert command("produce", "t", "--format", "json", str(lines)).code == 0
    assert command("consume", "t", "--json").out == out.replace(b'"u"', b'"t"')
    (first, second) = written(server)
    assert (first.key, first.value, first.headers, first.partition, first.timestamp_ms) == (b"k", b"\xff", (("h", None),), 1, 5)
    lines.write_bytes(command("consume", "u", "-f", "%R%s").out)
    assert command("produce", "t", "--format", "length", "-p", "0", str(lines)).code == 0
    assert [record.value for record in written(server) if record.partition == 0] == [b"\xff", None]
    assert second.value is None


def test_lines_that_fail_are_told_and_the_others_are_sent(server: ModelServer, command: Run, lines: Path) -> None:
    lines.write_bytes(b"a\n" + b"x" * 2_000_000 + b"\nc\n")
    ran = command("produce", "t", "-p", "0", str(lines))
    assert ran.code == 1
    assert f"error: {lines} line 2: t: a record of" in ran.err
    assert ran.err.endswith("\nacknowledged records: 2; not acknowledged: 1\n")
    assert [value for _, value in pairs(server)] == [b"a", b"c"]
    lines.write_bytes(b'{"value":"d","partition":0}\n{\n{"value":"e","partition":0}\n')
    ran = command("produce", "t", "--format", "json", str(lines))
    assert (
        ran.code,
        f"error: {lines} line 2: is not JSON: Expecting property name enclosed in double quotes at character 2\n" in ran.err,
    ) == (1, True)
    assert [value for _, value in pairs(server)] == [b"a", b"c", b"d", b"e"]


def test_lines_that_the_broker_refuses_are_told(server: ModelServer, command: Run, lines: Path) -> None:
    server.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", topic="t")
    lines.write_bytes(b"".join(b"%d\n" % number for number in range(30)))
    ran = command("produce", "t", "-p", "0", str(lines))
    told = ran.err.splitlines()
    assert (ran.code, len(told)) == (1, 22)
    assert told[0].startswith(f"error: {lines} line 1: t-0: TOPIC_AUTHORIZATION_FAILED, not written")
    assert told[20:] == ["error: more lines failed; only the first 20 are shown", "acknowledged records: 0; not acknowledged: 30"]


def test_reading_stops_after_many_failures(server: ModelServer, command: Run, lines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FAILURES", 2)
    lines.write_bytes(b"{\n{\n{\n")
    ran = command("produce", "t", "--format", "json", str(lines))
    assert (ran.code, f"error: stopped after {lines} line 3: the rest of the input was not sent" in ran.err) == (1, True)


def test_a_transaction_has_all_lines_or_none(server: ModelServer, command: Run, lines: Path) -> None:
    lines.write_bytes(b"a\nb\n")
    assert command("produce", "t", "-p", "0", "--transactional", str(lines)).code == 0
    lines.write_bytes(b"c\n" + b"x" * 2_000_000 + b"\nd\n")
    ran = command("produce", "t", "-p", "0", "--transactional", str(lines))
    assert ran.code == 1
    assert f"{lines} line 2: " in ran.err
    assert "the transaction is aborted: readers of committed records see nothing of this input" in ran.err
    assert [value for _, value in pairs(server)] == [b"a", b"b"]


@pytest.mark.parametrize(("options", "batches"), [([], 2), (["-X", "batch.size=100000"], 10)])
def test_input_that_comes_at_once_is_sent_in_large_batches_unless_an_option_says_otherwise(
    server: ModelServer, command: Run, lines: Path, options: list[str], batches: int
) -> None:
    lines.write_bytes(b"x\n".rjust(1_000) * 900)
    assert command("produce", "t", str(lines), "-p", "0", "-X", "linger.ms=60000", *options).code == 0
    sizes = []
    with Consumer(bootstrap_servers=server.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("t", 0)])
        while sum(sizes) < 900:
            sizes += [batch.count for batch in consumer.poll_raw(10)]
    assert len(sizes) == batches


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["-p", "2"], "the last partition of t is 1"),
        (["--format", "json", "-K", ":"], "have keys, headers and partitions of their own"),
        (["-D", ""], "must be a text"),
        (["nothing-here"], "does not exist"),
    ],
)
def test_wrong_usage_is_told(command: Run, lines: Path, options: list[str], text: str) -> None:
    lines.write_bytes(b"a\n")
    ran = command("produce", "t", str(lines), *options)
    assert (ran.code, text in ran.err) == (2, True)


def test_a_rate_is_kept_and_idle_time_is_not_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    times = []
    for part in paced(iter([Block("-", 1, [b""] * 100, 0)] * 2), 100):
        times.append(now[0])
        assert len(part.items) == 10
        if len(times) == 10:
            now[0] += 50
    assert times[9] - times[0] == pytest.approx(0.9)
    assert times[-1] - times[10] == pytest.approx(0.9)


def test_a_rate_is_kept_after_a_pause_of_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))

    def input_() -> Iterator[Block]:
        yield Block("-", 1, [b""], 0)
        now[0] += 2.5
        yield Block("-", 2, [b""] * 3, 0)

    assert [now[0] for _ in paced(input_(), 1)] == [0.0, 3.5, 4.5, 5.5]
