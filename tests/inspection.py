"""Shows tests the inner parts of a handle: a client, producer, consumer, admin, or one of their asyncio twins.

Rule: tests use status(), stats(), events and the model server's view of requests. Where these say nothing, they look through `inspect`, so
that a part which moves is followed here and nowhere else.
"""

from __future__ import annotations

import threading
from typing import Any

import attrs

from pykafka4.client.runtime import Runtime
from pykafka4.core.engine import Engine
from pykafka4.core.group.reactions import Reaction
from pykafka4.errors import KafkaError
from pykafka4.net.loop import Loop
from pykafka4.wire.records import checksum, compression

__all__ = ["Inside", "forget_codecs", "idle_threads", "inspect", "loop_threads", "pool_threads", "promises_of", "remembered", "thread_of"]


@attrs.frozen
class Inside:
    """The inner parts of `handle`."""

    handle: Any

    @property
    def session(self) -> Any:
        """The implementation behind the handle."""
        return self.handle._session

    @property
    def runtime(self) -> Runtime:
        runtime: Runtime = self.handle._runtime if hasattr(self.handle, "_runtime") else self.session.runtime
        return runtime

    @property
    def loop(self) -> Loop:
        return self.runtime.loop

    @property
    def thread(self) -> Any:
        """The thread of the loop."""
        return thread_of(self.loop)

    @property
    def promises(self) -> Any:
        """Promises that the loop fails when it ends."""
        return promises_of(self.loop)

    @property
    def engine(self) -> Engine:
        return self.runtime.engine

    @property
    def machine(self) -> Any:
        """The sans-IO machine of a producer, consumer or admin."""
        return self.session.machine

    @property
    def busy(self) -> bool:
        """Whether a call of another thread uses the consumer."""
        return bool(self.session.guard.busy)

    @property
    def blocked_sends(self) -> int:
        """Threads and tasks that wait for room in the buffer."""
        return int(self.session.gate.waiting)

    @property
    def tickets(self) -> Any:
        """The tickets of threads that wait for room, first come first."""
        return self.session.gate.tickets

    def rejoin(self) -> None:
        """The member joins its group again, as after an error of the coordinator."""
        protocol = self.machine.membership.protocol
        self.loop.ask(lambda now: protocol._react(now, Reaction.REJOIN, KafkaError("again")), 5.0)

    @property
    def dispatcher(self) -> Any:
        """The part of streams that hands records to them."""
        return self.handle._dispatcher

    @property
    def acquired(self) -> Any:
        """The lease of a record of a share group."""
        return self.handle._acquired

    @property
    def groups(self) -> Any:
        """The part of an admin that changes groups."""
        return self.handle._groups

    @property
    def transaction_calls(self) -> Any:
        """The calls of the transaction protocol that are under way."""
        return self.session.transactions._caller


def inspect(handle: object) -> Inside:
    return Inside(handle)


def remembered(runtime: Runtime) -> dict[str, Any]:
    """The topics and the waiting callers that the machines of a client remember."""
    cluster, recovery = runtime.engine.cluster, runtime.engine.recovery

    def look(now: float) -> dict[str, Any]:
        return {
            "wanted": set(cluster._wanted),
            "topics": set(cluster._topics) - {""},
            "names": len(cluster._names),
            "offline": len(recovery.offline) + len(recovery._backoffs),
            "waiters": len(cluster._waiters),
            "promises": len(promises_of(runtime.loop)) - 1,  # without the one of this question
        }

    return runtime.loop.ask(look, 60.0)


def loop_threads() -> set[threading.Thread]:
    """The threads of all clients' loops in this process."""
    return {thread for thread in threading.enumerate() if thread.name == "pykafka4-loop"}


def pool_threads(pool: Any) -> int:
    """The threads of a pool or helper, idle ones included."""
    return int(getattr(pool, "_workers", pool)._threads)


def idle_threads(pool: Any) -> list[Any]:
    """The latches of the idle threads of a pool or helper."""
    return list(getattr(pool, "_workers", pool)._idle)


def thread_of(loop: Loop) -> Any:
    return loop._thread


def promises_of(loop: Loop) -> dict[Any, Any]:
    """Promises that fail when the loop ends."""
    return loop._promises


def forget_codecs() -> None:
    """Compression and checksum libraries are looked for again."""
    compression._library.cache_clear()
    checksum._fastest.cache_clear()
