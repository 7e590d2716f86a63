"""Starts programs that send numbered messages to the agent, each in a process of its own."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from integration.agent.sender import START_MS

__all__ = ["START_MS", "Sender", "User", "send", "senders", "value_of"]

PROGRAM, USER = Path(__file__).with_name("sender.py"), "integration.agent.user"
SENDING_S = 240.0  # seconds


class Sender:
    def __init__(
        self,
        to: Path | int,
        topics: Sequence[str],
        count: int,
        *,
        name: str = "s",
        kind: str = "datagram",
        first: int = 0,
        size: int = 100,
        rate: float = 0,
        partition_key: int = 0,
        wait: bool = True,
    ) -> None:
        order: dict[str, Any] = {
            "to": to if isinstance(to, int) else str(to), "kind": kind, "topics": list(topics), "name": name, "first": first,
            "count": count, "size": size, "rate": rate, "partition_key": partition_key, "wait": wait,
        }  # fmt: skip
        self.process = subprocess.Popen([sys.executable, "-S", "-E", str(PROGRAM), json.dumps(order)], stdout=subprocess.PIPE)

    def result(self, timeout: float = SENDING_S) -> dict[str, Any]:
        out, _ = self.process.communicate(timeout=timeout)
        if self.process.returncode != 0:
            raise RuntimeError(f"the sender ended with {self.process.returncode}")
        told: dict[str, Any] = json.loads(out)
        return told

    def close(self) -> None:
        self.process.kill()
        with self.process:
            pass


class User(Sender):
    """The process of `user.py` sends until the caller asks for its result."""

    def __init__(
        self,
        kind: str,
        to: Path | int,
        topic: str,
        *,
        name: str = "s",
        rate: float = 1000,
        size: int = 100,
        partition_key: int | None = None,
    ) -> None:
        order = {
            "kind": kind, "to": to if isinstance(to, int) else str(to), "topic": topic, "name": name, "rate": rate, "size": size,
            "partition_key": partition_key,
        }  # fmt: skip
        command = [sys.executable, "-m", USER, json.dumps(order)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])


@contextlib.contextmanager
def senders(each: Iterable[Sender]) -> Iterator[list[Sender]]:
    """No sender outlives the `with` block."""
    started: list[Sender] = []
    try:
        started.extend(each)
        yield started
    finally:
        for sender in started:
            sender.close()


def send(to: Path | int, topics: Sequence[str], count: int, **options: Any) -> dict[str, Any]:
    with senders([Sender(to, topics, count, **options)]) as (sender,):
        return sender.result()


def value_of(n: int, name: str = "s", size: int = 100) -> bytes:
    return f"{name} {n} ".encode().ljust(size, b".")
