"""Rights on real brokers: the call that needs one names what is missing, nothing else stops, and what is granted works without a restart.

Each test has a user of its own, and the clients under test are never restarted.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from integration.access import Operation, Resource
from integration.cluster import Cluster
from integration.local.cluster import LocalCluster
from integration.security.settings import Security
from integration.waiting import Deadline, until
from pykafka4 import (
    EARLIEST,
    AdminClient,
    AuthorizationError,
    Client,
    Consumer,
    Delivery,
    DeliveryFailed,
    PartialFailure,
    Producer,
    Record,
    TopicPartition,
    Written,
)
from tests.integration.reading import LONG_S, SECONDS, Notes, poll_until, read, values

pytestmark = [pytest.mark.cluster, pytest.mark.backend("local")]

USERS = [f"user{number}" for number in range(40)]
ADMINISTRATOR = "administrator"
GROUP = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 500, "auto_offset_reset": "earliest"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One broker, which allows the administrator everything and the users nothing."""
    users = dict.fromkeys([*USERS, ADMINISTRATOR], "secret")
    security = Security("SASL_PLAINTEXT", mechanisms=("PLAIN",), authorizer=True, users=users, super_users=(ADMINISTRATOR,))
    with LocalCluster(1, security=security) as brokers:
        yield brokers


@attrs.frozen
class User:
    """One of the users, and what it may do."""

    cluster: Cluster
    name: str

    @property
    def options(self) -> dict[str, Any]:
        return {"bootstrap_servers": self.cluster.bootstrap, **self.cluster.client_security(self.name)}

    def grant(self, *operations: Operation, topic: str = "", group: str = "") -> None:
        for operation in operations:
            self.cluster.access.grant(self.name, operation, *resource(topic, group))

    def revoke(self, *operations: Operation, topic: str = "", group: str = "") -> None:
        for operation in operations:
            self.cluster.access.revoke(self.name, operation, *resource(topic, group))


def resource(topic: str, group: str) -> tuple[Resource, str]:
    return ("topic", topic) if topic else ("group", group) if group else ("cluster", "kafka-cluster")


names = itertools.cycle(USERS)


@pytest.fixture
def user(cluster: Cluster) -> User:
    return User(cluster, next(names))


@pytest.fixture
def administrator(cluster: Cluster) -> Iterator[Producer]:
    """A producer that may do everything."""
    with Producer(**User(cluster, ADMINISTRATOR).options) as producer:
        yield producer


def denied(error: BaseException | None, operation: str, name: str) -> bool:
    """Whether that is the right that is missing, and the message says so."""
    assert isinstance(error, AuthorizationError), error
    assert operation in str(error), error
    assert name in str(error), error
    return error.operation == operation and error.resource_name == name


def failed(producer: Producer, topic: str, operation: str, value: bytes = b"denied") -> None:
    """A record for that topic fails for that reason, and soon."""
    before = time.monotonic()
    with pytest.raises(DeliveryFailed) as caught:
        producer.send(topic, value).result(SECONDS)
    assert time.monotonic() - before < SECONDS / 2
    assert caught.value.written is Written.NO
    assert denied(caught.value.cause, operation, topic)


def works_soon(act: Callable[[], Any]) -> Any:
    """What `act` returns as soon as it raises no denial any more: within seconds."""
    return until(lambda: [act()], SECONDS, "the right that was granted to count", forgive=(AuthorizationError, DeliveryFailed))[0]


def raised(consumer: Consumer, *subjects: str) -> tuple[list[AuthorizationError], list[Record]]:
    """Poll until each of these is named by an error; the errors and the records in between."""
    errors: list[AuthorizationError] = []
    records: list[Record] = []
    deadline = Deadline(LONG_S)
    while not {error.resource_name for error in errors} >= set(subjects):
        assert not deadline.passed(), (errors, consumer.status())
        try:
            records += consumer.poll(0.5)
        except AuthorizationError as error:
            errors.append(error)
    return errors, records


