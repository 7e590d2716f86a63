"""Lost records: what failOnDataLoss decides. Rule: an error or a warning says which offsets of which partition are lost, and why."""

from __future__ import annotations

from pykafka4.errors import KafkaError
from pykafka4.spark.options import log

__all__ = ["WAY_OUT", "DataLost", "lose"]

WAY_OUT = "option failOnDataLoss=false reads what is left, and logs a warning"


class DataLost(KafkaError):
    """Records that a read needs are not in the log any more: they were deleted, or an unclean leader election removed them."""

    code = "DATA_LOST"


def lose(what: str, fail_on_data_loss: bool) -> None:
    """Raise DataLost, or warn: the option decides."""
    if fail_on_data_loss:
        raise DataLost(f"{what}; {WAY_OUT}")
    log.warning("%s; failOnDataLoss=false goes on with what is left", what)
