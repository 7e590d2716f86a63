"""Judge. Rule: what is in a topic is read from its leaders, slowly and completely, with nothing of the client but the formats."""

from __future__ import annotations

from typing import NamedTuple

from integration.admin import Admin
from integration.waiting import Deadline


class LogRecord(NamedTuple):
    offset: int


def offsets(admin: Admin, topic: str, deadline: Deadline) -> dict[int, tuple[int, int]]:
    return {}


def log(admin: Admin, topic: str, deadline: Deadline) -> dict[int, list[LogRecord]]:
    return {}