def patient(consumer: Consumer, count: int, timeout: float = SECONDS) -> list[Record]:
    """`count` records, whatever denials are raised before them."""
    records: list[Record] = []
    deadline = Deadline(timeout)
    while len(records) < count:
        assert not deadline.passed(), (len(records), consumer.status())
        records += poll(consumer)
    return records


def poll(consumer: Consumer) -> list[Record]:
    """One poll, whatever it raises about rights."""
    try:
        return consumer.poll(0.2)
    except AuthorizationError:
        return []


def fill(producer: Producer, topic: str, first: int, last: int) -> None:
    for number in range(first, last):
        producer.send(topic, b"%d" % number, partition=0)
    producer.flush(LONG_S)


# -- producing


def test_a_producer_without_any_right_names_what_is_missing_and_sends_once_it_is_granted(user: User, topic: str) -> None:
    user.cluster.create_topic(topic, 1)
    with Producer(**user.options) as producer:
        for act in (producer.partitions_for, lambda name: producer.send(name, b"").result(SECONDS)):
            with pytest.raises((AuthorizationError, DeliveryFailed), match=f"needs DESCRIBE.* on topic '{topic}'.*kafka-acls --add"):
                act(topic)
        user.grant("describe", topic=topic)
        assert works_soon(lambda: producer.partitions_for(topic)) == [0]
        failed(producer, topic, "WRITE")
        user.grant("write", topic=topic)
        assert works_soon(lambda: producer.send(topic, b"0").result(SECONDS)).offset == 0
        assert producer.send(topic, b"1").result(SECONDS).offset == 1
    assert [record.value for record in user.cluster.log(topic)[0]] == [b"0", b"1"]


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_topic_that_may_be_described_only_is_refused_by_produce(user: User, topic: str, idempotent: bool) -> None:
    """With the right to idempotent writes (before Kafka 2.8 a must), or without idempotence, brokers refuse the record itself."""
    user.cluster.create_topic(topic, 1)
    user.grant("describe", topic=topic)
    if idempotent:
        user.grant("idempotent_write")
    with Producer(**user.options, enable_idempotence=idempotent) as producer:
        for _ in range(3):
            failed(producer, topic, "WRITE")
        user.grant("write", topic=topic)
        assert works_soon(lambda: producer.send(topic, b"0").result(SECONDS)).offset == 0


def test_a_topic_may_be_written_to_by_a_user_who_may_not_describe_it_only_if_no_rule_forbids_that(user: User, topic: str) -> None:
    """WRITE includes DESCRIBE; only a prohibition separates them."""
    user.cluster.create_topic(topic, 1)
    user.grant("write", topic=topic)
    user.cluster.access.grant(user.name, "describe", "topic", topic, permission="deny")
    with Producer(**user.options) as producer:
        with pytest.raises(DeliveryFailed, match="needs DESCRIBE"):
            producer.send(topic, b"").result(SECONDS)
        user.cluster.access.revoke(user.name, "describe", "topic", topic, permission="deny")
        assert works_soon(lambda: producer.send(topic, b"0").result(SECONDS)).offset == 0
        user.cluster.access.grant(user.name, "describe", "topic", topic, permission="deny")
        assert producer.send(topic, b"1").result(SECONDS).offset == 1, "what is known is enough"


@pytest.mark.parametrize("place", ["topic", "cluster"])
def test_a_topic_that_does_not_exist_needs_the_right_to_create_it(user: User, topic: str, place: str) -> None:
    user.grant("write", topic=topic)
    with Producer(**user.options) as producer:
        with pytest.raises(DeliveryFailed, match=rf"needs DESCRIBE or CREATE on topic '{topic}' \(CREATE, also on the cluster"):
            producer.send(topic, b"").result(SECONDS)
        user.grant("create", topic=topic if place == "topic" else "")
        assert works_soon(lambda: producer.send(topic, b"0").result(SECONDS)).topic == topic


