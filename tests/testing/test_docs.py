"""The page about testing shows a test that passes, and one that fails when its faults never happen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "testing.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)

pytest_plugins = ["pytester"]


def test_the_test_that_the_page_shows_passes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(BLOCKS[0])
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_the_example_of_the_page_fails_if_a_record_is_lost(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(BLOCKS[0].replace("for record in records:", "for record in records[1:]:"))
    pytester.runpytest_subprocess().assert_outcomes(failed=1, errors=0)


def test_the_example_of_the_page_fails_if_a_fault_never_happens(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(BLOCKS[0].replace('disconnect("OffsetCommit"', 'disconnect("LeaveGroup", times=5'))
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        ["**AssertionError: ordered faults that did not happen*disconnect('LeaveGroup', after=True) (ordered: 5, happened: 1)*"]
    )


def test_every_method_and_release_of_the_page_exists() -> None:
    from pykafka4.testing import ModelServer
    from pykafka4.testing.cluster.releases import RELEASES

    text = PAGE.read_text()
    shown = re.findall(r"^\| `(\w+)\(", text.split("| method |")[1].split("\n\n")[0], re.MULTILINE)
    assert len(shown) > 8
    assert all(callable(getattr(ModelServer, name)) for name in shown)
    *others, last = RELEASES
    assert f"`release` ({', '.join(others)} or {last}, the default)" in text
