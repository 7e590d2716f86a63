"""Lost records: what failOnDataLoss decides. Rule: an error or a warning says which offsets of which partition are lost, and why."""

from __future__ import annotations

from pykafka4.errors import KafkaError
from pykafka4.spark.options import log
from pykafka4.spark.source.options import SourceOptions

__all__ = ["WAY_OUT", "DataLost", "lose"]

WAY_OUT = "option failOnDataLoss=false reads the remaining records, and logs a warning"


class DataLost(KafkaError):
    """Records that a read needs are not in the log any more: they were deleted, or an unclean leader election removed them."""

    code = "DATA_LOST"


def lose(options: SourceOptions, what: str) -> None:
    """Raise DataLost, or warn: failOnDataLoss decides."""
    if options.fail_on_data_loss:
        raise DataLost(f"{what}; {WAY_OUT}")
    log.warning("%s: %s; the read goes on with the remaining records", options.client_id, what)
