"""Provides a client's figures for its status page. Invariant: the page does not keep the runtime alive, so the loop of a forgotten client
can end."""

from __future__ import annotations

import weakref
from typing import Any

import attrs

from pykafka4.client.runtime import Runtime
from pykafka4.client.status import client_status
from pykafka4.core.engine import Engine
from pykafka4.net.loop import Loop
from pykafka4.pages.watched import Figures, Kind

__all__ = ["WatchedClient"]


@attrs.frozen
class WatchedClient:
    """The client of one runtime, for its page. See `pages.watched.Watched`."""

    client_id: str
    _loop: Loop
    _engine: Engine
    _runtime: weakref.ref[Runtime]
    kind: Kind = Kind.CLIENT

    @classmethod
    def of(cls, runtime: Runtime) -> WatchedClient:
        return cls(runtime.config.client_id, runtime.loop, runtime.engine, weakref.ref(runtime))

    def figures(self) -> Figures:
        runtime = self._runtime()
        users = () if runtime is None else tuple(_user(user) for user in runtime.users)
        return Figures(client_status(self._loop, self._engine), {}, users)


def _user(user: Any) -> dict[str, Any]:
    """`user` is the object behind a handle."""
    config = user.config
    group = getattr(config, "group_id", None) or getattr(config, "group", None)
    return {"kind": user.kind, "group": group, "client_id": config.client_id}
