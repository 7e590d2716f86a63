"""Reports lost records as an error or a warning, as failOnDataLoss says."""

from __future__ import annotations

from pykafka4.errors import KafkaError
from pykafka4.spark.options import log
from pykafka4.spark.source.options import SourceOptions

__all__ = ["WAY_OUT", "DataLost", "lose"]

WAY_OUT = "option failOnDataLoss=false reads the remaining records, and logs a warning"


class DataLost(KafkaError):
    """Raised if the log lacks records that a read needs, for example because the topic was created again."""

    code = "DATA_LOST"


def lose(options: SourceOptions, what: str) -> None:
    if options.fail_on_data_loss:
        raise DataLost(f"{what}; {WAY_OUT}")
    log.warning("%s: %s; the read continues with the remaining records", options.client_id, what)
