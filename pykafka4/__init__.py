"""Lists the public names of pykafka4, a Kafka client, and imports each name when it is first used. Invariant: `import pykafka4` alone
imports no other module of the package.

Modules; each line imports only from lines below it:
    __main__        `python -m pykafka4`
    testing/        a Kafka cluster in memory, for tests without a broker
    agent/          the daemon that takes messages from local programs
    aio/            clients, admin clients, producers and consumers for asyncio
    cli/            the command line
    diagnosis/      checks that find out why no records flow
    tables/         `table`: a compacted topic as a mapping
    spark/          writes rows of Spark to Kafka, and reads topics as a Spark data source
    bounded/        `read`: the records of fixed offset ranges, after which the iteration ends
    share/          ShareConsumer: records of share groups
    messages        Kafka's requests and responses, for `Client.request`
    admin/          AdminClient, which reads and changes a cluster
    consumer/       Consumer, on the application's threads; handlers and streams of records
    producer/       Producer, on the application's threads
    client/         Client: the runtime that producers and consumers share, and its status
    metrics/        figures for Prometheus and OpenTelemetry
    pages/          status pages of clients, and the parts that they share with the agent's page
    net/            the loop thread, sockets, TLS, proxies, the application's callables for SASL, locks
    core/           the machines without I/O: connections, metadata, producing, fetching, groups
    wire/           requests, responses and record batches as bytes
    splits          parts of a bounded read, for several processes
    bounds          the two ends of a bounded read, as one offset range per partition
    misuse          errors for wrong calls, with the correct use
    options/        options: types, checks, defaults
    other_clients/  names and properties of other Kafka clients
    hooks           interface of hooks
    serializers     built-in serializers and deserializers
    assignors/      assignors of groups
    errors/         exceptions, error codes, and the filter for texts from brokers and other clients
    partitioners    the table of named partitioners
    records         values that applications and this package exchange
    gil/            the loop thread's priority in taking the GIL
    logs            loggers of this package
    native          threads, locks, clock and sockets without the patches of gevent or eventlet
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pykafka4.admin import AdminClient as AdminClient
    from pykafka4.admin.replicas import ReassignmentProgress as ReassignmentProgress
    from pykafka4.admin.transactions import HangingTransaction as HangingTransaction
    from pykafka4.admin.transactions import TransactionList as TransactionList
    from pykafka4.admin.values import GroupLag as GroupLag
    from pykafka4.admin.values import GroupList as GroupList
    from pykafka4.admin.values import OffsetPlan as OffsetPlan
    from pykafka4.admin.values import PartitionLag as PartitionLag
    from pykafka4.admin.values import PlannedOffset as PlannedOffset
    from pykafka4.bounded.read import Read as Read
    from pykafka4.bounded.read import read as read
    from pykafka4.bounded.read_arrow import ReadArrow as ReadArrow
    from pykafka4.bounded.read_arrow import read_arrow as read_arrow
    from pykafka4.bounded.reading import LostRange as LostRange
    from pykafka4.bounds import Span as Span
    from pykafka4.client.client import Client as Client
    from pykafka4.client.targets import ANY as ANY
    from pykafka4.client.targets import CONTROLLER as CONTROLLER
    from pykafka4.client.targets import Target as Target
    from pykafka4.client.targets import coordinator as coordinator
    from pykafka4.client.targets import leader as leader
    from pykafka4.consumer import Consumer as Consumer
    from pykafka4.consumer.processing.streams import Stream as Stream
    from pykafka4.consumer.processing.streams import Streams as Streams
    from pykafka4.core.admin.acls import Acl as Acl
    from pykafka4.core.admin.acls import AclFilter as AclFilter
    from pykafka4.core.admin.cluster import ClusterDescription as ClusterDescription
    from pykafka4.core.admin.cluster import Features as Features
    from pykafka4.core.admin.cluster import QuorumDescription as QuorumDescription
    from pykafka4.core.admin.configs import Append as Append
    from pykafka4.core.admin.configs import ConfigEntry as ConfigEntry
    from pykafka4.core.admin.configs import Subtract as Subtract
    from pykafka4.core.admin.producers import ActiveProducer as ActiveProducer
    from pykafka4.core.admin.producers import TransactionDescription as TransactionDescription
    from pykafka4.core.admin.producers import TransactionListing as TransactionListing
    from pykafka4.core.admin.quotas import QuotaEntity as QuotaEntity
    from pykafka4.core.admin.quotas import QuotaFilter as QuotaFilter
    from pykafka4.core.admin.quotas import QuotaScope as QuotaScope
    from pykafka4.core.admin.replicas import LogDir as LogDir
    from pykafka4.core.admin.replicas import Reassignment as Reassignment
    from pykafka4.core.admin.replicas import Replica as Replica
    from pykafka4.core.admin.tokens import DelegationToken as DelegationToken
    from pykafka4.core.admin.topic_queries import TopicDescription as TopicDescription
    from pykafka4.core.admin.topics import NewPartitions as NewPartitions
    from pykafka4.core.admin.topics import NewTopic as NewTopic
    from pykafka4.core.admin.users import ScramCredential as ScramCredential
    from pykafka4.core.admin.values import EARLIEST as EARLIEST
    from pykafka4.core.admin.values import EARLIEST_LOCAL as EARLIEST_LOCAL
    from pykafka4.core.admin.values import LATEST as LATEST
    from pykafka4.core.admin.values import LATEST_TIERED as LATEST_TIERED
    from pykafka4.core.admin.values import MAX_TIMESTAMP as MAX_TIMESTAMP
    from pykafka4.core.admin.values import CommitResult as CommitResult
    from pykafka4.core.admin.values import CommittedOffset as CommittedOffset
    from pykafka4.core.admin.values import FetchedPartition as FetchedPartition
    from pykafka4.core.admin.values import GroupCoordinator as GroupCoordinator
    from pykafka4.core.admin.values import GroupDescription as GroupDescription
    from pykafka4.core.admin.values import GroupListing as GroupListing
    from pykafka4.core.admin.values import ListedOffset as ListedOffset
    from pykafka4.core.admin.values import OffsetSpec as OffsetSpec
    from pykafka4.core.metadata.events import BrokerAdded as BrokerAdded
    from pykafka4.core.metadata.events import BrokerRemoved as BrokerRemoved
    from pykafka4.core.metadata.events import LossReason as LossReason
    from pykafka4.core.metadata.events import MetadataChanged as MetadataChanged
    from pykafka4.core.metadata.events import OffsetsLost as OffsetsLost
    from pykafka4.core.metadata.recovery import PartitionOffline as PartitionOffline
    from pykafka4.core.metadata.recovery import PartitionOnline as PartitionOnline
    from pykafka4.core.producer.outcomes.ledger import ProducerStats as ProducerStats
    from pykafka4.core.sasl.oauthbearer import Token as Token
    from pykafka4.core.share.values import AcknowledgeType as AcknowledgeType
    from pykafka4.errors import AuthenticationError as AuthenticationError
    from pykafka4.errors import AuthorizationError as AuthorizationError
    from pykafka4.errors import BrokerError as BrokerError
    from pykafka4.errors import BufferFull as BufferFull
    from pykafka4.errors import ClosedError as ClosedError
    from pykafka4.errors import ConfigError as ConfigError
    from pykafka4.errors import ConnectionLost as ConnectionLost
    from pykafka4.errors import CorruptRecord as CorruptRecord
    from pykafka4.errors import DecodeError as DecodeError
    from pykafka4.errors import DeliveryFailed as DeliveryFailed
    from pykafka4.errors import DeserializationError as DeserializationError
    from pykafka4.errors import ForkedClientError as ForkedClientError
    from pykafka4.errors import GroupError as GroupError
    from pykafka4.errors import GroupNotEmpty as GroupNotEmpty
    from pykafka4.errors import HostNotAllowed as HostNotAllowed
    from pykafka4.errors import InvalidOffset as InvalidOffset
    from pykafka4.errors import KafkaError as KafkaError
    from pykafka4.errors import KafkaTimeoutError as KafkaTimeoutError
    from pykafka4.errors import LogTruncated as LogTruncated
    from pykafka4.errors import NoOffsetForPartition as NoOffsetForPartition
    from pykafka4.errors import OffsetOutOfRange as OffsetOutOfRange
    from pykafka4.errors import PartialFailure as PartialFailure
    from pykafka4.errors import ProducerFencedError as ProducerFencedError
    from pykafka4.errors import RecordLockLost as RecordLockLost
    from pykafka4.errors import RecordTooLarge as RecordTooLarge
    from pykafka4.errors import TransactionAborted as TransactionAborted
    from pykafka4.errors import TransactionError as TransactionError
    from pykafka4.errors import UnsupportedVersion as UnsupportedVersion
    from pykafka4.errors.codes import ErrorCode as ErrorCode
    from pykafka4.hooks import BatchOutcome as BatchOutcome
    from pykafka4.hooks import ConsumerHooks as ConsumerHooks
    from pykafka4.hooks import OutgoingRecord as OutgoingRecord
    from pykafka4.hooks import Polled as Polled
    from pykafka4.hooks import ProducerHooks as ProducerHooks
    from pykafka4.hooks import RequestSent as RequestSent
    from pykafka4.hooks import SealedBatch as SealedBatch
    from pykafka4.net.oidc import OidcToken as OidcToken
    from pykafka4.options.typed import ClientOptions as ClientOptions
    from pykafka4.options.typed import ConsumerOptions as ConsumerOptions
    from pykafka4.options.typed import ProducerOptions as ProducerOptions
    from pykafka4.options.typed import ShareConsumerOptions as ShareConsumerOptions
    from pykafka4.producer import Producer as Producer
    from pykafka4.producer.raw import RawDelivery as RawDelivery
    from pykafka4.producer.raw import RawMetadata as RawMetadata
    from pykafka4.records import ConsumerGroupMetadata as ConsumerGroupMetadata
    from pykafka4.records import MemberDescription as MemberDescription
    from pykafka4.records import OffsetAndMetadata as OffsetAndMetadata
    from pykafka4.records import ProducerRecord as ProducerRecord
    from pykafka4.records import RecordMetadata as RecordMetadata
    from pykafka4.records import SubscriptionPattern as SubscriptionPattern
    from pykafka4.records import TopicPartition as TopicPartition
    from pykafka4.records import Written as Written
    from pykafka4.share import ShareConsumer as ShareConsumer
    from pykafka4.share.record import ShareRecord as ShareRecord
    from pykafka4.splits import Split as Split
    from pykafka4.tables.table import Table as Table
    from pykafka4.tables.table import table as table
    from pykafka4.wire.records.hot import Delivery as Delivery
    from pykafka4.wire.records.hot import Record as Record
    from pykafka4.wire.records.hot import RecordColumns as RecordColumns
    from pykafka4.wire.records.hot import SentRows as SentRows
    from pykafka4.wire.records.raw_batch import RawBatch as RawBatch

__version__ = "0.1.0"

_HOMES = {  # the public names by module
    "pykafka4.admin": "AdminClient",
    "pykafka4.admin.values": "GroupLag GroupList OffsetPlan PartitionLag PlannedOffset",
    "pykafka4.admin.replicas": "ReassignmentProgress",
    "pykafka4.admin.transactions": "HangingTransaction TransactionList",
    "pykafka4.bounded.read": "Read read",
    "pykafka4.bounded.read_arrow": "ReadArrow read_arrow",
    "pykafka4.bounded.reading": "LostRange",
    "pykafka4.client.client": "Client",
    "pykafka4.consumer": "Consumer",
    "pykafka4.consumer.processing.streams": "Stream Streams",
    "pykafka4.producer": "Producer",
    "pykafka4.producer.raw": "RawDelivery RawMetadata",
    "pykafka4.wire.records.raw_batch": "RawBatch",
    "pykafka4.client.targets": "ANY CONTROLLER Target coordinator leader",
    "pykafka4.core.admin.acls": "Acl AclFilter",
    "pykafka4.core.admin.configs": "Append ConfigEntry Subtract",
    "pykafka4.core.admin.cluster": "ClusterDescription Features QuorumDescription",
    "pykafka4.core.admin.producers": "ActiveProducer TransactionDescription TransactionListing",
    "pykafka4.core.admin.replicas": "LogDir Reassignment Replica",
    "pykafka4.core.admin.quotas": "QuotaEntity QuotaFilter QuotaScope",
    "pykafka4.core.admin.tokens": "DelegationToken",
    "pykafka4.core.admin.topics": "NewPartitions NewTopic",
    "pykafka4.core.admin.topic_queries": "TopicDescription",
    "pykafka4.core.admin.users": "ScramCredential",
    "pykafka4.core.admin.values": (
        "CommitResult CommittedOffset EARLIEST EARLIEST_LOCAL FetchedPartition GroupCoordinator GroupDescription GroupListing "
        "LATEST LATEST_TIERED ListedOffset MAX_TIMESTAMP OffsetSpec"
    ),
    "pykafka4.core.metadata.events": "BrokerAdded BrokerRemoved LossReason MetadataChanged OffsetsLost",
    "pykafka4.core.producer.outcomes.ledger": "ProducerStats",
    "pykafka4.core.metadata.recovery": "PartitionOffline PartitionOnline",
    "pykafka4.core.sasl.oauthbearer": "Token",
    "pykafka4.core.share.values": "AcknowledgeType",
    "pykafka4.errors.codes": "ErrorCode",
    "pykafka4.errors": (
        "AuthenticationError AuthorizationError BrokerError BufferFull ClosedError ConfigError ConnectionLost CorruptRecord "
        "DecodeError DeliveryFailed DeserializationError ForkedClientError GroupError GroupNotEmpty HostNotAllowed InvalidOffset "
        "KafkaError KafkaTimeoutError LogTruncated NoOffsetForPartition OffsetOutOfRange PartialFailure ProducerFencedError RecordLockLost "
        "RecordTooLarge TransactionAborted TransactionError UnsupportedVersion"
    ),
    "pykafka4.hooks": "BatchOutcome ConsumerHooks OutgoingRecord Polled ProducerHooks RequestSent SealedBatch",
    "pykafka4.net.oidc": "OidcToken",
    "pykafka4.options.typed": "ClientOptions ConsumerOptions ProducerOptions ShareConsumerOptions",
    "pykafka4.records": (
        "ConsumerGroupMetadata MemberDescription OffsetAndMetadata ProducerRecord RecordMetadata SubscriptionPattern TopicPartition Written"
    ),
    "pykafka4.bounds": "Span",
    "pykafka4.splits": "Split",
    "pykafka4.share": "ShareConsumer",
    "pykafka4.share.record": "ShareRecord",
    "pykafka4.tables.table": "Table table",
    "pykafka4.wire.records.hot": "Delivery Record RecordColumns SentRows",
}
_BY_NAME_ONLY = ("aio", "messages", "spark", "testing")  # for these modules, the error shows the import
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = sorted([*_HOME, "__version__"])


if not TYPE_CHECKING:  # with this function, type checkers would accept every misspelt name

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            if name in _BY_NAME_ONLY:
                raise AttributeError(f"module 'pykafka4' has no {name!r} until it is imported: import pykafka4.{name}")
            from pykafka4.other_clients.tables import CLASSES

            if name in CLASSES:  # raise an ImportError, because `from pykafka4 import …` replaces the text of an AttributeError
                raise ImportError(f"pykafka4 has no {name!r}; use {CLASSES[name]}", name="pykafka4")
            raise AttributeError(f"module 'pykafka4' has no {name!r}")
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value  # the next access finds the name, and does not call this function
        return value


def __dir__() -> list[str]:
    return __all__
