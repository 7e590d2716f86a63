"""Network. Rule: a request given to `submit` is answered exactly once, whatever happens to connections, and never from inside `submit`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import attrs

from pykafka4.config import ClientConfig
from pykafka4.core import INFINITY, Close, Connect, Request
from pykafka4.errors import KafkaError

__all__ = ["Network", "NetworkEffects"]


@attrs.frozen(eq=False)
class NetworkEffects:
    connect: tuple[Connect, ...] = ()
    close: tuple[Close, ...] = ()
    write: tuple[tuple[int, list[Any]], ...] = ()  # (link, buffers)
    wake_at: float = INFINITY


class Network:
    """All connections. Machines ask `ready`, `want`, `in_flight`, `version`; the engine submits; the transport reports."""

    changes: int  # grows whenever a node becomes READY or stops being so

    def __init__(self, config: ClientConfig, random: Random) -> None: ...

    # -- for machines
    def ready(self, node: int) -> bool: ...
    def want(self, node: int) -> None: ...  # ANY too; remembered until connected
    def in_flight(self, node: int) -> int: ...
    def version(self, node: int, api_key: int) -> int | None: ...
    def submit(self, now: float, request: Request) -> None: ...
    def trouble(self) -> str: ...  # "127.0.0.1:9092 connection refused; …", empty while a broker is connected; any thread

    # -- for the cluster
    on_lost: list[Callable[[float, int], None]]  # (now, node): a connection or an attempt failed
    def place(self, now: float, addresses: Mapping[int, tuple[str, int]]) -> None: ...  # the brokers that exist, and where
    def reachable(self, now: float) -> bool: ...  # an ANY request would leave at once
    controller: int | None

    # -- for the transport (or the simulation)
    def connected(self, now: float, link: int) -> None: ...
    def receive(self, now: float, link: int, frame: Any) -> None: ...
    def lost(self, now: float, link: int, reason: KafkaError) -> None: ...
    def written(self, now: float, link: int) -> bool: ...  # all bytes handed out reached the socket; True if that answered a request
    def poll(self, now: float) -> NetworkEffects: ...
