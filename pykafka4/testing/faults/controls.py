"""Lists the faults that a test has ordered. Invariant: every use of a fault counts down its `times`, if it has any.

`requests/session.py` carries out a `Fault`: DELAY and DROP_BEFORE before a request is executed, the others afterwards, in `REACTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Final, TypeVar

import attrs

from pykafka4.records import TopicPartition
from pykafka4.testing.faults import checks
from pykafka4.testing.faults.names import Api, api_key, error_name
from pykafka4.testing.storage.partition import Partition

__all__ = ["Controls", "Fault", "Injected", "PushedError", "When"]


class Fault(Enum):
    """A fault of one request or its connection."""

    DROP_BEFORE = "the connection is lost before the request is executed"
    DROP_AFTER = "the request is executed, then the connection is lost before the response"
    DROP_MIDWAY = "the request is executed, then the connection is lost in the middle of the response"
    SWALLOW = "the request is executed, but its response never arrives"
    DELAY = "the request is executed later"
    DELAY_REPLY = "the request is executed, but its response is delayed"
    GARBAGE = "the request is executed, but its response is corrupt"


class When(Enum):
    """Whether a pushed error replaces the execution of a request, or only its response."""

    BEFORE = "the request is not executed"
    AFTER = "the request is executed"


@attrs.define(eq=False)
class Injected:
    key: int
    fault: Fault
    node: int | None
    times: int
    seconds: float

    def fits(self, key: int, node: int) -> bool:
        return self.times > 0 and self.key == key and self.node in (None, node)


@attrs.define(eq=False)
class PushedError:
    key: int
    error: str
    topic: str | None
    partition: int | None
    times: int
    when: When

    def fits(self, key: int, topic: str | None, partition: int | None, when: When) -> bool:
        """An entry without a topic matches all topics, an entry without a partition all partitions."""
        same_place = self.topic in (None, topic) and self.partition in (None, partition)
        return self.times > 0 and self.key == key and self.when is when and same_place


OPERATIONS: Final = {
    "topic": frozenset(("READ", "WRITE", "CREATE", "DELETE", "DESCRIBE", "ALTER", "ALTER_CONFIGS", "DESCRIBE_CONFIGS")),
    "group": frozenset(("READ", "DELETE", "DESCRIBE")),
    "cluster": frozenset(("IDEMPOTENT_WRITE",)),
    "transactional_id": frozenset(("WRITE", "DESCRIBE")),
}
ERRORS: Final = {resource: f"{resource.upper()}_AUTHORIZATION_FAILED" for resource in OPERATIONS}


def _checked(resource: str, operations: Iterable[str]) -> frozenset[str]:
    """`operations`, by default all that the model checks on the resource. Raises ValueError for an unknown resource or operation."""
    if resource not in OPERATIONS:
        raise ValueError(f"{resource!r} is not one of {', '.join(OPERATIONS)}")
    named = frozenset(operations)
    if unknown := sorted(named - OPERATIONS[resource]):
        raise ValueError(f"{unknown[0]!r} is not an operation on a {resource}: {', '.join(sorted(OPERATIONS[resource]))}")
    return named or OPERATIONS[resource]


Control = Callable[[Any], Any]  # called with the request, a `requests.session.Call`
AfterAppend = Callable[[Partition], None]
Counted = TypeVar("Counted", Injected, PushedError)


def _taken(entries: list[Counted], found: Counted | None) -> Counted | None:
    if found is not None:
        found.times -= 1
        if not found.times:
            entries.remove(found)
    return found


@attrs.define(eq=False)
class Controls:
    injected: list[Injected] = attrs.Factory(list)
    pushed: list[PushedError] = attrs.Factory(list)
    throttles: dict[int, list[float]] = attrs.Factory(dict)  # API: throttle times of its next responses
    functions: dict[int, list[tuple[Control, bool]]] = attrs.Factory(dict)  # API: control functions, and whether they stay
    orders: list[tuple[TopicPartition, AfterAppend]] = attrs.Factory(list)
    denials: dict[tuple[str, str], set[str]] = attrs.Factory(dict)  # (resource, name): the denied operations

    def deny(self, resource: str, name: str, operations: Iterable[str]) -> None:
        self.denials.setdefault((resource, name), set()).update(_checked(resource, operations))

    def allow(self, resource: str, name: str, operations: Iterable[str]) -> None:
        denied = self.denials.setdefault((resource, name), set())
        denied -= _checked(resource, operations)

    def denied(self, resource: str, name: str, operation: str) -> str | None:
        return ERRORS[resource] if operation in self.denials.get((resource, name), ()) else None

    def inject(self, api: Api, fault: Fault, *, node: int | None = None, times: int = 1, seconds: float = 0.0) -> None:
        self.injected.append(Injected(api_key(api), fault, node, checks.whole("times", times, 1), checks.seconds("seconds", seconds)))

    def push_error(
        self, api: Api, error: str, *, topic: str | None = None, partition: int | None = None, times: int = 1, when: When = When.BEFORE
    ) -> None:
        """Order `error` (Kafka's name) for the next `times` responses of this API, or parts of responses if each part has an error field.

        The error matches only responses about `topic` and `partition`, if given. `when`: whether the request is executed; some APIs ignore
        `When.AFTER`.
        """
        self.pushed.append(PushedError(api_key(api), error_name(error), topic, partition, checks.whole("times", times, 1), when))

    def throttle(self, api: Api, seconds: float, times: int) -> None:
        self.throttles.setdefault(api_key(api), []).extend([seconds] * times)

    def control(self, api: Api, function: Control, keep: bool) -> None:
        self.functions.setdefault(api_key(api), []).append((function, keep))

    def after_append(self, tp: TopicPartition, act: AfterAppend) -> None:
        """Call `act(partition)` once, after the next append to `tp` and before the followers copy the new records."""
        self.orders.append((tp, act))

    def heal(self) -> None:
        self.injected.clear()
        self.pushed.clear()
        self.throttles.clear()
        self.functions.clear()
        self.orders.clear()
        self.denials.clear()

    # ---- called by brokers

    def use_fault(self, key: int, node: int) -> Injected | None:
        """Return the first matching fault and count it down; None if no fault matches."""
        return _taken(self.injected, next((f for f in self.injected if f.fits(key, node)), None))

    def use_error(self, key: int, topic: str | None = None, partition: int | None = None, when: When = When.BEFORE) -> str | None:
        found = self.use_pushed(key, topic, partition, when)
        return found.error if found else None

    def use_error_of_part(self, key: int, topic: str, partition: int, when: When) -> str | None:
        """An error without a topic does not match, because it is for the request as a whole."""
        fitting = (e for e in self.pushed if e.topic is not None and e.fits(key, topic, partition, when))
        found = _taken(self.pushed, next(fitting, None))
        return found.error if found else None

    def use_pushed(self, key: int, topic: str | None, partition: int | None, when: When) -> PushedError | None:
        return _taken(self.pushed, next((e for e in self.pushed if e.fits(key, topic, partition, when)), None))

    def use_throttle(self, key: int) -> float:
        waiting = self.throttles.get(key)
        return waiting.pop(0) if waiting else 0.0

    def use_function(self, key: int, call: Any) -> Any:
        """The first response of a control function; None if no function responds."""
        for entry in list(self.functions.get(key, ())):
            function, keep = entry
            if not keep:
                self.functions[key].remove(entry)
            answer = function(call)
            if answer is not None:
                return answer
        return None

    def use_after_append(self, tp: TopicPartition) -> AfterAppend | None:
        found = next((entry for entry in self.orders if entry[0] == tp), None)
        if found is not None:
            self.orders.remove(found)
        return found[1] if found else None
