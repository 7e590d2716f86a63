"""Own threads. Rule: a handler that hangs does not keep the interpreter from exiting, so the threads of handlers are daemons.

Those of a ThreadPoolExecutor are waited for at exit.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

from pykafka4.net.handoff.workers import Workers

__all__ = ["NEVER", "OwnThreads"]


class OwnThreads(Executor):
    """The threads of `Consumer.process`: started when needed, ended when idle and by `shutdown`. Nobody waits for its futures."""

    def __init__(self, most: int, where: str) -> None:
        """`where` begins log lines."""
        self._workers = Workers("pykafka4-process", most, where)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run it soon."""
        self._workers.submit(partial(fn, *args, **kwargs))
        return NEVER

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Have its threads end when they have nothing to do. Waits for nothing."""
        self._workers.end()


NEVER: Future[Any] = Future()
