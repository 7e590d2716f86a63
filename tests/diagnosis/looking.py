"""What tests of diagnoses share."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

from pykafka4.diagnosis.steps import diagnose
from pykafka4.diagnosis.values import Finding, Outcome

SECONDS = 10.0
SLACK_S = 1.0  # of a busy machine


def findings(servers: str, timeout: float = SECONDS, **arguments: Any) -> list[Finding]:
    """All findings of a diagnosis. Options of the client are those that are no arguments of `diagnose`."""
    own = {name: arguments.pop(name) for name in ("topics", "groups") if name in arguments}
    return list(diagnose({"bootstrap_servers": servers, **arguments}, timeout=timeout, **own))


def wrong(found: list[Finding]) -> list[tuple[str, str]]:
    """Steps and things of what is wrong."""
    return [(one.step, one.about) for one in found if one.outcome is Outcome.WRONG]


def of(found: list[Finding], step: str) -> list[Finding]:
    return [one for one in found if one.step == step]


def outcomes(found: list[Finding]) -> dict[str, set[Outcome]]:
    """By step, in order."""
    return {step: {one.outcome for one in of(found, step)} for step in dict.fromkeys(one.step for one in found)}


@contextlib.contextmanager
def mute() -> Iterator[str]:
    """A port that accepts connections and says nothing, as that of a frozen broker."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def closed() -> str:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"
