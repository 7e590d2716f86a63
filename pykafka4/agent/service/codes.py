"""Defines the exit codes of the agent, with their meanings for `--help`."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Exit"]


class Exit(IntEnum):
    """The reason why the process ended."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Exit:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    OK = 0, "ended by a signal; no message was discarded because of the end"
    CANNOT_START = 1, "the agent could not start: the log has the reason"
    SETTINGS = 2, "the settings have errors"
    UNDELIVERED = 3, "ended by a signal; messages were discarded because of the end: the log counts them"
    CRASHED = 70, "a bug; messages that waited were delivered, spooled, or discarded and counted, unless the log says otherwise"
