"""Options of the sink, checked on the driver. Invariant: they are text, numbers and names only, so they travel to every executor."""

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
    """The values of the option `delivery`."""

    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once"


@attrs.frozen
class SinkOptions:
    """What a task needs to write its rows."""

    client: Mapping[str, Any] = attrs.field(repr=hide_secrets)  # options of the producer
    topic: str | None = None  # of all rows; None: the column `topic` has it
    columns: Mapping[str, str | None] = COLUMNS  # by argument of `send_arrow`
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    idempotency_key: str | None = None
    transactional_id_prefix: str | None = None
    batch_id: int | None = None  # of the micro-batch that a function of foreachBatch writes; None: Spark tells the task, if there is one
    run: str = attrs.field(factory=lambda: uuid.uuid4().hex, eq=False)  # the same in all tasks of a job, another when the job is repeated

    @classmethod
    def parse(cls, options: Mapping[str, str], use: Use) -> SinkOptions:
        """The options of Spark as values. Raises ConfigError with the option that is wrong and what is allowed."""
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
        """Options of exactly-once delivery without it are a mistake, not a default."""
        names = {"idempotencyKey": self.idempotency_key, "transactionalIdPrefix": self.transactional_id_prefix}
        if given := [name for name, value in names.items() if value is not None]:
            raise ConfigError(f"{' and '.join(given)}: has effect only with delivery=exactly_once; add that option")
