"""Creates, describes, extends, deletes and lists topics. With `wait`, a call for a change returns when every broker that is up knows of the
change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from pykafka4.admin.calls import AdminCalls, require_all_done, value_or_raise
from pykafka4.admin.topic_arguments import as_new_partitions, as_new_topics, as_topics
from pykafka4.client.answers import Deadline
from pykafka4.core.admin.question_run import DOUBT, Question
from pykafka4.core.admin.topic_queries import (
    ALL_TOPICS,
    AwaitChanges,
    Change,
    DescribePages,
    DescribeTopics,
    ListTopics,
    LiveBrokerChoice,
    TopicDescription,
    TopicListing,
)
from pykafka4.core.admin.topics import CreatedTopic, CreatePartitions, CreateTopics, DeleteTopics, NewPartitions, NewTopic, RefusedRepeat
from pykafka4.errors import KafkaError, KafkaTimeoutError, UnsupportedVersion, listed

__all__ = ["TopicCalls"]

# Seconds after which a wait refreshes the list of brokers that are up. A broker that has crashed stays in the metadata until its session
# ends, and the wait includes the broker until the next refresh.
BROKERS_REFRESH_S: Final = 3.0


class TopicCalls(AdminCalls):
    def create_topics(
        self,
        topics: Mapping[str, int | NewTopic] | Iterable[str],
        *,
        replication_factor: int = -1,
        configs: Mapping[str, object] | None = None,
        validate_only: bool = False,
        wait: bool = False,
        timeout: float | None = None,
    ) -> dict[str, CreatedTopic]:
        """Create topics: `{"orders": 6}` with six partitions, `{"orders": NewTopic(…)}` with its own settings, or a list of names.

        `replication_factor` (-1: the brokers' default, Kafka 2.4) and `configs` (`{"retention.ms": "3600000"}`) are for topics without a
        `NewTopic`. With `validate_only`, the call creates nothing; with `wait`, it returns when every broker that is up knows all leaders.

        Raises BrokerError TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_CONFIG, POLICY_VIOLATION, …,
        AuthorizationError, KafkaTimeoutError; PartialFailure with `errors` and the created topics in `done`. If a wait fails, the created
        topics fail with the error of the wait. Source: CreateTopics of the protocol guide, KIP-4.
        """
        wanted, deadline = as_new_topics(topics, replication_factor, configs), self._begin(timeout)
        question = CreateTopics(wanted, self._broker_ms(deadline), validate_only=validate_only)
        found: dict[str, Any] = self._ask_controller(question, wanted, deadline)
        sizes = {name: len(topic.assignments) if topic.assignments else topic.partitions for name, topic in wanted.items()}
        self._settle_refused_repeats(found, question, sizes, deadline)
        if wait and not validate_only:
            changes = {name: Change(max(1, one.partitions, sizes[name])) for name, one in found.items() if isinstance(one, CreatedTopic)}
            self._await_known(found, changes, "created", deadline)
        return require_all_done("topics cannot be created", found)

    def create_partitions(
        self, topics: Mapping[str, int | NewPartitions], *, validate_only: bool = False, wait: bool = False, timeout: float | None = None
    ) -> None:
        """Give topics more partitions: `{"orders": 12}` is the new total; `NewPartitions` also names the brokers of the new partitions.

        Later records of a key might go to another partition. `validate_only` and `wait` are as for `create_topics`.

        Raises BrokerError INVALID_PARTITIONS (the topic already has as many or more), UNKNOWN_TOPIC_OR_PARTITION, REASSIGNMENT_IN_PROGRESS,
        …, AuthorizationError, KafkaTimeoutError; PartialFailure. Source: KIP-195.
        """
        wanted, deadline = as_new_partitions(topics), self._begin(timeout)
        question = CreatePartitions(wanted, self._broker_ms(deadline), validate_only=validate_only)
        found = self._ask_controller(question, wanted, deadline)
        self._settle_refused_repeats(found, question, {name: topic.total for name, topic in wanted.items()}, deadline)
        if wait and not validate_only:
            changes = {name: Change(wanted[name].total) for name, one in found.items() if not isinstance(one, KafkaError)}
            self._await_known(found, changes, "extended", deadline)
        require_all_done("partitions cannot be added", found)

    def delete_topics(self, topics: Iterable[str | UUID], *, wait: bool = False, timeout: float | None = None) -> None:
        """Delete topics by name or id (Kafka 2.8), with all their records. With `wait`, wait until no broker that is up knows the topics.

        Raises BrokerError UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, TOPIC_DELETION_DISABLED, AuthorizationError, KafkaTimeoutError;
        PartialFailure with the deleted topics in `done`. Sources: KIP-4, KIP-516.
        """
        wanted, deadline = as_topics(topics), self._begin(timeout)
        parts = [names for names in ([t for t in wanted if isinstance(t, str)], [t for t in wanted if not isinstance(t, str)]) if names]
        found: dict[Any, Any] = {}
        for part in parts:  # at a broker that does not know ids, one request with both would also fail for the names
            found |= self._ask_controller(DeleteTopics(self._broker_ms(deadline)), part, deadline)
        if wait:
            gone = [one for one in found.values() if not isinstance(one, KafkaError)]
            named = {str(key): None for key, one in found.items() if isinstance(key, str) and not isinstance(one, KafkaError)}
            changes = {name: Change(0) for name in named} | {one.name: Change(0, one.topic_id) for one in gone if one.name}
            self._await_known(found, changes, "deleted", deadline)
        require_all_done("topics cannot be deleted", found)

    def describe_topics(
        self, topics: Iterable[str | UUID], *, timeout: float | None = None
    ) -> dict[str | UUID, TopicDescription | KafkaError]:
        """Return id, partitions, leaders and replicas of each topic, by name or id (Kafka 3.1), and this user's allowed operations.

        A topic that has been unknown to brokers for two seconds has the BrokerError UNKNOWN_TOPIC_OR_PARTITION (or UNKNOWN_TOPIC_ID). With
        brokers before Kafka 0.11, the call might create a topic (auto.create.topics.enable). Sources: KIP-966 from Kafka 3.8 on, otherwise
        Metadata of the protocol guide.
        """
        return self._described(as_topics(topics), self._begin(timeout))

    def describe_topic(self, topic: str | UUID, *, timeout: float | None = None) -> TopicDescription:
        """Return id, partitions, leaders and replicas of one topic: see `describe_topics`. Raises the topic's error."""
        (key,) = as_topics([topic])
        return value_or_raise(self._described([key], self._begin(timeout))[key])

    def list_topics(self, *, internal: bool = False, timeout: float | None = None) -> dict[str, TopicListing]:
        """Return the topics that this user may describe, sorted by name. `internal` adds Kafka's topics, such as `__consumer_offsets`."""
        found = value_or_raise(self._ask_any_broker(ListTopics(), [ALL_TOPICS], self._begin(timeout))[ALL_TOPICS])
        return {name: topic for name, topic in found.items() if internal or not topic.is_internal}

    # -- parts of calls

    def _broker_ms(self, deadline: Deadline) -> int:
        """The milliseconds for which a broker may hold the response back. After request_timeout_ms the client closes the connection."""
        return int(min(deadline.left * 1000, self._session.config.request_timeout_ms))

    def _described(self, topics: list[str | UUID], deadline: Deadline) -> dict[str | UUID, TopicDescription | KafkaError]:
        names = [topic for topic in topics if isinstance(topic, str)]
        found: dict[str | UUID, TopicDescription | KafkaError] = dict(self._ask_any_broker(DescribePages(), names, deadline))
        old = [name for name in names if isinstance(found[name], UnsupportedVersion)]
        found |= self._ask_any_broker(DescribeTopics(), old, deadline)
        found |= self._ask_any_broker(DescribeTopics(), [topic for topic in topics if not isinstance(topic, str)], deadline)
        return {topic: found[topic] for topic in topics}

    def _settle_refused_repeats(
        self, found: dict[Any, Any], question: Question[Any, Any], sizes: Mapping[str, int], deadline: Deadline
    ) -> None:
        """Replace each `RefusedRepeat` in `found`: with success if the topic has the wanted number of partitions, else with an error."""
        doubtful = {name: one.refusal for name, one in found.items() if isinstance(one, RefusedRepeat)}
        described = self._described(list(doubtful), deadline)
        for name, refusal in doubtful.items():
            topic = described[name]
            if isinstance(topic, TopicDescription) and sizes[name] in (-1, len(topic.partitions)):
                found[name] = CreatedTopic(name, topic.topic_id, len(topic.partitions), topic.replication_factor)
            else:
                found[name] = question.error(name, refusal)
                found[name].add_note(DOUBT)

    def _await_known(self, found: dict[Any, Any], changes: Mapping[str, Change], done: str, deadline: Deadline) -> None:
        """Wait until every broker that is up knows of `changes`. The error of a failed wait replaces the successes in `found`, because
        an error raised here would hide the errors of other topics.
        """
        try:
            self._wait_until_known(changes, done, deadline)
        except KafkaError as error:
            late = error.again()
            found.update((key, late) for key, one in list(found.items()) if not isinstance(one, KafkaError))

    def _wait_until_known(self, changes: Mapping[str, Change], done: str, deadline: Deadline) -> None:
        """Wait until every broker that is up knows of `changes`. Raises KafkaTimeoutError, or a broker's error with a note."""
        if not changes:
            return
        what = f"{listed(sorted(changes))}: {done}, but not known to every broker"
        while True:
            try:
                self._session.refresh_brokers(deadline)
            except KafkaTimeoutError as error:
                raise KafkaTimeoutError(f"{what}: {error}") from error
            found = self._session.ask(_of_brokers(AwaitChanges(changes), min(deadline.left, BROKERS_REFRESH_S)), deadline).wait()
            lagging = {node: one for node, one in found.items() if isinstance(one, KafkaError)}
            if not lagging:
                return
            # After a KafkaTimeoutError (BROKERS_REFRESH_S has passed), the next round asks the brokers still up. Other errors end the call.
            for refused in (one for one in lagging.values() if not isinstance(one, KafkaTimeoutError)):
                refused.add_note(what)
                raise refused
            if not deadline.left:
                raise KafkaTimeoutError(f"{what} after {round(deadline.seconds, 2):g} s: {listed(list(lagging.values()), str, '; ', '; ')}")


def _of_brokers(question: Question[int, Any], seconds: float) -> Callable[..., Any]:
    """The `Begin` that asks every broker in the metadata, for at most `seconds`."""

    def begin(machine: Any, now: float, _: float, done: Any) -> Any:
        return machine.begin(now, question, LiveBrokerChoice(machine.cluster), list(machine.cluster.brokers), seconds, done)

    return begin
