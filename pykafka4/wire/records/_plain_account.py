"""The account of a producer's batches, in plain Python. Rule: counters and reserved memory change under one lock.

The counterpart of the account in the compiled `Accumulator`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import attrs

from pykafka4.errors import BufferFull, KafkaError
from pykafka4.logs import get_log
from pykafka4.records import RecordMetadata
from pykafka4.wire.records._plain_topic import Topic

__all__ = ["Account", "Callbacks", "Hooks", "Section"]

Callbacks: TypeAlias = Callable[[], None]

_log = get_log("pykafka4")


class Booked(Protocol):
    """The part of a `Batch` that the account uses; the batch's module imports this one."""

    partition: int
    count: int
    created: float
    ready: bool
    _home: Topic[Any]
    _used: int

    def _resize(self, cap: int) -> None: ...

    def _let_go(self) -> bool: ...


B = TypeVar("B", bound=Booked)


@attrs.frozen(eq=False)
class Hooks:
    """What handles need of their producer."""

    wait: Callable[[Callable[[], bool], float | None], bool]
    submit: Callable[[Callbacks], object]
    awaiting: Callable[[Any], Generator[Any, Any, RecordMetadata]] | None  # called with a `Delivery`
    failure_seen: Callable[[int], object] | None
    client_id: str


class Section:
    """The lock of the plain core, for `with section():`. It must be an RLock; a thread that already holds it is rejected.

    A destructor (run by the garbage collector) or a signal handler may call `send` in the middle of a change. Continuing would see half a
    change, waiting would deadlock. (In the compiled core changes are atomic.)

    The `with` enters the lock itself, which is not Python code. If it entered a method of this class, a KeyboardInterrupt at the method's
    end could come after the lock was taken and before the `with` block that releases it, and every other thread would wait forever.
    """

    __slots__ = ("_lock", "_mine")

    def __init__(self, lock: AbstractContextManager[Any, bool | None]) -> None:
        self._lock = lock
        self._mine: Callable[[], bool] = getattr(lock, "_is_owned", bool)  # of threading.RLock; no other lock knows its thread

    def __call__(self) -> AbstractContextManager[Any, bool | None]:
        """The lock; BufferFull when this thread holds it."""
        if self._mine():
            raise BufferFull("a destructor or signal handler called send in the middle of another send; call it from elsewhere, or retry")
        return self._lock


class Account(Generic[B]):
    """Counters and reserved memory of all batches, under one lock."""

    def __init__(
        self,
        lock: AbstractContextManager[Any, bool | None],
        hooks: Hooks,
        compress: Callable[..., bytes] | None,
        wake: Callable[[], object],
    ) -> None:
        self._lock, self._hooks, self._waker = Section(lock), hooks, wake
        self._compress = compress
        self._live: set[B] = set()  # not settled yet
        self._zombies: list[B] = []  # done, but their bytes are still being read
        self._reserved = 0
        self.refusal: KafkaError | None = None
        self.transactional = False  # batches get the transactional bit; set before the first one is finished
        self.can_send = False
        self.defers = False  # the loop compresses elsewhere what `designate` fills: such a batch is sealed and not `ready`
        self.watch: Callable[[B], object] | None = None  # called with a batch of parked records that is about to fail
        self.waiters = 0
        self.full_partitions: frozenset[tuple[str, int]] | None = None  # all that threads wait for; None if one waits for memory
        self.accepted = self.acked = self.failed = self.dropped = self.parked_records = self.batches = 0

    def _new_handle(self, batch: B) -> Any:
        """A handle of the first record of `batch`; the module of handles is above this one."""
        raise NotImplementedError

    @property
    def spare_bytes(self) -> int:
        """Memory kept for later batches; only the compiled core has any."""
        return 0

    @property
    def reserved(self) -> int:
        """Bytes reserved for records, sent or not."""
        with self._lock():
            self._sweep()
            return self._reserved

    def _check_open(self) -> None:
        """Accept no records after a refusal: the code that refuses settles the earlier ones, but would not see later ones."""
        if self.refusal is not None:
            raise self.refusal.again()

    def _sweep(self) -> None:
        """Release batches that are no longer being read. Needs the lock."""
        if self._zombies:
            self._zombies = [batch for batch in self._zombies if not batch._let_go()]

    def _reserve(self, topic: Topic[B], partition: int, size: int) -> None:
        self._reserved += size
        topic.held[partition] = topic.held.get(partition, 0) + size

    def _introduce(self, batch: B, cap: int) -> None:
        batch._resize(cap)
        self.batches += 1
        self._live.add(batch)

    def _detach(self, batch: B) -> None:
        """`batch` takes no more records."""
        topic = batch._home
        topic.lane.opened.pop(batch, None)
        topic.open.pop(batch.partition)
        batch.ready = topic.stays_plain(batch._used)
        if batch.partition == topic.sticky:
            topic.sticky_bytes += batch._used

    def _wake(self) -> None:
        try:
            self._waker()
        except BaseException:  # from a signal handler, perhaps before the loop was woken
            self._waker()
            raise

    def _nudge(self) -> None:
        """Memory became free: wake the loop, which wakes the threads that wait for it."""
        if self.waiters > 0:
            try:
                self._wake()
            except Exception:
                _log.exception("%s: could not wake the loop", self._hooks.client_id)
