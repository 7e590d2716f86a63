"""Describes the brokers of a cluster: their addresses, and whether they run. The cluster owns the logs, so a stopped broker loses none."""

from __future__ import annotations

from typing import Protocol

import attrs

__all__ = ["Broker", "Brokers", "Connection"]


class Connection(Protocol):
    def proceed(self) -> None:
        """Execute the requests that have arrived."""

    def close(self) -> None:
        """Close the connection; requests that have not been executed never will be."""


@attrs.define(eq=False)
class Broker:
    node: int
    host: str
    port: int
    rack: str | None = None
    up: bool = True
    frozen_until: float = 0.0  # time on the timeline
    slowness: float = 0.0  # seconds that each request takes
    sessions: dict[Connection, None] = attrs.Factory(dict)  # in the order in which they were opened

    def running(self, now: float) -> bool:
        return self.up and now >= self.frozen_until

    def close_sessions(self) -> None:
        for session in list(self.sessions):
            session.close()


class Brokers(dict[int, Broker]):
    """The brokers by number. One of them is the controller."""

    controller = 1

    def alive(self) -> list[int]:
        return [node for node, broker in self.items() if broker.up]
