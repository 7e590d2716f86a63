"""Parses the options of `format("pykafka4")`: checks names, parses values, and translates `kafka.*` into options of pykafka4.

Invariants: an option for another use is refused with an error that names its uses, or only logged if the JVM connector ignores it. No
error and no `repr` has a value of `kafka.*` unless that value is known not to be a secret. Names are case-insensitive, as in Spark.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Any, Final

import attrs

from pykafka4.errors import ConfigError, shown
from pykafka4.logs import get_log
from pykafka4.options.config import ClientConfig
from pykafka4.options.from_properties import translate

__all__ = ["KAFKA", "OPTIONS", "Given", "Use", "split_options", "has_stream_options", "wrong"]

log = get_log("pykafka4.spark")

KAFKA: Final = "kafka."
NO_EFFECT: Final = "has no effect here"


class Use(Enum):
    """The use of a set of options: reads or writes, in a batch or a stream."""

    BATCH_READ = "batch reads (spark.read)"
    STREAM_READ = "streams (spark.readStream)"
    BATCH_WRITE = "batch writes (df.write)"
    STREAM_WRITE = "stream writes (df.writeStream)"


READS: Final = frozenset({Use.BATCH_READ, Use.STREAM_READ})
WRITES: Final = frozenset({Use.BATCH_WRITE, Use.STREAM_WRITE})
BATCH_READS: Final = frozenset({Use.BATCH_READ})
STREAM_READS: Final = frozenset({Use.STREAM_READ})

OPTIONS: Final[Mapping[str, frozenset[Use]]] = {
    "subscribe": READS,
    "subscribePattern": READS,
    "assign": READS,
    "startingOffsets": READS,
    "startingTimestamp": READS,
    "startingOffsetsByTimestamp": READS,
    "startingOffsetsByTimestampStrategy": READS,
    "endingOffsets": BATCH_READS,
    "endingTimestamp": BATCH_READS,
    "endingOffsetsByTimestamp": BATCH_READS,
    "minPartitions": READS,
    "maxRecordsPerPartition": READS,
    "failOnDataLoss": READS,
    "includeHeaders": READS | WRITES,  # the JVM connector also accepts it for writes; writes include the column `headers` anyway
    "columns": READS,
    "isolationLevel": READS,
    "filterPushdown": BATCH_READS,
    "kafkaConsumer.pollTimeoutMs": READS,
    "maxOffsetsPerTrigger": STREAM_READS,
    "minOffsetsPerTrigger": STREAM_READS,
    "maxTriggerDelay": STREAM_READS,
    "commitOffsetsToGroup": STREAM_READS,
    "topic": WRITES,
    "delivery": WRITES,
    "idempotencyKey": WRITES,
    "batchId": frozenset({Use.BATCH_WRITE}),
    "transactionalIdPrefix": WRITES,
}
# Options that the JVM connector does not have, so no job that is moved from it has them. Given for another use, they are refused.
ONLY_HERE: Final = {
    *("columns", "isolationLevel", "filterPushdown", "commitOffsetsToGroup"),
    *("delivery", "idempotencyKey", "batchId", "transactionalIdPrefix"),
}
# The JVM connector refuses them as well, except for filterPushdown, which it does not have.
REFUSED_IN_STREAMS: Final = {"endingOffsets", "endingOffsetsByTimestamp", "filterPushdown"}
# Options of the JVM connector that have no effect here. They are logged, not refused, so that a job can be moved unchanged.
WITHOUT_EFFECT: Final = {
    "groupidprefix": "reads are not members of a group",
    "fetchoffset.numretries": "offsets are looked up until kafkaConsumer.pollTimeoutMs has passed",
    "fetchoffset.retryintervalms": "offsets are looked up until kafkaConsumer.pollTimeoutMs has passed",
}
# Spark's own options, which Spark also passes to sources and sinks.
SPARK_OPTIONS: Final = {"checkpointlocation", "queryname", "outputmode", "path"}
NAMES: Final = {name.lower(): name for name in OPTIONS}
FLAGS: Final = {"true": True, "false": False}
DURATION: Final = re.compile(r"(\d{1,15})\s*(ms|s|m|min|h|d)?")
UNITS: Final = {"ms": 0.001, None: 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@attrs.frozen
class Given:
    """The given options of one read or write, with values as text.

    If an option is not given, the method that reads it returns None, but `flag` returns its `default`.
    """

    use: Use
    values: Mapping[str, str] = attrs.field(repr=False)  # by name in lower case
    kafka: Mapping[str, str] = attrs.field(repr=False)  # the options kafka.*, by name without that prefix

    @classmethod
    def of(cls, use: Use, options: Mapping[str, str]) -> Given:
        """Raises ConfigError for an unknown option, and for an option that this use refuses."""
        lower = {name.lower(): value for name, value in options.items()}
        values = {name: value.strip() for name, value in lower.items() if not name.startswith(KAFKA) and _has_effect(use, name)}
        return cls(use, values, {name.removeprefix(KAFKA): value for name, value in lower.items() if name.startswith(KAFKA)})

    def text(self, name: str) -> str | None:
        return self.values.get(name.lower())

    def has(self, *names: str) -> list[str]:
        return [name for name in names if name.lower() in self.values]

    def flag(self, name: str, default: bool) -> bool:
        if (text := self.text(name)) is None:
            return default
        if (value := FLAGS.get(text.lower())) is None:
            raise wrong(name, text, "takes true or false")
        return value

    def choice(self, name: str, choices: Collection[str]) -> str | None:
        if (text := self.text(name)) is None:
            return None
        if text.lower() not in choices:
            raise wrong(name, text, f"takes {' or '.join(choices)}")
        return text.lower()

    def count(self, name: str, least: int = 1) -> int | None:
        if (text := self.text(name)) is None:
            return None
        if re.fullmatch(r"\d{1,18}", text) is None or int(text) < least:
            raise wrong(name, text, f"takes a whole number, at least {least}")
        return int(text)

    def seconds(self, name: str) -> float | None:
        """A duration in seconds, from a text such as "15m", "30s" or "500ms"; a number alone means milliseconds."""
        if (text := self.text(name)) is None:
            return None
        if (found := DURATION.fullmatch(text.lower())) is None:
            raise wrong(name, text, 'takes a duration such as "15m", "30s" or "500ms"')
        return int(found[1]) * UNITS[found[2]]

    def parsed(self, name: str, form: str) -> Any:
        """The value, parsed as JSON. `form`: the allowed values, for the error."""
        if (text := self.text(name)) is None:
            return None
        try:
            return json.loads(text)
        except ValueError as error:
            raise wrong(name, text, f"is not JSON ({error}); takes {form}") from None

    def names(self, name: str) -> list[str] | None:
        text = self.text(name)
        return None if text is None else [part.strip() for part in text.split(",") if part.strip()]

    def client_options(self, kind: type[ClientConfig], refused: Mapping[str, str]) -> dict[str, Any]:
        """The options `kafka.*` as options of pykafka4. `refused` maps forbidden names to reasons.

        Raises ConfigError for an unknown, wrong, refused or missing option.
        """
        for name, why in refused.items():
            if name in self.kafka:
                raise ConfigError(f"option {KAFKA}{name} is not supported: {why}")
        if not self.kafka.get("bootstrap.servers", "").strip():
            raise ConfigError(f'option {KAFKA}bootstrap.servers is missing: add .option("{KAFKA}bootstrap.servers", "host:9092,…")')
        try:
            return translate(kind, self.kafka, {}).options
        except ConfigError as error:
            text = str(error).replace("the mapping: ", "")
        raise ConfigError(f"options {KAFKA}*: {text}")  # not in `except`: the first error would be the context, and might show more


def split_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of a producer or consumer in two parts: the options of a shared Client, and the others."""
    of_client = attrs.fields_dict(ClientConfig)
    client = {name: value for name, value in options.items() if name in of_client}
    return client, {name: value for name, value in options.items() if name not in of_client}


