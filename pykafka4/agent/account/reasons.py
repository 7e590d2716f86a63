"""Maps the error codes of failed batches to reasons for discards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pykafka4.agent.message import Reason
from pykafka4.errors.codes import CODES, ProduceReaction

__all__ = ["Reasons"]

_OF_CODES: Final[Mapping[str, Reason]] = {
    **{code.name: Reason.KAFKA_ERROR_ACK for code in CODES.values()},
    # After these codes, the producer sends a batch again while the batch has attempts left.
    **{code.name: Reason.DELIVERY_ATTEMPT_LIMIT for code in CODES.values() if code.produce is ProduceReaction.RESEND},
    "UNKNOWN_TOPIC_OR_PARTITION": Reason.BAD_TOPIC,
    "UNKNOWN_TOPIC_ID": Reason.BAD_TOPIC,
    "INVALID_TOPIC_EXCEPTION": Reason.BAD_TOPIC,
    "MESSAGE_TOO_LARGE": Reason.LONG_MSG,
    "RECORD_LIST_TOO_LARGE": Reason.LONG_MSG,
    "TOPIC_AUTHORIZATION_FAILED": Reason.NOT_AUTHORIZED,
    "CLUSTER_AUTHORIZATION_FAILED": Reason.NOT_AUTHORIZED,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": Reason.NOT_AUTHORIZED,
    "TIMED_OUT": Reason.TIMED_OUT,
    "CLOSED": Reason.SERVER_SHUTDOWN,
    "PURGED": Reason.SERVER_SHUTDOWN,
    "BUFFER_FULL": Reason.NO_MEM,
    "RATE_LIMITED": Reason.RATE_LIMIT,
    "AUTHENTICATION_FAILED": Reason.NOT_AUTHORIZED,
    "CONNECTION_LOST": Reason.KAFKA_ERROR_ACK,
    "HOST_NOT_ALLOWED": Reason.KAFKA_ERROR_ACK,
}


class Reasons:
    """The reason for each code of a failed batch: BUG for an unknown code, unless the code is newer than this client."""

    def __init__(self, autocreate: bool) -> None:
        """With `autocreate`, the Metadata request creates topics, so an unknown topic counts as one whose creation failed."""
        self._missing = Reason.TOPIC_AUTOCREATE_FAIL if autocreate else Reason.BAD_TOPIC

    def of(self, code: str) -> Reason:
        if code == "UNKNOWN_TOPIC_OR_PARTITION":
            return self._missing
        later_code = code.startswith("UNKNOWN(")  # Kafka added the code after this table was written
        return Reason.KAFKA_ERROR_ACK if later_code else _OF_CODES.get(code, Reason.BUG)
