"""Options before a command, and exit codes. Rule: a command returns the code of the worst that happened."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

import attrs

from pykafka4.admin import AdminClient
from pykafka4.cli.show import plain
from pykafka4.errors import KafkaError

__all__ = ["DONE", "FAILED", "INTERRUPTED", "USAGE", "Invocation", "complain", "complain_of", "note"]

DONE, FAILED, USAGE = 0, 1, 2
INTERRUPTED: Final = 130  # as shells report it


@attrs.define
class Invocation:
    """Which cluster, and how long to wait for it."""

    properties: str | None
    options: Mapping[str, Any]
    timeout: float | None

    def admin(self) -> AdminClient:
        """A client for the command."""
        return AdminClient(**self.options) if self.properties is None else AdminClient.from_properties(self.properties, **self.options)


def note(text: str) -> None:
    """A line beside the result."""
    sys.stderr.write(f"{plain(text)}\n")


def complain(error: BaseException | str) -> int:
    """Show an error; returns the exit code."""
    for line in (f"error: {error}", *getattr(error, "__notes__", ())):
        note(line)
    return FAILED


def complain_of(errors: Mapping[Any, KafkaError]) -> int:
    """Show several; returns the exit code."""
    for error in errors.values():
        complain(error)
    return FAILED if errors else DONE