def has_stream_options(options: Iterable[str]) -> bool:
    """Whether at least one of `options` is for stream reads only, and none is in `REFUSED_IN_STREAMS`."""
    names = {NAMES.get(name.lower(), "") for name in options}
    return names.isdisjoint(REFUSED_IN_STREAMS) and any(OPTIONS.get(name) == STREAM_READS for name in names)


def wrong(name: str, text: str, why: str) -> ConfigError:
    return ConfigError(f"option {name}={shown(text)}: {why}")


def _has_effect(use: Use, name: str) -> bool:
    """Whether the option is for `use`. Other options are ignored if they are Spark's own, or logged if the JVM connector accepts them.

    Raises ConfigError for an unknown option, and for any other option that is not for `use`.
    """
    if name in SPARK_OPTIONS:
        return False
    if name in WITHOUT_EFFECT:
        log.info("option %s %s: %s", name, NO_EFFECT, WITHOUT_EFFECT[name])
        return False
    if name not in NAMES:
        raise _unknown(use, name)
    option = NAMES[name]
    if use in OPTIONS[option]:
        return True
    places = " and ".join(each.value for each in Use if each in OPTIONS[option])
    if option in ONLY_HERE or (use is Use.STREAM_READ and option in REFUSED_IN_STREAMS):
        raise ConfigError(f"option {option} is for {places}, not for {use.value}: leave it out")
    log.warning("option %s %s: it is for %s, not for %s", option, NO_EFFECT, places, use.value)
    return False


def _unknown(use: Use, name: str) -> ConfigError:
    """The error leaves out the value, which may be a secret under a misspelt name."""
    known = [option for option, uses in OPTIONS.items() if use in uses]
    near = difflib.get_close_matches(name, [option.lower() for option in known], n=1, cutoff=0.75)
    if near:
        hint = f"did you mean {NAMES[near[0]]}?"
    elif "." in name or "_" in name:  # such as bootstrap_servers, the name of the option in pykafka4
        hint = f"options of the Kafka client begin with {KAFKA}: {KAFKA}{name.replace('_', '.')}"
    else:
        hint = f"{use.value} have {', '.join(known)}, and {KAFKA}*"
    return ConfigError(f"unknown option {name}; {hint}")
