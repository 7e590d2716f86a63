"""Parses and checks the options of the sink, on the driver."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Mapping
from typing import Any, Final

import attrs

from pykafka4.errors import ConfigError
from pykafka4.misuse import check_topic
from pykafka4.options.config import ProducerConfig, hide_secrets
from pykafka4.spark.options import Given, Use
from pykafka4.spark.workers import check_travelling

__all__ = ["COLUMNS", "Delivery", "SinkOptions"]

COLUMNS: Final[Mapping[str, str | None]] = {name: name for name in ("value", "key", "headers", "timestamp", "partition")}

CAST: Final = "keys and values are written as they are, string or binary: make them with Spark, cast(key as string) or to_json(struct(…))"
REFUSED_PROPERTIES: Final = {
    "key.serializer": CAST,
    "value.serializer": CAST,
    "interceptor.classes": "classes of Java cannot be loaded",
    "transactional.id": "all tasks would share it and fence one another; option delivery=exactly_once gives each task an id of "
    "its own, which begins with the option transactionalIdPrefix",
}


class Delivery(enum.Enum):
    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once"


@attrs.frozen
class SinkOptions:
    """The options of a write, which travel to its tasks."""

    client: Mapping[str, Any] = attrs.field(repr=hide_secrets)  # the options of the producer
    topic: str | None = None  # the topic of all rows; None: the column `topic` has the topic of each row
    columns: Mapping[str, str | None] = COLUMNS  # names of columns, by argument of `send_arrow`
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    idempotency_key: str | None = None
    transactional_id_prefix: str | None = None
    batch_id: int | None = None  # the micro-batch of a write within foreachBatch; None: the number in the task's properties, or 0
    run: str = attrs.field(factory=lambda: uuid.uuid4().hex, eq=False)  # the same in all tasks of a job; each `parse` makes a new one

    @classmethod
    def parse(cls, options: Mapping[str, str], use: Use) -> SinkOptions:
        """Raises ConfigError with the wrong option and its allowed values."""
        given = Given.of(use, options)
        delivery = given.choice("delivery", [each.value for each in Delivery])
        return cls(
            client=given.client_options(ProducerConfig, REFUSED_PROPERTIES),
            topic=given.text("topic"),
            delivery=Delivery.AT_LEAST_ONCE if delivery is None else Delivery(delivery),
            idempotency_key=given.text("idempotencyKey"),
            transactional_id_prefix=given.text("transactionalIdPrefix"),
            batch_id=given.count("batchId", least=0),
        )

    def __attrs_post_init__(self) -> None:
        check_travelling(self.client)
        if self.topic is not None:
            check_topic(self.topic)
        if self.delivery is Delivery.EXACTLY_ONCE:
            ProducerConfig.parse({**self.client, "transactional_id": "of a task"})
        else:
            self._refuse_names()

    def _refuse_names(self) -> None:
        """Raise ConfigError for names that have no effect without exactly-once delivery: the user expects rows to be written once."""
        names = {
            "idempotencyKey (with foreach_batch: name)": self.idempotency_key,
            "transactionalIdPrefix (with foreach_batch: transactional_id_prefix)": self.transactional_id_prefix,
        }
        if given := [name for name, value in names.items() if value is not None]:
            raise ConfigError(f"{' and '.join(given)}: only for delivery=exactly_once; add that option")
