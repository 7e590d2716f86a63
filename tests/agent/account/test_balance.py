"""The account balances, whatever happens to messages: a model of their ways against the ledgers of the producer and of the agent.

The model knows the place of each message. The producer's ledger is the real one, with batches of the test's own; the numbers of rows that
both ledgers keep are so small that topics are forgotten all the time.
"""

from __future__ import annotations

from collections import Counter
from unittest import mock

import attrs
from hypothesis import settings, stateful
from hypothesis import strategies as st

from pykafka4.agent.account.balance import balance
from pykafka4.agent.account.ledger import Ledger
from pykafka4.agent.account.reasons import Reasons
from pykafka4.agent.account.values import TopicAccount
from pykafka4.agent.message import Reason
from pykafka4.agent.settings.values import ReportSettings
from pykafka4.core.producer.outcomes.ledger import Ledger as ProducerLedger
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition, Written
from tests.agent.account.accounting import Clock, check_balance, message

TOPICS = [f"t{number}" for number in range(8)]
topics = st.sampled_from(TOPICS)
counts = st.integers(1, 3)
CODES = {
    "TIMED_OUT": Reason.TIMED_OUT,
    "MESSAGE_TOO_LARGE": Reason.LONG_MSG,
    "UNKNOWN_TOPIC_OR_PARTITION": Reason.BAD_TOPIC,
    "NOT_ENOUGH_REPLICAS": Reason.DELIVERY_ATTEMPT_LIMIT,
    "INVALID_RECORD": Reason.KAFKA_ERROR_ACK,
    "TOPIC_AUTHORIZATION_FAILED": Reason.NOT_AUTHORIZED,
    "UNKNOWN(999)": Reason.KAFKA_ERROR_ACK,
    "ZeroDivisionError": Reason.BUG,
}
OWN = [Reason.NO_MEM, Reason.LONG_MSG, Reason.BAD_TOPIC, Reason.RATE_LIMIT, Reason.SPOOL_FULL]


@attrs.define(eq=False)
class Batch:
    """As much of a batch as a census reads."""

    topic: str
    count: int
    partition: int = 0
    in_flight: bool = False
    state: int = 1


@attrs.frozen
class OnDisk:
    messages: int
    restored: int


