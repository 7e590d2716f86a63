"""Defines the table of Kafka's error codes: one row per code decides the retry, the refresh before it and the fate of a produced batch.

Modules compare codes by name. Outside this table, a number other than 0 occurs only in `OffsetOutOfRange` (1).

The agent also reads this table: `agent.account.reasons` derives the reason for which the records of a failed batch are discarded.

These modules of `core` decide by the name of a code, so a new row or column does not reach them. Each line names the decision:

    admin.acls               brokers without an authorizer: hints in messages
    admin.broker_choices     partitions that do not exist
    admin.calls              changes that are refused because the group has members
    admin.cluster            brokers that are not registered
    admin.committed          groups that do not exist; offsets in open transactions
    admin.fetches            offsets out of range
    admin.groups             groups that do not exist, or are of another protocol
    admin.offsets            errors about a group, for messages; an end that a leader does not know yet
    admin.replicas           elections, moves and replicas that are not needed, or not there
    admin.requests           responses of a broker that is not, or not yet, the right one
    admin.tokens             tokens that are gone; hints in messages
    admin.topic_queries      topics whose creation has not ended
    admin.topics             topics that already exist, or no longer do; counts of partitions that are refused
    admin.users              credentials that are gone
    admin.question_run       topics and partitions that do not exist; changes that may still be carried out
    consumer.fetch_answers   damaged batches, offsets out of range, and UNKNOWN_SERVER_ERROR of Fetch
    consumer.searches        UNKNOWN_SERVER_ERROR of ListOffsets
    consumer.fetch_session   ends of fetch sessions
    consumer.start_offsets   a topic that does not exist
    group.membership.consumer_protocol  a static member that another one replaced; brokers without the protocol
    group.membership.coordinated  the error of a commit that ends the membership
    group.membership.rewinds    a group that is unknown to the classic protocol
    group.reactions          the reaction of a member to each code of its coordinator
    group.committing.offsets    commits of a deleted topic, and of a member whose group was deleted
    group.topics.subscribed  a subscribed topic that does not exist
    metadata.cluster         topics that do not exist; a new start from the bootstrap servers
    metadata.coordinators    an error of FindCoordinator that is transient
    metadata.topic           topics that do not exist yet
    network.authentication   a mechanism that the broker lacks, and credentials that it refuses
    network.connection       a version of ApiVersions that the broker lacks (and `wire.protocol.frame`)
    network.troubles         the usual cause of an error that is retried without end
    producer.produce.responses    REQUEST_TIMED_OUT: the leader may have been replaced; hints in messages
    producer.sequences.identity   errors of InitProducerId that are transient
    producer.topics.missing       a topic that no longer exists
    producer.transactions.requests    the reaction of a transaction to each error of its coordinator
    producer.transactions.machine     answers of coordinators: fenced producers, refused timeouts, transactions that end or have ended
    sasl.mechanism           the codes of refusals
    share.member             brokers without share groups
    share.source             ends of share sessions; records that are not acquired; UNKNOWN_SERVER_ERROR of ShareFetch
    telemetry.machine        the next push after a broker refused one

Columns: code, name, retriable, the refresh before a retry, the fate of a batch after a produce response with this error, and whether the
broker may have written the batch although it returned this error. `FATAL` has the codes that end a transactional producer.
Source: `org.apache.kafka.common.protocol.Errors`, although some rows retry or refresh more than Kafka's clients do. The produce column
derives from the Resend, Discard and Pause of Dory, except that a pause stops one partition only, and that codes 19 and 20 are resent.

`written` is NO only for errors that the broker raises before the append. With acks=all the broker responds after the append, when the
followers have the batch or the wait for them has ended (`DelayedProduce`); a code that can end that wait is MAYBE, although brokers may
also return it before an append. A code that Kafka does not use for Produce says nothing about the log: MAYBE.
"""

from __future__ import annotations

import enum
from typing import Final

import attrs

from pykafka4.records import Written

__all__ = ["BY_NAME", "CODES", "ErrorCode", "ProduceReaction", "Refresh", "error_code"]


class Refresh(enum.Enum):
    """The information that the client refreshes before a retry."""

    NOTHING = "nothing"
    METADATA = "metadata"
    COORDINATOR = "coordinator"


