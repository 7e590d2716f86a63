"""Faults. Rule: a fault is an entry in a list, taken by the first request it fits; nothing goes wrong that nobody ordered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any

import attrs

from pykafka4.testing.faults.names import Api, api_key, error_name

if TYPE_CHECKING:
    from pykafka4.records import TopicPartition
    from pykafka4.testing.requests.session import Call
    from pykafka4.testing.storage.replication import Partition

__all__ = ["Controls", "Fault", "Injected", "PushedError", "When"]


class Fault(Enum):
    """What can happen to one request."""

    DROP_BEFORE = "the connection is lost before the request is executed"
    DROP_AFTER = "the request is executed, then the connection is lost instead of an answer"
    DROP_MIDWAY = "the request is executed, then the connection is lost in the middle of the answer"
    SWALLOW = "the request is executed, its answer never comes"
    DELAY = "the request is executed later"
    DELAY_REPLY = "the request is executed, its answer comes later"
    GARBAGE = "the request is executed, its answer is damaged"


class When(Enum):
    """Whether a pushed error replaces the work or only its answer."""

    BEFORE = "nothing was done"
    AFTER = "it was done all the same"


@attrs.define(eq=False)
class Injected:
    """A fault waiting for its request."""

    key: int
    fault: Fault
    node: int | None
    times: int
    seconds: float

    def fits(self, key: int, node: int) -> bool:
        """Whether a request of this API at this broker is meant."""
        return self.times > 0 and self.key == key and self.node in (None, node)


@attrs.define(eq=False)
class PushedError:
    """An error code waiting for its request or partition."""

    key: int
    error: str
    topic: str | None
    partition: int | None
    times: int
    when: When
    record_errors: tuple[tuple[int, str | None], ...] = ()

    def fits(self, key: int, topic: str | None, partition: int | None, when: When) -> bool:
        """Whether this part of an answer is meant; an entry without a topic fits them all."""
        same_place = self.topic in (None, topic) and self.partition in (None, partition)
        return self.times > 0 and self.key == key and self.when is when and same_place


Control = Callable[["Call"], Any]
AfterAppend = Callable[["Partition"], None]


@attrs.define(eq=False)
class Controls:
    """All that is ordered to go wrong, and the functions that may answer in the broker's place."""

    injected: list[Injected] = attrs.Factory(list)
    pushed: list[PushedError] = attrs.Factory(list)
    functions: dict[int, list[tuple[Control, bool]]] = attrs.Factory(dict)
    orders: list[tuple[TopicPartition, AfterAppend]] = attrs.Factory(list)

    def inject(self, api: Api, fault: Fault, *, node: int | None = None, times: int = 1, seconds: float = 0.0) -> None:
        """`fault` for the next `times` requests of this API (at `node`, or anywhere)."""
        self.injected.append(Injected(api_key(api), fault, node, times, seconds))

    def push_error(
        self,
        api: Api,
        error: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        times: int = 1,
        when: When = When.BEFORE,
        record_errors: Iterable[tuple[int, str | None]] = (),
    ) -> None:
        """`error` (its name in Kafka) for the next `times` answers of this API, per partition where the API has partitions.

        `record_errors`, for Produce only: (index within the batch, message) of each record that is named in the answer.
        """
        self.pushed.append(PushedError(api_key(api), error_name(error), topic, partition, times, when, tuple(record_errors)))

    def control(self, api: Api, function: Control, *, keep: bool = False) -> None:
        """`function(call)` sees the next request of this API (all, with `keep`). It returns an answer, or None to let it go on.

        The word LATER from `session` means that the function will call `call.answer` itself.
        """
        self.functions.setdefault(api_key(api), []).append((function, keep))

    def after_append(self, tp: TopicPartition, act: AfterAppend) -> None:
        """`act(partition)` runs once, after the next append to `tp` and before its followers copy it."""
        self.orders.append((tp, act))

    def heal(self) -> None:
        """Forget everything that was ordered."""
        self.injected.clear()
        self.pushed.clear()
        self.functions.clear()
        self.orders.clear()

    # ---- asked by the broker

    def fault_for(self, key: int, node: int) -> Injected | None:
        """Take the fault that fits this request."""
        found = next((f for f in self.injected if f.fits(key, node)), None) if self.injected else None
        if found is not None:
            found.times -= 1
            if not found.times:
                self.injected.remove(found)
        return found

    def error_for(self, key: int, topic: str | None = None, partition: int | None = None, when: When = When.BEFORE) -> str | None:
        """Take the error that fits this part of an answer."""
        found = self.pushed_for(key, topic, partition, when)
        return found.error if found else None

    def error_of_part(self, key: int, topic: str, partition: int, when: When) -> str | None:
        """Take the error that was ordered for this very partition, where an order without a topic is for the whole request."""
        found = next((e for e in self.pushed if e.topic is not None and e.fits(key, topic, partition, when)), None)
        return None if found is None else self._taken(found).error

    def pushed_for(self, key: int, topic: str | None, partition: int | None, when: When) -> PushedError | None:
        """The same, as it was ordered."""
        found = next((e for e in self.pushed if e.fits(key, topic, partition, when)), None) if self.pushed else None
        return None if found is None else self._taken(found)

    def _taken(self, found: PushedError) -> PushedError:
        found.times -= 1
        if not found.times:
            self.pushed.remove(found)
        return found

    def order_after_append(self, tp: TopicPartition) -> AfterAppend | None:
        """Take what is to be done after this append."""
        found = next((entry for entry in self.orders if entry[0] == tp), None)
        if found is None:
            return None
        self.orders.remove(found)
        return found[1]

    def answer_for(self, call: Call) -> Any:
        """What a control function answers in the broker's place, None when none does."""
        for entry in list(self.functions.get(call.key, ())):
            function, keep = entry
            if not keep:
                self.functions[call.key].remove(entry)
            answer = function(call)
            if answer is not None:
                return answer
        return None
