"""Keeps the clients whose figures a reader collects repeatedly. Invariant: no reading has two figures with the same name and labels.

References to clients are weak, and a reading forgets closed and garbage-collected clients. Of two clients with the same `client_id`, the
second is shown as `client_id#2`, unless both belong to one `Client` and are of different kinds. A later client can get the name of a closed
client.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from pykafka4.errors import shown
from pykafka4.metrics.catalogue import CLIENT_ID
from pykafka4.metrics.sources import Detail, Measured, Source
from pykafka4.metrics.values import By, Metric

__all__ = ["OpenClients"]


@attrs.define(eq=False)
class _Watched:
    """A client, the detail of its readings, and the names of its sources, by source key."""

    handle: weakref.ref[Any]
    detail: Detail
    names: dict[object, str]

    def open_sources(self) -> list[Source]:
        handle = self.handle()
        return [] if handle is None else [source for source in handle._sources if source.alive]


class OpenClients:
    """A set of open clients, for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: list[_Watched] = []

    def add(self, client: Measured, by: By, by_broker: bool) -> None:
        """A second `add` of a client replaces `by` and `by_broker`. Raises TypeError for any object but a client."""
        if not hasattr(type(client), "_sources"):
            raise TypeError(f"{shown(client)} has no metrics: pass a Producer, Consumer, ShareConsumer, AdminClient or Client")
        detail = Detail(by, by_broker)
        with self._lock:
            self._clients = [known for known in self._clients if known.open_sources() and known.handle() is not client]
            self._clients.append(_Watched(weakref.ref(client), detail, self._names(client)))

    def _names(self, client: Measured) -> dict[object, str]:
        """A name for each source of `client`. Shared sources keep their names."""
        known = [(source, watched.names[source.key]) for watched in self._clients for source in watched.open_sources()]
        sources = client._sources
        shared = {other.key: name for other, name in known}
        own = [source for source in sources if source.key not in shared]
        taken = {name for other, name in known if any(type(other) is type(source) for source in own)}
        return {source.key: shared.get(source.key) or _free(source.labels[CLIENT_ID], taken) for source in sources}

    def read(self) -> Iterator[Metric]:
        with self._lock:
            self._clients = [client for client in self._clients if client.open_sources()]
            clients = list(self._clients)  # read outside the lock: each source may take `sources.PATIENCE_S`
        seen = set[object]()
        for client in clients:
            for source in client.open_sources():
                if source.key not in seen:
                    seen.add(source.key)
                    labels = {**source.labels, CLIENT_ID: client.names[source.key]}
                    yield from (_labelled(metric, labels) for metric in source.read(client.detail))


def _labelled(metric: Metric, labels: Mapping[str, str]) -> Metric:
    return attrs.evolve(metric, labels={**labels, **metric.labels})


def _free(name: str, taken: set[str]) -> str:
    number = 1
    shown_as = name
    while shown_as in taken:
        number += 1
        shown_as = f"{name}#{number}"
    return shown_as
