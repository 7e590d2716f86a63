"""Starts and ends a `pykafka4 agent` process, writes its configuration, and reads its pages. Invariant: no process outlives its `with`
block."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import attrs

from integration.host.ports import HOST
from integration.waiting import until

__all__ = ["AgentEnded", "AgentProcess", "Total", "toml"]

START_S, END_S, ANSWER_S, OUTCOME_S = 60.0, 60.0, 10.0, 120.0  # seconds
PAGE = 1024  # bytes in a kibibyte of /proc


@attrs.frozen
class Total:
    """The account of all messages since the start; `discards` by reason."""

    accepted: int
    acknowledged: int
    queued: int
    spooled: int
    discards: dict[str, int]

    @property
    def discarded(self) -> int:
        return sum(self.discards.values())

    @property
    def at_rest(self) -> bool:
        return self.queued == self.spooled == 0


class AgentEnded(RuntimeError):
    """Raised if the agent's process has ended by itself; the message has the end of its output."""


class AgentProcess:
    """An agent whose sockets, spool and output are in `folder`.

    `kafka` has options of the producer, `tables` the other tables of the configuration. An input that `tables` does not name is off, except
    the datagram socket. After a kill or an end, `start` continues with the same agent, because its files are in the folder.
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
        try:
            self.start()
        except BaseException:  # the process may run, and `__exit__` will not be called
            self.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            error.add_note(f"the agent's output:\n{self.said()[-6000:]}")
        self.kill()

    # -- life --------------------------------------------------------------------------------------------------------------

    def start(self, wait: bool = True) -> None:
        """With `wait`, wait until the agent serves."""
        if self.process is not None:
            raise RuntimeError("the agent runs already")
        self.config.write_text(toml(self.tables))
        with self.output.open("ab") as output:
            command = [self.python, "-m", "pykafka4", "agent", "--config", str(self.config)]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.folder)
        if wait:
            until(self.serves, START_S, lambda: f"the agent to serve; it says: {self.said()[-3000:]}")

    def serves(self) -> bool:
        """Raises AgentEnded if the process has ended."""
        self.check_alive()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            try:
                sock.connect(str(self.datagram))
                return bool(self.get("/server_info/json"))
            except OSError:
                return False

    def check_alive(self) -> None:
        if self.process is None or self.process.poll() is not None:
            code = None if self.process is None else self.process.returncode
            raise AgentEnded(f"the agent ended with {code}: {self.said()[-3000:]}")

    def kill(self) -> None:
        """Without effect if the process has ended."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(END_S)
            self.process = None

    def terminate(self) -> None:
        self.signal(signal.SIGTERM)

    def ended(self, timeout: float = END_S) -> int:
        assert self.process is not None
        code = self.process.wait(timeout)
        self.process = None
        return code

    def end(self, timeout: float = END_S) -> int:
        self.terminate()
        return self.ended(timeout)

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    # -- pages and output ----------------------------------------------------------------------------------------------------

    def said(self) -> str:
        """The output of the process, across its restarts."""
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def get(self, path: str, method: str = "GET") -> Any:
        return json.loads(self.page(path, method))

    def page(self, path: str, method: str = "GET") -> str:
        """Raises OSError if the page does not answer."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
            text: str = answer.read().decode()
            return text

    def total(self) -> Total:
        """The account, whose sums must agree."""
        row = self.get("/account/json")["total"]
        found = Total(row["accepted"], row["acknowledged"], row["queued"], row["spooled"], row["discards"]["by_reason"])
        assert found.accepted == found.acknowledged + found.queued + found.spooled + found.discarded, found
        return found

    def read_all(self, accepted: int, timeout: float = OUTCOME_S) -> Total:
        return until(
            lambda: self.total_if(lambda it: it.accepted == accepted), timeout, lambda: f"{accepted} messages to be read: {self.total()}"
        )

    def settled(self, accepted: int | None = None, timeout: float = OUTCOME_S) -> Total:
        """Wait until no message waits, and `accepted` messages were accepted (None: any number)."""

        def settled(it: Total) -> bool:
            return it.at_rest and accepted in (None, it.accepted)

        what = f"{'all' if accepted is None else accepted} messages to have their outcome"
        return until(lambda: self.total_if(settled), timeout, lambda: f"{what}: {self.total()}; {self.said()[-2000:]}")

    def total_if(self, holds: Callable[[Total], bool]) -> Total | None:
        found = self.total()
        return found if holds(found) else None

    def memory(self) -> int:
        assert self.process is not None
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * PAGE
        raise AgentEnded("the agent's process is gone")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        port: int = sock.getsockname()[1]
        return port


def toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Strings, numbers and booleans look as in JSON."""
    lines = []
    for name, table in tables.items():
        lines += [f"[{name}]", *[f"{json.dumps(key)} = {inline(value)}" for key, value in table.items()]]
    return "\n".join(lines) + "\n"


def inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {inline(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(inline, value)) + "]"
    return json.dumps(str(value) if isinstance(value, Path) else value)
