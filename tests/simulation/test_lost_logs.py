"""A leader that comes back without its log: it knows nothing of the producer, and takes whatever sequence comes first."""

from __future__ import annotations

import pytest

from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_produce import ProduceRequest
from tests.simulation.plans.producer_plan import draw
from tests.simulation.plans.schedules import calm
from tests.simulation.plans.simulation import Simulation

pytestmark = [pytest.mark.simulation]

SPELL_S = 15.0  # virtual seconds in which logs are lost
EVERY_S = 0.5  # virtual seconds from one loss to the next
ALL = 1_000_000  # batches


def lose_the_log(sim: Simulation) -> None:
    """The leader restarts with an empty log, and refuses the first batch that comes then, for a reason that passes."""
    tp = TopicPartition("t", 0)
    sim.disturb(0.0, tp)
    sim.watch.truncated.add(tp)
    leader = sim.cluster.topics["t"].partitions[0].leader
    sim.cluster.unclean_election("t", 0, lost=ALL)
    sim.cluster.move_leader("t", 0, leader)
    sim.cluster.drop_connections(leader)
    sim.cluster.push_error(ProduceRequest, "NOT_ENOUGH_REPLICAS", topic="t", partition=0)


@pytest.mark.parametrize("seed", range(5))
def test_records_stay_in_order_when_a_broker_comes_back_without_its_log(seed: int) -> None:
    options = {"acks": "all", "enable_idempotence": True, "batch_size": 1024, "linger_ms": 0, "delivery_timeout_ms": 60_000}
    plan = calm(
        draw(1), trouble=SPELL_S, release="4.4", topics={"t": 1}, unknown_topics=(), actors=3, records=400, give_up=False, options=options
    )
    sim = Simulation(seed, plan=plan)
    for n in range(1, int(SPELL_S / EVERY_S)):
        sim.timeline.after(n * EVERY_S, lambda: lose_the_log(sim))
    report = sim.run()
    assert report.acked == report.accepted
