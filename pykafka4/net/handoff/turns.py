"""Keeps locks by name, for calls of a library that must not overlap. Hold such a lock only during the call."""

from __future__ import annotations

import os
from typing import Any

from pykafka4.net import system

__all__ = ["turn_of"]

_turns: dict[str, Any] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_turns.clear)  # a thread that held a lock at the fork does not exist in the child


def turn_of(name: str) -> Any:
    return _turns.setdefault(name, system.RLock())
