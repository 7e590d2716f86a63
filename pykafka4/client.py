"""Client. Rule: owns one loop; producers and consumers attach to it, and the last of a private one closes it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Executor
from typing import Any, Protocol

from pykafka4.config import ClientConfig
from pykafka4.core.engine import Engine
from pykafka4.net.handoff import Callbacks
from pykafka4.net.loop import Loop

__all__ = ["Client"]


class User(Protocol):
    """A producer or consumer on this client (kept by weak reference)."""

    def close(self, timeout: float | None = None) -> Any:
        """`client.close` closes those still attached first."""

    def drain(self, timeout: float) -> None:
        """The interpreter exits: deliver what is there, warn about the rest."""


class Client:
    loop: Loop
    engine: Engine  # loop thread only
    config: ClientConfig
    callbacks: Callbacks

    def __init__(self, *, callback_executor: Executor | None = None, **options: Any) -> None: ...
    @classmethod
    def private(cls, config: ClientConfig, callback_executor: Executor | None = None) -> Client: ...  # closes with its last user
    def attach(self, user: User) -> None: ...
    def detach(self, user: User) -> None: ...
    def check(self) -> None: ...  # raises ForkedClientError, ClosedError, or the crash
    def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]: ...
    def refresh_metadata(self, topics: Collection[str] | None = None, timeout: float | None = None) -> None: ...
    def events(self, listener: Callable[[object], None]) -> None: ...
    def status(self) -> Any: ...
    def close(self, timeout: float | None = None) -> None: ...
