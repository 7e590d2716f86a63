"""Small bugs of the producer's handle, of its outcomes, its account and its `close`; see `producer_mutants`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from pykafka4 import producer
from pykafka4.client.runtime import Runtime
from pykafka4.core.producer.outcomes import ledger
from pykafka4.core.producer.outcomes.batch_outcomes import Outcomes
from pykafka4.core.producer.outcomes.ledger import Ledger
from pykafka4.core.producer.produce.requests import ProduceRequests
from pykafka4.core.producer.produce.responses import ACTIONS, ProduceAnswers
from pykafka4.core.producer.queues.partition_queue import PartitionQueue
from pykafka4.core.producer.sender import Sender
from pykafka4.errors import BufferFull, DeliveryFailed, KafkaError, KafkaTimeoutError, short_name
from pykafka4.errors.codes import ProduceReaction
from pykafka4.producer import session as producer_session
from pykafka4.records import ProducerRecord, RecordMetadata, TopicPartition
from tests.simulation.plans.schedules import Hunt, Patch, around
from tests.simulation.world.weather import Climate

__all__ = ["MUTANTS", "Told", "sender_of", "sending"]


def sender_of(answers: ProduceAnswers) -> Sender:
    """The machine that `answers` is a part of."""
    sender: Any = answers._compressor
    return sender


def sending(patch: pytest.MonkeyPatch, send: Callable[..., Any], **properties: Callable[[Any], Any]) -> None:
    """Replace what sends: `send` gets the real one first. The compiled core cannot be patched, only stood before."""
    real = producer_session.Accumulator

    class Changed:
        """An accumulator with another `send`, and other `properties`."""

        def __init__(self, **options: Any) -> None:
            self.__dict__["_real"] = real(**options)

        def send(self, *args: Any, **options: Any) -> Any:
            return send(self._real.send, *args, **options)

        def __getattr__(self, name: str) -> Any:
            return properties[name](self._real) if name in properties else getattr(self._real, name)

        def __setattr__(self, name: str, value: Any) -> None:
            setattr(self._real, name, value)

    patch.setattr(producer_session, "Accumulator", Changed)


class Told:
    """A handle that reports a failure as a success, or a success as a failure."""

    def __init__(
        self,
        delivery: Any,
        failure: Callable[[DeliveryFailed], Exception] = lambda error: error,
        success: Callable[[RecordMetadata], RecordMetadata] = lambda meta: meta,
    ) -> None:
        self._delivery, self._failure, self._success = delivery, failure, success

    def exception(self, timeout: float | None = None) -> Exception | None:
        error = self._delivery.exception(timeout)
        return None if error is None else self._failure(error)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        return self._success(self._delivery.result(timeout))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._delivery, name)


# ---- the outcome of a record


def refuse_what_was_taken(patch: pytest.MonkeyPatch) -> None:
    """Every fifth `send` raises although the record goes out."""
    count = [0]

    def send(original: Any, *args: Any, **options: Any) -> Any:
        count[0] += 1
        delivery = original(*args, **options)
        if count[0] % 5:
            return delivery
        delivery.exception(0.2)
        raise BufferFull("it was taken")

    sending(patch, send)


def tell_another_partition(patch: pytest.MonkeyPatch) -> None:
    def told(meta: RecordMetadata) -> RecordMetadata:
        return attrs.evolve(meta, partition=meta.partition + 1)

    sending(patch, lambda original, *args, **options: Told(original(*args, **options), success=told))


def tell_another_time(patch: pytest.MonkeyPatch) -> None:
    """Acknowledgements carry the time of the broker, whatever the topic's type of timestamps."""
    around(patch, Outcomes, "acknowledge", lambda original, self, queue, batch, offset, stamp: original(self, queue, batch, offset, 77))


