"""Passes the records of polls to hooks. Invariant: the first `Exception` of each hook is logged, and no `Exception` has another effect.

Hooks run in a step of the poll, on the thread that polls. After Ctrl-C in a hook, a consumer fetches the records again; a share
consumer returns them from its next poll.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pykafka4.hooks import Polled, methods
from pykafka4.logs import get_log

__all__ = ["PollCalls"]

log = get_log("pykafka4.consumer")


class PollCalls:
    def __init__(self, hooks: Sequence[Any], client_id: str, group: str | None, clock: Callable[[], float]) -> None:
        self._methods = [(hook, method) for hook in hooks for method in methods(hook, "on_poll")]
        self._client_id, self._group, self._clock = client_id, group, clock
        self._began = clock()
        self._failed: set[int] = set()  # ids of hooks that have raised: a broken hook must not log a line for each poll

    def begin(self) -> None:
        self._began = self._clock()

    def call_hooks(self, records: Sequence[Any]) -> None:
        """Called just before the poll returns `records`."""
        if not records:
            return
        polled = Polled(records, self._clock() - self._began, self._client_id, self._group)
        for hook, method in self._methods:
            try:
                method(polled)
            except Exception:
                if id(hook) not in self._failed:
                    self._failed.add(id(hook))
                    log.exception("%s: on_poll of the hook %r raised an exception; later exceptions are not logged", self._client_id, hook)
