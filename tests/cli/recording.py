"""An admin client that records calls, for commands whose requests model brokers do not know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import click
import pytest
from click.testing import CliRunner, Result

from pykafka4.cli.invocation import Invocation

Call = tuple[str, tuple[Any, ...], dict[str, Any]]


class RecordingAdmin:
    """Answers each method from a table; keeps the calls in their order, without `timeout`."""

    def __init__(self, answers: Mapping[str, Callable[..., Any]]) -> None:
        self.answers, self.calls = answers, list[Call]()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        answer = self.answers[name]

        def call(*args: Any, timeout: float | None = None, **kwargs: Any) -> Any:
            self.calls.append((name, args, kwargs))
            return answer(*args, **kwargs)

        return call

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def ran(
    command: click.Command, admin: RecordingAdmin, line: list[str], monkeypatch: pytest.MonkeyPatch, stdin: str | None = None
) -> Result:
    """The result of a command; its return value is the exit code, as in the frame."""
    monkeypatch.setattr(Invocation, "admin", lambda _self: admin)
    return CliRunner().invoke(command, line, obj=Invocation(), input=stdin, standalone_mode=False)
