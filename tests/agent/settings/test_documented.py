"""The files in the guide and in examples/ have no errors."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from pykafka4.agent.settings.file import parse_settings, read_settings

ROOT = Path(__file__).resolve().parents[3]
GUIDE = "".join(page.read_text() for page in sorted((ROOT / "docs" / "guide").glob("agent*.md")))
BLOCKS = re.findall(r"^```toml\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
NEEDED = {"inputs": '[inputs]\nunix_datagram = "/run/agent.sock"\n', "kafka": '[kafka]\nbootstrap_servers = "localhost:9092"\n'}


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_settings_in_the_guide_are_right(block: str) -> None:
    given = tomllib.loads(block)
    parse_settings(block + "".join(table for name, table in NEEDED.items() if name not in given), "the guide")


def test_the_guide_has_settings() -> None:
    assert len(BLOCKS) >= 4


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.toml")), ids=lambda file: file.name)
def test_an_example_is_right_also_with_the_lines_that_are_switched_off(file: Path, tmp_path: Path) -> None:
    read_settings(file)
    whole = tmp_path / file.name
    whole.write_text(re.sub(r"^# (?=\[|\w+ = )", "", file.read_text(), flags=re.MULTILINE))
    settings = read_settings(whole)
    assert settings.spool is not None
    assert settings.discard_log is not None
