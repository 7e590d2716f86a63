"""Sharing. Rule: what the tests of share groups on real brokers have in common; every wait has its deadline."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import attrs

from integration.admin import check
from integration.cluster import Cluster
from integration.waiting import Deadline, until
from pykafka4 import KafkaError, RecordLockLost, ShareConsumer, ShareRecord
from pykafka4.wire.protocol.messages_configs import DescribeConfigsRequest, IncrementalAlterConfigsRequest

LONG_S = 60.0  # seconds for what takes as long as the brokers take
SECONDS = 10.0
GROUP, SET = 32, 0  # of IncrementalAlterConfigs: the type of resource, the operation
LOCK_S = 3.0  # seconds, where a test waits for the end of a lock


def configure(cluster: Cluster, group: str, lock: float | None = None) -> None:
    """The group begins at the first records; its locks last `lock` seconds (None: the default, 30). Waits until all brokers know it."""
    options = {"share.auto.offset.reset": "earliest"}
    if lock is not None:
        options["share.record.lock.duration.ms"] = str(int(lock * 1000))
    kind = IncrementalAlterConfigsRequest.Resource
    rows = [kind.Config(name=name, config_operation=SET, value=value) for name, value in options.items()]
    resource = kind(resource_type=GROUP, resource_name=group, configs=rows)
    answer = cluster.admin.ask(cluster.running()[0], IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
    check(answer.responses[0].error_code, f"configure group {group}", answer.responses[0].error_message)

    def known(node: int) -> bool:
        asked = DescribeConfigsRequest.Resource(resource_type=GROUP, resource_name=group, configuration_keys=list(options))
        found = cluster.admin.ask(node, DescribeConfigsRequest(resources=[asked])).results[0]
        return {row.name: row.value for row in found.configs} == options

    cluster.wait_everywhere(known, LONG_S, f"every broker to know the configs of group {group}")


def share(cluster: Cluster, group: str, topic: str, **options: Any) -> ShareConsumer:
    """A member that has subscribed."""
    consumer = ShareConsumer(**{**cluster.client, "group_id": group, **options})
    consumer.subscribe([topic])
    return consumer


def take_explicitly(consumer: ShareConsumer, count: int, kind: str = "accept", timeout: float = LONG_S) -> list[ShareRecord]:
    """`count` records, each acknowledged so and committed."""
    records: list[ShareRecord] = []
    deadline = Deadline(timeout)
    while len(records) < count:
        assert not deadline.passed(), f"{len(records)} of {count} records; {consumer.status()}"
        for record in consumer.poll(0.5, count - len(records)):
            consumer.acknowledge(record, kind)
            records.append(record)
        assert not [error for error in consumer.commit(LONG_S).values() if error is not None]
    return records


def values(records: list[ShareRecord]) -> list[int]:
    return sorted(int(record.value or b"") for record in records)


@attrs.define(eq=False)
class Worker:
    """A member on a thread of its own: it accepts what it gets, and notes what brokers have stored."""

    consumer: ShareConsumer
    seen: list[tuple[int, int, int]] = attrs.Factory(list)  # value, delivery count, number of the poll
    accepted: set[int] = attrs.Factory(set)
    unknown: set[int] = attrs.Factory(set)  # the broker may have stored the acceptance: its answer was lost
    errors: list[KafkaError] = attrs.Factory(list)
    commits: int = 0
    _stop: threading.Event = attrs.Factory(threading.Event)
    _thread: threading.Thread = attrs.field(init=False)

    def start(self) -> Worker:
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        return self

    def _work(self) -> None:
        while not self._stop.is_set():
            records = self.consumer.poll(0.2)
            for record in records:
                self.seen.append((int(record.value or b""), record.delivery_count, self.commits))
                try:
                    self.consumer.accept(record)
                except RecordLockLost as error:
                    self.errors.append(error)
            try:
                results = self.consumer.commit(LONG_S)
            except KafkaError as error:
                self.errors.append(error)
                continue
            self.commits += 1
            for tp, error in results.items():
                numbers = {int(r.value or b"") for r in records if (r.topic, r.partition) == tp}
                if error is None:
                    self.accepted |= numbers
                    continue
                self.errors.append(error)
                if not isinstance(error, RecordLockLost):
                    self.unknown |= numbers

    def stop(self) -> None:
        """Ends within a commit's time; what its thread has raised fails the test."""
        self._stop.set()
        self._thread.join(LONG_S)
        assert not self._thread.is_alive()
        self.consumer.close()


def drained(workers: list[Worker], count: int) -> Callable[[], bool]:
    """Whether all of `count` numbers were accepted by somebody, or may have been."""
    return lambda: len(set[int]().union(*(worker.accepted | worker.unknown for worker in workers))) >= count


def wait_drained(workers: list[Worker], count: int, timeout: float = LONG_S) -> None:
    until(
        drained(workers, count),
        timeout,
        lambda: (
            f"{count} records to be accepted; {[(len(w.accepted), w.errors[-2:], w.consumer.status()['share_consumer']) for w in workers]}"
        ),
    )
