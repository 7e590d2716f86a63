"""Turns at something that a process has once. Rule: a lock is held for one call of a library, never for the application's code."""

from __future__ import annotations

import os
from typing import Any

from pykafka4.net import system

__all__ = ["turn_of"]

_turns: dict[str, Any] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_turns.clear)  # the thread that has one does not exist in a child


def turn_of(name: str) -> Any:
    """The lock of that name, of this process."""
    return _turns.setdefault(name, system.RLock())