def refuse_whatever_waits(patch: pytest.MonkeyPatch) -> None:
    """A record that a broker refuses takes with it all that was not sent yet, to other partitions, too."""

    def failed(original: Any, self: ProduceAnswers, queue: Any, batch: Any, now: float, answer: Any, error: KafkaError) -> None:
        original(self, queue, batch, now, answer, error)
        for other in sender_of(self).queues.values():
            for waiting in [b for b in other.batches if not b.in_flight and not b.written and not b.attempts]:
                self._outcomes.fail(other, waiting, short_name(error), error)

    for kind in (ProduceReaction.REFUSED, ProduceReaction.FAIL):
        patch.setitem(ACTIONS, kind, lambda *args, original=ACTIONS[kind]: failed(original, *args))  # type: ignore[misc]


def ask_the_leader_alone(patch: pytest.MonkeyPatch) -> None:
    """Requests say acks=1 although all in-sync replicas are to have a record."""

    def request(original: Any, self: ProduceRequests, *args: Any) -> Any:
        made = original(self, *args)
        made.message.acks = 1
        return made

    around(patch, ProduceRequests, "build", request)


def raise_what_nobody_knows(patch: pytest.MonkeyPatch) -> None:
    def partitions(original: Any, self: Runtime, topic: str, *args: Any, **options: Any) -> Any:
        raise KeyError(topic)

    around(patch, Runtime, "partitions_of", partitions)


def call_what_timed_out_not_written(patch: pytest.MonkeyPatch) -> None:
    """A record whose request may still come to the broker fails as not written."""
    around(patch, PartitionQueue, "may_be_written", lambda original, self, batch: False)


# ---- its account


def leave_out_what_is_in_flight(patch: pytest.MonkeyPatch) -> None:
    around(patch, producer.Producer, "stats", lambda original, self: attrs.evolve(original(self), in_flight=0))


def count_one_too_many(patch: pytest.MonkeyPatch) -> None:
    sending(patch, lambda original, *args, **options: original(*args, **options), accepted=lambda acc: acc.accepted + bool(acc.accepted))


def count_a_failure_too_few(patch: pytest.MonkeyPatch) -> None:
    """One record of each failed batch counts as queued for ever."""

    def lost(original: Any, self: Ledger, *args: Any) -> None:
        original(self, *args)
        self.failures_seen -= 1

    around(patch, Ledger, "lost", lost)


def count_a_success_as_failure(patch: pytest.MonkeyPatch) -> None:
    def acknowledged(original: Any, self: Ledger, *args: Any) -> None:
        original(self, *args)
        self.acked -= 1
        self.failures_seen += 1

    around(patch, Ledger, "acknowledged", acknowledged)


def count_for_the_first_partition(patch: pytest.MonkeyPatch) -> None:
    def acknowledged(original: Any, self: Ledger, tp: TopicPartition, *args: Any) -> None:
        original(self, min(other for other in self._tallies if other.topic == tp.topic), *args)

    around(patch, Ledger, "acknowledged", acknowledged)


def lose_without_a_topic(patch: pytest.MonkeyPatch) -> None:
    """Acknowledgements count in total only."""

    def acknowledged(original: Any, self: Ledger, tp: TopicPartition, *args: Any) -> None:
        before = self._tallies[tp]
        original(self, tp, *args)
        self._tallies[tp] = before

    around(patch, Ledger, "acknowledged", acknowledged)


def put_all_in_flight_into_one_partition(patch: pytest.MonkeyPatch) -> None:
    def by_partition(original: Any, batches: Any) -> Any:
        queued, in_flight = original(batches)
        return queued, {min(queued): sum(in_flight.values())} if queued else {}

    around(patch, ledger, "_by_partition", by_partition)


# ---- its end


def give_nothing_back(patch: pytest.MonkeyPatch) -> None:
    """`close` does not say what was not delivered."""

    def close(original: Any, self: Any, patience: float) -> list[ProducerRecord]:
        original(self, patience)
        self.undelivered = []
        return []

    around(patch, producer_session.ProducerSession, "_close", close)


def give_back_what_was_delivered(patch: pytest.MonkeyPatch) -> None:
    """`close` gives the first record back, whatever became of it."""
    first: list[ProducerRecord] = []

    def send(original: Any, topic: str, value: bytes, **options: Any) -> Any:
        if not first and options.get("on_delivery") is not None:
            first.append(ProducerRecord(topic, value))
        return original(topic, value, **options)

    sending(patch, send)
    around(patch, producer_session.ProducerSession, "_close", lambda original, self, patience: [*original(self, patience), *first])


