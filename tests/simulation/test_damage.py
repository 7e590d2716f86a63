"""Responses that cannot be decoded, once and forever: a pause that `delivery_timeout_ms` bounds, never the end of a producer."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.errors import DeliveryFailed
from pykafka4.records import Written
from pykafka4.testing.faults.controls import Fault
from pykafka4.wire.protocol.messages_cluster import MetadataRequest
from pykafka4.wire.protocol.messages_produce import ProduceRequest
from pykafka4.wire.protocol.messages_txn import InitProducerIdRequest
from tests.simulation.plans.producer_plan import draw
from tests.simulation.plans.schedules import calm
from tests.simulation.plans.simulation import Simulation

pytestmark = [pytest.mark.simulation]

FOREVER = 1_000_000
TROUBLE_S = 60.0  # virtual seconds
MOST = 50  # requests of all kinds per second


def damaged(*apis: Any, times: int = FOREVER, release: str = "4.4", trouble: float = TROUBLE_S, **options: Any) -> Simulation:
    """A schedule whose only fault is that so many answers to each of `apis` are damaged, until everything heals."""
    plan = calm(
        draw(1),
        trouble=trouble,
        release=release,
        topics={"t": 4, "u": 3},
        unknown_topics=(),
        actors=2,
        records=80,
        give_up=False,
        options={"acks": "all", "enable_idempotence": True, "batch_size": 1024, **options},
    )
    sim = Simulation(7, plan=plan)
    for api in apis:
        sim.cluster.inject(api, Fault.GARBAGE, times=times)
    return sim


APIS = pytest.mark.parametrize("api", [InitProducerIdRequest, ProduceRequest, MetadataRequest], ids=lambda api: api.__name__)


@APIS
@pytest.mark.parametrize("release", ["4.4", "2.1", "0.11"])
def test_one_damaged_answer_costs_no_record(api: Any, release: str) -> None:
    report = damaged(api, times=1, release=release, trouble=1.0, delivery_timeout_ms=30_000).run()
    assert (report.acked, report.failed) == (report.accepted, 0)


@APIS
def test_damaged_answers_for_a_minute_cause_no_busy_loop_and_then_everything_is_delivered(api: Any) -> None:
    sim = damaged(api, delivery_timeout_ms=120_000, unknown_topic_timeout_ms=120_000)
    began = sim.timeline.now
    sim.timeline.at(began + TROUBLE_S - 0.001, lambda: counted.update(sim.cluster.requests))
    counted: dict[str, int] = {}
    report = sim.run()
    assert report.seconds >= TROUBLE_S
    assert sum(counted.values()) <= MOST * TROUBLE_S, counted
    assert (report.acked, report.failed) == (report.accepted, 0)


@APIS
def test_damaged_answers_for_ever_are_bounded_by_the_delivery_timeout_and_named(api: Any) -> None:
    sim = damaged(api, delivery_timeout_ms=5_000, request_timeout_ms=2_000, unknown_topic_timeout_ms=5_000)
    report = sim.run()
    assert report.acked == 0
    errors = [sent.delivery.exception(0) for sent in sim.watch.sent]
    assert report.accepted == len(errors) == 160
    for sent, error in zip(sim.watch.sent, errors, strict=True):
        assert isinstance(error, DeliveryFailed)
        assert error.code == "TIMED_OUT"
        assert error.written is (Written.MAYBE if sim.truth.stored.get(sent.value) else Written.NO)
        named = f"cannot decode the response to {api.__name__}" in str(error)
        assert named or api is ProduceRequest, error  # batches behind the first one may have had no answer of their own
    assert any("cannot decode the response" in str(error) for error in errors)
