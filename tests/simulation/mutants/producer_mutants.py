"""Small bugs of the producer, each with the promise that it breaks, the check that says so and what narrows the search.

A mutant here is a patch of one method. What it shows is not that the client is right, but that the simulation would say so if it were not.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from pykafka4 import producer
from pykafka4.client.runtime import Runtime
from pykafka4.core import Effects, Outcome
from pykafka4.core.backoff import Backoff
from pykafka4.core.engine import Engine
from pykafka4.core.metadata import cluster
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.network.call import Next, Verdict
from pykafka4.core.network.connection import Connection
from pykafka4.core.producer.outcomes.batch_outcomes import Outcomes
from pykafka4.core.producer.outcomes.deadlines import Deadlines
from pykafka4.core.producer.outcomes.ledger import Ledger
from pykafka4.core.producer.produce.requests import ProduceRequests
from pykafka4.core.producer.produce.responses import ACTIONS, ProduceAnswers
from pykafka4.core.producer.queues.partition_queue import UNASSIGNED, PartitionQueue
from pykafka4.core.producer.sender import Sender
from pykafka4.core.producer.sequences.identity import Identity
from pykafka4.errors import DeliveryFailed, KafkaError
from pykafka4.errors.codes import BY_NAME, CODES, ProduceReaction
from pykafka4.net.handoff.waiting import Gate, Signal
from pykafka4.producer import session as producer_session
from pykafka4.records import Written
from tests.simulation.mutants import feature_mutants, handle_mutants, leader_mutants
from tests.simulation.mutants.handle_mutants import NOTHING_FAILS, SHORT, Told, sender_of, sending
from tests.simulation.plans.producer_plan import DOUBTFUL, PIPELINED, QUICK
from tests.simulation.plans.schedules import Hunt, Patch, around
from tests.simulation.world.weather import Climate

# ---- the bugs


def forget_what_was_lost(patch: pytest.MonkeyPatch) -> None:
    """A lost connection takes its batches with it."""

    def lost(original: Any, self: ProduceAnswers, node: int, entries: Any, now: float, outcome: Any) -> None:
        for queue, batch in entries:
            if not batch.done:
                self._outcomes.ledger.requeued(batch.count)
                queue.remove(batch)

    around(patch, ProduceAnswers, "_flight_lost", lost)


def take_loss_for_success(patch: pytest.MonkeyPatch) -> None:
    """A lost connection counts as an acknowledgement."""

    def lost(original: Any, self: ProduceAnswers, node: int, entries: Any, now: float, outcome: Any) -> None:
        for queue, batch in entries:
            self._outcomes.acknowledge(queue, batch, -1, -1)

    around(patch, ProduceAnswers, "_flight_lost", lost)


def new_sequence_for_each_try(patch: pytest.MonkeyPatch) -> None:
    """A batch that is sent again gets another number."""

    def requeue(original: Any, self: ProduceAnswers, queue: Any, batch: Any) -> None:
        original(self, queue, batch)
        if not batch.done:
            batch.base_sequence = UNASSIGNED

    around(patch, ProduceAnswers, "_requeue", requeue)


def call_back_twice(patch: pytest.MonkeyPatch) -> None:
    def send(original: Any, *args: Any, on_delivery: Any = None, **where: Any) -> Any:
        twice = None if on_delivery is None else lambda delivery: (on_delivery(delivery), on_delivery(delivery))
        return original(*args, on_delivery=twice, **where)

    sending(patch, send)


def fail_without_a_reason(patch: pytest.MonkeyPatch) -> None:
    """A failure says neither why nor whether the record was written."""
    sending(patch, lambda original, *args, **options: Told(original(*args, **options), lambda error: KafkaError(str(error))))


def hand_back_another_record(patch: pytest.MonkeyPatch) -> None:
    """A failed record comes back as the one sent before it."""
    before = [b""]

    def send(original: Any, topic: str, value: bytes, **options: Any) -> Any:
        last, before[0] = before[0], value

        def tell(error: DeliveryFailed) -> Exception:
            record = attrs.evolve(error.record, value=last)
            return DeliveryFailed(error.topic, error.partition, str(error.code), error.written, record, error.cause)

        return Told(original(topic, value, **options), tell)

    sending(patch, send)


def forget_to_call_back(patch: pytest.MonkeyPatch) -> None:
    around(patch, Outcomes, "_settled", lambda original, self, callbacks: original(self, None))


def queue_behind(patch: pytest.MonkeyPatch) -> None:
    """A batch that came back goes to the end of its queue."""

    def requeue(original: Any, self: PartitionQueue, batch: Any) -> None:
        original(self, batch)
        if not self.in_flight and len(self.batches) > 1:
            self.batches.remove(batch)
            self.batches.append(batch)

    around(patch, PartitionQueue, "requeue", requeue)


def new_epoch_in_doubt(patch: pytest.MonkeyPatch) -> None:
    """A new epoch begins although batches may be in the log under the old one."""
    patch.setattr(PartitionQueue, "in_doubt", property(lambda self: False))


def never_say_repeated(patch: pytest.MonkeyPatch) -> None:
    """An acknowledgement does not say that an earlier attempt may be in the log, too."""

    def acknowledge(original: Any, self: Outcomes, queue: PartitionQueue, batch: Any, *where: Any) -> None:
        batch.written = False
        original(self, queue, batch, *where)

    around(patch, Outcomes, "acknowledge", acknowledge)


def put_two_batches_of_a_partition_into_a_request(patch: pytest.MonkeyPatch) -> None:
    """A queue that gets another batch while a request is made up stands in its line again at once."""

    def picked(original: Any, self: Sender, node: int, now: float) -> Any:
        entries: list[Any] = []
        while (queue := self._ready.head(node)) is not None:
            batch = self._next(queue, node, self.network.link(node), now)
            if batch is None:
                continue
            self._ready.remove(queue)
            entries.append((queue, batch))
            queue.sent(batch, node)
        for queue, _ in entries:
            self._ready.place(queue)
        return entries

    around(patch, Sender, "_pick", picked)


def lose_count(patch: pytest.MonkeyPatch) -> None:
    around(patch, Ledger, "requeued", lambda original, self, records: original(self, records - 1))


def call_it_not_written(patch: pytest.MonkeyPatch) -> None:
    """A lost answer is taken for a request that never left."""

    def lost(original: Any, self: ProduceAnswers, node: int, entries: Any, now: float, outcome: Any) -> None:
        original(self, node, entries, now, attrs.evolve(outcome, written=Written.NO))
        for _, batch in entries:
            batch.attempts += 1  # so that only the numbering is wrong

    around(patch, ProduceAnswers, "_flight_lost", lost)


def take_an_error_after_the_append_for_definite(patch: pytest.MonkeyPatch) -> None:
    """Errors that brokers also give while they wait for the followers count as given before the append."""
    for name in ("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION", "KAFKA_STORAGE_ERROR", "REPLICA_NOT_AVAILABLE"):
        row = BY_NAME[name]
        patch.setitem(CODES, row.code, attrs.evolve(row, written=Written.NO))


def exceed_memory(patch: pytest.MonkeyPatch) -> None:
    real = producer_session.Accumulator

    def larger(**options: Any) -> Any:
        sizes = {name: 8 * options[name] for name in ("buffer_memory", "max_partition_bytes")}
        return real(**{**options, **sizes})

    patch.setattr(producer_session, "Accumulator", larger)


def never_rest(patch: pytest.MonkeyPatch) -> None:
    """A machine with a queue wants to be polled at once."""

    def poll(original: Any, self: Sender, now: float) -> Effects:
        effects = original(self, now)
        return attrs.evolve(effects, wake_at=now) if any(q.batches for q in self.queues.values()) else effects

    around(patch, Sender, "poll", poll)


def look_all_the_time(patch: pytest.MonkeyPatch) -> None:
    """The sender wants to be polled a thousand times a second."""
    around(patch, Sender, "poll", lambda original, self, now: attrs.evolve(original(self, now), wake_at=now + 0.001))


def never_pause(patch: pytest.MonkeyPatch) -> None:
    """A failed request is repeated at once, however often it failed."""
    patch.setattr(Backoff, "retry", lambda config, random: Backoff(0.001, 0.001, random))
    patch.setattr(cluster, "ROTATES_AFTER", 1 << 30)


def count_offsets_from_one(patch: pytest.MonkeyPatch) -> None:
    def acknowledge(original: Any, self: Outcomes, queue: Any, batch: Any, offset: int, stamp: int) -> None:
        original(self, queue, batch, offset + 1, stamp)

    around(patch, Outcomes, "acknowledge", acknowledge)


def number_from_zero_in_the_old_epoch(patch: pytest.MonkeyPatch) -> None:
    """After a gap in the sequence the numbering restarts at zero, but the epoch stays."""

    def begin_epoch(original: Any, self: PartitionQueue, producer_id: int, epoch: int) -> None:
        original(self, producer_id, max(0, self.epoch))

    around(patch, PartitionQueue, "begin_epoch", begin_epoch)


def start_over_when_the_topic_hides(patch: pytest.MonkeyPatch) -> None:
    """Sequences begin again when metadata does not know the topic for a while."""

    def look(original: Any, self: Sender, *args: Any) -> None:
        for queue in self.queues.values():
            if self.cluster.unknown_since(queue.tp.topic) is not None and queue.in_flight == 0:
                queue.next_sequence = 0
        original(self, *args)

    around(patch, Sender, "_look_at_leaders", look)


def mix_up_topics(patch: pytest.MonkeyPatch) -> None:
    """Records for u go to t."""

    def build(original: Any, self: ProduceRequests, *args: Any) -> Any:
        request = original(self, *args)
        for topic in request.message.topic_data:
            if topic.name == "u":
                topic.name = "t"
        return request

    around(patch, ProduceRequests, "build", build)
    around(patch, Cluster, "topic_id", lambda original, self, topic: None)


def pipeline_before_the_first_answer(patch: pytest.MonkeyPatch) -> None:
    """Several batches go to a partition whose leader has not taken one of ours yet."""

    def may_send(original: Any, self: PartitionQueue, now: float) -> bool:
        self.proven = True
        return bool(original(self, now))

    around(patch, PartitionQueue, "may_send", may_send)


def fail_without_saying_so(patch: pytest.MonkeyPatch) -> None:
    """Records that time out in their queue are dropped."""

    def failed(original: Any, self: Outcomes, queue: Any, batch: Any, code: str, error: Any) -> None:
        if code != "TIMED_OUT" or batch.in_flight:
            original(self, queue, batch, code, error)
        else:
            queue.remove(batch)

    around(patch, Outcomes, "fail", failed)


def take_damage_for_an_answer(patch: pytest.MonkeyPatch) -> None:
    """An answer that cannot be decoded is a permanent error."""
    around(patch, Connection, "_undecodable", lambda original, self, error: error)


def give_up_when_there_is_no_id(patch: pytest.MonkeyPatch) -> None:
    """The first question for a producer id that fails is the last."""

    def answered(original: Any, self: Identity, now: float, outcome: Outcome) -> Verdict:
        verdict = original(self, now, outcome)
        return verdict and (Next.GIVE_UP, verdict[1])

    around(patch, Identity, "_answered", answered)


def never_retry(patch: pytest.MonkeyPatch) -> None:
    """An error that says "try again" is final."""
    patch.setitem(ACTIONS, ProduceReaction.RESEND, ProduceAnswers._failed)


def never_retry_after_a_loss(patch: pytest.MonkeyPatch) -> None:
    """A lost connection is final for what was under way."""

    def lost(original: Any, self: ProduceAnswers, node: int, entries: Any, now: float, outcome: Any) -> None:
        for queue, batch in entries:
            batch.written = True
            self._requeue(queue, batch)
            if not batch.done:
                self._outcomes.fail(queue, batch, "NETWORK_EXCEPTION", outcome.reason)

    around(patch, ProduceAnswers, "_flight_lost", lost)


def time_out_early(patch: pytest.MonkeyPatch) -> None:
    """Records are given up after a second."""
    around(
        patch,
        Sender,
        "__init__",
        lambda original, self, config, *rest: original(self, attrs.evolve(config, delivery_timeout_ms=1_000), *rest),
    )


def time_out_after_two_thirds(patch: pytest.MonkeyPatch) -> None:
    """Records are given up before their delivery timeout, though not much before."""
    around(
        patch,
        Sender,
        "__init__",
        lambda original, self, config, *rest: original(
            self, attrs.evolve(config, delivery_timeout_ms=config.delivery_timeout_ms * 2 / 3), *rest
        ),
    )


def fill_until_the_timeout(patch: pytest.MonkeyPatch) -> None:
    """A batch that cannot be sent takes records until its first one expires."""
    around(patch, Deadlines, "watch_due", lambda original, self, queue: None)


def rest_everywhere_after_a_loss(patch: pytest.MonkeyPatch) -> None:
    """A lost connection keeps all partitions waiting for a while, not only those that it led to."""

    def lost(original: Any, self: ProduceAnswers, node: int, entries: Any, now: float, outcome: Any) -> None:
        original(self, node, entries, now, outcome)
        for queue in sender_of(self).queues.values():
            if queue not in dict(entries):
                queue.held_until = now + 5.0
                self._deadlines._timers.at(queue.held_until, lambda _, queue=queue: self._ready.place(queue))

    around(patch, ProduceAnswers, "_flight_lost", lost)


def rest_too_long(patch: pytest.MonkeyPatch) -> None:
    """The first pause after a failure is longer than retry_backoff_max_ms."""
    patch.setattr(Backoff, "retry", lambda config, random: Backoff(6.0, 6.0, random))


def tell_no_offset(patch: pytest.MonkeyPatch) -> None:
    around(patch, Outcomes, "acknowledge", lambda original, self, queue, batch, offset, stamp: original(self, queue, batch, -1, stamp))


def leave_out(patch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Something that the application gave is not in the record."""
    sending(patch, lambda original, *args, **options: original(*args, **{**options, **changes}))


