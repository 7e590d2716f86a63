"""Tables on terminals of any width: nothing that they say is lost."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from pykafka4 import GroupDescription, GroupLag, KafkaError, MemberDescription, OffsetAndMetadata, TopicPartition
from pykafka4.admin.values import PartitionLag
from pykafka4.cli.show import console, lag_table
from pykafka4.cli.tables import Table

OWNER = MemberDescription("pykafka4-82e2e662-f728-b4fa-4248-5e3a0a5d2f34", "pykafka4", "127.0.0.1", None, ())
ERROR = KafkaError("orders-1: UNKNOWN_TOPIC_OR_PARTITION (there is no such topic)")


def lags(partitions: int = 2) -> dict[str, GroupLag | KafkaError]:
    """A group of which one partition has no end."""
    tps = [TopicPartition("orders", number) for number in range(partitions)]
    ends = [(None, ERROR) if tp.partition == 1 else (1_234_999, None) for tp in tps]
    rows = [PartitionLag(tp, OffsetAndMetadata(1_234_567), end, OWNER, error) for tp, (end, error) in zip(tps, ends)]
    return {"billing": GroupLag(GroupDescription("billing", "Stable", "classic", "consumer", "range", 1), tuple(rows))}


def shown(table: Table, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, markup=False, highlight=False).print(table)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [10, 40, 54, 60, 72, 80, 120, 500])
def test_nothing_is_cut(width: int) -> None:
    table = lag_table(lags())
    lines = shown(table, width)
    assert max(map(cell_len, lines)) <= width
    whole = "".join([*table.columns, *(cell for row in table.rows for cell in row)]).upper()
    assert sorted("".join(lines).upper().replace(" ", "")) == sorted(whole.replace(" ", ""))


@pytest.mark.parametrize("width", [72, 80, 120])
def test_numbers_are_in_their_columns_and_texts_are_folded(width: int) -> None:
    lines = shown(lag_table(lags()), width)
    heading = lines[0]
    assert heading.split() == ["GROUP", "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "OWNER", "HOST"]
    assert lines[1][heading.index("TOPIC") + 5 : heading.index("OWNER")].split()[-4:] == ["0", "1234567", "1234999", "432"]
    places = [heading.index(name) for name in ("OWNER", "HOST")]
    host = "".join(line[places[1] :] for line in lines[1:])
    owner = "".join(line[places[0] : places[1]].strip() for line in lines[1:])
    assert str(ERROR).replace(" ", "") in host.replace(" ", "")
    assert owner == OWNER.member_id * 2


def test_letters_that_are_two_columns_wide_are_counted_as_two() -> None:
    lines = shown(Table(("group", "lag"), [["日本語" * 4, "7"], ["g", "12"]]), 20)
    assert lines == ["GROUP            LAG", "日本語日本語日     7", "本語日本語", "g                 12"]


def test_a_pipe_gets_whole_lines_without_colours(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    console().print(lag_table(lags()))
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == f"billing  orders          1    1234567        -    -  {OWNER.member_id}  {ERROR}"


def test_on_a_terminal_a_row_that_failed_is_red() -> None:
    out = io.StringIO()
    Console(file=out, width=200, force_terminal=True, color_system="standard").print(lag_table(lags()))
    assert [line[:5] for line in out.getvalue().splitlines()] == ["\x1b[1mG", "billi", "\x1b[31m"]
