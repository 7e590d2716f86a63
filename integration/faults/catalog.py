"""Lists the faults from which schedules are drawn, in the simulation and on real brokers.

Invariant: a fault has one name, and one place with its durations. `producer_plan.py` and `consumer_plan.py` in `tests/simulation/plans`
carry it out on the model cluster, `actions.py` on real brokers; for each fault that real brokers cannot have, `unreal` gives the reason.

A new fault draws other plans from the same seeds: run `make sim`, and replace the seeds in `tests/simulation/seeds.txt` that no longer find
their mutant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, TypeAlias

import attrs

__all__ = ["CONSUMERS", "FAULTS", "PRODUCERS", "REAL_ONLY", "ScheduledFault", "Lane", "Span", "real"]

Span: TypeAlias = tuple[float, float]  # seconds: at least, at most


class Lane(Enum):
    """The part of the cluster that a real fault occupies: two faults of one lane never overlap, faults of different lanes can."""

    BROKERS = "brokers"  # a broker's process, or leaders and topics, which need the other brokers
    NETWORK = "network"  # the proxies before the brokers
    MEMBERS = "members"  # consumers


@attrs.frozen(kw_only=True)
class ScheduledFault:
    """A fault, with its durations in the simulated schedules of producers and consumers, and on real brokers.

    `producers` and `consumers` are None if that kind of schedule does not have the fault. `lane` is None if real brokers cannot have it,
    for the reason `unreal`.
    """

    name: str
    producers: Span | None = None
    consumers: Span | None = None
    lane: Lane | None = None
    real: Span = (0.0, 0.0)
    unreal: str = ""


AT_ONCE: Final[Span] = (0.0, 0.0)
FRAMES: Final = "the proxy forwards bytes and does not know requests, and an answer carries no checksum: a damaged one can be a valid one"
NOT_ORDERED: Final = "no broker gives this error on order; the causes of such errors are faults of their own: "

BY_PATTERN: Final = "the members of chaos subscribe to one topic by name; test_subscriptions.py has topics that come and go on real brokers"

FAULTS: Final[tuple[ScheduledFault, ...]] = (
    # of both kinds of schedules
    ScheduledFault(name="move leader", producers=AT_ONCE, consumers=AT_ONCE, lane=Lane.BROKERS),
    ScheduledFault(name="no leader", producers=(0.05, 1.5), consumers=(0.05, 2.0), lane=Lane.BROKERS, real=(0.5, 3.0)),
    ScheduledFault(name="broker stops", producers=(0.1, 3.0), consumers=(0.2, 4.0), lane=Lane.BROKERS, real=(0.0, 8.0)),
    ScheduledFault(name="broker freezes", producers=(0.05, 4.0), consumers=(0.05, 5.0), lane=Lane.BROKERS, real=(0.5, 12.0)),
    ScheduledFault(name="broker is slow", producers=(0.1, 2.0), consumers=(0.1, 3.0), lane=Lane.NETWORK, real=(2.0, 10.0)),
    ScheduledFault(name="network is dark", producers=(0.05, 3.0), consumers=(0.1, 4.0), lane=Lane.NETWORK, real=(0.5, 10.0)),
    ScheduledFault(name="connection is cut", producers=AT_ONCE, consumers=AT_ONCE, lane=Lane.NETWORK),
    ScheduledFault(name="all connections are cut", producers=AT_ONCE, consumers=AT_ONCE, lane=Lane.NETWORK),
    ScheduledFault(
        name="metadata is stale",
        producers=(0.1, 2.0),
        consumers=(0.1, 3.0),
        unreal="brokers hear of changes within milliseconds; only a broker that is cut off from the controllers returns an earlier state",
    ),
    ScheduledFault(
        name="topic is hidden",
        producers=(0.1, 5.0),
        consumers=(0.1, 3.0),
        unreal="no broker hides a topic that exists; UNKNOWN_TOPIC_OR_PARTITION is shown by 'topic recreated'",
    ),
    ScheduledFault(name="more partitions", producers=AT_ONCE, consumers=AT_ONCE, lane=Lane.BROKERS),
    ScheduledFault(
        name="broker is deaf",
        producers=(0.1, 6.0),
        consumers=(0.1, 6.0),
        unreal="needs a broker that its clients reach and the other brokers do not: only containers have it (test_docker.py)",
    ),
    # of producers' schedules
    ScheduledFault(name="lost before append", producers=AT_ONCE, lane=Lane.NETWORK, real=(0.2, 3.0)),
    ScheduledFault(name="lost after append", producers=AT_ONCE, lane=Lane.NETWORK, real=(0.2, 3.0)),
    ScheduledFault(name="lost midway in the answer", producers=AT_ONCE, lane=Lane.NETWORK),
    ScheduledFault(name="answer swallowed", producers=AT_ONCE, lane=Lane.NETWORK, real=(1.0, 8.0)),
    ScheduledFault(name="request delayed", producers=(0.05, 3.0), lane=Lane.NETWORK, real=(0.5, 8.0)),
    ScheduledFault(name="answer delayed", producers=(0.05, 3.0), lane=Lane.NETWORK, real=(0.5, 8.0)),
    ScheduledFault(name="answer damaged", producers=AT_ONCE, consumers=AT_ONCE, unreal=FRAMES),
    ScheduledFault(name="error before append", producers=AT_ONCE, lane=Lane.BROKERS, real=(3.0, 8.0)),
    ScheduledFault(name="error after append", producers=AT_ONCE, lane=Lane.BROKERS, real=(1.0, 6.0)),
    ScheduledFault(name="refusal", producers=AT_ONCE, lane=Lane.NETWORK),
    ScheduledFault(name="sequence error", producers=AT_ONCE, unreal=NOT_ORDERED + "'refusal', 'topic recreated', 'unclean election'"),
    ScheduledFault(name="metadata error", producers=AT_ONCE, unreal=NOT_ORDERED + "'broker stops', 'topic recreated'"),
    ScheduledFault(name="identity error", producers=AT_ONCE, unreal=NOT_ORDERED + "'broker stops' while a producer starts"),
    ScheduledFault(name="throttled", producers=(0.05, 1.0), lane=Lane.NETWORK, real=(1.0, 6.0)),
    ScheduledFault(name="topic recreated", producers=AT_ONCE, lane=Lane.BROKERS),
    ScheduledFault(
        name="producer state lost",
        producers=AT_ONCE,
        unreal="brokers since 2.5 keep it as long as the log has records of the producer; 'unclean election' takes it away with them",
    ),
    ScheduledFault(name="leadership lost after append", producers=AT_ONCE, consumers=AT_ONCE, lane=Lane.BROKERS, real=(0.3, 1.5)),
    ScheduledFault(name="unclean election", producers=AT_ONCE, consumers=AT_ONCE, lane=Lane.BROKERS, real=(1.0, 4.0)),
    ScheduledFault(name="in-sync replicas shrink", producers=(0.1, 3.0), consumers=(0.1, 3.0), lane=Lane.BROKERS, real=(4.0, 10.0)),
    ScheduledFault(name="follower is slow", producers=(0.1, 3.0), consumers=(0.1, 3.0), lane=Lane.BROKERS, real=(0.2, 1.8)),
    ScheduledFault(name="identity damaged", producers=AT_ONCE, unreal=FRAMES),
    ScheduledFault(name="metadata damaged", producers=AT_ONCE, unreal=FRAMES),
    ScheduledFault(name="partition is gone", producers=(0.05, 15.0), consumers=(0.05, 15.0), lane=Lane.BROKERS, real=(5.0, 20.0)),
    ScheduledFault(name="broker is gone", producers=(5.0, 15.0), lane=Lane.BROKERS, real=(8.0, 25.0)),
    # of consumers' schedules
    ScheduledFault(name="fetch fault", consumers=(0.1, 3.0), lane=Lane.NETWORK, real=(0.5, 6.0)),
    ScheduledFault(name="fetch error", consumers=AT_ONCE, unreal=NOT_ORDERED + "'move leader', 'broker stops', 'topic recreated'"),
    ScheduledFault(name="offsets error", consumers=AT_ONCE, unreal=NOT_ORDERED + "'move leader', 'no leader'"),
    ScheduledFault(name="group error", consumers=AT_ONCE, unreal=NOT_ORDERED + "'coordinator moves', 'member joins', 'member dies'"),
    ScheduledFault(name="group fault", consumers=(0.1, 3.0), lane=Lane.NETWORK, real=(0.5, 6.0)),
    ScheduledFault(
        name="metadata fault", consumers=AT_ONCE, unreal="the proxy does not know requests; 'lost before append' loses any of them"
    ),
    ScheduledFault(name="coordinator moves", consumers=AT_ONCE, lane=Lane.BROKERS, real=(0.0, 6.0)),
    ScheduledFault(
        name="fetch sessions evicted",
        consumers=AT_ONCE,
        unreal="a broker forgets a session when a thousand others need its place; 'broker stops' makes it forget all",
    ),
    ScheduledFault(name="topic is created", consumers=AT_ONCE, unreal=BY_PATTERN),
    ScheduledFault(name="topic is deleted", consumers=AT_ONCE, unreal=BY_PATTERN),
    ScheduledFault(name="retention", consumers=AT_ONCE, lane=Lane.BROKERS),
    ScheduledFault(name="member joins", consumers=AT_ONCE, lane=Lane.MEMBERS),
    ScheduledFault(name="member closes", consumers=AT_ONCE, lane=Lane.MEMBERS),
    ScheduledFault(name="member dies", consumers=AT_ONCE, lane=Lane.MEMBERS),
)

# Faults of real schedules only: a clean restart, before which leaders move to other brokers, and a member that is stopped for a while.
REAL_ONLY: Final[tuple[ScheduledFault, ...]] = (
    ScheduledFault(name="broker restarts", lane=Lane.BROKERS),
    ScheduledFault(name="member freezes", lane=Lane.MEMBERS, real=(1.0, 10.0)),
)


def _spans(pairs: Iterable[tuple[str, Span | None]]) -> Mapping[str, Span]:
    return MappingProxyType({name: span for name, span in pairs if span is not None})


PRODUCERS: Final = _spans((fault.name, fault.producers) for fault in FAULTS)
CONSUMERS: Final = _spans((fault.name, fault.consumers) for fault in FAULTS)


def real(lane: Lane) -> list[ScheduledFault]:
    return [fault for fault in (*FAULTS, *REAL_ONLY) if fault.lane == lane]