class Ways(stateful.RuleBasedStateMachine):
    """Messages, and the places where they are."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = [
            mock.patch("pykafka4.agent.account.tallies.TOPICS", 3),
            mock.patch("pykafka4.agent.account.tallies.BAD_TOPICS", 2),
            mock.patch("pykafka4.core.producer.outcomes.ledger.RETIRED", 3),
        ]
        for limit in self.limits:
            limit.start()
        self.clock = Clock()
        self.disk: Counter[str] = Counter()
        self.begin()

    def begin(self) -> None:
        """A process starts."""
        self.producer, self.ledger = ProducerLedger(), Ledger(ReportSettings(interval_s=10), clock=self.clock, wall_clock=self.clock)
        self.batches: list[Batch] = []
        self.parked: Counter[str] = Counter()
        self.restored = self.disk.copy()
        self.received, self.sent, self.acked, self.lost = 0, 0, 0, Counter[Reason]()

    # ---- the ways

    @stateful.rule(topic=topics, count=counts)
    def accept(self, topic: str, count: int) -> None:
        self.received += count
        self.queue(topic, count)

    def queue(self, topic: str, count: int) -> None:
        self.sent += count
        self.producer.meet(TopicPartition(topic, 0))
        self.batches.append(Batch(topic, count))

    @stateful.rule(topic=topics, count=counts)
    def park(self, topic: str, count: int) -> None:
        self.received += count
        self.sent += count
        self.parked[topic] += count

    @stateful.rule(topic=topics, count=counts, code=st.sampled_from(sorted(CODES)))
    def fail_parked(self, topic: str, count: int, code: str) -> None:
        count = min(count, self.parked[topic])
        if count:
            self.parked[topic] -= count
            self.fail_records(topic, None, count, code)

    @stateful.rule(topic=topics, count=counts, reason=st.sampled_from(OWN))
    def discard(self, topic: str, count: int, reason: Reason) -> None:
        self.received += count
        self.lost[reason] += count
        for _ in range(count):
            self.ledger.discarded(message(topic, timestamp_ms=int(self.clock.now * 1000)), reason)

    @stateful.rule(topic=topics, count=counts)
    def spool(self, topic: str, count: int) -> None:
        self.received += count
        self.disk[topic] += count

    @stateful.rule(topic=topics, count=counts)
    def replay(self, topic: str, count: int) -> None:
        count = min(count, self.disk[topic])
        if count:
            self.disk[topic] -= count
            self.queue(topic, count)

    @stateful.rule(topic=topics, count=counts)
    def damage(self, topic: str, count: int) -> None:
        count = min(count, self.disk[topic])
        if count:
            self.disk[topic] -= count
            self.lost[Reason.SPOOL_DAMAGED] += count
            self.ledger.damaged(topic, count)

    @stateful.precondition(lambda self: self.batches)
    @stateful.rule(data=st.data())
    def send(self, data: st.DataObject) -> None:
        batch = data.draw(st.sampled_from(self.batches))
        if not batch.in_flight:
            batch.in_flight = True
            self.producer.sent(batch.count, 0)

    @stateful.precondition(lambda self: any(batch.in_flight for batch in self.batches))
    @stateful.rule(data=st.data(), code=st.sampled_from([None, *sorted(CODES)]))
    def answer(self, data: st.DataObject, code: str | None) -> None:
        batch = data.draw(st.sampled_from([batch for batch in self.batches if batch.in_flight]))
        self.batches.remove(batch)
        if code is None:
            self.acked += batch.count
            self.producer.acknowledged(TopicPartition(batch.topic, 0), batch.count, 100, 50)
        else:
            self.producer.requeued(batch.count)
            self.fail_records(batch.topic, 0, batch.count, code)

    def fail_records(self, topic: str, partition: int | None, count: int, code: str) -> None:
        self.lost[CODES[code]] += count
        self.producer.lost(topic, partition, code, Written.NO, count, KafkaError("no"), (5, 7))
        self.ledger.failed([message(topic)] * count, CODES[code])

    @stateful.rule(topic=topics)
    def retire(self, topic: str) -> None:
        """Nothing was sent to the topic for long: the producer keeps its sums, for a while."""
        if not any(batch.topic == topic for batch in self.batches):
            self.producer.retire(topic)

    @stateful.rule(seconds=st.sampled_from([1, 10, 45]))
    def wait(self, seconds: int) -> None:
        self.clock.now += seconds

    @stateful.rule(keep=st.booleans())
    def restart(self, keep: bool) -> None:
        """The agent ends: with `keep`, the disk takes what was not acknowledged, or the messages are lost."""
        for topic, count in [*((batch.topic, batch.count) for batch in self.batches), *self.parked.items()]:
            self.producer.lost(topic, None, "CLOSED", Written.MAYBE, count, KafkaError("no"), (5, 7))
            if keep:
                self.disk[topic] += count
                self.ledger.kept(topic, Reason.SERVER_SHUTDOWN, count)
            else:
                self.lost[Reason.SERVER_SHUTDOWN] += count
        self.batches.clear()
        self.parked.clear()
        self.the_account_balances()
        self.begin()

    # ---- the account

    @stateful.invariant()
    def the_account_balances(self) -> None:
        census = (0, [(batch, batch.count, batch.in_flight) for batch in self.batches], list(self.parked.items()))
        stats = self.producer.snapshot(census, 0).stats()  # type: ignore[arg-type]
        on_disk = {topic: OnDisk(self.disk[topic], self.restored[topic]) for topic in self.disk | self.restored}
        account = balance(stats, self.ledger.before_producer(), on_disk, Reasons(autocreate=False))
        check_balance(account)
        total = account.total
        assert total.accepted == self.received + account.restored
        assert account.restored == self.restored.total()
        assert total.acknowledged == self.acked
        assert total.queued == sum(batch.count for batch in self.batches) + self.parked.total()
        assert total.spooled == self.disk.total()
        assert dict(total.discards.by_reason) == {reason: count for reason, count in self.lost.items() if count}

    def teardown(self) -> None:
        for limit in self.limits:
            limit.stop()


def test_account_balances_on_all_ways_of_messages() -> None:
    stateful.run_state_machine_as_test(Ways, settings=settings(max_examples=40, stateful_step_count=50, deadline=None))


def test_a_row_has_the_times_of_all_its_discards_and_none_without_a_discard() -> None:
    producer, ledger = ProducerLedger(), Ledger(clock=Clock(), wall_clock=Clock())
    for topic in ("a", "b"):
        producer.meet(TopicPartition(topic, 0))
        producer.sent(1, 0)
        producer.acknowledged(TopicPartition(topic, 0), 1, 1, 1)
    producer.lost("a", 0, "TIMED_OUT", Written.NO, 2, KafkaError("no"), (50, 60))
    ledger.discarded(message("a", timestamp_ms=55), Reason.NO_MEM)
    ledger.discarded(message("a", timestamp_ms=70), Reason.NO_MEM)
    account = balance(producer.snapshot((0, [], []), 0).stats(), ledger.before_producer(), {}, Reasons(autocreate=False))
    discards = account.topics["a"].discards
    assert discards.by_reason == {Reason.TIMED_OUT: 2, Reason.NO_MEM: 2}
    assert (discards.first_ms, discards.last_ms) == (50, 70)
    assert account.topics["b"].discards.first_ms is None
    assert (account.total.discards.first_ms, account.total.discards.last_ms) == (50, 70)
    assert account.others.discards.first_ms is None


def test_with_autocreation_an_unknown_topic_is_one_that_could_not_be_created() -> None:
    assert Reasons(autocreate=False).of("UNKNOWN_TOPIC_OR_PARTITION") is Reason.BAD_TOPIC
    assert Reasons(autocreate=True).of("UNKNOWN_TOPIC_OR_PARTITION") is Reason.TOPIC_AUTOCREATE_FAIL
    assert Reasons(autocreate=True).of("INVALID_TOPIC_EXCEPTION") is Reason.BAD_TOPIC


def test_messages_on_disk_again_leave_no_negative_row_if_the_producer_has_forgotten_their_topic() -> None:
    producer, ledger = ProducerLedger(), Ledger(clock=Clock(), wall_clock=Clock())
    with mock.patch("pykafka4.core.producer.outcomes.ledger.RETIRED", 2):
        for topic in TOPICS:
            producer.lost(topic, None, "CLOSED", Written.NO, 2, KafkaError("no"), (5, 7))
            ledger.kept(topic, Reason.SERVER_SHUTDOWN, 2)
    on_disk = {topic: OnDisk(2, 0) for topic in TOPICS}
    stats = producer.snapshot((0, [], []), 0).stats()
    assert len(stats.topics) == 2
    account = balance(stats, ledger.before_producer(), on_disk, Reasons(autocreate=False))
    check_balance(account)
    assert account.total == TopicAccount(16, 0, 0, 16)
    assert account.topics["t0"] == TopicAccount(2, 0, 0, 2)
    assert account.others == TopicAccount(0, 0, 0, 0)
