"""A broker with stale metadata (cut off from the controllers, still reached by clients): clients turn to another broker."""

from __future__ import annotations

import pytest

from pykafka4.records import TopicPartition
from tests.simulation.plans.consumer_plan import GROUP, ConsumerPlan, draw_plain_consumers
from tests.simulation.plans.consumers import ConsumerSimulation
from tests.simulation.plans.producer_plan import draw
from tests.simulation.plans.schedules import calm
from tests.simulation.plans.simulation import Simulation

pytestmark = [pytest.mark.simulation]

SPELL_S = 60.0  # virtual seconds in which the broker gets no metadata
FIRST_S = 1.0  # virtual seconds before that
NODES = (1, 2, 3)
SEEDS = range(12)
TWO_MEMBERS = {
    "release": "2.8",
    "protocol": "classic",
    "topics": {"t": 1},
    "members": 2,
    "records": 150,
    "static": False,
    "calls": 0.0,
    "iterate": 0.0,
}


def two_members() -> ConsumerPlan:
    """Two members that only poll and commit."""
    plan = calm(draw_plain_consumers(1), trouble=SPELL_S, **TWO_MEMBERS)
    plan.options.update(auto_offset_reset="earliest")
    return plan  # type: ignore[no-any-return]


def all_but(node: int) -> list[int]:
    return [other for other in NODES if other != node]


def deafen(sim: Simulation | ConsumerSimulation, node: int) -> None:
    """The broker gets no more metadata, and then everything it leads or coordinates moves away."""
    sim.disturb(SPELL_S)
    sim.cluster.deafen(node, SPELL_S)
    others = all_but(node)
    for topic in sim.cluster.topics.values():
        for number in range(len(topic.partitions)):
            sim.cluster.move_leader(topic.name, number, others[number % 2])
    sim.cluster.move_coordinator(GROUP, others[0])


@pytest.mark.parametrize("in_flight", [1, 5])
@pytest.mark.parametrize("seed", SEEDS)
def test_producers_find_the_new_leaders_meanwhile(seed: int, in_flight: int) -> None:
    """The broker takes their batches as before and says after a while that its replicas have not."""
    plan = calm(
        draw(1),
        trouble=SPELL_S,
        release="2.8",
        topics={"t": 1},
        unknown_topics=(),
        actors=2,
        records=80,
        give_up=False,
        options={
            "acks": "all",
            "batch_size": 1024,
            "delivery_timeout_ms": 15_000,
            "request_timeout_ms": 5_000,
            "retry_backoff_ms": 100,
            "metadata_max_age_ms": 300_000,
            "max_in_flight_requests_per_connection": in_flight,
        },
    )
    sim = Simulation(seed, plan=plan)
    sim.timeline.after(FIRST_S, lambda: deafen(sim, 1 + seed % 3))
    report = sim.run()
    assert (report.acked, report.failed) == (report.accepted, 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_members_find_the_new_coordinator_and_leaders_meanwhile(seed: int) -> None:
    plan = two_members()
    sim = ConsumerSimulation(seed, plan=plan)
    sim.timeline.after(FIRST_S, lambda: deafen(sim, 1 + seed % 3))
    tp, ends, done = TopicPartition("t", 0), [0], [0]
    sim.timeline.after(FIRST_S, lambda: ends.append(sim.cluster.log(*tp).end_offset))
    sim.timeline.after(SPELL_S - 25.0, lambda: ends.append(sim.cluster.log(*tp).end_offset))
    sim.timeline.after(SPELL_S - 5.0, lambda: done.append(sim.ledger.done_below(tp)))
    sim.run()
    assert ends[-1] > ends[-2]
    assert done[-1] >= ends[-1]


@pytest.mark.parametrize("seed", SEEDS)
def test_members_do_not_wait_for_a_coordinator_that_froze_while_they_were_joining(seed: int) -> None:
    plan = two_members()
    plan.options.update(session_timeout_ms=10_000, max_poll_interval_ms=300_000)
    sim = ConsumerSimulation(seed, plan=plan)
    froze: list[int] = []
    states: list[set[str]] = []

    def freeze_when_joining() -> None:
        if "joining" not in sim.states():
            sim.timeline.after(0.02, freeze_when_joining)
            return
        node = sim.cluster.coordinator(GROUP)
        assert node is not None
        froze.append(node)
        sim.cluster.freeze(node, SPELL_S)
        others = all_but(node)
        sim.cluster.move_leader("t", 0, others[0])
        sim.timeline.after(2.0, lambda: sim.cluster.move_coordinator(GROUP, others[seed % 2]))

    freeze_when_joining()
    for before_the_end in range(20, 0, -1):
        sim.timeline.after(SPELL_S - before_the_end, lambda: states.append(sim.states()))
    sim.run()
    assert froze
    assert {"stable"} in states, "joining members have joined elsewhere"
