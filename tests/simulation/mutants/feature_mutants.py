"""Small bugs of what producers can do beside the plain way to send; see `producer_mutants`."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.core.producer.outcomes.batch_outcomes import Outcomes
from pykafka4.core.producer.produce.responses import ACTIONS, ProduceAnswers
from pykafka4.core.producer.sender import Sender
from pykafka4.errors import DeliveryFailed, KafkaError
from pykafka4.errors.codes import ProduceReaction
from pykafka4.producer.hooks import HookCalls
from pykafka4.records import Written
from tests.simulation.mutants.handle_mutants import SHORT, Told, sending
from tests.simulation.plans.schedules import Hunt, Patch, around

__all__ = ["MUTANTS"]


def doubt_what_was_dropped(patch: pytest.MonkeyPatch) -> None:
    """A dropped record fails as maybe written."""

    def doubtful(error: DeliveryFailed) -> Exception:
        return DeliveryFailed(error.topic, error.partition, str(error.code), Written.MAYBE, error.record, error.cause)

    sending(patch, lambda original, *args, **options: Told(original(*args, **options), doubtful))


def forget_what_was_dropped(patch: pytest.MonkeyPatch) -> None:
    """The account does not count dropped records."""
    sending(patch, lambda original, *args, **options: original(*args, **options), take_dropped=lambda real: list)


def announce_nothing(patch: pytest.MonkeyPatch) -> None:
    """No hook hears of accepted records."""
    around(patch, HookCalls, "on_enqueue", lambda original, self, delivery: None)


def end_without_telling(patch: pytest.MonkeyPatch) -> None:
    """No hook hears of the end of a batch."""
    around(patch, HookCalls, "watch", lambda original, self, batch: None)


def raise_out_of_many(patch: pytest.MonkeyPatch) -> None:
    """`send_many` fails while the producer is open."""

    def fail(*args: Any, **options: Any) -> Any:
        raise KafkaError("injected")

    sending(patch, lambda original, *args, **options: original(*args, **options), send_many=lambda real: fail)


def purge_what_is_sealed(patch: pytest.MonkeyPatch) -> None:
    """A purge leaves batches that still take records."""
    around(patch, Sender, "_seal_open", lambda original, self: None)


def say_more_was_purged(patch: pytest.MonkeyPatch) -> None:
    around(patch, Sender, "purge", lambda original, self, *args: original(self, *args) + 1000)


def call_a_timeout_a_purge(patch: pytest.MonkeyPatch) -> None:
    def fail(original: Any, self: Outcomes, queue: Any, batch: Any, code: str, error: KafkaError) -> None:
        original(self, queue, batch, "PURGED" if code == "TIMED_OUT" else code, error)

    around(patch, Outcomes, "fail", fail)


def fail_the_batch_of_a_bad_record(patch: pytest.MonkeyPatch) -> None:
    """What a broker names takes its whole batch with it."""
    patch.setitem(ACTIONS, ProduceReaction.REFUSED, ProduceAnswers._failed)


def forget_why_a_record_is_bad(patch: pytest.MonkeyPatch) -> None:
    def refused(original: Any, self: ProduceAnswers, queue: Any, batch: Any, now: float, answer: Any, error: KafkaError) -> None:
        for found in answer.record_errors:
            found.batch_index_error_message = None
        original(self, queue, batch, now, answer, error)

    patch.setitem(ACTIONS, ProduceReaction.REFUSED, lambda *args: refused(ProduceAnswers._refused, *args))


def count_numbers_from_one(patch: pytest.MonkeyPatch) -> None:
    """The number of a record is taken for the next one."""

    def send(original: Any, *args: Any, partition: int | None = None, **options: Any) -> Any:
        return original(*args, partition=None if partition is None else (partition + 1) % (1 << 32), **options)

    sending(patch, send)


def call_late_callbacks_twice(patch: pytest.MonkeyPatch) -> None:
    """A callback that is given to a handle runs twice."""

    class Twice(Told):
        def add_done_callback(self, fn: Any) -> None:
            self._delivery.add_done_callback(fn)
            self._delivery.add_done_callback(fn)

    sending(patch, lambda original, *args, **options: Twice(original(*args, **options)))


DROPPING = {"rate_limits": {"*": (1, 50)}, "on_rate_limit": "drop"}
PURGES, ALONE = "a purge fails what waits", "a bad record fails alone"
REFUSING = {"refuses": True, "release": "4.4", "crash": "", "give_up": False}
HOOKED = {"hooked": True, "crash": "", "give_up": False, "ending": "close", "neighbours": 0}

MUTANTS: dict[Patch, Hunt] = {
    doubt_what_was_dropped: Hunt({"what was dropped is told"}, DROPPING, says=" was dropped as "),
    forget_what_was_dropped: Hunt({"what was dropped is told"}, DROPPING, says=" count as dropped, "),
    announce_nothing: Hunt({"hooks are told"}, says=" records were announced, ", plan=HOOKED),
    end_without_telling: Hunt({"hooks are told"}, says=" records was told, ", plan=HOOKED),
    purge_what_is_sealed: Hunt({PURGES}, says=" has no outcome after it", plan={"purges": True}),
    say_more_was_purged: Hunt({PURGES}, says=" records were purged, it says", plan={"purges": True}),
    call_a_timeout_a_purge: Hunt({PURGES}, SHORT, says="; nobody purged"),
    fail_the_batch_of_a_bad_record: Hunt({ALONE}, says="; brokers named others of its batch", plan=REFUSING),
    forget_why_a_record_is_bad: Hunt({ALONE}, says=" without the broker's reason", plan=REFUSING),
    count_numbers_from_one: Hunt({"a number chooses its partition"}, {"partitioner": "partition_key"}, says=" lies in "),
    call_late_callbacks_twice: Hunt({"one completion"}, says=": its second callback ran ", plan={"called": True}),
    raise_out_of_many: Hunt({"the producer goes on"}, says="send_many raised ", plan={"many": True, "crash": "", "give_up": False}),
}
