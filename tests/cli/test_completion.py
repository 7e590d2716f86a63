"""Completion as a shell asks for it."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pykafka4 import AdminClient, TopicPartition
from pykafka4.cli.main import run
from pykafka4.testing import ModelServer

WAIT_S = 60.0
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


def test_names_that_a_shell_would_not_take_as_one_word_are_left_out(
    server: ModelServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.create_topic("t", 1)
    with AdminClient(bootstrap_servers=server.bootstrap_servers) as admin:
        for group in ("\x1b[2J", "a\nplain,b", "a b", "$(reboot)", "größe.1", "orders-eu_1"):
            admin.set_offsets(group, {TopicPartition("t", 0): 0})
    monkeypatch.setenv("PYKAFKA4_BOOTSTRAP", server.bootstrap_servers)
    assert completed(capsys, monkeypatch, "pykafka4 groups describe ") == ["größe.1", "orders-eu_1"]


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


def test_a_colon_ends_no_word(server: ModelServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    server.create_topic("orders", 1)
    monkeypatch.setenv("PYKAFKA4_TIMEOUT", "10")
    servers = server.bootstrap_servers.partition(",")[0]
    assert completed(capsys, monkeypatch, f"pykafka4 -b {servers} topics describe or") == ["orders"]
    assert completed(capsys, monkeypatch, f"pykafka4 -b {servers} top") == ["topics"]


SET_UP = {  # as the guide says
    "bash": "pykafka4 completion bash > ~/.pykafka4.bash && echo 'source ~/.pykafka4.bash' >> ~/.bashrc",
    "zsh": """
        mkdir -p ~/.zfunc && pykafka4 completion zsh > ~/.zfunc/_pykafka4
        printf '%s\\n' 'fpath+=~/.zfunc' 'autoload -Uz compinit && compinit -u' > ~/.zshrc
    """,
    "fish": """
        mkdir -p ~/.config/fish/completions
        pykafka4 completion fish > ~/.config/fish/completions/pykafka4.fish
    """,
}


class Terminal:
    """A shell in a terminal of its own."""

    def __init__(self, shell: str, environment: dict[str, str]) -> None:
        import pty  # Windows has none

        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.execvpe(shell, [shell, "-i"], environment)

    def type_until(self, text: str, expected: str) -> None:
        """Type, then read until the terminal shows this text. TAB is typed again every two seconds: a shell lists at the second one."""
        os.write(self.master, text.encode())
        seen, limit = "", time.monotonic() + WAIT_S
        while expected not in seen:
            assert time.monotonic() < limit, seen
            if select.select([self.master], [], [], 2.0)[0]:
                seen += os.read(self.master, 4096).decode(errors="replace")
            elif text.endswith("\t"):
                os.write(self.master, b"\t")

    def end(self) -> None:
        """Kill the shell."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.master)


@pytest.mark.lengthy
@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_that_is_set_up_as_the_guide_says_completes_commands_and_names(server: ModelServer, tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    server.create_topic("orders", 1)
    place = server.bootstrap_servers.partition(",")[0]
    program = tmp_path / "bin" / "pykafka4"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m pykafka4 "$@"\n')
    program.chmod(0o755)
    environment = {"HOME": str(tmp_path), "PATH": f"{program.parent}:{os.environ['PATH']}", "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    subprocess.run(["sh", "-e", "-c", SET_UP[shell]], env=environment, timeout=WAIT_S, check=True)
    terminal = Terminal(shell, environment)
    try:
        terminal.type_until("echo is''_ready\r", "is_ready")
        terminal.type_until("pykafka4 top\t", "topics")
        terminal.type_until("\x15pykafka4 topics \t", "describe")
        terminal.type_until(f"\x15pykafka4 -b {place} topics describe or\t", "orders")
    finally:
        terminal.end()
