"""Looks at a client for its status page, remembers rates and outages, and makes the page's JSON. Invariant: one thread looks at a time."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pykafka4.core.network.connection import SOFTWARE_VERSION
from pykafka4.net import system
from pykafka4.pages.brokers import brokers_json
from pykafka4.pages.client_headline import View, client_headline, client_troubles
from pykafka4.pages.outages import Outages
from pykafka4.pages.partition_rows import Partitions, Query, partitions
from pykafka4.pages.rates import STEP_S, Rates, Sample
from pykafka4.pages.shared_look import SharedLook
from pykafka4.pages.watched import SERIES, Kind, Look, Watched, counts_of

__all__ = ["Busy", "Watcher", "program"]

SHARE: Final = 50  # a look of 50 ms, as with 10,000 partitions, is taken every 2.5 s: a fiftieth of a core
WAIT_S: Final = 15.0  # the longest wait for the look of another thread
MOST_OUTAGES: Final = 100
MOST_USERS: Final = 200


class Busy(Exception):
    """Raised if the look of another thread takes too long."""


class Watcher:
    """The looks at a client. Any thread may call the methods."""

    def __init__(
        self, watched: Watched, monotonic: Callable[[], float] = time.monotonic, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._watched, self._wall_clock = watched, wall_clock
        self._lock = system.Lock()
        self._looks = SharedLook(self._take, monotonic)
        series = SERIES[watched.kind]
        self._rates = Rates((*series, "lost") if watched.kind is Kind.PRODUCER else series)
        self._outages = Outages()
        self._rows: Partitions | None = None
        self._since = wall_clock()

    def sample(self) -> str:
        """Take a look for rates and outages, unless the last look is recent; return the client's state."""
        with self._locked():
            return str(self._looks.get().status["state"])

    def pause_s(self) -> float:
        return self._looks.pause_s(SHARE)

    def state(self) -> tuple[str, str]:
        with self._locked():
            status = self._looks.get().status
        return str(status["state"]), str(status["reason"] or "")

    def page(self, query: Query) -> bytes:
        with self._locked():
            data = self._data(self._looks.get(), query)
        return json.dumps(data, separators=(",", ":"), default=str).encode()

    # ---------------------------------------------------------------- under the lock

    def _locked(self) -> _Held:
        return _Held(self._lock)

    def _take(self, now: float) -> Look:
        kind = self._watched.kind
        look = Look(self._wall_clock(), self._watched.figures())
        self._rows = partitions(kind, look)
        counts = counts_of(kind, look.figures.stats)
        if counts is not None:
            self._rates.add(Sample(now, counts))
        self._outages.note(look.at, client_troubles(kind, look, self._rows))
        return look

    def _data(self, look: Look, query: Query) -> dict[str, Any]:
        kind, rows = self._watched.kind, self._rows
        assert rows is not None
        now = self._rates.now()
        view = View(kind, look, rows, now, self._rates.settled, self._outages)
        series = SERIES[kind]
        member = {name: value for name, value in view.member.items() if name not in ("partitions", "errors")}
        return {
            "kind": kind.value,
            "client_id": self._watched.client_id,
            "version": SOFTWARE_VERSION,
            "pid": os.getpid(),
            "program": program(),
            "since": self._since,
            "at": look.at,
            "headline": client_headline(view).as_json(),
            "rates": {"step_s": STEP_S, "names": series, "now": now, **self._rates.curves(series)},
            "stats": look.figures.stats,
            "member": member or None,
            "cluster": {name: look.status.get(name) for name in ("state", "cluster_id", "controller", "metadata")},
            "brokers": self._brokers(look),
            "partitions": rows.answer(query),
            "users": look.figures.users[:MOST_USERS],
            "outages": self._outages.as_json(MOST_OUTAGES),
        }

    def _brokers(self, look: Look) -> dict[str, Any]:
        found = brokers_json(look.status)
        for row in found["rows"]:
            row["since"] = self._outages.since(f"broker {row['node']}")
        return found


class _Held:
    """A `with` block that holds the lock of a Watcher. Raises Busy if the lock is not free within WAIT_S."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        if not self._lock.acquire(timeout=WAIT_S):
            raise Busy(f"no figures within {WAIT_S:g} s")

    def __exit__(self, *error: object) -> None:
        self._lock.release()


def program() -> str:
    """The name of this process's program, without its arguments, which may contain secrets."""
    path = Path(sys.argv[0] if sys.argv else "")
    name = path.parent.name if path.name == "__main__.py" else path.name
    return "python" if name in ("", "-c", "-m") else name
