"""The outbox of a machine: each request and job leaves once."""

from __future__ import annotations

from pykafka4.core import Job
from pykafka4.core.outbox import Outbox
from tests.core.scripted_brokers import request


def test_requests_jobs_and_callbacks_leave_with_one_turn() -> None:
    outbox, (sent, _) = Outbox(), request()
    job, callback = Job(lambda: None, lambda now, result: None), (lambda: None)
    outbox.send(sent)
    outbox.start(job)
    effects = outbox.effects(7.0, (callback,))
    assert (effects.requests, effects.jobs, effects.deliver, effects.wake_at) == ((sent,), (job,), (callback,), 7.0)
    after = outbox.effects(8.0)
    assert (after.requests, after.jobs, after.deliver, after.wake_at) == ((), (), (), 8.0)
    assert outbox.effects(8.0, (callback,)).deliver == (callback,), "also in a turn that sends nothing"


def test_an_idle_turn_allocates_nothing() -> None:
    outbox = Outbox()
    assert outbox.effects(8.0) is outbox.effects(8.0)
    assert outbox.effects(9.0).wake_at == 9.0
