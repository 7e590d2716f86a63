"""Calls the hooks of a producer. Invariant: an `Exception` in a hook is logged once per hook and method, and has no other effect.

`on_send`, `on_enqueue` and `on_refuse` run in `send`, `on_close` runs in `close` or on the callback executor, and the hooks of batches and
requests run on the callback executor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from pykafka4.errors import DeliveryFailed
from pykafka4.hooks import METHODS, BatchOutcome, OutgoingRecord, RequestSent, SealedBatch, methods
from pykafka4.logs import get_log
from pykafka4.records import HeadersLike, Written
from pykafka4.wire.records.hot import Batch, Delivery

__all__ = ["HookCalls"]

log = get_log("pykafka4.producer")

MOST_WAITING: Final = 10_000  # events that wait for slow hooks; further events are left out, because they would fill memory
# These can run on threads of the application, so Ctrl-C and sys.exit() in them must reach the application.
ON_CALLER: Final = ("on_send", "on_enqueue", "on_refuse", "on_close")


class HookCalls:
    def __init__(self, hooks: Sequence[Any], submit: Callable[[Callable[[], object]], object], client_id: str) -> None:
        """`submit(fn)`, called on the loop thread, has the callback executor run `fn`."""
        self._submit, self._client_id = submit, client_id
        self._methods = {name: [(hook, method) for hook in hooks for method in methods(hook, name)] for name in METHODS}
        self._failed: set[tuple[int, str]] = set()
        self._waiting: deque[tuple[str, object]] = deque()
        self._scheduled = False
        self._left_out = 0
        self.sends = bool(self._methods["on_send"])
        self.enqueues = bool(self._methods["on_enqueue"])
        self.on_caller = self.sends or self.enqueues

    def _call(self, name: str, hook: object, method: Callable[[Any], Any], *arguments: object) -> Any:
        try:
            return method(*arguments)
        except BaseException as error:
            if name in ON_CALLER and not isinstance(error, Exception):
                raise
            if (id(hook), name) not in self._failed:
                self._failed.add((id(hook), name))
                log.exception("%s: %s of the hook %r raised an exception; later exceptions are not logged", self._client_id, name, hook)
            return None

    def _tell(self, name: str, *arguments: object) -> None:
        for hook, method in self._methods[name]:
            self._call(name, hook, method, *arguments)

    # ---- on threads of the application

    def on_send(
        self, topic: str, value: Any, key: Any, more: tuple[HeadersLike | None, int | None, int | None]
    ) -> tuple[str, Any, Any, tuple[HeadersLike | None, int | None, int | None]]:
        """The arguments of `send` after the changes of the hooks. A result other than an OutgoingRecord or None is logged and ignored."""
        record = OutgoingRecord(topic, value, key, *more)
        for hook, method in self._methods["on_send"]:
            changed = self._call("on_send", hook, method, record)
            if isinstance(changed, OutgoingRecord):
                record = changed
            elif changed is not None:
                self._call("on_send", hook, _refuse, changed)
        return record.topic, record.value, record.key, (record.headers, record.partition, record.timestamp_ms)

    def on_enqueue(self, delivery: Delivery) -> None:
        self._tell("on_enqueue", delivery)

    def on_refuse(self, error: BaseException) -> None:
        self._tell("on_refuse", error)

    def on_close(self) -> None:
        """Call each hook at most once, however many threads close the producer."""
        hooks = self._methods["on_close"]
        while hooks:
            try:
                hook, method = hooks.pop(0)
            except IndexError:  # another thread was faster
                break
            self._call("on_close", hook, method)

    # ---- on the loop's thread

    def sealed(self, batch: Batch) -> None:
        if self._methods["on_batch_sealed"]:
            self._post("on_batch_sealed", SealedBatch(batch.topic, _known(batch), batch.count, batch.size))

    def requested(self, node: int, batches: Sequence[Batch]) -> None:
        if self._methods["on_request"]:
            records, size = sum(batch.count for batch in batches), sum(batch.size for batch in batches)
            self._post("on_request", RequestSent(node, len(batches), records, size))

    def watch(self, batch: Batch) -> None:
        """Have `on_ack` of the hooks run when `batch` gets its outcome, which is the caller's next step.

        A batch keeps its memory until its callbacks have returned, so slow hooks slow `send` down, and no queue grows.
        """
        if self._methods["on_ack"]:
            try:
                batch.handle().add_done_callback(lambda _: self._tell("on_ack", _outcome(batch)))
            except Exception:  # the caller must reach its next step, which sets the outcome
                log.exception("%s: the hooks could not receive the outcome of %r", self._client_id, batch)

    def _post(self, name: str, event: object) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self._left_out += 1
            return
        self._waiting.append((name, event))
        # Read the flag after the append: `_run` clears the flag before it reads the queue. In the other order: this thread finds the flag
        # set, `_run` clears it and finds no event, this thread appends the event, and no job takes the event.
        if not self._scheduled:
            self._scheduled = True
            self._submit(self._run)

    def _run(self) -> None:
        """Call the hooks with the waiting events."""
        self._scheduled = False
        while self._waiting:
            try:
                name, event = self._waiting.popleft()
            except IndexError:  # an executor of several threads may run two of these jobs at once
                break
            self._tell(name, event)
        left_out, self._left_out = self._left_out, 0
        if left_out:
            log.warning("%s: events of batches and requests left out: %d; make the hooks faster", self._client_id, left_out)


def _refuse(changed: object) -> None:
    raise TypeError(f"on_send must return an OutgoingRecord or None, not {type(changed).__name__}; the record is sent as it was")


def _known(batch: Batch) -> int | None:
    """The partition of `batch`; None before it has one (`partitioner=late`)."""
    return batch.partition if batch.partition >= 0 else None


def _outcome(batch: Batch) -> BatchOutcome:
    offset, _, code, written, cause = batch.outcome
    error = None if code is None else DeliveryFailed(batch.topic, _known(batch), code, written or Written.MAYBE, None, cause)
    repeated = error is None and batch.maybe_repeated
    return BatchOutcome(batch.topic, _known(batch), batch.count, offset, error, *batch.times, repeated, batch)
