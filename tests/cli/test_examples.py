"""Every `pykafka4 …` in the help of commands and in the documentation is accepted: its command, options and values exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pykafka4.cli.main import COMMANDS, cli, run

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAM = re.compile(r"(?:^|(?<=[|;] )|(?<=\$ ))pykafka4 (.*)", re.MULTILINE)
OTHERS = {"agent", "send", "demo", "COMMAND"}  # with parsers of their own


def leaves(command: click.Command) -> Iterator[click.Command]:
    if isinstance(command, click.Group):
        for each in command.commands.values():
            yield from leaves(each)
    else:
        yield command


def commands() -> Iterator[click.Command]:
    for name in COMMANDS:
        found = cli.get_command(click.Context(cli), name)
        assert found is not None
        yield from leaves(found)


def lines(text: str) -> Iterator[list[str]]:
    """The arguments of each call of the program; what follows a pipe, a redirection, a comment or a wide space is not its own."""
    for found in PROGRAM.findall(re.sub(r"\\\n\s*", "", text)):
        words = shlex.split(re.sub(r"\s{2,}.*", "", found), comments=True)
        ends = [place for place, word in enumerate(words) if word[0:1] in ("|", ">", "<", ";", "…") or word in ("&&", "2>")]
        words = words[: min(ends, default=len(words))]
        if words and not OTHERS & set(words) and "…" not in " ".join(words):
            yield words


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Commands only parse their arguments; returns the folder for files that they name."""
    for command in commands():
        monkeypatch.setattr(command, "callback", lambda *_, **__: 0)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def accepted(words: list[str], folder: Path) -> bool:
    """Whether the command line has no error; files and folders that it names exist."""
    given = [word.replace("~/", "") for word in words]
    for word in given:
        if re.fullmatch(r"[\w.-]+\.(txt|json|jsonl|csv|properties|log)", word):
            (folder / word).touch()
        if word.startswith("kafka_"):
            (folder / word).mkdir(exist_ok=True)
    return run(given) == 0


def test_examples_of_the_help_are_accepted(nothing_runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = "\n".join(re.sub(r"(?m)^ +", "", f"{command.epilog or ''}\n{command.help or ''}") for command in commands())
    found = list(lines(texts))
    assert len(found) > 40
    wrong = [words for words in found if not accepted(words, nothing_runs)]
    assert wrong == [], capsys.readouterr().err


def test_command_lines_of_the_documentation_are_accepted(nothing_runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [(page.name, block) for page in PAGES for language, block in BLOCK.findall(page.read_text()) if language in ("", "sh", "bash")]
    found = [(page, words) for page, block in blocks for words in lines(block)]
    assert len(found) > 20
    wrong = [(page, words) for page, words in found if not accepted(words, nothing_runs)]
    assert wrong == [], capsys.readouterr().err


def test_commands_and_options_of_the_table_for_users_of_other_tools_exist() -> None:
    text = (ROOT / "docs" / "guide" / "command-line-tools.md").read_text()
    cells = [row.split(" | ")[1] for row in text.splitlines() if row.startswith("| ") and " | here" not in row]
    named = [code.split() for cell in cells for code in re.findall(r"`([^`]+)`", cell) if code.split()[0] in COMMANDS]
    assert len(named) > 30
    for words in named:
        command: click.Command | None = cli
        for word in words:
            if isinstance(command, click.Group):
                command = command.get_command(click.Context(command), word)
                assert command is not None, words
        known = {option for param in command.params for option in param.opts} if command is not None else set()
        assert {word for word in words if word.startswith("-")} <= known, words