def test_a_denied_topic_does_not_slow_another_one_of_the_same_producer(user: User, topic: str) -> None:
    secret, count = f"{topic}-secret", 20_000
    for name in (topic, secret):
        user.cluster.create_topic(name, 1)
    user.grant("write", topic=topic)
    user.grant("describe", topic=secret)
    with Producer(**user.options) as producer:
        producer.send(topic, b"first").result(LONG_S)
        times = {}
        for other in (topic, secret):  # once alone, once with a record for the denied topic after each
            began = time.monotonic()
            handles = [(producer.send(topic, b"%d" % n), producer.send(other, b"%d" % n)) for n in range(count)]
            producer.flush(LONG_S)
            times[other] = time.monotonic() - began
            assert all(mine.exception(0) is None for mine, _ in handles)
        errors = [theirs.exception(0) for _, theirs in handles]
        assert all(isinstance(error, DeliveryFailed) and denied(error.cause, "WRITE", secret) for error in errors[:: count // 10])
        assert producer.stats().lost == count
        assert times[secret] < 3 * times[topic] + 1, times
    assert len(user.cluster.log(topic)[0]) == 1 + 3 * count


def test_leaving_the_block_raises_what_was_denied(user: User, topic: str) -> None:
    user.cluster.create_topic(topic, 1)
    with pytest.raises(DeliveryFailed, match=f"needs DESCRIBE or CREATE on topic '{topic}'"), Producer(**user.options) as producer:
        producer.send(topic, b"")
        producer.flush(SECONDS)


def test_a_right_that_is_revoked_and_granted_again_costs_only_the_records_in_between(user: User, topic: str) -> None:
    """The numbering of an idempotent producer goes on: nothing twice, nothing out of order, every failed record not written."""
    other = f"{topic}-other"
    for name in (topic, other):
        user.cluster.create_topic(name, 2)
        user.grant("write", topic=name)
    written: dict[str, list[int]] = {topic: [], other: []}
    lost: list[int] = []
    number = itertools.count()
    with Producer(**user.options, linger_ms=1) as producer:

        def burst() -> int:
            """400 records for each topic; returns how many of the first were denied."""
            handles = [(n := next(number), name, producer.send(name, b"%d" % n, partition=n % 2)) for _ in range(400) for name in written]
            producer.flush(LONG_S)
            for n, name, handle in handles:
                error = handle.exception(0)
                assert error is None or (name == topic and isinstance(error, DeliveryFailed) and denied(error.cause, "WRITE", topic)), error
                assert error is None or error.written is Written.NO
                (written[name] if error is None else lost).append(n)
            return sum(handle.exception(0) is not None for _, name, handle in handles if name == topic)

        assert burst() == 0
        for _ in range(2):
            user.revoke("write", topic=topic)
            until(lambda: burst() == 400, SECONDS, "the producer to notice")
            user.grant("write", topic=topic)
            until(lambda: burst() == 0, SECONDS, "the producer to go on")
    for name, numbers in written.items():
        logs = user.cluster.log(name)
        found = {p: [int(record.value or b"-1") for record in logs.get(p, [])] for p in range(2)}
        assert found == {p: [n for n in numbers if n % 2 == p] for p in range(2)}
    assert lost


def test_rights_that_change_while_batches_are_in_flight_leave_the_log_as_reported(user: User, topic: str) -> None:
    """Up to five batches are under way: some of them are denied, and those behind them may be allowed again."""
    user.cluster.create_topic(topic, 1)
    user.grant("write", topic=topic)
    handles: list[Delivery] = []
    done = threading.Event()
    with Producer(**user.options, linger_ms=0, batch_size=2048) as producer:

        def change() -> None:
            try:
                for _ in range(4):
                    lost, acked = producer.stats().lost, producer.stats().acked
                    user.revoke("write", topic=topic)
                    until(lambda lost=lost: producer.stats().lost > lost, SECONDS, "a record to be denied")  # type: ignore[misc]
                    user.grant("write", topic=topic)
                    until(lambda acked=acked: producer.stats().acked > acked, SECONDS, "a record to be allowed")  # type: ignore[misc]
            finally:
                done.set()

        thread = threading.Thread(target=change)
        thread.start()
        while not done.is_set():
            handles.append(producer.send(topic, b"%d" % len(handles)))
            if len(handles) > 2000 and len(handles) % 100 == 0:
                handles[-2000].exception(LONG_S)  # keeps a few batches in flight
        thread.join()
        producer.flush(LONG_S)
        last = producer.send(topic, b"%d" % len(handles)).result(SECONDS)
        errors = [handle.exception(0) for handle in handles]
    assert all(error is None or (isinstance(error, DeliveryFailed) and denied(error.cause, "WRITE", topic)) for error in errors)
    assert all(error is None or error.written is Written.NO for error in errors)
    written = [n for n, error in enumerate(errors) if error is None]
    assert [int(record.value or b"") for record in user.cluster.log(topic)[0]] == [*written, len(handles)]
    assert last.offset == len(written)


# -- consuming without a group


def test_an_assigned_topic_without_any_right_is_named_and_read_once_it_is_granted(user: User, topic: str, administrator: Producer) -> None:
    user.cluster.create_topic(topic, 1)
    fill(administrator, topic, 0, 10)
    place = TopicPartition(topic, 0)
    with Consumer(**user.options, auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        (error, *_), _ = raised(consumer, topic)
        assert denied(error, "DESCRIBE", topic)
        with pytest.raises(AuthorizationError, match=f"needs DESCRIBE on topic '{topic}'"):
            consumer.position(place, timeout=SECONDS)
        assert consumer.lag(place) is None
        user.grant("describe", topic=topic)
        (error,) = itertools.islice((e for e in iter(lambda: raised(consumer, topic)[0][0], None) if e.operation == "READ"), 1)
        assert denied(error, "READ", topic)
        assert works_soon(lambda: consumer.position(place, timeout=SECONDS)) == 0
        consumer.seek_to_end([place])
        assert works_soon(lambda: consumer.position(place, timeout=SECONDS)) == 10
        consumer.seek_to_beginning([place])
        user.grant("read", topic=topic)
        assert values(patient(consumer, 10)) == list(range(10))


def test_many_denied_partitions_leave_polls_for_the_others(user: User, topic: str, administrator: Producer) -> None:
    secret = f"{topic}-secret"
    user.cluster.create_topic(topic, 1)
    user.cluster.create_topic(secret, 30)
    user.grant("read", topic=topic)
    user.grant("describe", topic=secret)
    fill(administrator, topic, 0, 200)
    with Consumer(**user.options, auto_offset_reset="earliest", max_poll_records=20) as consumer:
        consumer.assign([TopicPartition(topic, 0), *(TopicPartition(secret, p) for p in range(30))])
        records: list[Record] = []
        errors: list[AuthorizationError] = []
        began = time.monotonic()
        while len(records) < 200 or not errors:
            assert time.monotonic() - began < SECONDS
            try:
                records += consumer.poll(0.2)
            except AuthorizationError as error:
                errors.append(error)
        assert values(records) == list(range(200))
        assert all(denied(error, "READ", secret) for error in errors)
        assert len(errors) <= 2 + time.monotonic() - began, "once a second"


def test_a_right_to_read_that_is_revoked_skips_nothing(user: User, topic: str, administrator: Producer) -> None:
    other = f"{topic}-other"
    for name in (topic, other):
        user.cluster.create_topic(name, 1)
        user.grant("read", topic=name)
    with Consumer(**user.options, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0), TopicPartition(other, 0)])
        records = []
        for round_ in range(2):
            first = 100 * round_
            for name in (topic, other):
                fill(administrator, name, first, first + 50)
            records += read(consumer, 100)
            user.revoke("read", topic=topic)
            errors, more = raised(consumer, topic)
            assert denied(errors[-1], "READ", topic) or denied(errors[-1], "DESCRIBE", topic)
            for name in (topic, other):
                fill(administrator, name, first + 50, first + 100)
            records += more
            records += patient(consumer, 50)
            assert {record.topic for record in records[-50:]} == {other}
            user.grant("read", topic=topic)
            records += patient(consumer, 50)
        for name in (topic, other):
            assert [int(record.value) for record in records if record.topic == name] == list(range(200))


# -- groups


@pytest.mark.parametrize("right", ["none", "describe"])
def test_a_member_without_its_group_says_so_and_joins_once_it_may(user: User, topic: str, administrator: Producer, right: str) -> None:
    """Without any right the coordinator is denied, with DESCRIBE the join."""
    user.cluster.create_topic(topic, 1)
    user.grant("read", topic=topic)
    if right == "describe":
        user.grant("describe", group=topic)
    fill(administrator, topic, 0, 10)
    notes = Notes()
    with Consumer(**user.options, **GROUP, group_id=topic) as consumer:
        consumer.subscribe([topic], notes)
        (error, *_), _ = raised(consumer, topic)
        assert error.resource == "group"
        assert denied(error, "READ" if right == "describe" else "DESCRIBE", topic)
        with pytest.raises(AuthorizationError):
            consumer.poll(SECONDS)
        if right == "none":
            with pytest.raises(AuthorizationError, match=f"needs DESCRIBE on group '{topic}'"):
                consumer.committed([TopicPartition(topic, 0)], timeout=SECONDS)
        user.grant("read", group=topic)
        assert values(patient(consumer, 10)) == list(range(10))
        consumer.commit(timeout=SECONDS)
        assert notes.kinds == ["assigned"]
        assert consumer.committed([TopicPartition(topic, 0)])[TopicPartition(topic, 0)] is not None


def test_commits_of_an_assigned_consumer_need_its_group(user: User, topic: str, administrator: Producer) -> None:
    user.cluster.create_topic(topic, 1)
    user.grant("read", topic=topic)
    fill(administrator, topic, 0, 10)
    place = TopicPartition(topic, 0)
    with Consumer(**user.options, **GROUP, group_id=topic, enable_auto_commit=False) as consumer:
        consumer.assign([place])
        (error, *_), _ = raised(consumer, topic)
        assert denied(error, "DESCRIBE", topic)
        user.grant("describe", group=topic)
        assert values(patient(consumer, 10)) == list(range(10))
        with pytest.raises(AuthorizationError, match=f"needs READ on group '{topic}'"):
            consumer.commit(timeout=SECONDS)
        user.grant("read", group=topic)
        works_soon(lambda: consumer.commit(timeout=SECONDS))
        found = consumer.committed([place])[place]
        assert found is not None
        assert found.offset == 10


def test_an_automatic_commit_that_is_denied_is_raised_by_poll(user: User, topic: str, administrator: Producer) -> None:
    user.cluster.create_topic(topic, 1)
    user.grant("read", topic=topic)
    user.grant("describe", group=topic)
    fill(administrator, topic, 0, 10)
    with Consumer(**user.options, **GROUP, group_id=topic, auto_commit_interval_ms=200) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert values(patient(consumer, 10)) == list(range(10))
        (error, *_), _ = raised(consumer, topic)
        assert error.resource == "group"
        assert denied(error, "READ", topic)
        user.grant("read", group=topic)

        def stored() -> bool:
            poll(consumer)
            found = consumer.committed([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
            return found is not None and found.offset == 10

        until(stored, SECONDS, "the next automatic commit")


@pytest.mark.parametrize("right", ["none", "describe"])
def test_a_subscribed_topic_that_is_denied_does_not_stop_the_allowed_one(
    user: User, topic: str, administrator: Producer, right: str
) -> None:
    secret = f"{topic}-secret"
    for name in (topic, secret):
        user.cluster.create_topic(name, 1)
        fill(administrator, name, 0, 10)
    user.grant("read", topic=topic)
    user.grant("read", group=topic)
    if right == "describe":
        user.grant("describe", topic=secret)
    with Consumer(**user.options, **GROUP, group_id=topic) as consumer:
        consumer.subscribe([topic, secret])
        (error, *_), records = raised(consumer, secret)
        assert denied(error, "READ" if right == "describe" else "DESCRIBE", secret)
        records += patient(consumer, 10 - len(records), LONG_S)
        assert {record.topic for record in records} == {topic}
        user.grant("read", topic=secret)
        more = patient(consumer, 10)
        assert [int(record.value) for record in more if record.topic == secret] == list(range(10))


def test_a_topic_that_is_granted_later_obeys_the_reset_policy(user: User, topic: str, administrator: Producer) -> None:
    """It was there before: with `latest` its old records are not read."""
    user.cluster.create_topic(topic, 1)
    user.grant("read", group=topic)
    fill(administrator, topic, 0, 10)
    with Consumer(**user.options, **{**GROUP, "auto_offset_reset": "latest"}, group_id=topic) as consumer:
        consumer.subscribe([topic])
        raised(consumer, topic)
        user.grant("read", topic=topic)
        place = TopicPartition(topic, 0)
        until(lambda: poll(consumer) == [] and place in consumer.assignment(), SECONDS, "the assignment")
        assert works_soon(lambda: consumer.position(place, timeout=SECONDS)) == 10


def test_a_member_whose_group_is_revoked_keeps_its_partitions_for_the_session(user: User, topic: str, administrator: Producer) -> None:
    """The coordinator keeps it, too: granted again in time, nothing is lost, read again or skipped."""
    user.cluster.create_topic(topic, 2)
    user.grant("read", topic=topic)
    user.grant("read", group=topic)
    notes = Notes()
    fill(administrator, topic, 0, 10)
    with Consumer(**user.options, **{**GROUP, "session_timeout_ms": 30_000}, group_id=topic) as consumer:
        consumer.subscribe([topic], notes)
        records = read(consumer, 10)
        user.revoke("read", group=topic)
        errors, more = raised(consumer, topic)
        assert errors[-1].resource == "group"
        with pytest.raises(AuthorizationError, match=f"READ on group '{topic}'|DESCRIBE on group '{topic}'"):
            consumer.commit(timeout=SECONDS)
        fill(administrator, topic, 10, 20)
        records += more
        records += patient(consumer, 10)
        user.grant("read", group=topic)
        works_soon(lambda: consumer.commit(timeout=SECONDS))
        fill(administrator, topic, 20, 30)
        records += patient(consumer, 10)
        assert values(records) == list(range(30))
        assert notes.kinds == ["assigned"]


def test_a_member_whose_session_ends_while_its_group_is_denied_joins_again(user: User, topic: str, administrator: Producer) -> None:
    user.cluster.create_topic(topic, 1)
    user.grant("read", topic=topic)
    user.grant("read", group=topic)
    notes = Notes()
    fill(administrator, topic, 0, 10)
    with Consumer(**user.options, **{**GROUP, "session_timeout_ms": 6_000}, group_id=topic) as consumer:
        consumer.subscribe([topic], notes)
        records = read(consumer, 10)
        consumer.commit(timeout=SECONDS)
        user.revoke("read", group=topic)
        until(lambda: poll(consumer) == [] and "lost" in notes.kinds, LONG_S, "the session to end")
        fill(administrator, topic, 10, 20)
        user.grant("read", group=topic)
        records += patient(consumer, 10)
        assert values(records) == list(range(20))


# -- a shared client


def test_what_was_refused_to_a_shared_client_is_asked_again(user: User, topic: str, administrator: Producer) -> None:
    """One producer and two consumers; each use is refused once, and allowed at the first try after the grant."""
    user.cluster.create_topic(topic, 1)
    fill(administrator, topic, 0, 10)
    place = TopicPartition(topic, 0)
    with (
        Client(**user.options) as client,
        Producer(client=client) as producer,
        Consumer(client=client, auto_offset_reset="earliest") as assigned,
        Consumer(client=client, **GROUP, group_id=topic) as subscribed,
    ):
        assigned.assign([place])
        raised(assigned, topic)
        for call in (client.partitions_for, producer.partitions_for, lambda name: client.refresh_metadata([name])):
            with pytest.raises(AuthorizationError, match=f"topic '{topic}'"):
                call(topic)
        with pytest.raises(DeliveryFailed, match=f"topic '{topic}'"):
            producer.send(topic, b"").result(SECONDS)
        user.grant("read", "write", topic=topic)
        user.grant("read", group=topic)
        began = time.monotonic()
        assert client.partitions_for(topic) == [0]
        client.refresh_metadata([topic])
        subscribed.subscribe([topic])
        assert producer.send(topic, b"10").result(SECONDS).offset == 10
        assert values(read(subscribed, 11, SECONDS)) == list(range(11)), "no error from before the grant"
        assert values(patient(assigned, 11)) == list(range(11))
        assert time.monotonic() - began < 2 * SECONDS


@pytest.mark.parametrize("first", ["partitions_for", "send", "subscribe"])
def test_each_use_of_a_topic_that_was_refused_to_another_user_of_the_client_asks_again(user: User, topic: str, first: str) -> None:
    user.cluster.create_topic(topic, 1)
    user.grant("read", group=topic)
    with (
        Client(**user.options) as client,
        Producer(client=client) as producer,
        Consumer(client=client, **GROUP, group_id=topic) as consumer,
        Consumer(client=client) as other,
    ):
        other.assign([TopicPartition(topic, 0)])
        raised(other, topic)
        user.grant("read", "write", topic=topic)
        began = time.monotonic()
        if first == "partitions_for":
            assert client.partitions_for(topic, timeout=SECONDS) == [0]
        elif first == "send":
            assert producer.send(topic, b"").result(SECONDS).offset == 0
        else:
            consumer.subscribe([topic])
            poll_until(consumer, consumer.assignment, SECONDS)
        assert time.monotonic() - began < SECONDS


def committed(client: Client, group: str, topic: str, secret: str) -> dict[TopicPartition, Any]:
    """The outcome of a commit for both topics, once the group is allowed."""
    found: dict[TopicPartition, Any] = client.commit_offsets(group, {(topic, 0): 5, (secret, 0): 5}, LONG_S)
    if (error := found[TopicPartition(topic, 0)].error) is not None:
        raise error
    return found


def test_stateless_calls_name_the_right_that_is_missing_for_each_item(cluster: Cluster, user: User, topic: str) -> None:
    secret, group = f"{topic}-secret", f"{topic}-group"
    for name in (topic, secret):
        cluster.create_topic(name, 1)
    user.grant("read", "describe", topic=topic)
    with Client(**user.options) as client:
        fetched = client.fetch({(topic, 0): 0, (secret, 0): 0}, LONG_S)
        listed = client.list_offsets({(topic, 0): EARLIEST, (secret, 0): EARLIEST}, LONG_S)
        assert [
            fetched[TopicPartition(topic, 0)].error,
            listed[TopicPartition(topic, 0)].error,
            listed[TopicPartition(topic, 0)].offset,
        ] == [None, None, 0]
        assert denied(listed[TopicPartition(secret, 0)].error, "DESCRIBE", secret)
        assert isinstance(fetched[TopicPartition(secret, 0)].error, AuthorizationError)
        with pytest.raises(AuthorizationError) as caught:
            client.find_coordinator(group)
        assert denied(caught.value, "DESCRIBE", group)
        user.grant("read", group=group)
        stored = works_soon(lambda: committed(client, group, topic, secret))
        assert denied(stored[TopicPartition(secret, 0)].error, "READ", secret)
        assert client.committed_offsets(group, [(topic, 0)])[TopicPartition(topic, 0)].offset == 5
        assert [split.bytes for split in client.splits(topic, 3)] == []


def test_a_change_that_is_allowed_for_one_topic_is_made_beside_one_that_is_denied(user: User, topic: str) -> None:
    secret = f"{topic}-secret"
    for name in (topic, secret):
        user.cluster.create_topic(name, 1)
    user.grant("alter_configs", topic=topic)
    with AdminClient(**user.options) as admin:
        works_soon(lambda: admin.alter_configs({("topic", topic): {"retention.ms": 5000}}))
        with pytest.raises(PartialFailure) as caught:
            admin.alter_configs({("topic", name): {"retention.ms": 6000} for name in (topic, secret)})
        assert denied(caught.value.errors["topic", secret], "ALTER_CONFIGS", secret)
        assert set(caught.value.done) == {("topic", topic)}
