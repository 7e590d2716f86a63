"""Makes the `status()` of a client. Invariant: one call on the loop describes at most SLICE_ROWS topics or partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import attrs

from pykafka4.core.engine import Engine
from pykafka4.core.metadata.recovery import Offline
from pykafka4.errors import ClosedError, ForkedClientError, KafkaError, KafkaTimeoutError
from pykafka4.net.loop import Loop
from pykafka4.records import TopicPartition

__all__ = ["SLICE_ROWS", "client_status", "in_slices", "look_at_machines", "unknown_status", "with_offline"]

ANSWER_S: Final = 5.0  # a loop that has not answered after this time counts as unresponsive
SLICE_ROWS: Final = 500  # topics or partitions for one call on the loop, because thousands would hold up the loop
NO_METADATA: Final = {"metadata": {"age": None, "changed": None}}
STATE_BY_ERROR: Final = {ForkedClientError: "forked", KafkaTimeoutError: "unresponsive", ClosedError: "closed"}

T = TypeVar("T")
R = TypeVar("R")


@attrs.frozen
class MachineFindings:
    """A copy of the machines' state, from which the calling thread makes the result."""

    at: float
    shown: dict[str, Any]
    partitions: dict[TopicPartition, Offline]
    topics: list[str]

    def offline(self) -> dict[str, Any]:
        """For each offline partition: the seconds since it went offline, and the reason."""
        return {
            f"{topic}-{partition}": {"since": self.at - offline.since, "reason": str(offline.reason)}
            for (topic, partition), offline in self.partitions.items()
        }


def client_status(loop: Loop, engine: Engine) -> dict[str, Any]:
    try:
        look = loop.ask(partial(look_at_machines, engine), ANSWER_S, "the client's status")
        found = in_slices(loop, look.topics, lambda topics, _: engine.cluster.troubles(topics))
        topics = {name: why for part in found for name, why in part.items()}
        return with_offline({**look.shown, "offline": {}, "topics": topics}, look.offline())
    except KafkaError as error:
        return {**unknown_status(error), "cluster_id": None, "controller": None, "brokers": [], **NO_METADATA, "offline": {}, "topics": {}}


def unknown_status(error: KafkaError) -> dict[str, Any]:
    """The `state` and `reason` of a status that could not be read because of `error`."""
    return {"state": STATE_BY_ERROR.get(type(error), "crashed"), "reason": str(error)}


def in_slices(loop: Loop, items: Sequence[T], look: Callable[[Sequence[T], float], R]) -> list[R]:
    """The results of `look(slice, now)`, each from a separate call on the loop."""
    slices = [items[at : at + SLICE_ROWS] for at in range(0, len(items), SLICE_ROWS)]
    return [loop.ask(partial(look, part), ANSWER_S, "the client's status") for part in slices]


def with_offline(status: dict[str, Any], offline: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Add offline partitions, by name, to a copy of `status`. If `status` has no reason, the offline partitions become its reason."""
    known = {**status["offline"], **{name: {"since": row["since"], "reason": row["reason"]} for name, row in offline.items()}}
    reason = status["reason"]
    if reason is None and known:
        name, first = next(iter(known.items()))
        reason = f"{f'{name} is' if len(known) == 1 else f'{len(known)} partitions are'} offline: {first['reason']}"
    return {**status, "reason": reason, "offline": known}


def look_at_machines(engine: Engine, now: float) -> MachineFindings:
    """The findings that cost little time."""
    why = engine.network.why_unreachable()
    links = engine.network.status(now)
    shown = {
        "state": "connected" if not why else "unreachable" if any(link.error for link in links) else "connecting",
        "reason": why or engine.network.troubles.reason(now),
        "cluster_id": engine.cluster.cluster_id,
        "controller": engine.cluster.controller,
        "brokers": [
            {
                "node": link.node,
                "address": f"{link.host}:{link.port}",
                "state": link.state,
                "in_flight": link.in_flight,
                "throttled_ms": link.throttled_ms,
                "error": link.error,
                "failures": link.failures,
            }
            for link in links
        ],
        "metadata": {"age": _ago(now, engine.cluster.updated_at), "changed": _ago(now, engine.cluster.changed_at)},
    }
    return MachineFindings(now, shown, dict(engine.recovery.offline), engine.cluster.topics)


def _ago(now: float, at: float | None) -> float | None:
    return None if at is None else now - at