class ProduceReaction(enum.Enum):
    """The fate of a batch whose produce response has this code."""

    ACK = "ack"
    DUPLICATE = "duplicate"  # the broker already has it: acknowledged, offset unknown
    RESEND = "resend"  # the batch stays in its queue, to be sent again
    SPLIT = "split"  # too large for the topic: halve it and resend
    SEQUENCE = "sequence"  # the broker's producer state and ours differ: without transactions, continue in the partition's next epoch
    FENCED = "fenced"  # the broker has seen a higher epoch of this producer id: without transactions, continue under another id
    REFUSED = "refused"  # hand back the records that the response names, resend the other records; hand back all if it names none
    FAIL = "fail"  # hand the records back


@attrs.frozen
class ErrorCode:
    """One row of the table of error codes."""

    code: int
    name: str
    retriable: bool
    refresh: Refresh
    produce: ProduceReaction
    written: Written

    def __str__(self) -> str:
        return self.name

    @property
    def fatal(self) -> bool:
        """Whether a produce response with this error ends a transactional producer. Other errors of records only abort the transaction."""
        return self.name in FATAL

    @property
    def denied(self) -> bool:
        """Whether a right is missing. Kafka does not call such an error retriable, but the right may be granted at any time."""
        return self.name.endswith("_AUTHORIZATION_FAILED")


# Without INVALID_PRODUCER_EPOCH: the coordinator might merely have aborted the transaction after its timeout (KIP-588), and the producer
# can begin another transaction.
FATAL: Final = frozenset(
    {"CLUSTER_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING"}
)

Y, N = True, False
NOTHING, METADATA, COORDINATOR = Refresh
ACK, DUPLICATE, RESEND, SPLIT, SEQUENCE, FENCED, REFUSED, FAIL = ProduceReaction
NO, MAYBE = Written