def leave_headers_out(patch: pytest.MonkeyPatch) -> None:
    leave_out(patch, headers=None)


def leave_timestamps_out(patch: pytest.MonkeyPatch) -> None:
    leave_out(patch, timestamp_ms=None)


def leave_partitions_out(patch: pytest.MonkeyPatch) -> None:
    leave_out(patch, partition=None)


def take_an_empty_key_for_none(patch: pytest.MonkeyPatch) -> None:
    sending(patch, lambda original, *args, key=None, **options: original(*args, key=key or None, **options))


def stop_all_when_one_is_offline(patch: pytest.MonkeyPatch) -> None:
    """Nothing is sent while any partition has no leader."""

    def picked(original: Any, self: Sender, node: int, now: float) -> Any:
        return [] if self.recovery.offline else original(self, node, now)

    around(patch, Sender, "_pick", picked)


def wait_without_a_deadline(patch: pytest.MonkeyPatch) -> None:
    """A wait for an outcome ignores its timeout."""
    around(patch, Signal, "wait", lambda original, self, predicate, timeout=None: original(self, predicate, 60.0 if timeout else timeout))


def wait_for_room_without_a_deadline(patch: pytest.MonkeyPatch) -> None:
    around(patch, Gate, "wait", lambda original, self, try_again, timeout=None, **rest: original(self, try_again, 60.0, **rest))


