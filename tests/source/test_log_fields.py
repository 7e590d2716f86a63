"""The fields of log records: those that the code names are those of the table in docs/guide/logging.md."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator
from pathlib import Path

from pykafka4.logs import Log

ROOT = Path(__file__).resolve().parents[2]
METHODS = {name for name in vars(Log) if not name.startswith("_")}
NOT_FIELDS = {"exc_info"}
SPREAD = {"tp": {"topic", "partition"}}


def in_table() -> list[str]:
    section = (ROOT / "docs/guide/logging.md").read_text().partition("### Fields")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


def calls() -> Iterator[ast.Call]:
    """Of a `Log`, and of `Subject.of`."""
    for path in sorted((ROOT / "pykafka4").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                made = ast.unparse(node.func)
                if made == "Subject.of" or (made.startswith("log.") and node.func.attr in METHODS):
                    yield node


def test_the_guide_lists_the_fields_that_the_code_names() -> None:
    named = {"client_id"}
    for call in calls():
        for keyword in call.keywords:
            assert keyword.arg is not None, f"fields are written out: {ast.unparse(call)}"
            named |= SPREAD.get(keyword.arg, {keyword.arg})
    assert sorted(in_table()) == sorted(named - NOT_FIELDS)


def test_no_field_is_an_attribute_that_each_record_has() -> None:
    record = logging.LogRecord("", 0, "", 0, "", (), None)
    assert not {*record.__dict__, "message", "asctime"} & set(in_table())


def test_the_example_has_all_fields() -> None:
    example = re.search(r"^FIELDS = (\(.*?^\))$", (ROOT / "docs/guide/logging.md").read_text(), re.MULTILINE | re.DOTALL)
    assert example is not None
    assert sorted(ast.literal_eval(example[1])) == sorted(in_table())
