"""Agents in processes of their own, for tests on the model cluster. Invariant: no process outlives its test; every wait has a deadline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import attrs

__all__ = ["AgentProcess", "agent", "until", "write_settings"]

DEADLINE_S = 30.0
TAKES = "agent: takes messages at"


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for the condition."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, f"waited {DEADLINE_S:g} s for {what}"
        time.sleep(0.01)


@attrs.frozen
class AgentProcess:
    """A process, and the file with what it says."""

    process: subprocess.Popen[bytes]
    output: Path
    socket: Path

    def said(self) -> str:
        """Its standard error so far."""
        return self.output.read_text()

    def wait_for(self, text: str, times: int = 1) -> None:
        """Wait until it has said so."""

        def said() -> bool:
            assert self.process.poll() is None or self.said().count(text) >= times, f"ended with {self.process.returncode}: {self.said()}"
            return self.said().count(text) >= times

        until(said, f"{text!r} in {self.said()!r}")

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal; returns the exit code."""
        self.send_signal(number)
        return self.process.wait(DEADLINE_S)


def write_settings(folder: Path, servers: str, more: str = "", inputs: str = "", kafka: str = "") -> Path:
    """A file of settings with the datagram socket, batches of 10 ms and no pages."""
    file = folder / "agent.toml"
    tables = f'[inputs]\nunix_datagram = "{folder}/agent.sock"\n{inputs}\n[kafka]\nbootstrap_servers = "{servers}"\n{kafka}\n'
    pages = "" if "[http]" in more else "[http]\nenabled = false\n"
    topics = "" if "[topics.default]" in more else "[topics.default]\nlinger_ms = 10\n"
    file.write_text(tables + pages + topics + more)
    return file


@contextmanager
def agent(config: Path, environment: Mapping[str, str] | None = None, *, wait: bool = True) -> Iterator[AgentProcess]:
    """A running agent; killed at the end of the block."""
    output = config.parent / "output"
    with output.open("wb") as file:
        command = [sys.executable, "-m", "pykafka4", "agent", "--config", str(config)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=file, stdout=file, env={**os.environ, **(environment or {})})
    running = AgentProcess(process, output, config.parent / "agent.sock")
    try:
        if wait:
            running.wait_for(TAKES)
        yield running
    finally:
        process.kill()
        process.wait(DEADLINE_S)
