"""AgentProcess: a `pykafka4 agent` process, its configuration, its pages. Invariant: no process outlives its `with` block."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from integration.host.ports import HOST
from integration.waiting import until

__all__ = ["AgentProcess", "AgentEnded", "toml"]

START, END, ANSWER = 60.0, 60.0, 10.0  # seconds
PAGE = 1024  # bytes in a kibibyte of /proc


class AgentEnded(RuntimeError):
    """The agent's process has ended by itself; the message carries its output."""


class AgentProcess:
    """An agent whose sockets, spool and output are in `folder`.

    `kafka` are options of the producer; `tables` the other tables of the configuration. An input that `tables` does not name is off, but
    for the datagram socket, which is always there. The same folder after a kill or an end: the same agent again.
    """

    def __init__(self, folder: Path, kafka: Mapping[str, Any], python: str = sys.executable, **tables: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.python = folder, python
        self.datagram, self.stream = folder / "agent.sock", folder / "agent.stream"
        self.config, self.output = folder / "agent.toml", folder / "output"
        inputs = {"unix_datagram": {"path": str(self.datagram)}, **tables.pop("inputs", {})}
        http = {"port": free_port(), **tables.pop("http", {})}
        self.port: int = http["port"]
        self.tables: dict[str, Mapping[str, Any]] = {"inputs": inputs, "http": http, "kafka": kafka, **tables}
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            error.add_note(f"the agent's output:\n{self.said()[-6000:]}")
        self.kill()

    # -- life --------------------------------------------------------------------------------------------------------------

    def start(self, wait: bool = True) -> None:
        """Write the configuration, start the process and wait until its datagram socket takes messages."""
        if self.process is not None:
            raise RuntimeError("the agent runs already")
        self.config.write_text(toml(self.tables))
        with self.output.open("ab") as output:
            command = [self.python, "-m", "pykafka4", "agent", "--config", str(self.config)]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.folder)
        if wait:
            until(self.serves, START, lambda: f"the agent to serve; it says: {self.said()[-3000:]}")

    def serves(self) -> bool:
        """Whether the datagram socket takes messages. Raises AgentEnded."""
        self.check_alive()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            try:
                sock.connect(str(self.datagram))
            except OSError:
                return False
            return True

    def check_alive(self) -> None:
        """Raises AgentEnded when the process has ended."""
        if self.process is None or self.process.poll() is not None:
            code = None if self.process is None else self.process.returncode
            raise AgentEnded(f"the agent ended with {code}: {self.said()[-3000:]}")

    def kill(self) -> None:
        """SIGKILL; nothing happens if it has ended."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(END)
            self.process = None

    def terminate(self) -> None:
        """SIGTERM; `ended` waits."""
        self.signal(signal.SIGTERM)

    def ended(self, timeout: float = END) -> int:
        """The exit code, when the process has ended by itself."""
        assert self.process is not None
        code = self.process.wait(timeout)
        self.process = None
        return code

    def end(self, timeout: float = END) -> int:
        """SIGTERM, and the exit code."""
        self.terminate()
        return self.ended(timeout)

    def signal(self, number: int) -> None:
        """Send the process a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    # -- what it says --------------------------------------------------------------------------------------------------------

    def said(self) -> str:
        """All that it printed, over its restarts."""
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def get(self, path: str, method: str = "GET") -> Any:
        """The JSON of a page."""
        return json.loads(self.page(path, method))

    def page(self, path: str, method: str = "GET") -> str:
        """A page's text. Raises OSError."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        with urllib.request.urlopen(request, timeout=ANSWER) as answer:
            text: str = answer.read().decode()
            return text

    def account(self) -> dict[str, Any]:
        """The account of all messages: accepted, acknowledged, queued, spooled, discarded (a number for each reason)."""
        told: dict[str, Any] = self.get("/account/json")
        return told

    def memory(self) -> int:
        """The resident bytes of the process."""
        assert self.process is not None
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * PAGE
        raise AgentEnded("the agent's process is gone")


def free_port() -> int:
    """A port of this machine that nobody has now."""
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        port: int = sock.getsockname()[1]
        return port


def toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Tables as TOML: strings, numbers and booleans look as in JSON."""
    lines = []
    for name, table in tables.items():
        lines += [f"[{name}]", *[f"{json.dumps(key)} = {inline(value)}" for key, value in table.items()]]
    return "\n".join(lines) + "\n"


def inline(value: Any) -> str:
    """A value, tables and lists included."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {inline(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(inline, value)) + "]"
    return json.dumps(str(value) if isinstance(value, Path) else value)
