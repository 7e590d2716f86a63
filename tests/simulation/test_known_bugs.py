"""Known bugs of librdkafka, as scenarios of their own: nothing is lost or repeated here, and a client with such a bug is found."""

from __future__ import annotations

import pytest

from pykafka4.testing.faults.controls import Fault
from pykafka4.wire.protocol.messages_produce import ProduceRequest
from tests.simulation.judge.invariants import Broken
from tests.simulation.mutants.leader_mutants import one_epoch_for_all, take_what_follows_for_written
from tests.simulation.plans.producer_plan import PIPELINED, draw
from tests.simulation.plans.schedules import calm
from tests.simulation.plans.simulation import Simulation
from tests.simulation.world.weather import Climate

pytestmark = [pytest.mark.simulation]

SEEDS = range(3)
SPELL_S = 4.0  # virtual seconds
FIRST, EVERY = 0.05, 1.2  # virtual seconds until something goes wrong, and until it does again: sending has not ended then
FROZEN = 1.0
AWAY_S = 0.8  # virtual seconds in which the leader of the batch in doubt cannot be reached
GIVEN_UP_S = 0.4  # virtual seconds until its request has timed out: from then on it is in doubt, and not in flight


def sending(seed: int, partitions: int, **options: int) -> Simulation:
    plan = calm(
        draw(1),
        trouble=SPELL_S,
        release="4.4",
        topics={"t": partitions},
        unknown_topics=(),
        actors=3,
        records=300,
        give_up=False,
        climate=Climate(delay=(0.005, 0.02), leak=1.0),
        options={**PIPELINED, "metadata_max_age_ms": 500, **options},
    )
    return Simulation(seed, plan=plan)


def again_and_again(sim: Simulation, act: object) -> None:
    for n in range(int((SPELL_S - FIRST) / EVERY)):
        sim.timeline.after(FIRST + n * EVERY, act)  # type: ignore[arg-type]


# ---- an epoch ends in one partition while a batch of another one is in doubt


def epoch_ends_beside_doubt(seed: int) -> Simulation:
    """The acknowledgement of a batch for t-1 is lost, and its leader out of reach; meanwhile t-0 refuses a sequence."""
    sim = sending(seed, 2)

    def refuse() -> None:
        sim.cluster.push_error(ProduceRequest, "OUT_OF_ORDER_SEQUENCE_NUMBER", topic="t", partition=0)

    def happen() -> None:
        doubtful, other = (partition.leader for partition in reversed(sim.cluster.topics["t"].partitions))
        assert doubtful != other
        sim.cluster.inject(ProduceRequest, Fault.DROP_AFTER, node=doubtful)
        append = sim.cluster.on_append

        def appended(tp: object, base: int, count: int) -> None:
            if tp == ("t", 1):
                append.remove(appended)
                sim.disturb(AWAY_S, node=doubtful)
                sim.weather.darken(doubtful, AWAY_S)
                sim.timeline.after(GIVEN_UP_S, refuse)

        append.append(appended)

    again_and_again(sim, happen)
    return sim


@pytest.mark.parametrize("seed", SEEDS)
def test_the_end_of_an_epoch_in_one_partition_repeats_no_batch_of_another(seed: int) -> None:
    report = epoch_ends_beside_doubt(seed).run()
    assert report.acked == report.accepted > 300


def test_a_client_that_begins_an_epoch_everywhere_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    one_epoch_for_all(monkeypatch)
    with pytest.raises(Broken, match="no duplicates"):
        for seed in SEEDS:
            epoch_ends_beside_doubt(seed).run()


# ---- a leader is frozen and thawed, with batches in flight


def leader_freezes(seed: int, **options: int) -> Simulation:
    """For longer than a request may take; in every other spell another broker leads meanwhile, and leads on."""
    sim = sending(seed, 1, **options)
    spells = [0]

    def happen() -> None:
        node = sim.cluster.topics["t"].partitions[0].leader
        spells[0] += 1
        sim.disturb(FROZEN, node=node)
        sim.cluster.freeze(node, FROZEN)
        if spells[0] % 2:
            sim.timeline.after(0.2, lambda: sim.cluster.move_leader("t", 0, node % 3 + 1))

    again_and_again(sim, happen)
    return sim


@pytest.mark.parametrize("seed", SEEDS)
def test_a_leader_that_is_frozen_and_thawed_leaves_no_gap(seed: int) -> None:
    report = leader_freezes(seed).run()
    assert report.acked == report.accepted > 300


@pytest.mark.parametrize("seed", SEEDS)
def test_records_that_time_out_meanwhile_fail_and_leave_no_other_gap(seed: int) -> None:
    report = leader_freezes(seed, delivery_timeout_ms=400).run()
    assert report.failed > 0
    assert set(report.codes) <= {"TIMED_OUT", "OUT_OF_ORDER_SEQUENCE_NUMBER"}  # the latter maybe written


def test_a_client_that_takes_what_a_frozen_leader_had_for_written_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    take_what_follows_for_written(monkeypatch)
    with pytest.raises(Broken, match="nothing acked is lost"):
        for seed in SEEDS:
            leader_freezes(seed).run()