def give_nothing_up(patch: pytest.MonkeyPatch) -> None:
    """`close` returns when its time is over, and leaves records without an outcome."""
    around(patch, producer_session.ProducerSession, "_give_up", lambda original, self, pending: None)


def raise_when_the_time_is_over(patch: pytest.MonkeyPatch) -> None:
    """`close` gives up by itself, instead of what is left."""

    def give_up(original: Any, self: Any, pending: Any) -> None:
        raise KafkaTimeoutError("close: time is over")

    around(patch, producer_session.ProducerSession, "_give_up", give_up)


NOTHING_FAILS: dict[str, Any] = {
    "options": {"delivery_timeout_ms": 120_000},
    "faults": ("move leader",),
    "plan": {"give_up": False, "crash": "", "ending": "close"},
}
SWIFT: dict[str, Any] = {
    "options": {"delivery_timeout_ms": 120_000, "linger_ms": 0, "acks": "all"},
    "faults": ("more partitions",),
    "plan": {**NOTHING_FAILS["plan"], "climate": Climate(delay=(0.0002, 0.002)), "spaced": False},
}
SHORT = {"delivery_timeout_ms": 500, "request_timeout_ms": 2_000}
SLOW = {"climate": Climate(delay=(0.0, 0.2)), "actors": 3, "records": 80, "spaced": False}
CLOSED_EARLY = {"give_up": True, "crash": "", "ending": "close", "neighbours": 0}
CONTENT = "records are what was sent"
UNWRITTEN = "not written is not in the log"
LEDGER = "the ledger balances"

MUTANTS: dict[Patch, Hunt] = {
    refuse_what_was_taken: Hunt({"no foreign records"}, says=" was refused by send and lies", **SWIFT),
    tell_another_partition: Hunt({CONTENT, "nothing acked is lost"}, says=" was acked in ", **NOTHING_FAILS),
    tell_another_time: Hunt({CONTENT}, says=" was acked with time ", **NOTHING_FAILS),
    refuse_whatever_waits: Hunt({"no needless failure"}, {"delivery_timeout_ms": 120_000}, ("refusal",), says="; no broker said so"),
    ask_the_leader_alone: Hunt(
        {"nothing acked is lost"},
        {"acks": "all", "enable_idempotence": True, "delivery_timeout_ms": 120_000},
        ("leadership lost after append",),
        every=0.1,
        says="; it is gone",
        plan={"crash": "", "give_up": False},
    ),
    raise_what_nobody_knows: Hunt({"no internal errors"}, says="unexpected "),
    call_what_timed_out_not_written: Hunt(
        {UNWRITTEN, "no duplicates"}, SHORT, ("request delayed", "network is dark"), every=0.1, says=") and came into the log later"
    ),
    leave_out_what_is_in_flight: Hunt({LEDGER}, says="the parts are not the whole", plan=SLOW, first=17),
    count_for_the_first_partition: Hunt({LEDGER}, says=" records count as acked, applications know of ", **NOTHING_FAILS),
    lose_without_a_topic: Hunt({LEDGER}, says=" in the topics", **NOTHING_FAILS),
    put_all_in_flight_into_one_partition: Hunt({LEDGER}, says=" of its records are in flight; ", plan=SLOW),
    count_one_too_many: Hunt({LEDGER}, says=" accepted, "),
    count_a_failure_too_few: Hunt({LEDGER}, SHORT, says=" queued, "),
    count_a_success_as_failure: Hunt({LEDGER}, says=" acked and "),
    give_nothing_back: Hunt({"failed records come back"}, says=", given back by close: ", plan=CLOSED_EARLY),
    give_back_what_was_delivered: Hunt({"progress"}, says="close gives ", **NOTHING_FAILS),
    give_nothing_up: Hunt({"progress"}, faults=("broker freezes", "no leader"), every=0.2, says=" has no outcome", plan=CLOSED_EARLY),
    raise_when_the_time_is_over: Hunt({"progress"}, says="close raised ", plan=CLOSED_EARLY),
}
