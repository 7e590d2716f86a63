"""Parses the options of a read. Names are the JVM connector's, except for the options that only pykafka4 has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from pykafka4.bounds import EARLIEST, LATEST
from pykafka4.errors import ConfigError
from pykafka4.options.config import ClientConfig, ConsumerConfig
from pykafka4.spark.options import KAFKA, NO_EFFECT, Given, Use, log, split_options, wrong
from pykafka4.spark.source.subscription import ReadEnd, Subscription, parse_read_end, parse_subscription

__all__ = ["SourceOptions"]

POLL_TIMEOUT_S: Final = 120.0  # the default of spark.network.timeout, from which the JVM connector takes its default
MAX_TRIGGER_DELAY_S: Final = 15 * 60.0
LEVELS: Final = ("read_uncommitted", "read_committed")
BYTES: Final = "keys and values are always bytes: cast them with Spark, col('value').cast('string')"
REFUSED_PROPERTIES: Final = {
    "auto.offset.reset": "startingOffsets says where a read begins",
    "key.deserializer": BYTES,
    "value.deserializer": BYTES,
    "enable.auto.commit": "Spark keeps the offsets; commitOffsetsToGroup commits the offsets of a stream for tools that show lag",
    "interceptor.classes": "classes of Java cannot be loaded",
}
# Options of consumers that `read_arrow` refuses, repeated here because an import of its module would load a consumer on the driver.
OF_GROUPS: Final = {
    *("group_id", "group_instance_id", "group_protocol", "group_remote_assignor", "partition_assignment_strategy"),
    *("session_timeout_ms", "heartbeat_interval_ms", "max_poll_interval_ms", "enable_auto_commit", "auto_commit_interval_ms"),
    "exclude_internal_topics",
}


@attrs.frozen
class SourceOptions:
    """The options of a batch read or a stream, which travel to Spark's workers."""

    use: Use
    kafka: Mapping[str, Any] = attrs.field(repr=False)  # the options of a consumer and its client
    subscription: Subscription
    starting: ReadEnd
    ending: ReadEnd
    latest_if_no_such_time: bool  # startingOffsetsByTimestampStrategy
    isolation_level: str
    min_partitions: int | None
    max_records_per_partition: int | None
    fail_on_data_loss: bool
    include_headers: bool
    columns: tuple[str, ...] | None
    filter_pushdown: bool
    poll_timeout: float  # seconds
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay: float  # seconds
    commit_group: str | None

    @classmethod
    def parse(cls, options: Mapping[str, str], use: Use) -> SourceOptions:
        """Raises ConfigError with the wrong option and its allowed values."""
        given = Given.of(use, options)
        kafka = _kafka(given)
        delay, timeout = given.seconds("maxTriggerDelay"), given.seconds("kafkaConsumer.pollTimeoutMs")
        if timeout == 0:
            raise wrong("kafkaConsumer.pollTimeoutMs", "0", 'takes a duration above 0, such as "30s"; the default is 120 s')
        found = cls(
            use=use,
            subscription=parse_subscription(given),
            starting=parse_read_end(given, "starting", EARLIEST if use is Use.BATCH_READ else LATEST),
            ending=parse_read_end(given, "ending", LATEST),
            latest_if_no_such_time=given.choice("startingOffsetsByTimestampStrategy", ("error", "latest")) == "latest",
            isolation_level=_isolation_level(given, kafka),
            kafka=kafka,
            min_partitions=given.count("minPartitions"),
            max_records_per_partition=given.count("maxRecordsPerPartition"),
            fail_on_data_loss=given.flag("failOnDataLoss", True),
            include_headers=given.flag("includeHeaders", False),
            columns=_columns(given),
            filter_pushdown=given.flag("filterPushdown", False),
            poll_timeout=POLL_TIMEOUT_S if timeout is None else timeout,
            max_offsets_per_trigger=given.count("maxOffsetsPerTrigger"),
            min_offsets_per_trigger=given.count("minOffsetsPerTrigger"),
            max_trigger_delay=MAX_TRIGGER_DELAY_S if delay is None else delay,
            commit_group=given.text("commitOffsetsToGroup"),
        )
        found._check()
        return found

    @property
    def client(self) -> dict[str, Any]:
        return split_options(self.kafka)[0]

    @property
    def client_id(self) -> str:
        return str(self.kafka.get("client_id", attrs.fields(ClientConfig).client_id.default))

    @property
    def consumer(self) -> dict[str, Any]:
        """The other options, for a read that uses a Client with the options `client`."""
        return {**split_options(self.kafka)[1], "isolation_level": self.isolation_level}

    def _check(self) -> None:
        if self.use is Use.BATCH_READ:
            _refuse(self.starting, LATEST, "latest", "a batch that starts there has no records; the default is earliest")
            _refuse(self.ending, EARLIEST, "earliest", "a batch that ends there has no records; the default is latest")
        least, most = self.min_offsets_per_trigger, self.max_offsets_per_trigger
        if least is not None and most is not None and least > most:
            raise ConfigError(f"option minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}")


def _refuse(read_end: ReadEnd, what: int, word: str, why: str) -> None:
    if read_end.named is None and read_end.timestamp == what:
        raise ConfigError(f"option {read_end.option}={word}: {why}")
    if found := next((tp for tp, offset in (read_end.offsets or {}).items() if offset == what), None):
        raise ConfigError(f"option {read_end.option}: {what} of {found} is {word}, and {why}")


def _kafka(given: Given) -> dict[str, Any]:
    """The options `kafka.*` as options of a read, without the options in `OF_GROUPS`, which have no effect."""
    found = given.client_options(ConsumerConfig, REFUSED_PROPERTIES)
    for name in found.keys() & OF_GROUPS:
        log.info("option kafka.%s %s: reads are not members of a group", name.replace("_", "."), NO_EFFECT)
    return {name: value for name, value in found.items() if name not in OF_GROUPS}


def _isolation_level(given: Given, kafka: dict[str, Any]) -> str:
    """The isolation level: read_uncommitted by default, as in the JVM connector. Raises ConfigError for two different levels."""
    ours, theirs = given.choice("isolationLevel", LEVELS), kafka.pop("isolation_level", None)
    if ours and theirs and ours != theirs:
        raise ConfigError(f"options isolationLevel={ours} and {KAFKA}isolation.level={theirs} differ: leave out one of the two")
    return ours or theirs or LEVELS[0]


def _columns(given: Given) -> tuple[str, ...] | None:
    names = given.names("columns")
    if names is not None and not names:
        raise wrong("columns", given.text("columns") or "", 'takes names of columns separated by commas, such as "key,value"')
    return None if names is None else tuple(names)