# fmt: off
_ROWS = (
    (0, "NONE", N, NOTHING, ACK, NO),
    (-1, "UNKNOWN_SERVER_ERROR", N, NOTHING, FAIL, MAYBE),  # any exception, even one raised after the append
    (2, "CORRUPT_MESSAGE", Y, NOTHING, RESEND, NO),  # the checksum is verified before the append
    (3, "UNKNOWN_TOPIC_OR_PARTITION", Y, METADATA, RESEND, MAYBE),  # DelayedProduce: the replica was deleted meanwhile
    (5, "LEADER_NOT_AVAILABLE", Y, METADATA, RESEND, MAYBE),
    (6, "NOT_LEADER_OR_FOLLOWER", Y, METADATA, RESEND, MAYBE),  # DelayedProduce: leadership was lost meanwhile (KAFKA-13574)
    # DelayedProduce: appended, but not replicated within timeout_ms. A leader that is cut off from other brokers may have been replaced.
    (7, "REQUEST_TIMED_OUT", Y, METADATA, RESEND, MAYBE),
    (8, "BROKER_NOT_AVAILABLE", Y, METADATA, RESEND, MAYBE),
    (9, "REPLICA_NOT_AVAILABLE", Y, METADATA, RESEND, MAYBE),  # DelayedProduce of old brokers, as 3 and 6
    (10, "MESSAGE_TOO_LARGE", N, NOTHING, SPLIT, NO),  # LogValidator and UnifiedLog.append check sizes first
    (13, "NETWORK_EXCEPTION", Y, METADATA, RESEND, MAYBE),
    (14, "COORDINATOR_LOAD_IN_PROGRESS", Y, NOTHING, FAIL, MAYBE),
    (15, "COORDINATOR_NOT_AVAILABLE", Y, COORDINATOR, FAIL, MAYBE),
    (16, "NOT_COORDINATOR", Y, COORDINATOR, FAIL, MAYBE),
    (17, "INVALID_TOPIC_EXCEPTION", N, NOTHING, FAIL, NO),
    (18, "RECORD_LIST_TOO_LARGE", N, NOTHING, SPLIT, NO),  # as 10: larger than a segment
    (19, "NOT_ENOUGH_REPLICAS", Y, NOTHING, RESEND, NO),  # Partition.appendRecordsToLeader counts the in-sync replicas first
    (20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", Y, NOTHING, RESEND, MAYBE),
    (21, "INVALID_REQUIRED_ACKS", N, NOTHING, FAIL, NO),
    (29, "TOPIC_AUTHORIZATION_FAILED", N, NOTHING, FAIL, NO),  # KafkaApis, before the log is touched, as 31 and 53
    (31, "CLUSTER_AUTHORIZATION_FAILED", N, NOTHING, FAIL, NO),
    (32, "INVALID_TIMESTAMP", N, NOTHING, REFUSED, NO),  # LogValidator, before the append, as 43, 76 and 87
    (35, "UNSUPPORTED_VERSION", N, NOTHING, FAIL, NO),
    (41, "NOT_CONTROLLER", Y, METADATA, RESEND, MAYBE),
    (42, "INVALID_REQUEST", N, NOTHING, FAIL, NO),
    (43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", N, NOTHING, FAIL, NO),
    (45, "OUT_OF_ORDER_SEQUENCE_NUMBER", N, NOTHING, SEQUENCE, NO),  # ProducerStateManager checks before the append, as 47, 59 and 90
    (46, "DUPLICATE_SEQUENCE_NUMBER", N, NOTHING, DUPLICATE, NO),
    (47, "INVALID_PRODUCER_EPOCH", N, NOTHING, FENCED, NO),
    (48, "INVALID_TXN_STATE", N, NOTHING, FAIL, NO),  # the transaction is verified before the append, as 49, 51 and 120
    (49, "INVALID_PRODUCER_ID_MAPPING", N, NOTHING, FAIL, NO),
    (51, "CONCURRENT_TRANSACTIONS", Y, NOTHING, RESEND, NO),
    (53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", N, NOTHING, FAIL, NO),
    (56, "KAFKA_STORAGE_ERROR", Y, METADATA, RESEND, MAYBE),  # an I/O error in the append, or DelayedProduce: the disk failed later
    (59, "UNKNOWN_PRODUCER_ID", N, NOTHING, SEQUENCE, NO),
    (70, "FETCH_SESSION_ID_NOT_FOUND", Y, NOTHING, FAIL, MAYBE),
    (71, "INVALID_FETCH_SESSION_EPOCH", Y, NOTHING, FAIL, MAYBE),
    (72, "LISTENER_NOT_FOUND", Y, METADATA, RESEND, MAYBE),
    (74, "FENCED_LEADER_EPOCH", Y, METADATA, RESEND, MAYBE),
    (75, "UNKNOWN_LEADER_EPOCH", Y, METADATA, RESEND, MAYBE),
    (76, "UNSUPPORTED_COMPRESSION_TYPE", N, NOTHING, FAIL, NO),
    (78, "OFFSET_NOT_AVAILABLE", Y, NOTHING, FAIL, MAYBE),
    (80, "PREFERRED_LEADER_NOT_AVAILABLE", Y, METADATA, RESEND, MAYBE),
    (83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", Y, METADATA, RESEND, MAYBE),
    (84, "ELECTION_NOT_NEEDED", Y, METADATA, RESEND, MAYBE),
    (87, "INVALID_RECORD", N, NOTHING, REFUSED, NO),
    (88, "UNSTABLE_OFFSET_COMMIT", Y, NOTHING, FAIL, MAYBE),
    (89, "THROTTLING_QUOTA_EXCEEDED", Y, NOTHING, RESEND, MAYBE),
    (90, "PRODUCER_FENCED", N, NOTHING, FENCED, NO),
    (100, "UNKNOWN_TOPIC_ID", Y, METADATA, RESEND, MAYBE),  # the topic was deleted, before the append or (DelayedProduce) after it
    (103, "INCONSISTENT_TOPIC_ID", Y, METADATA, RESEND, MAYBE),  # as 100
    (106, "FETCH_SESSION_TOPIC_ID_ERROR", Y, METADATA, FAIL, MAYBE),
    (120, "TRANSACTION_ABORTABLE", N, NOTHING, FAIL, NO),
    (122, "SHARE_SESSION_NOT_FOUND", Y, NOTHING, FAIL, MAYBE),
    (123, "INVALID_SHARE_SESSION_EPOCH", Y, NOTHING, FAIL, MAYBE),
    (133, "SHARE_SESSION_LIMIT_REACHED", Y, NOTHING, FAIL, MAYBE),
)
# The other codes: not retriable, and not used by Kafka for Produce.
_OTHERS = {
    1: "OFFSET_OUT_OF_RANGE", 4: "INVALID_FETCH_SIZE", 11: "STALE_CONTROLLER_EPOCH", 12: "OFFSET_METADATA_TOO_LARGE",
    22: "ILLEGAL_GENERATION", 23: "INCONSISTENT_GROUP_PROTOCOL", 24: "INVALID_GROUP_ID", 25: "UNKNOWN_MEMBER_ID",
    26: "INVALID_SESSION_TIMEOUT", 27: "REBALANCE_IN_PROGRESS", 28: "INVALID_COMMIT_OFFSET_SIZE", 30: "GROUP_AUTHORIZATION_FAILED",
    33: "UNSUPPORTED_SASL_MECHANISM", 34: "ILLEGAL_SASL_STATE", 36: "TOPIC_ALREADY_EXISTS", 37: "INVALID_PARTITIONS",
    38: "INVALID_REPLICATION_FACTOR", 39: "INVALID_REPLICA_ASSIGNMENT", 40: "INVALID_CONFIG", 44: "POLICY_VIOLATION",
    50: "INVALID_TRANSACTION_TIMEOUT", 52: "TRANSACTION_COORDINATOR_FENCED", 54: "SECURITY_DISABLED", 55: "OPERATION_NOT_ATTEMPTED",
    57: "LOG_DIR_NOT_FOUND", 58: "SASL_AUTHENTICATION_FAILED", 60: "REASSIGNMENT_IN_PROGRESS", 61: "DELEGATION_TOKEN_AUTH_DISABLED",
    62: "DELEGATION_TOKEN_NOT_FOUND", 63: "DELEGATION_TOKEN_OWNER_MISMATCH", 64: "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
    65: "DELEGATION_TOKEN_AUTHORIZATION_FAILED", 66: "DELEGATION_TOKEN_EXPIRED", 67: "INVALID_PRINCIPAL_TYPE", 68: "NON_EMPTY_GROUP",
    69: "GROUP_ID_NOT_FOUND", 73: "TOPIC_DELETION_DISABLED", 77: "STALE_BROKER_EPOCH", 79: "MEMBER_ID_REQUIRED",
    81: "GROUP_MAX_SIZE_REACHED", 82: "FENCED_INSTANCE_ID", 85: "NO_REASSIGNMENT_IN_PROGRESS", 86: "GROUP_SUBSCRIBED_TO_TOPIC",
    91: "RESOURCE_NOT_FOUND", 92: "DUPLICATE_RESOURCE", 93: "UNACCEPTABLE_CREDENTIAL", 94: "INCONSISTENT_VOTER_SET",
    95: "INVALID_UPDATE_VERSION", 96: "FEATURE_UPDATE_FAILED", 97: "PRINCIPAL_DESERIALIZATION_FAILURE", 98: "SNAPSHOT_NOT_FOUND",
    99: "POSITION_OUT_OF_RANGE", 101: "DUPLICATE_BROKER_REGISTRATION", 102: "BROKER_ID_NOT_REGISTERED", 104: "INCONSISTENT_CLUSTER_ID",
    105: "TRANSACTIONAL_ID_NOT_FOUND", 107: "INELIGIBLE_REPLICA", 108: "NEW_LEADER_ELECTED", 109: "OFFSET_MOVED_TO_TIERED_STORAGE",
    110: "FENCED_MEMBER_EPOCH", 111: "UNRELEASED_INSTANCE_ID", 112: "UNSUPPORTED_ASSIGNOR", 113: "STALE_MEMBER_EPOCH",
    114: "MISMATCHED_ENDPOINT_TYPE", 115: "UNSUPPORTED_ENDPOINT_TYPE", 116: "UNKNOWN_CONTROLLER_ID", 117: "UNKNOWN_SUBSCRIPTION_ID",
    118: "TELEMETRY_TOO_LARGE", 119: "INVALID_REGISTRATION", 121: "INVALID_RECORD_STATE", 124: "FENCED_STATE_EPOCH",
    125: "INVALID_VOTER_KEY", 126: "DUPLICATE_VOTER", 127: "VOTER_NOT_FOUND", 128: "INVALID_REGULAR_EXPRESSION",
    129: "REBOOTSTRAP_REQUIRED", 130: "STREAMS_INVALID_TOPOLOGY", 131: "STREAMS_INVALID_TOPOLOGY_EPOCH", 132: "STREAMS_TOPOLOGY_FENCED",
    134: "GROUP_DELETION_FAILED", 135: "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", 136: "CONTROLLER_ID_NOT_REGISTERED",
}
# fmt: on

_DEFAULT = (N, NOTHING, FAIL, MAYBE)
CODES: dict[int, ErrorCode] = {
    row[0]: ErrorCode(*row) for row in sorted([*_ROWS, *((code, name, *_DEFAULT) for code, name in _OTHERS.items())])
}
BY_NAME: dict[str, ErrorCode] = {row.name: row for row in CODES.values()}


def error_code(code: int) -> ErrorCode:
    """The row of `code`; a code that Kafka added later becomes `UNKNOWN(n)`: not retriable, maybe written."""
    row = CODES.get(code)
    return row if row is not None else ErrorCode(code, f"UNKNOWN({code})", *_DEFAULT)