def lose_callbacks_in_a_crash(patch: pytest.MonkeyPatch) -> None:
    """The end of the loop fails records without calling their callbacks."""
    around(patch, Engine, "crash", lambda original, self, reason: original(self, reason) and ())


def end_all_with_one(patch: pytest.MonkeyPatch) -> None:
    """A producer that is closed takes the others of its client with it."""

    def remove(original: Any, self: Engine, machine: Any) -> None:
        for slot in self._slots:
            if isinstance(slot.machine, Sender):
                original(self, slot.machine)

    around(patch, Engine, "remove", remove)


def raise_nothing_out_of_a_block(patch: pytest.MonkeyPatch) -> None:
    """A `with` block ends as if everything had been delivered."""
    around(patch, producer_session.ProducerSession, "raise_failures", lambda original, self, mark: None)


def give_up_what_was_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A producer without a handle fails its records."""
    patch.setattr(producer, "deliver_forgotten", lambda session: session.runtime.loop.call(lambda now: session.close(0)))


def leave_a_partition_out(patch: pytest.MonkeyPatch) -> None:
    around(patch, Runtime, "partitions_of", lambda original, self, *args, **options: original(self, *args, **options)[1:])


SINGLY = {
    "acks": "all",
    "linger_ms": 0,
    "batch_size": 1024,
    "metadata_max_age_ms": 500,
    "delivery_timeout_ms": 120_000,
    "enable_idempotence": True,
}
SPACED = {"spaced": True, "sick": False, "trouble": 20.0, "records": 80, "climate": Climate()}
IDEMPOTENT = {"acks": "all", "enable_idempotence": True}
PLAIN = {"acks": "all", "enable_idempotence": False}


LOST = "nothing acked is lost"
ORDER = "order per partition"
TWO = "one leader at a time"
HOT = "no hot loop"
LEDGER = "the ledger balances"
GOES_ON = "the producer goes on"
GOES_ON_ALONE = "partitions go on"
NEEDLESS = "no needless failure"
CONTENT = "records are what was sent"
UNWRITTEN = "not written is not in the log"
BEHIND = " lies behind its record "

MUTANTS: dict[Patch, Hunt] = {
    **feature_mutants.MUTANTS,
    **handle_mutants.MUTANTS,
    **leader_mutants.MUTANTS,
    forget_what_was_lost: Hunt({"progress", "partitions go on"}, says="the end of the block raised "),
    take_loss_for_success: Hunt({LOST, "offsets are told"}, says=" without an offset, which no broker left out"),
    new_sequence_for_each_try: Hunt({"no duplicates", "progress", ORDER}, says=" lies at "),
    call_back_twice: Hunt({"one completion"}, says=": callback number "),
    forget_to_call_back: Hunt({"progress"}, says=" records have no outcome; queues "),
    queue_behind: Hunt({ORDER}, PLAIN, ("error before append", "lost before append"), says=BEHIND),
    new_epoch_in_doubt: Hunt(
        {"no duplicates", ORDER, "not written is not in the log"}, PIPELINED, says=" lies at ", plan=DOUBTFUL, first=48
    ),
    never_say_repeated: Hunt({"no duplicates"}, PLAIN, says=" was acked as written once, "),
    put_two_batches_of_a_partition_into_a_request: Hunt(
        {"one batch per request"},
        {**SINGLY, "max_in_flight_requests_per_connection": 5, "compression_type": "lz4"},
        ("move leader",),
        says=" has batches of ",
        plan={"preempt": 0.5, "actors": 3, "records": 80, "topics": {"t": 4, "u": 3}},
        first=200,
    ),
    lose_count: Hunt({LEDGER}, says=" in flight, "),
    call_it_not_written: Hunt({UNWRITTEN, "no duplicates"}, says=") and lies in the log", first=9),  # the next batch has its number
    take_an_error_after_the_append_for_definite: Hunt(
        {"not written is not in the log", "no duplicates", LOST},
        {**IDEMPOTENT, **SHORT},
        ("error after append", "leadership lost after append", "error before append"),
        says=") and lies in the log",
    ),
    exceed_memory: Hunt({"memory is bounded"}, says=" bytes in use, ", first=12),
    never_rest: Hunt({HOT}, says=" turns in a row "),
    look_all_the_time: Hunt({HOT}, says=" inputs"),
    count_offsets_from_one: Hunt({LOST}, says="; it lies at "),
    number_from_zero_in_the_old_epoch: Hunt(
        {LOST, "progress", "partitions go on", HOT}, IDEMPOTENT, ("sequence error", "refusal", "error after append"), says="; it lies at "
    ),
    start_over_when_the_topic_hides: Hunt({LOST, ORDER}, SINGLY, ("topic is hidden",), says="; it lies at "),
    mix_up_topics: Hunt(  # found where the same broker leads both
        {"no foreign records", GOES_ON_ALONE},  # the other broker refuses them for ever
        {"enable_idempotence": False, "acks": "1"},
        ("move leader",),
        0.1,
        " was not sent to ",
        {"topics": {"t": 3, "u": 1}},
    ),
    pipeline_before_the_first_answer: Hunt(
        {ORDER}, {**SINGLY, "max_in_flight_requests_per_connection": 5}, ("error before append",), says=BEHIND, first=18
    ),
    fail_without_a_reason: Hunt({"failures are classified"}, SHORT, says=" failed with "),
    hand_back_another_record: Hunt({"failed records come back"}, SHORT, says=" came back as "),
    never_pause: Hunt({HOT}, faults=("no leader", "topic is hidden"), every=0.05, says=" requests in ", first=5),
    fail_without_saying_so: Hunt({"progress", GOES_ON_ALONE}, SHORT, says=" records have no outcome; queues "),
    take_damage_for_an_answer: Hunt({"failures are classified", GOES_ON}, {}, ("answer damaged", "identity damaged"), says=" failed as "),
    give_up_when_there_is_no_id: Hunt({GOES_ON, "failures are classified"}, IDEMPOTENT, ("identity damaged",), says="send raised "),
    never_retry: Hunt({NEEDLESS}, says="; it is to be tried again"),
    never_retry_after_a_loss: Hunt({NEEDLESS}, says="; it is to be tried again"),
    time_out_early: Hunt({NEEDLESS}, {"delivery_timeout_ms": 30_000}, says=" s of it without a fault", first=13),
    time_out_after_two_thirds: Hunt(
        {NEEDLESS}, {"delivery_timeout_ms": 3_000}, ("broker stops", "no leader", "partition is gone"), says=": given up after "
    ),
    fill_until_the_timeout: Hunt(
        {NEEDLESS},
        {"delivery_timeout_ms": 500, "linger_ms": 0, "batch_size": 4096},
        ("no leader", "broker stops"),
        says=": given up after ",
        first=12,
    ),
    rest_everywhere_after_a_loss: Hunt({GOES_ON_ALONE, NEEDLESS}, QUICK, ("broker stops",), says=" wait, first ", plan=SPACED, first=132),
    rest_too_long: Hunt({GOES_ON_ALONE, NEEDLESS}, QUICK, ("error before append", "connection is cut"), says=" wait, first ", plan=SPACED),
    raise_nothing_out_of_a_block: Hunt(
        {"a block tells what failed"}, SHORT, says="it raised ", plan={"ending": "with", "give_up": False, "crash": ""}
    ),
    give_up_what_was_forgotten: Hunt(
        {NEEDLESS}, says="; it is to be tried again", plan={"ending": "forgotten", "give_up": False, "crash": ""}
    ),
    leave_a_partition_out: Hunt({"partitions are told as they are"}, says=", there are "),
    tell_no_offset: Hunt({"offsets are told"}, says=" without an offset, which no broker left out"),
    leave_headers_out: Hunt({CONTENT}, says=" lies as ", **NOTHING_FAILS),
    leave_timestamps_out: Hunt({CONTENT}, says=" lies as ", **NOTHING_FAILS),
    leave_partitions_out: Hunt({CONTENT}, says=" lies as ", **NOTHING_FAILS),
    take_an_empty_key_for_none: Hunt({CONTENT, "failed records come back"}, says=" lies as "),
    stop_all_when_one_is_offline: Hunt(
        {GOES_ON_ALONE},
        {"delivery_timeout_ms": 120_000},
        ("partition is gone",),
        says=" wait, first ",
        plan={"sick": True, "trouble": 20.0, "topics": {"t": 4}, "actors": 3, "records": 80},
        first=8,
    ),
    wait_without_a_deadline: Hunt({"waits end in time"}, says=" took "),
    wait_for_room_without_a_deadline: Hunt({"waits end in time"}, says=" took ", first=8),
    lose_callbacks_in_a_crash: Hunt({"progress"}, says=" records have no outcome; queues ", first=16),
    end_all_with_one: Hunt(
        {"progress", GOES_ON_ALONE},
        says=" records have no outcome; queues ",
        plan={"neighbours": 2, "ending": "close", "crash": "", "actors": 1},
    ),
}
