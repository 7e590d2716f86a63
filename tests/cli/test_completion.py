"""Completion as a shell asks for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pykafka4.cli.main import run
from pykafka4.testing import ModelServer

SHELLS = ("bash", "zsh", "fish")


def completed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str) -> list[str]:
    """What bash shows for the last word, which is empty after a space."""
    monkeypatch.setenv("_PYKAFKA4_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    assert run([]) == 0
    out = capsys.readouterr()
    assert out.err == ""
    return [line.partition(",")[2] for line in out.out.splitlines() if line]


def test_commands_and_options_are_completed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert completed(capsys, monkeypatch, "pykafka4 gro") == ["groups"]
    assert "rewind" in completed(capsys, monkeypatch, "pykafka4 --profile prod groups ")
    assert completed(capsys, monkeypatch, "pykafka4 groups list --boot") == ["--bootstrap"]
    assert completed(capsys, monkeypatch, "pykafka4 completion ") == list(SHELLS)


def test_names_are_completed_from_the_cluster(
    server: ModelServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.create_topic("orders", 1)
    server.create_topic("payments", 1)
    monkeypatch.setenv("PYKAFKA4_BOOTSTRAP", server.bootstrap_servers)
    assert completed(capsys, monkeypatch, "pykafka4 groups rewind g --topic ") == ["orders", "payments"]
    assert completed(capsys, monkeypatch, "pykafka4 groups rewind g --topic pay") == ["payments"]


@pytest.mark.parametrize("cluster", ["127.0.0.1:1", ""])
def test_without_a_cluster_names_are_not_completed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, cluster: str
) -> None:
    monkeypatch.setenv("PYKAFKA4_BOOTSTRAP", cluster)
    assert completed(capsys, monkeypatch, "pykafka4 groups rewind g --topic ") == []


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_accepts_what_is_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path, shell: str) -> None:
    assert run(["completion", shell]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    assert "_PYKAFKA4_COMPLETE" in script.read_text()
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: its script was only printed")
    assert subprocess.run([shell, "-n", str(script)], timeout=60, check=False).returncode == 0


def test_bash_completes_on_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "bash"]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out)
    (tmp_path / "pykafka4").write_text(f'#!/bin/sh\nexec {sys.executable} -m pykafka4 "$@"\n')
    (tmp_path / "pykafka4").chmod(0o755)
    asks = f"""
        PATH={tmp_path}:$PATH; source {tmp_path / "script"}
        COMP_WORDS=(pykafka4 gro); COMP_CWORD=1; _pykafka4_completion pykafka4 gro pykafka4; echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", asks], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr) == ("groups", "")
