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

    OK = 0, "ended by a signal; the messages that waited were delivered, or are in the spool"
    CANNOT_START = 1, "a socket, a folder or the port of the pages could not be opened"
    SETTINGS = 2, "the settings have errors"
    UNDELIVERED = 3, "ended by a signal; some messages were discarded at the end: the log counts them"
    CRASHED = 70, "a bug; messages that waited were delivered, spooled, or discarded and counted"
